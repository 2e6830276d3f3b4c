from __future__ import annotations

import re
from pathlib import Path

import msgspec

from reusebench.reports.base.texts import texts_of
from reusebench.reports.sections.timeline import timeline_figure
from reusebench.storage.result import Result
from reusebench.storage.trace import Timeline, Trace, read_trace, write_trace
from tests.reports.stored import even, group_of, groups_of, npu_account, result, write_run


def change_trace(storage: Path, info: Result, timeline: Timeline) -> None:
    """Write the trace of the first repeat anew, with another timeline."""
    path = info.repeats[0].trace
    trace = read_trace(storage, path, Trace)
    assert trace is not None
    run, name = path.removeprefix("traces/").removesuffix(".json.gz").split("/")
    write_trace(storage, run, name, msgspec.structs.replace(trace, timeline=timeline))


def ticks(svg: str) -> set[float]:
    """Return the numbers that stand at the axes."""
    return {float(text) for text in re.findall(r">([0-9.]+)</text>", svg)}


def test_axes_reach_to_the_longest_and_largest(tmp_path: Path) -> None:
    """A scenario that takes longer and more memory than the one drawn first is drawn to its end."""
    infos = [
        result(tmp_path, name, even(3), npu=npu_account) for name in ("no_reuse", "partial_dup")
    ]
    change_trace(tmp_path, infos[1], Timeline([0, 20_000_000_000], [0, 5000 * 2**20], [0, 0]))
    group = group_of(tmp_path, *infos)
    svg = timeline_figure(group.rows, texts_of("en"))
    assert svg is not None
    assert any(4000 <= tick <= 6000 for tick in ticks(svg))
    assert any(15 <= tick <= 25 for tick in ticks(svg))
    for name in ("phase_context", "phase_steady", "memory_npu"):
        assert f">{texts_of('en')(name)}<" in svg


def test_lost_traces_leave_no_figure(tmp_path: Path) -> None:
    """Without a readable trace there is no timeline."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(3))])
    for trace in tmp_path.glob("traces/*/*.json.gz"):
        trace.unlink()
    (group,) = groups_of(tmp_path)
    assert timeline_figure(group.rows, texts_of("en")) is None
