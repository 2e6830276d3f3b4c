"""Leftovers of a session are noticed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.faults import after
from benchmarks.faults.after import after_session, announced, page_wrongs
from benchmarks.faults.samples import Samples
from benchmarks.faults.sandbox import Sandbox, tracebacks
from benchmarks.faults.trial import Kind
from tests.helpers.support import CHECKOUT, TIME_LIMIT_S

pytestmark = pytest.mark.process

_ANNOUNCES = 'print("onnxruntime no_reuse                    40.8 MiB memory")'


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Return a sandbox with a short time limit for processes."""
    monkeypatch.setattr(after, "_ENDING_S", 0.2)
    return Sandbox(tmp_path / "sandbox").make()


def _run(sandbox: Sandbox, code: str) -> None:
    assert sandbox.run(("-c", code), TIME_LIMIT_S) is not None


def _kinds(sandbox: Sandbox, samples: Samples) -> list[Kind]:
    return [wrong.kind for wrong in after_session(sandbox, samples)]


def test_a_good_end_leaves_nothing(sandbox: Sandbox, samples: Samples) -> None:
    """A session without leftovers has no faults."""
    _run(sandbox, "print('done')")
    assert _kinds(sandbox, samples) == []


def test_a_process_that_lives_on_is_noticed_and_ended(sandbox: Sandbox, samples: Samples) -> None:
    """A process in a session of its own, whose parent has gone, is known by its environment."""
    code = "import subprocess, sys; subprocess.Popen(['sleep', '60'], start_new_session=True)"
    _run(sandbox, code)
    assert _kinds(sandbox, samples) == [Kind.LEFTOVER]
    assert [*sandbox.processes()] == []


def test_a_file_that_stays_is_noticed(sandbox: Sandbox, samples: Samples) -> None:
    """A temporary file that a good session would not leave is a leftover."""
    _run(sandbox, "import tempfile; tempfile.mkstemp()")
    assert _kinds(sandbox, samples) == [Kind.LEFTOVER]


@pytest.mark.parametrize(
    ("change", "kinds"), [("", []), ("path.write_bytes(b'half')", [Kind.LEFTOVER])]
)
def test_a_built_in_network_may_stay(
    sandbox: Sandbox, samples: Samples, change: str, kinds: list[Kind]
) -> None:
    """Users get it from the cache the next time; half of one is of no use to them."""
    Sandbox(samples.folder / "made").disk.joinpath("cache/reusebench/models").mkdir(parents=True)
    build = (
        "from reusebench.models import Recipe; from reusebench.models.built_files import ensure; "
        "path = ensure(Recipe('tiny', 64, 3))"
    )
    _run(sandbox, f"{build}; {change}")
    assert _kinds(sandbox, samples) == kinds


def test_a_lost_result_is_noticed(sandbox: Sandbox, samples: Samples) -> None:
    """Results that the terminal has shown must be in the storage."""
    _run(sandbox, _ANNOUNCES)
    assert announced(sandbox.output()) == {"no_reuse"}
    assert _kinds(sandbox, samples) == [Kind.LOST]


@pytest.mark.parametrize(("before_fault_bytes", "kinds"), [(0, []), (100, [Kind.LOST])])
def test_a_result_that_was_shown_before_the_fault_is_not_excused(
    sandbox: Sandbox, samples: Samples, before_fault_bytes: int, kinds: list[Kind]
) -> None:
    """A session that reports a full disk may lose later results, not those it has shown."""
    _run(sandbox, _ANNOUNCES)
    wrongs = after_session(sandbox, samples, may_lose=1, before_fault_bytes=before_fault_bytes)
    assert [wrong.kind for wrong in wrongs] == kinds


_ELSEWHERE = """
import pathlib, shutil, tempfile
folder = pathlib.Path(tempfile.mkdtemp(), "python")
folder.mkdir()
file = folder / "0001_run.json"
if {is_there}:
    shutil.copy({run!r}, file)
print(f"The run is in {{file}}. When there is room, move it to {storage}/python,"
    " under a number that is free")
"""


@pytest.mark.parametrize("is_there", [True, False])
def test_a_run_that_the_storage_did_not_take_is_moved_there(
    sandbox: Sandbox, samples: Samples, is_there: bool
) -> None:
    """A run in the place that the session names is neither a leftover nor lost."""
    run = str(next(samples.good.glob("*/*.json")))
    code = _ELSEWHERE.format(is_there=is_there, run=run, storage=sandbox.storage)
    _run(sandbox, f"{code}\n{_ANNOUNCES}")
    kinds = _kinds(sandbox, samples)
    assert kinds == ([] if is_there else [Kind.LOST, Kind.LOST, Kind.LEFTOVER])


def test_a_traceback_of_the_project_is_noticed() -> None:
    """A traceback is named by its last line of the project; others do not count."""
    code = "from reusebench.storage.limits import parse_limit; parse_limit(None)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    (wrong,) = tracebacks(done.stderr)
    imported = (
        f'Traceback (most recent call last)\n  File "{CHECKOUT}/cache.py", line 9, in'
        " <module>\nKeyboardInterrupt\n"
    )
    assert [*tracebacks(imported)] == []
    assert [*tracebacks(imported.replace("<module>", "locked"))] != []
    assert wrong.place.startswith("src/reusebench/storage/limits.py:")
    assert [
        *tracebacks('Traceback (most recent call last)\n  File "/elsewhere.py", line 1, in f')
    ] == []


def test_half_a_page_is_noticed(tmp_path: Path) -> None:
    """A report has complete pages, old or new."""
    for folder, text in (
        ("before", "<html></html>"),
        ("whole", "<html>new</html>\n"),
        ("half", "<html>"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "index.html").write_text(text, encoding="utf-8")
    (tmp_path / "none").mkdir()
    counts = [
        len([*page_wrongs(tmp_path / name, tmp_path / "before")])
        for name in ("before", "whole", "half", "none")
    ]
    assert counts == [0, 0, 1, 1]
