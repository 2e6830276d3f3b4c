"""Libraries whose pins clash with the project's, each in a Python environment of its own in the user's cache.

Standard library only, as the harness asks here whether they are installed.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cache import UNFINISHED, cache_root, cannot_write, end_of, locked
from models.errors import ModelError

__all__ = ["Environment", "Installation", "Say"]

#: Exits with 0 on a Python within bounds that can make environments.
_PYTHON_FITS = "import sys, venv, ensurepip; sys.exit(not {oldest} <= sys.version_info[:2] <= {newest})"

#: Linux, sys/prctl.h.
_PR_SET_PDEATHSIG = 1

#: Takes a line before each step.
Say = Callable[[str], None]


@dataclass(frozen=True)
class Environment:
    """One library with a Python of its own, and what a user who lacks it is told."""

    #: As its makers call it; in small letters the name of its folder in the cache.
    library: str
    #: The one version that is installed and used, so that figures of two machines compare.
    version: str
    #: Part of the folder's name: raise it when what is installed changes, so that everybody gets the new set.
    revision: int
    #: The files that it makes: ".rknn".
    makes: str
    #: What `reusebench models install` calls it.
    command: str
    #: The room that it takes, about.
    gigabytes: float
    #: As platform.machine() names them, and in words.
    machines: tuple[str, ...]
    machines_in_words: str
    #: Those that the library has wheels for.
    oldest_python: tuple[int, int]
    newest_python: tuple[int, int]
    #: The names that they are looked for by, best first.
    pythons: tuple[str, ...]
    #: Where a user gets one.
    python_source: str
    #: What may be at fault when pip fails.
    suspects: str

    def folder(self) -> Path:
        """Return the environment's folder, which may not exist yet; one per kind of machine."""
        return cache_root() / self.library.lower() / f"{self.version}-{platform.machine()}-v{self.revision}"

    def python(self) -> Path:
        """Return the interpreter that has the library."""
        return _python_in(self.folder())

    def installed(self) -> bool:
        """Whether the library is here: the folder appears whole, and goes stale if its Python is removed."""
        return self.python().exists()

    def check_installed(self) -> None:
        """Raise ModelError unless it is."""
        if not self.installed():
            raise ModelError(
                f"{self.makes} files are made by {self.library} {self.version}, which is not in {self.folder()}; run "
                f"`reusebench models install {self.command}` once (it takes about {self.gigabytes} GB there)"
            )

    def install(self, say: Say, python: str | None, fill: Callable[[Installation], None]) -> Path:
        """Return the folder, made first where it is missing; raise ModelError, and leave nothing, if it fails.

        say gets a line before each step. python is the interpreter to use, or found by name. fill installs into
        the new environment and tries it.
        """
        folder = self.folder()
        if not self.installed():
            self._check_host()
            python = self._find_python([python] if python else [sys.executable, *self.pythons])
            with locked(folder):
                if not self.installed():
                    self._make(python, say, fill)
        return folder

    def _check_host(self) -> None:
        if sys.platform != "linux" or platform.machine() not in self.machines:
            raise ModelError(
                f"there is no {self.library} for {platform.system()} on {platform.machine()}; make the {self.makes} "
                f"files on Linux on {self.machines_in_words}, with --output, and copy them here"
            )

    def _find_python(self, names: Sequence[str]) -> str:
        """Return the first that runs and fits: what a version manager puts in the path may do neither."""
        fits = _PYTHON_FITS.format(oldest=self.oldest_python, newest=self.newest_python)
        for name in names:
            path = shutil.which(name)
            if path and subprocess.run([path, "-I", "-c", fits], capture_output=True, check=False).returncode == 0:
                return path
        oldest, newest = (".".join(map(str, version)) for version in (self.oldest_python, self.newest_python))
        raise ModelError(
            f"{self.library} {self.version} needs a Python from {oldest} to {newest} with venv and pip, and none of "
            f"{', '.join(names)} is one; install one ({self.python_source}) or name one with --python"
        )

    def _make(self, python: str, say: Say, fill: Callable[[Installation], None]) -> None:
        with _folder_whole(self.folder()) as temporary:
            say(f"environment for {self.library} {self.version} with {python}")
            installation = Installation(self, str(_python_in(temporary)), say)
            installation.run("making the environment", [python, "-I", "-m", "venv", str(temporary)])
            fill(installation)


@dataclass(frozen=True)
class Installation:
    """A new environment while it is filled; every step that fails raises ModelError."""

    environment: Environment
    #: The new environment's interpreter.
    python: str
    say: Say

    def pip(self, command: str, *arguments: str) -> str:
        """Run pip as the user configured it and return what it printed; it takes wheels only and compiles nothing."""
        options = ["--disable-pip-version-check", "--no-input", "--only-binary", ":all:"]
        return self.run(f"pip {command}", [self.python, "-I", "-m", "pip", command, *options, *arguments])

    def try_out(self, step: str, code: str) -> None:
        """Run the code in the new environment: the proof that the library works here."""
        self.say("trying it")
        self.run(step, [self.python, "-I", "-c", code])

    def run(self, step: str, command: Sequence[str]) -> str:
        """Run it and return what it printed; it ends with this process, so that no pip goes on unseen."""
        return_code, printed, complained = _run(command)
        if return_code:
            last_words = _last_words(complained) or _last_words(printed)
            raise ModelError(
                f"{self.environment.library} is not installed: {step} failed ({end_of(return_code)}): {last_words}; "
                f"check {self.environment.suspects} and the free space (about {self.environment.gigabytes} GB), then "
                "run it again"
            )
        return printed


def _python_in(folder: Path) -> Path:
    return folder / "bin" / "python"


def _run(command: Sequence[str]) -> tuple[int, str, str]:
    """Return the return code, standard output and standard error."""
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
    return process.returncode, printed, complained


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
        raise cannot_write(folder, error) from error
