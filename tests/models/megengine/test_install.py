"""How MegEngine gets into the cache: a scripted interpreter stands in for Python, venv and pip."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from models.errors import ModelError
from models.megengine.environment import MEGENGINE, install_megengine
from tests.models.scripted_python import ScriptedPython

_TRIAL = "import os; os.environ['MGE_FASTRUN_CACHE_TYPE'] = 'MEMORY'; import megengine.utils.network, megenginelite, av"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a cache of its own, and the path nothing but the scripted interpreter."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    return tmp_path / "cache" / "reusebench" / "megengine"


@pytest.fixture
def python(tmp_path: Path) -> ScriptedPython:
    """Put the scripted interpreter into the path, as python3.10."""
    return ScriptedPython(tmp_path, "python3.10")


def _silent(_line: str) -> None:
    """Take what the installation says."""


def test_the_environment_is_made_step_by_step(python: ScriptedPython, cache: Path) -> None:
    """The libraries within their bounds, mprop from its source, MegEngine without what it names, then a trial."""
    said: list[str] = []
    folder = install_megengine(said.append)
    assert folder == MEGENGINE.folder() == cache / "1.13.0-x86_64-v2"
    assert MEGENGINE.installed()
    assert MEGENGINE.python() == folder / "bin" / "python"
    assert said == [
        f"environment for MegEngine 1.13.0 with {python.path}",
        "libraries",
        "MegEngine==1.13.0",
        "trying it",
    ]
    libraries, source, megengine = python.pip_asked()
    assert {"numpy<2", "opencv-python-headless<4.12", "megfile==2.0.5", "av>=12.3"} < set(libraries)
    assert source == ["--no-binary", "mprop", "mprop"]
    assert megengine == ["--no-deps", "MegEngine==1.13.0"]
    assert python.asked()[-1] == ["-c", _TRIAL]


@pytest.mark.parametrize("step", ["-m venv", "numpy", "mprop", "MegEngine==1.13.0", "megenginelite"])
def test_a_failed_step_leaves_nothing(step: str, python: ScriptedPython, cache: Path) -> None:
    """The error is pip's own in one line, with what to look at; the folder does not appear."""
    python.behave(fails=step)
    with pytest.raises(
        ModelError,
        match=r"^MegEngine is not installed: .* check pip's configuration and the free space \(about 1.8",
    ):
        install_megengine(_silent)
    assert {each.name for each in cache.iterdir()} == {".lock"}


def test_no_fitting_interpreter_is_said(python: ScriptedPython) -> None:
    """The error has the versions, lists what was tried and says where to get one."""
    python.behave(fits=False)
    with pytest.raises(
        ModelError,
        match=r"MegEngine 1.13.0 needs a Python from 3.8 to 3.10 .* python3.10, python3.9, python3.8 is one; "
        r"install one \(Ubuntu 22.04: apt install python3.10 .*pyenv or uv\) or name one with --python",
    ):
        install_megengine(_silent)


def test_other_machines_are_refused(python: ScriptedPython, monkeypatch: pytest.MonkeyPatch) -> None:
    """MegEngine has wheels for x86-64 alone; the error says where to make the files."""
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(ModelError, match=r"on aarch64; make the .mge files on Linux on x86-64, with --output"):
        install_megengine(_silent)
    assert not python.asked()
