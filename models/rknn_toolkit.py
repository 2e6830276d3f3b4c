"""rknn-toolkit2 in an environment of its own: where it is, and how it gets there.

Its pins (numpy 1, an old onnx and protobuf) clash with the project's, so it lives in the user's cache. Standard
library only, as the harness asks here whether it is installed.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from models.cache import UNFINISHED, cache_root, locked
from models.errors import CannotWrite, NoCpuTorch, NoPythonForToolkit, ToolkitHasNoBuild, ToolkitInstallFailed
from models.rknn_platforms import TOOLKIT_VERSION

__all__ = ["install_toolkit", "toolkit_folder", "toolkit_installed", "toolkit_python"]

#: Part of the folder's name: raise it when what is installed changes, so that everybody gets the new set.
#: v1: the first.
_ENVIRONMENT_VERSION = 1

#: What pip asks for as it is, within the bounds that the toolkit states and these: opencv 4.12 needs numpy 2, and
#: the toolkit imports pkg_resources, which setuptools 80 and later warn about or lack. Headless, as nothing is shown.
_REQUIREMENTS = (
    "numpy<=1.26.4",
    "onnx>=1.16.1,<=1.18.0",
    "protobuf>=4.21.6,<=4.25.4",
    "onnxruntime>=1.17.0",
    "opencv-python-headless<4.12",
    "scipy>=1.9.3",
    "ruamel.yaml>=0.17.21",
    "fast-histogram>=0.11",
    "psutil>=5.9.0",
    "tqdm>=4.64.1",
    "setuptools<80",
)
#: What PyTorch needs besides CUDA, which it names as well: so it is installed without what it names.
_TORCH_REQUIREMENTS = ("typing_extensions", "filelock", "sympy", "networkx", "jinja2", "fsspec")

#: Those that the toolkit has wheels for; 3.11 first, on which it was tried most.
_PYTHONS = ("python3.11", "python3.10", "python3.12", "python3.9", "python3.8")
_PYTHON_FITS = "import sys, venv, ensurepip; sys.exit(not (3, 8) <= sys.version_info[:2] <= (3, 12))"

_MACHINES = ("x86_64", "aarch64")

#: The proof that the toolkit works here; PyTorch's builds for CUDA fail at it.
_TRY = "import torch; from rknn.api import RKNN"

#: Linux, sys/prctl.h.
_PR_SET_PDEATHSIG = 1

_Say = Callable[[str], None]


def toolkit_folder() -> Path:
    """Return the folder of the toolkit's environment, which may not exist yet; one per kind of machine."""
    name = f"{TOOLKIT_VERSION}-{platform.machine()}-v{_ENVIRONMENT_VERSION}"
    return cache_root() / "rknn-toolkit2" / name


def toolkit_python(folder: Path | None = None) -> Path:
    """Return the interpreter that has the toolkit."""
    return (folder or toolkit_folder()) / "bin" / "python"


def toolkit_installed() -> bool:
    """Whether `.rknn` files can be made here: the folder appears whole, and goes stale if its Python is removed."""
    return toolkit_python().exists()


def install_toolkit(say: _Say, python: str | None = None, torch: str | None = None) -> Path:
    """Return the toolkit's folder, made first where it is missing; raise ModelError, and leave nothing, if it fails.

    say gets a line before each step. python is the interpreter to use, or found by name; torch is what pip shall
    install as PyTorch, or the newest build for CPUs that pip's own configuration offers.
    """
    folder = toolkit_folder()
    if not toolkit_installed():
        _check_host()
        python = _find_python([python] if python else [sys.executable, *_PYTHONS])
        with locked(folder):
            if not toolkit_installed():
                _make(folder, python, torch, say)
    return folder


def _check_host() -> None:
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        raise ToolkitHasNoBuild(platform.system(), platform.machine())


def _find_python(names: Sequence[str]) -> str:
    """Return the first that runs and fits: what a version manager puts in the path may do neither."""
    for name in names:
        path = shutil.which(name)
        if path and subprocess.run([path, "-I", "-c", _PYTHON_FITS], capture_output=True, check=False).returncode == 0:
            return path
    raise NoPythonForToolkit(TOOLKIT_VERSION, names)


def _make(folder: Path, python: str, torch: str | None, say: _Say) -> None:
    with _folder_whole(folder) as temporary:
        say(f"environment for rknn-toolkit2 {TOOLKIT_VERSION} with {python}")
        _run("making the environment", [python, "-I", "-m", "venv", str(temporary)])
        own = str(toolkit_python(temporary))
        torch = torch or _cpu_torch(own)
        say("libraries")
        _pip(own, "install", *_REQUIREMENTS, *_TORCH_REQUIREMENTS)
        for requirement in (f"rknn-toolkit2=={TOOLKIT_VERSION}", torch):
            say(requirement)
            _pip(own, "install", "--no-deps", requirement)
        say("trying it")
        _run(f"importing it with {torch}", [own, "-I", "-c", _TRY])


def _cpu_torch(python: str) -> str:
    """Return the newest of pip's builds of PyTorch for CPUs; on 64-bit ARM the usual ones are."""
    # The first that has `index`; Debian 11 and Ubuntu 20.04 bring an older one.
    _pip(python, "install", "pip>=21.2")
    words = _pip(python, "index", "versions", "torch")
    builds = re.findall(r"[\w.]+\+cpu\b", words)
    if builds:
        return f"torch=={builds[0]}"
    if platform.machine() == "x86_64":
        raise NoCpuTorch
    return "torch"


def _pip(python: str, command: str, *arguments: str) -> str:
    """Run pip as the user configured it and return what it printed; it takes wheels only and compiles nothing."""
    options = ["--disable-pip-version-check", "--no-input", "--only-binary", ":all:"]
    return _run(f"pip {command}", [python, "-I", "-m", "pip", command, *options, *arguments])


def _run(step: str, command: Sequence[str]) -> str:
    """Run it and return what it printed; it ends with this process, so that no pip goes on unseen."""
    libc = ctypes.CDLL(None)

    def die_with_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        preexec_fn=die_with_parent,
    )
    try:
        printed, complained = process.communicate()
    except BaseException:
        # Gone before its folder is removed; subprocess.run would not wait after Ctrl-C.
        process.kill()
        process.communicate()
        raise
    if process.returncode:
        raise ToolkitInstallFailed(step, process.returncode, _last_words(complained) or _last_words(printed))
    return printed


def _last_words(said: str) -> str:
    """Return the last line, or what pip calls its last error."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or [""])[-1]


@contextmanager
def _folder_whole(folder: Path) -> Iterator[Path]:
    """Lend a temporary folder beside; at the end it becomes folder in one step, or is removed. Needs the lock."""
    try:
        for leftover in folder.parent.glob(f".{folder.name}.*{UNFINISHED}"):
            shutil.rmtree(leftover)
        temporary = folder.with_name(f".{folder.name}.{os.getpid()}{UNFINISHED}")
        try:
            yield temporary
            # What is there already has lost its interpreter.
            shutil.rmtree(folder, ignore_errors=True)
            temporary.replace(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise CannotWrite(folder, error) from error
