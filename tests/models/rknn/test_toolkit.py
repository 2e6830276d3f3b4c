"""How rknn-toolkit2 gets into the cache: a scripted interpreter stands in for Python, venv and pip."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from cache import CacheError
from models.errors import ModelError
from models.platforms import TOOLKIT_VERSION
from models.rknn.toolkit import TOOLKIT, install_toolkit
from tests.models.scripted_python import BUILDS_OF_TORCH, ScriptedPython


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a cache of its own, and the path nothing but the scripted interpreter."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    return tmp_path / "cache" / "reusebench" / "rknn-toolkit2"


@pytest.fixture
def python(tmp_path: Path) -> ScriptedPython:
    """Put the scripted interpreter into the path, as python3.11."""
    return ScriptedPython(tmp_path, "python3.11")


def _silent(_line: str) -> None:
    """Take what the installation says."""


def _install(**options: str) -> Path:
    return install_toolkit(_silent, **options)


def _nothing_left(cache: Path) -> bool:
    return not TOOLKIT.installed() and {each.name for each in cache.iterdir()} == {".lock"}


def test_the_environment_is_made_step_by_step(python: ScriptedPython, cache: Path) -> None:
    """The libraries within their bounds, then the toolkit and PyTorch for CPUs without what they name, then a trial."""
    said: list[str] = []
    folder = install_toolkit(said.append)
    assert folder == TOOLKIT.folder() == cache / f"{TOOLKIT_VERSION}-x86_64-v1"
    assert TOOLKIT.installed()
    assert said == [
        f"environment for rknn-toolkit2 {TOOLKIT_VERSION} with {python.path}",
        "libraries",
        f"rknn-toolkit2=={TOOLKIT_VERSION}",
        "torch==2.8.1+cpu",
        "trying it",
    ]
    pip, libraries, toolkit, torch = python.pip_asked()
    assert pip == ["pip>=21.2"]
    assert {"numpy<=1.26.4", "onnx>=1.16.1,<=1.18.0", "setuptools<80"} < set(libraries)
    assert not any(each.startswith(("torch", "rknn", "opencv-python<")) for each in libraries)
    assert (toolkit, torch) == (["--no-deps", said[2]], ["--no-deps", said[3]])
    assert python.asked()[-1] == ["-c", "import torch; from rknn.api import RKNN"]


def test_pip_compiles_nothing(python: ScriptedPython) -> None:
    """A library without a wheel fails at once; it is not built for minutes with whatever compiler there is."""
    _install()
    calls = [call for call in python.asked() if call[:2] == ["-m", "pip"]]
    assert all("--only-binary :all:" in " ".join(call) for call in calls)


def test_installing_again_does_nothing(python: ScriptedPython) -> None:
    """What is installed is left alone, without a look at interpreters or pip."""
    folder = _install()
    asked = python.asked()
    python.behave(fits=False)
    assert _install() == folder
    assert python.asked() == asked


@pytest.mark.usefixtures("python")
def test_a_toolkit_whose_python_is_gone_is_made_anew() -> None:
    """After an upgrade of the system removed the interpreter, it counts as not installed and is replaced."""
    folder = _install()
    (folder / "bin" / "python").unlink()
    (folder / "stale").touch()
    assert not TOOLKIT.installed()
    assert _install() == folder
    assert TOOLKIT.installed()
    assert not (folder / "stale").exists()


@pytest.mark.parametrize("step", ["-m venv", "versions torch", "numpy", f"rknn-toolkit2=={TOOLKIT_VERSION}", "RKNN"])
def test_a_failed_step_leaves_nothing(step: str, python: ScriptedPython, cache: Path) -> None:
    """The error is pip's own in one line, with what to look at; the folder does not appear, and a new try succeeds."""
    python.behave(fails=step)
    with pytest.raises(ModelError, match=r"exit code 1\): ERROR: No matching distribution found; check"):
        _install()
    assert _nothing_left(cache)
    python.behave()
    assert _install().exists()


def test_an_interrupted_installation_leaves_nothing(python: ScriptedPython, cache: Path) -> None:
    """Ctrl-C while pip works ends pip and removes what there is."""
    python.behave(interrupts="numpy")
    with pytest.raises(KeyboardInterrupt):
        _install()
    assert _nothing_left(cache)


@pytest.mark.usefixtures("python")
def test_what_a_killed_installation_left_is_removed(cache: Path) -> None:
    """Gigabytes of half an environment do not stay for ever."""
    leftover = cache / f".{TOOLKIT.folder().name}.123.unfinished" / "lib"
    leftover.mkdir(parents=True)
    _install()
    assert not leftover.parent.exists()


@pytest.mark.parametrize(
    ("machine", "builds", "chosen"),
    [
        ("x86_64", BUILDS_OF_TORCH, "torch==2.8.1+cpu"),
        ("aarch64", BUILDS_OF_TORCH, "torch==2.8.1+cpu"),
        ("aarch64", "Available versions: 2.9.0, 2.8.1", "torch"),
    ],
)
def test_pytorch_is_one_for_cpus(
    machine: str, builds: str, chosen: str, python: ScriptedPython, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest version that pip lists as +cpu is taken; on 64-bit ARM the usual one will do."""
    monkeypatch.setattr(platform, "machine", lambda: machine)
    python.behave(torch=builds)
    _install()
    assert python.pip_asked()[-1] == ["--no-deps", chosen]


def test_cuda_is_not_downloaded(python: ScriptedPython, cache: Path) -> None:
    """Where pip knows no PyTorch for CPUs, that is said before anything large is fetched; --torch overrides it."""
    python.behave(torch="Available versions: 2.9.0, 2.8.1")
    with pytest.raises(ModelError, match=r"ends in \+cpu.*pip config set global.extra-index-url URL.*--torch"):
        _install()
    assert python.pip_asked() == [["pip>=21.2"]]
    assert _nothing_left(cache)
    _install(torch="torch==2.4.0")
    assert python.pip_asked()[-1] == ["--no-deps", "torch==2.4.0"]


def test_an_interpreter_is_found_by_name(tmp_path: Path, python: ScriptedPython) -> None:
    """One that does not fit is passed over: python3.11 is no use here, and python3.9 is."""
    other = ScriptedPython(_made(tmp_path / "other"), "python3.11")
    python.behave(fits=False)
    other.path.rename(tmp_path / "python3.9")
    _install()
    assert other.asked()
    assert not python.asked()


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_no_fitting_interpreter_is_said(python: ScriptedPython, cache: Path) -> None:
    """The error lists what was tried and says what to install; one chosen with --python is the only one tried."""
    python.behave(fits=False)
    with pytest.raises(
        ModelError, match=r"from 3.8 to 3.12 .* python3.11, python3.10, python3.12, .*apt install python3.11"
    ):
        _install()
    with pytest.raises(ModelError, match=r"none of python2 is one"):
        _install(python="python2")
    assert not cache.exists()


@pytest.mark.parametrize("machine", ["armv7l", "riscv64"])
def test_other_machines_are_refused(machine: str, python: ScriptedPython, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that the toolkit does not exist for, the error says where to make the files."""
    monkeypatch.setattr(platform, "machine", lambda: machine)
    with pytest.raises(ModelError, match=f"on {machine}; make the .rknn files on Linux on x86-64 or 64-bit ARM"):
        _install()
    assert not python.asked()


@pytest.mark.usefixtures("python")
def test_a_cache_that_cannot_be_written_is_said(cache: Path) -> None:
    """Where a file stands in the way of the folder, the error names it."""
    cache.parent.mkdir(parents=True)
    cache.touch()
    with pytest.raises(CacheError, match=r"rknn-toolkit2.*XDG_CACHE_HOME"):
        _install()
