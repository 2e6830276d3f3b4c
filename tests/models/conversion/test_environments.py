"""Installation of rknn-toolkit2 and MegEngine into the cache, with scripted Python and pip."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from reusebench.models.conversion.environments import ConverterEnvironment
from reusebench.models.errors import ModelError
from reusebench.models.megengine.environment import MEGENGINE, install_megengine
from reusebench.models.rknn.toolkit import TOOLKIT, install_toolkit
from reusebench.system.cache import CacheError
from reusebench.system.package import PACKAGE
from tests.models.scripted_python import BUILDS_OF_TORCH, ScriptedPython

pytestmark = pytest.mark.process


def _silent(_step: str) -> None:
    """Show no step."""


def _install(**options: str) -> Path:
    return install_toolkit(_silent, **options)


def _pinned(package: str, name: str, *options: str) -> list[str]:
    """Return pip's arguments for a list with hashes."""
    path = PACKAGE / "models" / package / f"{name}.txt"
    return ["--no-deps", "--require-hashes", *options, "--requirement", str(path)]


def _assert_nothing_left(environment: ConverterEnvironment) -> None:
    assert not environment.installed()
    assert [path.name for path in environment.folder().parent.iterdir()] == [".lock"]


def test_the_toolkit_is_installed_step_by_step(python: ScriptedPython, tmp_path: Path) -> None:
    """Pinned libraries and toolkit, PyTorch for CPUs with --no-deps, then a trial; once."""
    steps: list[str] = []
    folder = install_toolkit(steps.append)
    assert folder == TOOLKIT.folder() == tmp_path / "cache/reusebench/rknn-toolkit2/2.5.0-x86_64-v2"
    assert TOOLKIT.python() == folder / "bin" / "python"
    assert steps == [
        f"environment for rknn-toolkit2 2.5.0 with {python.path}",
        "libraries",
        "rknn-toolkit2==2.5.0",
        "torch==2.8.1+cpu",
        "trying it",
    ]
    *pinned, torch = python.installs()
    assert pinned == [_pinned("rknn", name) for name in ("pip", "requirements", "library")]
    assert torch == ["--no-deps", steps[3]]
    calls = python.calls()
    assert calls[-1] == ["-c", "import torch; from rknn.api import RKNN"]
    # A library without a wheel fails at once, and is not compiled for minutes.
    assert all(
        "--only-binary :all:" in " ".join(call) for call in calls if call[:2] == ["-m", "pip"]
    )
    python.behave(fits=False)
    assert _install() == folder
    assert python.calls() == calls


def test_megengine_is_installed_step_by_step(python: ScriptedPython, tmp_path: Path) -> None:
    """Pinned libraries and MegEngine, mprop from its source with what is there, then a trial."""
    steps: list[str] = []
    assert (
        install_megengine(steps.append) == tmp_path / "cache/reusebench/megengine/1.13.0-x86_64-v3"
    )
    assert MEGENGINE.installed()
    assert steps == [
        f"environment for MegEngine 1.13.0 with {python.path}",
        *("libraries", "MegEngine==1.13.0", "trying it"),
    ]
    libraries, megengine = python.installs()
    assert libraries == _pinned("megengine", "requirements")
    assert megengine == _pinned(
        "megengine", "library", "--no-build-isolation", "--no-binary", "mprop"
    )
    assert python.calls()[-1][1].endswith(
        "= 'MEMORY'; import megengine.utils.network, megenginelite, av"
    )


def test_an_environment_whose_python_is_gone_is_made_anew(python: ScriptedPython) -> None:
    """If the interpreter was removed, a new environment is made, and old leftovers are removed."""
    folder = _install()
    (folder / "bin" / "python").unlink()
    (folder / "stale").touch()
    leftover = folder.with_name(f".{folder.name}.123.unfinished")
    (leftover / "lib").mkdir(parents=True)
    assert not TOOLKIT.installed()
    assert _install() == folder
    assert python.path.exists()
    assert TOOLKIT.installed()
    assert not (folder / "stale").exists()
    assert not leftover.exists()


@pytest.mark.parametrize("step", ["-m venv", "requirements.txt", "RKNN"])
def test_a_failed_step_leaves_nothing(step: str, python: ScriptedPython) -> None:
    """The error has pip's message in one line, and things to check; the folder does not appear."""
    python.behave(fails=step)
    with pytest.raises(ModelError) as error:
        _install()
    assert str(error.value).startswith("rknn-toolkit2 is not installed: ")
    assert str(error.value).endswith(
        "failed (exit code 1): ERROR: No matching distribution found; check pip's configuration,"
        " --torch and the free space (about 1.5 GB), then run it again"
    )
    _assert_nothing_left(TOOLKIT)


def test_an_interrupted_installation_leaves_nothing(python: ScriptedPython) -> None:
    """Ctrl-C while pip works ends pip and removes its files; the next try succeeds."""
    python.behave(interrupts="requirements.txt")
    with pytest.raises(KeyboardInterrupt):
        _install()
    _assert_nothing_left(TOOLKIT)
    python.behave()
    assert _install().exists()


@pytest.mark.parametrize(
    ("machine", "builds", "requirement"),
    [
        ("aarch64", BUILDS_OF_TORCH, "torch==2.8.1+cpu"),
        ("aarch64", "Available versions: 2.9.0, 2.8.1", "torch"),
    ],
)
def test_pytorch_is_one_for_cpus(
    machine: str,
    builds: str,
    requirement: str,
    python: ScriptedPython,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The newest +cpu version in pip's list is used; on 64-bit ARM the usual build is."""
    monkeypatch.setattr(platform, "machine", lambda: machine)
    python.behave(torch=builds)
    _install()
    assert python.installs()[-1] == ["--no-deps", requirement]


def test_cuda_is_not_downloaded(python: ScriptedPython) -> None:
    """If pip finds no PyTorch for CPUs, the error comes before large downloads; --torch overrides
    it.
    """
    python.behave(torch="Available versions: 2.9.0, 2.8.1")
    with pytest.raises(
        ModelError, match=r"ends in \+cpu.*pip config set global.extra-index-url URL.*--torch"
    ):
        _install()
    assert python.installs() == [_pinned("rknn", "pip")]
    _assert_nothing_left(TOOLKIT)
    _install(torch="torch==2.4.0")
    assert python.installs()[-1] == ["--no-deps", "torch==2.4.0"]


def test_an_interpreter_that_does_not_fit_is_passed_over(
    tmp_path: Path, python: ScriptedPython
) -> None:
    """python3.10 comes first and does not fit here; python3.9 does."""
    (tmp_path / "other").mkdir()
    other = ScriptedPython(tmp_path / "other", "python3.9")
    python.behave(fits=False)
    other.path.rename(tmp_path / "python3.9")
    _install()
    assert other.calls()
    assert not python.calls()


def test_no_interpreter_fits(python: ScriptedPython, tmp_path: Path) -> None:
    """The error has versions, tried names and a source; with --python only that is tried."""
    python.behave(fits=False)
    with pytest.raises(
        ModelError,
        match=r"from 3.8 to 3.12 .* python3.11, python3.10, python3.12, .*apt install python3.11",
    ):
        _install()
    with pytest.raises(ModelError, match=r"none of python2 is one"):
        _install(python="python2")
    with pytest.raises(
        ModelError,
        match=(
            r"MegEngine 1.13.0 needs a Python from 3.8 to 3.10 .* python3.10, python3.9, python3.8"
            r" is one; "
            r"install one \(Ubuntu 22.04: apt install python3.10 .*pyenv or uv\) or name one with"
            r" --python"
        ),
    ):
        install_megengine(_silent)
    assert not (tmp_path / "cache").exists()


def test_other_machines_are_refused(
    python: ScriptedPython, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine without the library, the error names machines that can make the files."""
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(
        ModelError, match=r"on riscv64; make the .rknn files on Linux on x86-64 or 64-bit ARM"
    ):
        _install()
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(
        ModelError, match=r"on aarch64; make the .mge files on Linux on x86-64, with --output"
    ):
        install_megengine(_silent)
    assert not python.calls()


@pytest.mark.usefixtures("python")
def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    """If a file is in the way of the folder, the error names it."""
    (tmp_path / "cache").touch()
    with pytest.raises(CacheError, match=r"rknn-toolkit2.*XDG_CACHE_HOME"):
        _install()
