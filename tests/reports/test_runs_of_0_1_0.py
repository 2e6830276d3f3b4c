"""Runs that version 0.1.0 stored: a file with results that it measured, as it wrote them."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from reusebench.measured.plan import SHARED_WEIGHTS
from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.results.memory import component_memory
from reusebench.reports.results.rows import Row, group_results
from reusebench.reports.results.savings import LESS
from reusebench.reports.streams.frames import all_frames, growth
from reusebench.storage.run_file import StoredRun, read_run_file
from tests.reports.pages import readable
from tests.reports.stored import numbers
from tests.support import Reusebench

#: ONNX Runtime with streams, MegEngine Lite with frames of 1080p, RKNN on a virtual board, and a program.
_FILE = Path(__file__).parent / "data" / "run-0.1.0.json"
_LACKING = "on the CPU the device's memory is the application's: zero copy is all there is"


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a storage with the run."""
    folder = tmp_path_factory.mktemp("storage") / "Linux-CPython-3.11-64bit"
    folder.mkdir()
    shutil.copyfile(_FILE, folder / "0001_run.json")
    return folder.parent


@pytest.fixture(scope="module")
def run() -> StoredRun:
    """Return the run."""
    run = read_run_file(_FILE)
    assert isinstance(run, StoredRun)
    return run


@pytest.fixture(scope="module")
def rows(run: StoredRun) -> dict[str, Row]:
    """Return its rows by scenario."""
    return {row.scenario: row for group in group_results([run]) for row in group.rows}


def test_all_of_it_is_read(run: StoredRun) -> None:
    """Results with latencies and without, a program, the machine and the commit."""
    assert [(result.info.runtime, result.stats is not None) for result in run.results] == [
        ("megengine_lite", True),
        ("megengine_lite", True),
        ("onnxruntime", True),
        ("onnxruntime", False),
        ("rknn", False),
        ("rknn", False),
    ]
    assert [program.name for program in run.programs] == ["demo"]
    assert (run.board, run.commit.dirty, run.is_finished) == ("board-123456", False, True)
    assert all(result.info.measured_as is None for result in run.results)


def test_memory_and_speed_are_compared(rows: dict[str, Row]) -> None:
    """A saving of application memory with its spread, and latency beside that of the baseline."""
    zero_copy = rows["zero_copy_io_1080p"]
    assert numbers(zero_copy.saved_percent())[0] == pytest.approx(24.178, abs=0.001)
    assert zero_copy.main_saving is not None
    assert zero_copy.main_saving.change == LESS
    assert zero_copy.latency is not None
    assert zero_copy.baseline is not None
    assert zero_copy.baseline.latency is not None
    assert zero_copy.latency.median < zero_copy.baseline.latency.median


def test_npu_memory_has_its_account(rows: dict[str, Row]) -> None:
    """By the ledger the second resolution has next to no weights of its own."""
    shared = rows["shared_weights_2"]
    (account,) = shared.accounts
    assert [context.mechanism == SHARED_WEIGHTS for context in shared.info.plan.contexts] == [False, True]
    assert [context.weights_bytes for context in account.contexts] == [3697472, 45056]
    memory = component_memory(shared)
    assert memory is not None
    assert memory.total == shared.memory("npu_memory_bytes")


def test_trends_come_from_the_series(rows: dict[str, Row]) -> None:
    """Six readings are too few to say whether memory grows, and their stored trends said the same."""
    streams = rows["streams_decode_only"]
    frames, grown = all_frames(streams), growth(streams)
    assert frames is not None
    assert grown is not None
    assert (frames.done.median, frames.due.median) == (720, 720)
    assert (grown.verdict, grown.repeats) == ("unknown", 3)
    assert grown.confidence_percent == pytest.approx(77.5, abs=0.1)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_report_is_whole_in_every_language(
    storage: Path, tmp_path: Path, reusebench: Reusebench, language: str
) -> None:
    """Page, tables and figures are written; why a mechanism is lacking is said in the language of the page."""
    formats = [word for name in ("html", "csv", "svg") for word in ("--format", name)]
    assert reusebench("report", "--storage", storage, "--output", tmp_path, "--lang", language, *formats).exit_code == 0
    text, texts = readable((tmp_path / "index.html").read_text(encoding="utf-8")), texts_of(language)
    for name in ("zero_copy_io_1080p", "streams_decode_only", "shared_weights_2"):
        assert texts.scenario(name) in text
    assert texts.message(_LACKING) in text
    assert (texts.message(_LACKING) == _LACKING) == (language == LANGUAGES[0])
    with (tmp_path / "tables" / "comparison.csv").open(encoding="utf-8", newline="") as file:
        saved = {row["scenario"]: row["saved_bytes"] for row in csv.DictReader(file) if row["outcome"] == "ok"}
    assert (saved["zero_copy_io_1080p"], saved["shared_weights_2"]) == ("74386944", "6983680")
    # Without its traces it has no timelines; all else is drawn.
    assert list((tmp_path / "figures").glob("*-streams_1_memory.svg"))
    assert not list((tmp_path / "figures").glob("*timeline*"))


def test_it_is_compared_and_exported(storage: Path, tmp_path: Path, reusebench: Reusebench) -> None:
    """Against a later run with the same figures nothing has changed, and every figure is in the long form."""
    later = _FILE.read_text(encoding="utf-8").replace("2026-11-22T10:04", "2026-11-23T10:04")
    other = tmp_path / "0002_later.json"
    other.write_text(later, encoding="utf-8")
    base = storage / "Linux-CPython-3.11-64bit" / "0001_run.json"
    compared = reusebench("compare", base, other, "--fail", "application_memory:0", "--format", "json")
    assert compared.exit_code == 0
    assert '"higher"' not in compared.out
    exported = reusebench("export", base, "--format", "csv")
    assert exported.exit_code == 0
    records = list(csv.DictReader(exported.out.splitlines()))
    assert {record["name"] for record in records} >= {"zero_copy_io_1080p", "shared_weights_2", "demo"}
