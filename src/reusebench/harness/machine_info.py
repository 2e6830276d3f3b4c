"""The facts about the measured machine that are stored with a run."""

from __future__ import annotations

from typing import Any

import msgspec

from reusebench.samplers.environment import environment, machine_facts
from reusebench.samplers.host import LOCAL_HOST
from reusebench.storage.board_storage import board_name, far_board_name
from reusebench.system.files import outside_user_folders
from reusebench.targets.resolve import far_machine, is_far, is_virtual
from reusebench.targets.sandbox import sandbox_problem

__all__ = ["describe_machine", "this_machine"]


def this_machine() -> dict[str, Any]:
    """Return pytest-benchmark's facts about this machine; it runs `python -m cpuinfo` for them."""
    # Imported here since `reusebench record` needs only the rest of this module.
    import pytest_benchmark.plugin

    plugin: Any = pytest_benchmark.plugin
    with outside_user_folders():
        machine: dict[str, Any] = plugin.pytest_benchmark_generate_machine_info()
    return machine


def describe_machine(target: str, machine_info: dict[str, Any]) -> None:
    """Add facts that bear on memory; a remote board's facts replace those of this machine."""
    if not is_far(target):
        exposure = sandbox_problem() if is_virtual(target) else None
        facts = msgspec.structs.replace(environment(LOCAL_HOST, board_name()), exposure=exposure)
        machine_info["reusebench"] = msgspec.to_builtins(facts)
        return
    machine = far_machine(target)
    machine_info.update(machine_facts(machine.host, board_name(machine.host), machine.architecture))
    facts = environment(machine.host, far_board_name(machine.name))
    machine_info["reusebench"] = msgspec.to_builtins(
        msgspec.structs.replace(facts, reader_bytes=machine.reader_bytes())
    )
