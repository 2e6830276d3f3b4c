from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from reports.base.texts import texts_of
from reports.sections.timeline import timeline
from storage.trace import read_trace, write_trace
from tests.reports.results.test_rows import groups_of
from tests.reports.stored import even, npu_account, result, write_run


def change_trace(storage: Path, info: dict[str, Any], change: dict[str, list[int]]) -> None:
    """Write the trace of the first repeat anew, with other values in its timeline."""
    path = Path(info["repeats"][0]["trace"])
    trace = read_trace(storage, str(path))
    assert trace is not None
    trace["timeline"].update(change)
    write_trace(storage, path.parent.name, path.name[: -len(".json.gz")], trace)


def ticks(svg: str) -> set[float]:
    """Return the numbers that stand at the axes."""
    return {float(text) for text in re.findall(r">([0-9.]+)</text>", svg)}


def test_axes_reach_to_the_longest_and_largest(tmp_path: Path) -> None:
    """A scenario that takes longer and more memory than the one drawn first is drawn to its end."""
    infos = [result(tmp_path, name, even(3), npu=npu_account) for name in ("no_reuse", "partial_dup")]
    change_trace(
        tmp_path,
        infos[1],
        {"times_ns": [0, 20_000_000_000], "rss_bytes": [0, 5000 * 2**20], "system_memory_bytes": [0, 0]},
    )
    write_run(tmp_path, infos)
    (group,) = groups_of(tmp_path)
    drawing = timeline(group.rows, texts_of("en"))
    assert drawing is not None
    for svg in (drawing.wide, drawing.narrow):
        assert any(4000 <= tick <= 6000 for tick in ticks(svg))
        assert any(15 <= tick <= 25 for tick in ticks(svg))


def test_lost_traces_leave_no_figure(tmp_path: Path) -> None:
    """Where no trace can be read there is no timeline."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(3))])
    for trace in tmp_path.glob("traces/*/*.json.gz"):
        trace.unlink()
    (group,) = groups_of(tmp_path)
    assert timeline(group.rows, texts_of("en")) is None
