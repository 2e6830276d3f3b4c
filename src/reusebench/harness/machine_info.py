"""What is stored of the machine that is measured, besides what pytest-benchmark says of the one that it runs on."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from reusebench.samplers.environment import environment
from reusebench.samplers.host import LOCAL_HOST, Host, read_texts
from reusebench.storage.board import board_name, far_board_name
from reusebench.system.files import outside_user_folders
from reusebench.targets.resolve import far_machine, is_far, is_virtual
from reusebench.targets.sandbox.build import refusal

__all__ = ["describe_machine", "this_machine"]

_RELEASE, _CPUINFO = "/proc/sys/kernel/osrelease", "/proc/cpuinfo"
#: Arm kernels of 32 bits have a line with the board in place of the processor's name.
_PROCESSOR = re.compile(r"^(?:model name|Hardware)\s*:\s*(.+)$", re.MULTILINE)


def this_machine() -> dict[str, Any]:
    """Return what pytest-benchmark says of this machine, for which it runs `python -m cpuinfo`."""
    # Not at the top: `reusebench record` needs the rest of this alone.
    import pytest_benchmark.plugin

    plugin: Any = pytest_benchmark.plugin
    with outside_user_folders():
        machine: dict[str, Any] = plugin.pytest_benchmark_generate_machine_info()
    return machine


def describe_machine(target: str, machine_info: dict[str, Any]) -> None:
    """Add what bears on memory; of a board far away put its facts in place of this machine's."""
    if not is_far(target):
        exposure = refusal() if is_virtual(target) else None
        facts = msgspec.structs.replace(environment(LOCAL_HOST, board_name()), exposure=exposure)
        machine_info["reusebench"] = msgspec.to_builtins(facts)
        return
    machine = far_machine(target)
    machine_info.update(_machine_there(machine.host, machine.architecture))
    facts = environment(machine.host, far_board_name(target))
    machine_info["reusebench"] = msgspec.to_builtins(
        msgspec.structs.replace(facts, reader_bytes=machine.reader_bytes())
    )


def _machine_there(host: Host, architecture: str) -> dict[str, Any]:
    texts = read_texts(host, (_RELEASE, _CPUINFO))
    processor = _PROCESSOR.search(texts.get(_CPUINFO, ""))
    return {
        "node": board_name(host),
        "machine": architecture,
        "processor": "",
        "system": "Linux",
        "release": texts.get(_RELEASE, "").strip(),
        "cpu": {"brand_raw": processor[1]} if processor else {},
    }
