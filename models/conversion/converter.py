"""Makes files of a library's own kind, with the library in a process of its own.

Standard library only: the harness has files made.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

from cache import cannot_write, end_of, written_whole
from models.built_files import cached_path, fill, is_intact
from models.conversion.environments import Environment
from models.errors import ModelError
from models.recipe import MegEngineRecipe, RknnRecipe

__all__ = ["ConvertedRecipe", "Converter"]

#: What a converter makes files of.
ConvertedRecipe = TypeVar("ConvertedRecipe", RknnRecipe, MegEngineRecipe)
_Self = TypeVar("_Self", bound="Converter[Any]")

#: What runs there: it reads jobs and hands each to the library's own program.
_LOOP = Path(__file__).resolve().with_name("loop.py")

#: Its answer when all went well.
_SUCCESS = "null"

#: What a library may colour its lines with.
_COLOURS = re.compile(r"\x1b\[[\d;]*m")


class Converter(ABC, Generic[ConvertedRecipe]):
    """The library's process, started with the first conversion and killed at the end of the `with` block."""

    def __init__(self, environment: Environment, program: Path) -> None:
        """Take the environment that it runs in and the file that has `convert(job)`."""
        self._environment = environment
        self._program = program
        self._resources = ExitStack()
        self._process: subprocess.Popen[str] | None = None
        self._folder: Path | None = None
        self._log = Path()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._resources.close()

    def ensure_all(self, recipes: Sequence[ConvertedRecipe]) -> list[Path]:
        """Return the files from the cache, in order, made first where they are missing or damaged."""
        return [self._ensure(recipe) for recipe in recipes]

    def write(self, recipe: ConvertedRecipe, path: Path) -> None:
        """Write the recipe's file to path and not into the cache."""
        source = self._source_of(recipe, path)
        with written_whole(path) as temporary:
            self.convert(recipe, source, temporary)

    def convert(self, recipe: ConvertedRecipe, source: Path, path: Path) -> None:
        """Write the file that is made of source to path; raise ModelError with the library's last words."""
        process = self._process or self._start()
        said_before = self._log.stat().st_size
        answer = _ask(process, json.dumps({**self.job(recipe, source), "output": str(path.absolute())}))
        if answer == _SUCCESS:
            return
        said = self._log.read_bytes()[said_before:].decode(errors="replace")
        failure = json.loads(answer) if answer else {"step": f"its process ({end_of(process.wait())})", "words": ""}
        raise ModelError(
            f"{self._environment.library} could not make {recipe.file_name}: {failure['step']} failed: "
            f"{failure['words'] or _last_error(said)}"
        )

    def folder(self) -> Path:
        """Return a folder for temporary files, which is removed at the end of the `with` block."""
        if self._folder is None:
            temporary = tempfile.TemporaryDirectory(prefix="reusebench-")
            self._folder = Path(self._resources.enter_context(temporary))
        return self._folder

    @abstractmethod
    def source(self, recipe: ConvertedRecipe) -> Path:
        """Return what the recipe's file is made of, made first where it is missing."""

    @abstractmethod
    def job(self, recipe: ConvertedRecipe, source: Path) -> dict[str, Any]:
        """Return what the program is told besides the file to write."""

    def _ensure(self, recipe: ConvertedRecipe) -> Path:
        path = cached_path(recipe)
        if not is_intact(path):
            # Before the cache is locked: it may go there too.
            source = self._source_of(recipe, path)
            fill(recipe, lambda temporary: self.convert(recipe, source, temporary))
        return path

    def _source_of(self, recipe: ConvertedRecipe, path: Path) -> Path:
        self._environment.check_installed()
        try:
            return self.source(recipe)
        except OSError as error:
            raise cannot_write(path, error) from error

    def _start(self) -> subprocess.Popen[str]:
        """Start the process in the folder of its own: a library may leave files where it runs."""
        folder = self.folder()
        self._log = folder / "log"
        log = self._resources.enter_context(self._log.open("wb"))
        self._process = subprocess.Popen(
            [self._environment.python(), "-I", _LOOP, self._program],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        self._resources.callback(_kill, self._process)
        return self._process


def _ask(process: subprocess.Popen[str], job: str) -> str:
    """Return the answer, or nothing if the process ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        print(job, file=process.stdin, flush=True)
    return process.stdout.readline().strip()


def _kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    # Closing the pipe fails if the process ended before it read all.
    with suppress(BrokenPipeError), process:
        pass


def _last_error(said: str) -> str:
    """Return the last line that rknn-toolkit2 marks as an error, or the last line, without colours."""
    lines = [line.strip() for line in _COLOURS.sub("", said).splitlines() if line.strip()]
    errors = [line[2:] for line in lines if line.startswith("E ")]
    return (errors or lines or ["it printed nothing"])[-1]
