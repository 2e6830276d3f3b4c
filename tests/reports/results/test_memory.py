from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from accounting.sizes import COMPONENTS
from reports.results.memory import component_memory, context_components, npu_source
from reports.results.rows import Row
from samplers.readings import NpuMemory
from tests.reports.stored import (
    MIB,
    NPU_SIZES,
    changed,
    even,
    group_of,
    npu_account,
    result,
    runtime_account,
    with_account,
)


def stored(storage: Path, scenario: str = "no_reuse", **arguments: Any) -> Row:
    """Return the row of one stored configuration."""
    return group_of(storage, result(storage, scenario, even(3), **{"npu": npu_account, **arguments})).rows[0]


def test_components_add_up_to_the_total(tmp_path: Path) -> None:
    """All components of all contexts together are the NPU memory of the configuration."""
    row = stored(tmp_path)
    account, whole = component_memory(row), row.memory("npu_memory_bytes")
    assert account is not None
    assert account.total == whole
    assert {name: size.median for name, size in account.sizes.items() if size} == {
        name: 12 * size for name, size in NPU_SIZES.items()
    }


def test_what_no_context_made_is_other(tmp_path: Path) -> None:
    """Buffers of no context's step stand under other, in a row of the plain table without a context."""
    row = stored(tmp_path, npu=lambda plan: npu_account(plan, unattributed_bytes=5 * MIB))
    account = component_memory(row)
    assert account is not None
    assert account.sizes["other"] is not None
    assert account.sizes["other"].median == 5 * MIB
    (rest,) = [size for context, _, size in context_components(row) if context is None]
    assert rest is not None
    assert rest.median == 5 * MIB


def test_spread_is_that_of_the_repeats(tmp_path: Path) -> None:
    """A component that is larger in one repeat has half the range as its spread."""
    info = result(tmp_path, "no_reuse", even(3), npu=npu_account)
    more = npu_account(info.plan, unattributed_bytes=2 * MIB)
    account = component_memory(group_of(tmp_path, with_account(info, more, repeats=[0])).rows[0])
    assert account is not None
    assert account.sizes["other"] is not None
    assert account.sizes["other"].spread == MIB


def test_what_the_runtime_does_not_tell_apart_is_empty(tmp_path: Path) -> None:
    """By the runtime's own words register commands, task list and input and output are unknown, not zero."""
    row = stored(tmp_path, npu=runtime_account)
    account = component_memory(row)
    assert account is not None
    assert {name for name in COMPONENTS if account.sizes[name] is None} == {"register_commands", "task_list", "io"}
    assert (account.peak, account.left) == (None, None)


def test_who_gave_the_figure(tmp_path: Path) -> None:
    """The ledger goes before the dma-bufs of the process, and these before the runtime's own words."""
    assert npu_source(stored(tmp_path / "ledger")) == "ledger"
    assert npu_source(stored(tmp_path / "runtime", npu=runtime_account)) == "runtime"
    assert npu_source(stored(tmp_path / "none", npu=None)) is None
    info = result(tmp_path / "held", "no_reuse", even(3), npu=runtime_account)
    held = NpuMemory(MIB, 1, None, None, None, None, None, None)
    repeats = []
    for repeat in info.repeats:
        steady = msgspec.structs.replace(repeat.phases["steady"], npu=held)
        repeats.append(msgspec.structs.replace(repeat, phases={**repeat.phases, "steady": steady}))
    assert npu_source(group_of(tmp_path / "held", changed(info, repeats=tuple(repeats))).rows[0]) == "dmabuf"


def test_a_runtime_on_the_cpu_has_no_npu_memory(tmp_path: Path) -> None:
    """Without an account there are neither components nor a peak."""
    row = stored(tmp_path, npu=None)
    assert component_memory(row) is None
    assert row.memory("npu_peak_bytes") is None
