"""Converters: each makes model files of one format, with its library in a separate process.

Standard library only: the harness imports it.
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
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Generic, Protocol, TypeVar, Union

from reusebench.models.built_files import cached_path, ensure, fill, is_intact, weights_of
from reusebench.models.conversion.environments import ConverterEnvironment, PythonPackage, ShowStep
from reusebench.models.conversion.file_copies import UnreadableError, copy_files
from reusebench.models.errors import ConversionError
from reusebench.models.inputs.candidates import shape_text
from reusebench.models.recipe import NativeForm, NativeRecipe, OnnxFile, Recipe, RknnRecipe
from reusebench.system import processes
from reusebench.system.cache import (
    OwnFolder,
    ProcessError,
    cannot_write,
    end_of,
    run_in_another_process,
    written_whole,
)

__all__ = ["Converter", "NativeConverter"]

#: The kind of recipe that a converter takes.
_Recipe = TypeVar("_Recipe", RknnRecipe, NativeRecipe)
_Self = TypeVar("_Self", bound="Converter[Any]")

#: Program of the library's process: it reads jobs and passes them to the converter's program.
_LOOP = Path(__file__).resolve().with_name("loop.py")

#: Answer of the loop to a successful job.
_SUCCESS = "null"

#: Escape sequences that colour the libraries' output.
_COLOURS = re.compile(r"\x1b\[[\d;]*m")


class Installer(Protocol):
    """A function that makes an environment."""

    def __call__(self, show_step: ShowStep, python: str | None = None) -> Path:
        """Return the folder of the environment, made first if it is missing.

        `show_step` is called with a line before each step. `python` is the interpreter to use; None
        means any that fits.
        """


class Converter(ABC, Generic[_Recipe]):
    """A library that converts models in a separate process.

    The first conversion starts the process, and the end of the `with` block kills it.
    """

    #: Place of the library.
    environment: ClassVar[Union[ConverterEnvironment, PythonPackage]]
    #: Installs the environment; None if the library is a Python package, which pip installs.
    installer: ClassVar[Installer | None] = None
    #: Whether the user's ONNX files can be converted, not only the built-in networks.
    imports_onnx: ClassVar[bool] = True
    #: Advice for the user if they cannot.
    instead_of_onnx: ClassVar[str] = ""
    #: Whether an input may be a scalar; otherwise it becomes a tensor of one element.
    takes_scalars: ClassVar[bool] = True
    #: The file with `convert(job)`, which runs in the library's process.
    program: ClassVar[Path]
    #: A conversion that takes longer counts as hung. rknn-toolkit2 2.5.0 hangs while it fuses
    #: operators of some networks.
    time_limit_s: ClassVar[float] = 600.0

    def __init__(self) -> None:
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
        """Return the recipe for the source; raise ModelError if no such file can be made.

        `chip` is the chip of the target, if it has one. Only NPUs use `weightless` and `quantised`.
        """

    @classmethod
    def can_be_weightless(cls, chip: str | None) -> bool:  # noqa: ARG003
        """Whether files can lack weights, for contexts that share the weights of another one."""
        return False

    def remedy(self, recipe: _Recipe, words: str) -> str:  # noqa: ARG002
        """Return advice for a conversion that failed with the library's message `words`."""
        return (
            f"Change the network, or convert it yourself and give the {self.environment.makes} file"
        )

    def ensure_all(self, recipes: Sequence[_Recipe]) -> list[Path]:
        """Return the files from the cache, in order; make the missing and the damaged ones."""
        paths = []
        for recipe in recipes:
            path = cached_path(recipe)
            if not is_intact(path):
                # The source may be cached too, so it is made before the cache is locked.
                source = self._checked_source(recipe, path)
                fill(recipe, functools.partial(self.convert, recipe, source))
            paths.append(path)
        return paths

    def write(self, recipe: _Recipe, path: Path) -> None:
        """Write the recipe's file to `path`, not to the cache, with its weight file beside it."""
        source = self._checked_source(recipe, path)
        weights = weights_of(recipe, path)
        with (
            written_whole(path) as temporary,
            written_whole(weights) if weights else nullcontext() as temporary_weights,
        ):
            self.convert(recipe, source, temporary, temporary_weights)

    def convert(
        self, recipe: _Recipe, source: Path, path: Path, weights: Path | None = None
    ) -> None:
        """Convert the source into the file `path`; `weights` is its separate weight file, if any.

        The library reads only copies. Raises ConversionError with the library's last message.
        """
        library = self.environment.library
        without_elements = [tensor for tensor in recipe.source.inputs if 0 in tensor.shape]
        if without_elements:
            tensor = without_elements[0]
            words = (
                f"input {tensor.name} is {shape_text(tensor.shape)}, and {library} needs sizes of 1"
                " or more"
            )
            raise ConversionError(library, recipe.file_name, words)
        with OwnFolder() as folder:
            try:
                copied_recipe, copied_source = copy_files(recipe, source, folder)
                if not self.takes_scalars:
                    copied_recipe = _without_scalars(copied_recipe, copied_source)
            except UnreadableError as error:
                raise ConversionError(library, recipe.file_name, str(error)) from error
            job = self.job(copied_recipe, copied_source)
            job["output"] = str(path.absolute())
            job["weights"] = str(weights.absolute()) if weights else None
            failure = self._failure_of(job)
        if failure:
            raise ConversionError(library, recipe.file_name, failure)

    def folder(self) -> Path:
        """Return a folder for temporary files, removed at the end of the `with` block."""
        if self._folder is None:
            self._folder = self._resources.enter_context(OwnFolder())
        return self._folder

    def source(self, recipe: _Recipe) -> Path:
        """Return the ONNX file to convert, made first if it is missing."""
        source = recipe.source
        if isinstance(source, OnnxFile):
            return Path(source.path)
        return ensure(source)

    def job(self, recipe: _Recipe, source: Path) -> dict[str, Any]:
        """Return the job for the program, without the output files.

        All paths lead to copies, which the program may change.
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
        """Let the process do the job; return the failed step with the library's last message."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        log_begin = self._log.stat().st_size
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(job).encode() + b"\n")
        end = ""
        readable, _, _ = select.select([process.stdout], [], [], self.time_limit_s)
        if not readable:
            process.kill()
            end = f"not done after {self.time_limit_s:g} s"
        # The answer is empty if the process has ended.
        answer = process.stdout.readline().decode().strip()
        if answer == _SUCCESS:
            return None

        if answer:
            failure = json.loads(answer)
        else:
            self._process = None  # the next conversion starts another one
            failure = {"step": f"its process ({end or end_of(process.wait())})", "words": ""}
        log = self._log.read_bytes()[log_begin:].decode(errors="replace")
        return f"{failure['step']} failed: {failure['words'] or _last_error(log)}"

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the process in a folder of its own: a library may leave files where it runs."""
        folder = self.folder()
        self._log = folder / "log"
        log = self._resources.enter_context(self._log.open("wb"))
        command = [str(self.environment.python()), "-I", str(_LOOP), str(self.program)]
        # Temporary files that a killed library leaves are removed with the folder.
        self._process = processes.start(command, folder, {**os.environ, "TMPDIR": str(folder)}, log)
        self._resources.callback(processes.end, self._process)
        return self._process


class NativeConverter(Converter[NativeRecipe]):
    """A converter into float32 files for any chip."""

    @classmethod
    @abstractmethod
    def form(cls) -> NativeForm:
        """Return the format of the files."""

    @classmethod
    def recipe(
        cls,
        source: Recipe | OnnxFile,
        chip: str | None = None,  # noqa: ARG003
        weightless: bool = False,  # noqa: ARG003
        quantised: bool = False,  # noqa: ARG003
    ) -> NativeRecipe:
        """Return the recipe for the source."""
        return NativeRecipe(source, cls.form())


def _without_scalars(recipe: _Recipe, source: Path) -> _Recipe:
    """Make the scalar inputs of a copy tensors of one element; return its recipe with these.

    Raises UnreadableError if the file is no model.
    """
    origin = recipe.source
    inputs = [tensor if tensor.shape else replace(tensor, shape=(1,)) for tensor in origin.inputs]
    if not isinstance(origin, OnnxFile) or inputs == list(origin.inputs):
        return recipe
    try:
        run_in_another_process("reusebench.models.conversion.scalars", str(source))
    except ProcessError as error:
        raise UnreadableError(f"reading {source.name} failed: {error.words}") from error
    return replace(recipe, source=replace(origin, inputs=tuple(inputs)))


def _last_error(log: str) -> str:
    """Return the last line that rknn-toolkit2 marks as an error, otherwise the last line."""
    lines = [line.strip() for line in _COLOURS.sub("", log).splitlines() if line.strip()]
    errors = [line[2:] for line in lines if line.startswith("E ")]
    return (errors or lines or ["it printed nothing"])[-1]
