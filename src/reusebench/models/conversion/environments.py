"""Python environments, in the user's cache, of libraries whose pins clash with the project's.

Standard library only: the harness looks up here whether a library is installed.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from reusebench.models.errors import ModelError
from reusebench.system import processes
from reusebench.system.cache import OwnFolder, cache_root, cannot_write, end_of, locked
from reusebench.system.files import leftovers_of, temporary_path

__all__ = ["ConverterEnvironment", "Installation", "PythonPackage", "ShowStep"]

#: Code that exits with 0 on a Python within the bounds that can make environments.
_PYTHON_FITS = (
    "import sys, venv, ensurepip; sys.exit(not {oldest} <= sys.version_info[:2] <= {newest})"
)

#: Path of the interpreter in an environment.
_PYTHON = "bin/python"

#: A function that is called with a line before every step.
ShowStep = Callable[[str], None]


@dataclass(frozen=True)
class ConverterEnvironment:
    """A library with a Python of its own, and texts for a user who lacks it."""

    #: Name on PyPI; in lower case also the folder's name in the cache.
    library: str
    #: The only version that is used, so that figures of two machines can be compared.
    version: str
    #: Part of the folder's name. Raise it when other packages are installed, so that every user
    #: gets them.
    revision: int
    #: Suffix of the files that the library makes: ".rknn".
    makes: str
    #: Name of the library for `reusebench models install`.
    command: str
    #: Approximate size in the cache.
    gigabytes: float
    #: Supported machines, as platform.machine() names them.
    machines: tuple[str, ...]
    #: The same as a text for the user.
    machines_in_words: str
    #: Oldest and newest Python that the library has wheels for.
    oldest_python: tuple[int, int]
    newest_python: tuple[int, int]
    #: Names of interpreters to look for, best first.
    pythons: tuple[str, ...]
    #: Advice on how to get one.
    python_source: str
    #: Things to check when pip fails.
    suspects: str

    @property
    def title(self) -> str:
        """The library with its version."""
        return f"{self.library} {self.version}"

    def folder(self) -> Path:
        """Return the environment's folder, which may not exist yet; one per kind of machine."""
        name = f"{self.version}-{platform.machine()}-v{self.revision}"
        return cache_root() / self.library.lower() / name

    def python(self) -> Path:
        """Return the interpreter that has the library."""
        return self.folder() / _PYTHON

    def installed(self) -> bool:
        """Whether the library is installed: the folder is complete, and its Python still exists."""
        return self.python().exists()

    def check_installed(self) -> None:
        """Raise ModelError unless the library is installed."""
        if not self.installed():
            raise ModelError(
                f"{self.makes} files are made by {self.library} {self.version}, which is not in"
                f" {self.folder()}; run `reusebench models install {self.command}` once (it takes"
                f" about {self.gigabytes} GB there)"
            )

    def install(
        self, show_step: ShowStep, python: str | None, fill: Callable[[Installation], None]
    ) -> Path:
        """Return the folder, made first if it is missing.

        Raises ModelError, and leaves nothing, if that fails. `python` is the interpreter to use;
        None means the first of the known names that fits. fill() installs packages into the new
        environment and tries them.
        """
        folder = self.folder()
        if self.installed():
            return folder

        if sys.platform != "linux" or platform.machine() not in self.machines:
            raise ModelError(
                f"there is no {self.library} for {platform.system()} on {platform.machine()};"
                f" make the {self.makes} files on Linux on {self.machines_in_words}, with"
                " --output, and copy them here"
            )
        names = [python] if python else [sys.executable, *self.pythons]
        python = self._fitting_python(names)
        with locked(folder):
            if not self.installed():
                self._make(python, show_step, fill)
        return folder

    def _fitting_python(self, names: Sequence[str]) -> str:
        """Return the first interpreter that runs and fits; a version manager's stub may not run."""
        fits = _PYTHON_FITS.format(oldest=self.oldest_python, newest=self.newest_python)
        for name in names:
            path = shutil.which(name)
            if path and processes.run([path, "-I", "-c", fits]).returncode == 0:
                return path

        oldest = ".".join(map(str, self.oldest_python))
        newest = ".".join(map(str, self.newest_python))
        raise ModelError(
            f"{self.library} {self.version} needs a Python from {oldest} to {newest} with venv and"
            f" pip, and none of {', '.join(names)} is one; install one ({self.python_source}) or"
            " name one with --python"
        )

    def _make(self, python: str, show_step: ShowStep, fill: Callable[[Installation], None]) -> None:
        """Make the environment in a temporary folder and rename it at the end. Needs the lock."""
        folder = self.folder()
        temporary = temporary_path(folder)
        try:
            # Killed installations leave unfinished folders.
            for leftover in leftovers_of(folder):
                shutil.rmtree(leftover)
            try:
                show_step(f"environment for {self.library} {self.version} with {python}")
                installation = Installation(self, str(temporary / _PYTHON), show_step)
                installation.run(
                    "making the environment", [python, "-I", "-m", "venv", str(temporary)]
                )
                fill(installation)
                # An existing folder has lost its interpreter.
                shutil.rmtree(folder, ignore_errors=True)
                temporary.replace(folder)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
        except OSError as error:
            raise cannot_write(folder, error) from error


@dataclass(frozen=True)
class PythonPackage:
    """A library that is installed beside this project, in the Python that runs it."""

    #: Name on PyPI.
    library: str
    #: Name of the module to import.
    module: str
    #: Suffix of the files that the library makes: ".mnn".
    makes: str
    #: Command that installs the library.
    install: str

    @property
    def version(self) -> str:
        """The installed version."""
        return importlib.metadata.version(self.library)

    @property
    def title(self) -> str:
        """The library with its version."""
        return f"{self.library} {self.version}"

    def python(self) -> Path:
        """Return the interpreter that has the library."""
        return Path(sys.executable)

    def installed(self) -> bool:
        """Whether the library is installed; does not import it."""
        return importlib.util.find_spec(self.module) is not None

    def check_installed(self) -> None:
        """Raise ModelError unless the library is installed."""
        if not self.installed():
            raise ModelError(
                f"{self.makes} files are made by {self.library}, which is not installed:"
                f" {self.install}"
            )


@dataclass(frozen=True)
class Installation:
    """A new environment while packages are installed; every failed step raises ModelError."""

    environment: ConverterEnvironment
    #: The new environment's interpreter.
    python: str
    show_step: ShowStep

    def install(self, requirements: Path, *options: str) -> None:
        """Let pip install the requirements of the file, which all have hashes (make pins)."""
        self.pip(
            "install", "--no-deps", "--require-hashes", *options, "--requirement", str(requirements)
        )

    def pip(self, command: str, *arguments: str) -> str:
        """Run pip with the user's configuration, wheels only, and return its output."""
        options = ["--disable-pip-version-check", "--no-input", "--only-binary", ":all:"]
        return self.run(
            f"pip {command}", [self.python, "-I", "-m", "pip", command, *options, *arguments]
        )

    def try_out(self, step: str, code: str) -> None:
        """Run the code in the new environment, to prove that the library works."""
        self.show_step("trying it")
        self.run(step, [self.python, "-I", "-c", code])

    def run(self, step: str, command: Sequence[str]) -> str:
        """Run the command and return its output."""
        with OwnFolder() as space:  # pip unpacks gigabytes
            done = processes.run(command, environment={**os.environ, "TMPDIR": str(space)})
        if done.returncode:
            words = _last_error(done.stderr) or _last_error(done.stdout)
            raise ModelError(
                f"{self.environment.library} is not installed: {step} failed"
                f" ({end_of(done.returncode)}): {words}; check {self.environment.suspects} and the"
                f" free space (about {self.environment.gigabytes} GB), then run it again"
            )
        return done.stdout


def _last_error(text: str) -> str:
    """Return the last line that pip marks as an error, otherwise the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or [""])[-1]
