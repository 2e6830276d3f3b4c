"""`python -m runtimes` and the list of runtimes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnxruntime
import pytest

import runtimes
import runtimes.__main__ as door
from runtimes import RUNTIMES, RuntimeEntry, UnknownRuntime, available, find_runtime
from runtimes.rknn import library
from runtimes.rknn.library import LIBRARY_VARIABLE
from tests.support import CHECKOUT

_HERE = RuntimeEntry("here", "tests.scripted_driver", lambda: True, "pip install here", "cpu", ("dup",))
_MISSING = RuntimeEntry("missing", "runtimes.missing", lambda: False, "pip install missing==1", "cpu", ("dup",))
_BROKEN = RuntimeEntry("broken", "no_such_package.adapter", lambda: True, "pip install broken", "npu", ("dup",))


@pytest.fixture
def door_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Return a function that lists these entries and returns (exit code, words)."""

    def open_door(*entries: RuntimeEntry) -> tuple[int, str]:
        monkeypatch.setattr(runtimes, "RUNTIMES", entries)
        monkeypatch.setattr(door, "RUNTIMES", entries)
        monkeypatch.setattr(sys, "argv", ["python -m runtimes"])
        monkeypatch.setenv("COLUMNS", "200")
        code = door.main()
        return code, capsys.readouterr().out

    return open_door


def test_the_door_says_what_is_here() -> None:
    """Every runtime with its version, every source of memory figures, and exit code 0."""
    done = subprocess.run([sys.executable, "-m", "runtimes"], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    words = " ".join(done.stdout.split())
    for expected in (f"onnxruntime yes version {onnxruntime.__version__}", "/proc/PID/smaps_rollup", "/proc/meminfo"):
        assert expected in words


def test_a_runtime_that_is_not_installed(door_of: Callable[..., tuple[int, str]]) -> None:
    """It is said with what to install, and does not spoil the others."""
    code, words = door_of(_MISSING, _HERE)
    assert code == 0, words
    assert "not here: pip install missing==1" in words
    assert "version 1.2.3" in words


def test_no_runtime_at_all(door_of: Callable[..., tuple[int, str]]) -> None:
    """The exit code says that nothing can be measured here."""
    assert door_of(_MISSING)[0] == 1


def test_a_runtime_that_cannot_be_imported(door_of: Callable[..., tuple[int, str]]) -> None:
    """A broken installation is told apart from a missing one."""
    code, words = door_of(_BROKEN)
    assert code == 1
    assert "cannot be imported: No module named 'no_such_package'. Install it again: pip install broken" in words


def test_unknown_names() -> None:
    """The message names the valid ones and the door that shows them."""
    assert [find_runtime(entry.name) for entry in RUNTIMES] == list(RUNTIMES)
    with pytest.raises(UnknownRuntime) as refusal:
        find_runtime("onnx")
    for word in ("'onnx'", "valid: onnxruntime, rknn", "python -m runtimes"):
        assert word in str(refusal.value)


def test_looking_for_a_runtime_does_not_import_it() -> None:
    """The harness would otherwise map libraries that the measured process maps, and halve their share there."""
    code = "import sys, runtimes; print({each.name: runtimes.available(each) for each in runtimes.RUNTIMES}); "
    code += "print({'numpy', 'onnxruntime', 'ctypes', 'runtimes.rknn.adapter'} & set(sys.modules))"
    environment = {**os.environ, LIBRARY_VARIABLE: "/named/librknnrt.so"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.split("\n")[:2] == ["{'onnxruntime': True, 'rknn': True}", "set()"]
    assert not available(_MISSING)


def test_rockchips_runtime_is_here_where_its_library_is(
    door_of: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without a library the option is named; a file that is none is said in words, and there is no traceback."""
    rknn = find_runtime("rknn")
    monkeypatch.setattr(library, "_FOLDERS", ())
    monkeypatch.delenv(LIBRARY_VARIABLE, raising=False)
    code, words = door_of(rknn)
    assert code == 1
    assert "not here: give Rockchip's library with --rknn-library FILE" in words
    text = tmp_path / "notes.txt"
    text.write_text("no library")
    monkeypatch.setenv(LIBRARY_VARIABLE, str(text))
    code, words = door_of(rknn)
    assert code == 1
    assert f"{text}: it is no shared library" in words
    assert "Give librknnrt.so or librknnmrt.so" in words


def test_every_runtime_answers_questions_that_are_asked() -> None:
    """Each names files of bench/, and each has a kind of device that decides how many contexts run at once."""
    questions = {path.stem.replace("test_", "") for path in (CHECKOUT / "bench").glob("test_*.py")}
    for entry in RUNTIMES:
        assert entry.device in ("cpu", "npu")
        assert entry.questions
        assert set(entry.questions) <= questions
