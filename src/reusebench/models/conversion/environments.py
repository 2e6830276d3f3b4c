"""Libraries whose pins clash with the project's, each in a Python environment of its own in the
user's cache.

Standard library only, since the harness looks up here whether they are installed.
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
from reusebench.system.files import UNFINISHED

__all__ = ["ConverterEnvironment", "Installation", "PythonPackage", "ShowStep"]

#: Exits with 0 on a Python within bounds that can make environments.
_PYTHON_FITS = (
    "import sys, venv, ensurepip; sys.exit(not {oldest} <= sys.version_info[:2] <= {newest})"
)

#: Where an environment has its interpreter.
_PYTHON = "bin/python"

#: Is called with a line before every step.
ShowStep = Callable[[str], None]


@dataclass(frozen=True)
class ConverterEnvironment:
    """One library with a Python of its own, and the words for a user who lacks it."""

    #: Its published name; in lower case also its folder's name in the cache.
    library: str
    #: The one version that is installed and used, so that figures of two machines compare.
    version: str
    #: Part of the folder's name: raise it when what is installed changes, so that every user gets
    #: the new set.
    revision: int
    #: The files that it makes: ".rknn".
    makes: str
    #: What `reusebench models install` calls it.
    command: str
    #: About what it takes in the cache.
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

    @property
    def title(self) -> str:
        """The library with its version."""
        return f"{self.library} {self.version}"

    def folder(self) -> Path:
        """Return the environment's folder, which may not exist yet; one per kind of machine."""
        return (
            cache_root()
            / self.library.lower()
            / f"{self.version}-{platform.machine()}-v{self.revision}"
        )

    def python(self) -> Path:
        """Return the interpreter that has the library."""
        return self.folder() / _PYTHON

    def installed(self) -> bool:
        """Whether the library is here: the folder appears whole, and goes stale if its Python is
        removed.
        """
        return self.python().exists()

    def check_installed(self) -> None:
        """Raise ModelError unless it is."""
        if not self.installed():
            raise ModelError(
                f"{self.makes} files are made by {self.library} {self.version}, which is not in"
                f" {self.folder()}; run `reusebench models install {self.command}` once (it takes"
                f" about {self.gigabytes} GB there)"
            )

    def install(
        self, show_step: ShowStep, python: str | None, fill: Callable[[Installation], None]
    ) -> Path:
        """Return the folder, made first where it is missing; raise ModelError, and leave nothing,
        if it fails.

        python is the interpreter to use; None: the first of the known names that fits. fill
        installs into the new environment and tries it.
        """
        folder = self.folder()
        if not self.installed():
            if sys.platform != "linux" or platform.machine() not in self.machines:
                raise ModelError(
                    f"there is no {self.library} for {platform.system()} on {platform.machine()};"
                    f" make the {self.makes} files on Linux on {self.machines_in_words}, with"
                    " --output, and copy them here"
                )
            python = self._fitting_python([python] if python else [sys.executable, *self.pythons])
            with locked(folder):
                if not self.installed():
                    self._make(python, show_step, fill)
        return folder

    def _fitting_python(self, names: Sequence[str]) -> str:
        """Return the first that runs and fits: what a version manager puts in the path may do
        neither.
        """
        fits = _PYTHON_FITS.format(oldest=self.oldest_python, newest=self.newest_python)
        for name in names:
            path = shutil.which(name)
            if path and processes.run([path, "-I", "-c", fits]).returncode == 0:
                return path
        oldest, newest = (
            ".".join(map(str, version)) for version in (self.oldest_python, self.newest_python)
        )
        raise ModelError(
            f"{self.library} {self.version} needs a Python from {oldest} to {newest} with venv and"
            f" pip, and none of {', '.join(names)} is one; install one ({self.python_source}) or"
            " name one with --python"
        )

    def _make(self, python: str, show_step: ShowStep, fill: Callable[[Installation], None]) -> None:
        """Make the environment in a temporary folder, which becomes the folder in one step. Needs
        the lock.
        """
        folder = self.folder()
        temporary = folder.with_name(f".{folder.name}.{os.getpid()}{UNFINISHED}")
        try:
            # What killed installations left.
            for leftover in folder.parent.glob(f".{folder.name}.*{UNFINISHED}"):
                shutil.rmtree(leftover)
            try:
                show_step(f"environment for {self.library} {self.version} with {python}")
                installation = Installation(self, str(temporary / _PYTHON), show_step)
                installation.run(
                    "making the environment", [python, "-I", "-m", "venv", str(temporary)]
                )
                fill(installation)
                # A folder that is there already has lost its interpreter.
                shutil.rmtree(folder, ignore_errors=True)
                temporary.replace(folder)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
        except OSError as error:
            raise cannot_write(folder, error) from error


@dataclass(frozen=True)
class PythonPackage:
    """A library that lives beside this project, in the Python that runs it."""

    #: Its published name.
    library: str
    #: As it is imported.
    module: str
    #: The files that it makes: ".mnn".
    makes: str
    #: What installs it.
    install: str

    @property
    def version(self) -> str:
        """The one that is installed."""
        return importlib.metadata.version(self.library)

    @property
    def title(self) -> str:
        """The library with its version."""
        return f"{self.library} {self.version}"

    def python(self) -> Path:
        """Return the interpreter that has the library."""
        return Path(sys.executable)

    def installed(self) -> bool:
        """Whether the library is here; imports nothing of it."""
        return importlib.util.find_spec(self.module) is not None

    def check_installed(self) -> None:
        """Raise ModelError unless it is."""
        if not self.installed():
            raise ModelError(
                f"{self.makes} files are made by {self.library}, which is not installed:"
                f" {self.install}"
            )


@dataclass(frozen=True)
class Installation:
    """A new environment while it is filled; every step that fails raises ModelError."""

    environment: ConverterEnvironment
    #: The new environment's interpreter.
    python: str
    show_step: ShowStep

    def install(self, requirements: Path, *options: str) -> None:
        """Have pip install what the file lists, of which every version has the hashes of its files
        (make pins).
        """
        self.pip(
            "install", "--no-deps", "--require-hashes", *options, "--requirement", str(requirements)
        )

    def pip(self, command: str, *arguments: str) -> str:
        """Run pip as the user configured it and return what it printed; it takes wheels only and
        compiles nothing.
        """
        options = ["--disable-pip-version-check", "--no-input", "--only-binary", ":all:"]
        return self.run(
            f"pip {command}", [self.python, "-I", "-m", "pip", command, *options, *arguments]
        )

    def try_out(self, step: str, code: str) -> None:
        """Run the code in the new environment: the proof that the library works here."""
        self.show_step("trying it")
        self.run(step, [self.python, "-I", "-c", code])

    def run(self, step: str, command: Sequence[str]) -> str:
        """Run the command and return what it printed."""
        with OwnFolder() as space:  # pip unpacks gigabytes
            done = processes.run(command, environment={**os.environ, "TMPDIR": str(space)})
        if done.returncode:
            raise ModelError(
                f"{self.environment.library} is not installed: {step} failed"
                f" ({end_of(done.returncode)}):"
                f" {_last_words(done.stderr) or _last_words(done.stdout)}; check"
                f" {self.environment.suspects} and the free space (about"
                f" {self.environment.gigabytes} GB), then run it again"
            )
        return done.stdout


def _last_words(text: str) -> str:
    """Return the last line, or what pip calls its last error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or [""])[-1]
