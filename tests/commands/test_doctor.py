"""`python -m runtimes`, with and without --try, and the list of runtimes."""

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
from harness.errors import UserError
from harness.selection import Choice
from harness.trial_lines import TrialLines
from runtimes import RUNTIMES, RuntimeEntry, UnknownRuntime, available, find_runtime
from runtimes.rknn import library
from runtimes.rknn.library import LIBRARY_VARIABLE
from storage.board import board_storage
from targets import interpreters
from tests.support import CHECKOUT

_HERE = RuntimeEntry("here", "tests.scripted_driver", "json", "pip install here", "cpu", ".here")
_MISSING = RuntimeEntry("missing", "runtimes.missing", "no_such_module", "pip install missing==1", "cpu", ".missing")
_BROKEN = RuntimeEntry("broken", "no_such_package.adapter", "json", "pip install broken", "npu", ".broken")


@pytest.fixture
def door_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Return a function that lists these entries and returns (exit code, words)."""

    def open_door(*entries: RuntimeEntry) -> tuple[int, str]:
        monkeypatch.setattr(runtimes, "RUNTIMES", entries)
        monkeypatch.setattr(door, "RUNTIMES", entries)
        monkeypatch.setenv("COLUMNS", "200")
        code = door.main([])
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
    for word in ("'onnx'", "valid: onnxruntime, megengine_lite, rknn", "python -m runtimes"):
        assert word in str(refusal.value)


def test_looking_for_a_runtime_does_not_import_it() -> None:
    """The harness would otherwise map libraries that the measured process maps, and halve their share there."""
    code = "import sys, runtimes; print({each.name: runtimes.available(each) for each in runtimes.RUNTIMES}); "
    code += "print({'numpy', 'onnxruntime', 'megenginelite', 'ctypes', 'runtimes.rknn.adapter'} & set(sys.modules))"
    environment = {**os.environ, LIBRARY_VARIABLE: "/named/librknnrt.so"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True, env=environment
    )
    here, imported = done.stdout.splitlines()
    assert "'onnxruntime': True" in here
    assert "'rknn': True" in here
    assert imported == "set()"
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


def test_every_runtime_has_its_own_kind_of_model() -> None:
    """A file's name tells whose model it is; the kind of device decides how many contexts run at once."""
    assert len({entry.suffix for entry in RUNTIMES}) == len(RUNTIMES)
    assert {entry.device for entry in RUNTIMES} <= {"cpu", "npu"}


# A runtime in an environment of its own


def _elsewhere(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> Path:
    """Have a runtime in an environment whose Python is this script; return its path."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    python.chmod(0o755)
    monkeypatch.setattr(interpreters, "available", lambda _: False)
    monkeypatch.setattr(interpreters, "_OWN_ENVIRONMENTS", {"missing": (lambda: True, lambda: python)})
    return python


def test_a_runtime_in_an_environment_of_its_own(
    door_of: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its version is asked of the interpreter there, which is named; what its import prints does not matter."""
    python = _elsewhere(monkeypatch, tmp_path, 'echo "loaded plugins"; echo "1.13.0 3.10.13"')
    code, words = door_of(_MISSING)
    assert code == 0
    assert "version 1.13.0, in an environment of its own: Python 3.10.13" in words
    assert str(python) in "".join(words.split())


def test_an_environment_of_its_own_that_is_broken(
    door_of: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The last words of that interpreter are the reason."""
    _elsewhere(monkeypatch, tmp_path, f'exec {sys.executable} "$@"')
    code, words = door_of(_MISSING)
    assert code == 1
    words = " ".join(words.split())
    assert "installed, but cannot be imported: runtimes.UnknownRuntime: unknown runtime 'missing'" in words
    assert "Install it again: pip install missing==1" in words


# --try


def _try(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "runtimes", *map(str, arguments)]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)


def test_trying_tells_and_stores(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The options arrive; a mistake of the user is a sentence on standard error and exit code 2."""
    tried: list[tuple[object, ...]] = []

    def try_mechanisms(choice: Choice, storage: Path, teller: TrialLines) -> None:
        tried.append((choice, storage))
        teller.begin("onnxruntime", "python")
        if choice.runtimes:
            raise UserError("nothing is there")

    monkeypatch.setattr(door, "try_mechanisms", try_mechanisms)
    assert door.main(["--try"]) == 0
    options = ["--runtime", "rknn", "--target", "board", "--rknn-library", "x.so", "--storage", "/store"]
    assert door.main(["--try", *options]) == 2
    assert tried == [
        (Choice((), "python", None), board_storage()),
        (Choice(("rknn",), "board", Path("x.so")), Path("/store")),
    ]
    said = capsys.readouterr()
    assert said.out.splitlines()[0] == "onnxruntime, --target python"
    assert said.err == "error: nothing is there\n"


def test_an_interrupted_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends it without a traceback."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(door, "try_mechanisms", interrupt)
    assert door.main(["--try"]) == 130


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--try", "--runtime", "onnx"], "unknown runtime 'onnx'; valid: onnxruntime, megengine_lite, rknn"),
        (["--try", "--target", "moon"], "--target moon: no such target; valid: python, "),
        (["--storage", "somewhere"], "--storage goes with --try"),
        (["--rknn-library", "x.so"], "--rknn-library goes with --try"),
    ],
)
def test_mistakes_of_a_user(arguments: list[str], words: str) -> None:
    """Exit code 2, the words, and no traceback."""
    done = _try(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
