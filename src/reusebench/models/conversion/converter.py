"""Makes files of a library's own kind, with the library in a process of its own.

Standard library only, since the harness imports it.
"""

from __future__ import annotations

import functools
import json
import os
import re
import select
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Generic, Protocol, TypeVar, Union

from reusebench.models.built_files import cached_path, ensure, fill, is_intact, weights_of
from reusebench.models.conversion.environments import ConverterEnvironment, PythonPackage, ShowStep
from reusebench.models.conversion.file_copies import UnreadableError, copy_files
from reusebench.models.errors import ConversionError
from reusebench.models.recipe import NativeForm, NativeRecipe, OnnxFile, Recipe, RknnRecipe
from reusebench.system import processes
from reusebench.system.cache import OwnFolder, cannot_write, end_of, written_whole

__all__ = ["Converter", "NativeConverter"]

#: Describes the file that a converter makes.
_Recipe = TypeVar("_Recipe", RknnRecipe, NativeRecipe)
_Self = TypeVar("_Self", bound="Converter[Any]")

#: Runs in the library's environment: it reads jobs and passes them to the library's own program.
_LOOP = Path(__file__).resolve().with_name("loop.py")

#: Its answer to a job that succeeded.
_SUCCESS = "null"

#: Escape sequences with which libraries colour their lines.
_COLOURS = re.compile(r"\x1b\[[\d;]*m")


class Installer(Protocol):
    """Makes an environment."""

    def __call__(self, show_step: ShowStep, python: str | None = None) -> Path:
        """Return its folder. show_step is called with a line before each step; python is the one to
        use, None: any.
        """


class Converter(ABC, Generic[_Recipe]):
    """The library's process, started with the first conversion and killed at the end of the `with`
    block.
    """

    #: Where the library is.
    environment: ClassVar[Union[ConverterEnvironment, PythonPackage]]
    #: Installs the environment; None: the library is a Python package, which pip installs.
    installer: ClassVar[Installer | None] = None
    #: Whether it converts the user's ONNX files, and not the built-in networks alone; if not, what
    #: to do instead.
    imports_onnx: ClassVar[bool] = True
    instead_of_onnx: ClassVar[str] = ""
    #: The file with `convert(job)`, which runs there.
    program: ClassVar[Path]
    #: A conversion that takes longer counts as hung: rknn-toolkit2 2.5.0 does hang, fusing
    #: operators of some networks.
    time_limit_s: ClassVar[float] = 600.0

    def __init__(self) -> None:
        """Start nothing yet."""
        self._resources = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._log = Path()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._resources.close()

    @classmethod
    @abstractmethod
    def recipe(
        cls, source: Recipe | OnnxFile, chip: str | None, weightless: bool, quantised: bool
    ) -> _Recipe:
        """Return what makes a file of the source; raise ModelError if there can be none.

        `chip` is the one of the target, if it has one; what is `weightless`, or `quantised`, is
        known of NPUs alone.
        """

    @classmethod
    def can_be_weightless(cls, chip: str | None) -> bool:  # noqa: ARG003
        """Whether there are files without weights, for contexts that share those of another one."""
        return False

    def remedy(self, recipe: _Recipe, words: str) -> str:  # noqa: ARG002
        """Return what to do where a file is not converted, with these last words of the
        library's.
        """
        return (
            f"Change the network, or convert it yourself and give the {self.environment.makes} file"
        )

    def ensure_all(self, recipes: Sequence[_Recipe]) -> list[Path]:
        """Return the files from the cache, in order, made first where they are missing or
        damaged.
        """
        paths = []
        for recipe in recipes:
            path = cached_path(recipe)
            if not is_intact(path):
                # Before the cache is locked: the source may go there too.
                source = self._checked_source(recipe, path)
                fill(recipe, functools.partial(self.convert, recipe, source))
            paths.append(path)
        return paths

    def write(self, recipe: _Recipe, path: Path) -> None:
        """Write the recipe's file to path and not into the cache, and its weights beside it where
        they are a file.
        """
        source = self._checked_source(recipe, path)
        weights = weights_of(recipe, path)
        with (
            written_whole(path) as temporary,
            written_whole(weights) if weights else nullcontext() as beside,
        ):
            self.convert(recipe, source, temporary, beside)

    def convert(
        self, recipe: _Recipe, source: Path, path: Path, weights: Path | None = None
    ) -> None:
        """Write the file that is made of source to path; to `weights` the weights, where they are a
        file of their own.

        The library gets copies of all that it reads. Raises ConversionError with the library's last
        words.
        """
        with OwnFolder() as folder:
            try:
                copied_recipe, copied_source = copy_files(recipe, source, folder)
            except UnreadableError as error:
                raise ConversionError(
                    self.environment.library, recipe.file_name, str(error)
                ) from error
            job = {**self.job(copied_recipe, copied_source), "output": str(path.absolute())}
            job["weights"] = str(weights.absolute()) if weights else None
            failure = self._failure_of(job)
        if failure:
            raise ConversionError(self.environment.library, recipe.file_name, failure)

    def folder(self) -> Path:
        """Return a folder for temporary files, which is removed at the end of the `with` block."""
        if self._folder is None:
            self._folder = self._resources.enter_context(OwnFolder())
        return self._folder

    def source(self, recipe: _Recipe) -> Path:
        """Return what the recipe's file is made of, made first where it is missing: an ONNX
        file.
        """
        source = recipe.source
        return Path(source.path) if isinstance(source, OnnxFile) else ensure(source)

    def job(self, recipe: _Recipe, source: Path) -> dict[str, Any]:
        """Return what the program needs besides the files to write; every path is a copy's, which
        it may change.
        """
        return {
            "onnx": str(source.absolute()),
            "inputs": [asdict(tensor) for tensor in recipe.source.inputs],
            "has_free_sizes": isinstance(recipe.source, OnnxFile) and recipe.source.has_free_sizes,
        }

    def _checked_source(self, recipe: _Recipe, path: Path) -> Path:
        self.environment.check_installed()
        try:
            return self.source(recipe)
        except OSError as error:
            raise cannot_write(path, error) from error

    def _failure_of(self, job: dict[str, Any]) -> str | None:
        """Have the process do the job; return the step that failed with the library's last words,
        None if none did.
        """
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        log_begin = self._log.stat().st_size
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(job).encode() + b"\n")
        end = ""
        if not select.select([process.stdout], [], [], self.time_limit_s)[0]:
            process.kill()
            end = f"not done after {self.time_limit_s:g} s"
        # Empty if the process has ended.
        answer = process.stdout.readline().decode().strip()
        if answer == _SUCCESS:
            return None
        log = self._log.read_bytes()[log_begin:].decode(errors="replace")
        if answer:
            failure = json.loads(answer)
        else:
            self._process = None  # the next conversion starts another one
            failure = {"step": f"its process ({end or end_of(process.wait())})", "words": ""}
        return f"{failure['step']} failed: {failure['words'] or _last_error(log)}"

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the process in a folder of its own, since a library may leave files where it
        runs.
        """
        folder = self.folder()
        self._log = folder / "log"
        log = self._resources.enter_context(self._log.open("wb"))
        command = [str(self.environment.python()), "-I", str(_LOOP), str(self.program)]
        # What a library that is killed leaves of its temporary files goes with the folder.
        self._process = processes.start(command, folder, {**os.environ, "TMPDIR": str(folder)}, log)
        self._resources.callback(processes.end, self._process)
        return self._process


class NativeConverter(Converter[NativeRecipe]):
    """A converter into float32 files for any chip."""

    @classmethod
    @abstractmethod
    def form(cls) -> NativeForm:
        """Return what its files have in common."""

    @classmethod
    def recipe(
        cls,
        source: Recipe | OnnxFile,
        chip: str | None = None,  # noqa: ARG003
        weightless: bool = False,  # noqa: ARG003
        quantised: bool = False,  # noqa: ARG003
    ) -> NativeRecipe:
        """Return what makes a file of the source."""
        return NativeRecipe(source, cls.form())


def _last_error(log: str) -> str:
    """Return the last line that rknn-toolkit2 marks as an error, or the last line, without
    colours.
    """
    lines = [line.strip() for line in _COLOURS.sub("", log).splitlines() if line.strip()]
    errors = [line[2:] for line in lines if line.startswith("E ")]
    return (errors or lines or ["it printed nothing"])[-1]
