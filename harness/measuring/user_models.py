"""The model files that the user gives, with what their inputs are fed with."""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from cache import CacheError
from harness.errors import NoModels, UnusableModel, UserError
from models import ModelError
from models.inputs.assumed import Given, candidates, shape_text
from models.inputs.given import as_declared, given_arrays
from runtimes import RUNTIMES, RuntimeEntry
from runtimes.base import Input, Interface
from scenarios.plan import Context, Model, Plan
from targets.base import Target
from targets.measured_process import interface_of, try_plan
from targets.outcome import Failure

__all__ = ["InputShape", "ModelFile", "UserModels", "assumptions", "built_in_model", "is_unchanged"]

#: What ONNX calls the name of a file with weights (onnx.proto, TensorProto.external_data).
_NAMES_A_FILE = b"location"


@dataclass(frozen=True)
class InputShape:
    """--shape NAME=1x3x320x320."""

    #: Of the input; None: of the only one.
    name: str | None
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ModelFile:
    """A file as the user gives it."""

    path: Path
    #: The option that gives it, which an error names.
    option: str = "--model"
    #: The same model without its weights: --resolution FILE,WEIGHTLESS.
    weightless: Path | None = None


@dataclass
class UserModels:
    """Reads the user's files, each once for each runtime, in processes of their own."""

    targets: Mapping[str, Target]
    time_limit_s: float
    shapes: Sequence[InputShape] = ()
    #: --inputs: a file of arrays (.npz).
    arrays: Path | None = None
    _models: dict[tuple[str, ModelFile], Model] = field(default_factory=dict)
    _interfaces: dict[tuple[str, Path], Interface] = field(default_factory=dict)

    def of(self, runtime: RuntimeEntry, files: Sequence[ModelFile]) -> tuple[Model, ...]:
        """Return the models.

        Raises NoModels where the runtime takes other files, UnusableModel where it cannot read or run one, UserError
        where one is no file.
        """
        paths = {}
        for file in files:
            paths[file] = _checked(file.path, file.option)
            if file.weightless:
                _checked(file.weightless, file.option)
        for file in files:
            _check_suffix(runtime, file)
        for file, path in paths.items():
            if (runtime.name, path) not in self._interfaces:
                self._interfaces[runtime.name, path] = self._interface(runtime, file, path)
        self._check_names([self._interfaces[runtime.name, path] for path in paths.values()])
        for file, path in paths.items():
            if (runtime.name, file) not in self._models:
                self._models[runtime.name, file] = self._model(runtime, file, path)
        return tuple(self._models[runtime.name, file] for file in files)

    def _interface(self, runtime: RuntimeEntry, file: ModelFile, path: Path) -> Interface:
        interface = interface_of(self.targets[runtime.name], runtime.name, str(path), self.time_limit_s)
        if isinstance(interface, Failure):
            raise UnusableModel(f"{file.option} {path.name} cannot be read: {interface.reason}")
        return interface

    def _check_names(self, interfaces: Sequence[Interface]) -> None:
        """Raise UnusableModel where the user names an input that no model has."""
        names = {tensor.name for interface in interfaces for tensor in interface.inputs}
        known = f"The models have: {', '.join(sorted(names))}"
        for shape in self.shapes:
            if shape.name is None and not any(len(interface.inputs) == 1 for interface in interfaces):
                raise UnusableModel(
                    f"--shape {shape_text(shape.shape)} is of the only input, and there are several. {known}"
                )
            if shape.name not in (None, *names):
                raise UnusableModel(f"--shape {shape.name}: no model has such an input. {known}")
        unknown = sorted(set(self._arrays()[0]) - names)
        if unknown:
            raise UnusableModel(f"--inputs {self.arrays}: no model has an input {unknown[0]!r}. {known}")

    def _arrays(self) -> tuple[dict[str, Given], str]:
        """Return the given arrays by the names of inputs, and the digest of their file."""
        if self.arrays is None:
            return {}, ""
        try:
            return given_arrays(self.arrays)
        except (CacheError, ModelError) as error:
            raise UserError(f"--inputs {error}") from None

    def _given(self, interface: Interface) -> dict[str, Given]:
        """Return what the user says of the inputs of a model."""
        given = dict(self._arrays()[0])
        for shape in self.shapes:
            name = shape.name
            if name is None:
                if len(interface.inputs) > 1:
                    continue
                name = interface.inputs[0].name
            if name in given and given[name].shape != shape.shape:
                array = f"the array of --inputs is {shape_text(given[name].shape)}"
                raise UserError(f"--shape {name}={shape_text(shape.shape)}: {array}. Leave one of the two out")
            given.setdefault(name, Given(shape.shape))
        try:
            return as_declared(given, interface)
        except CacheError as error:
            raise UserError(f"--inputs {self.arrays}: {error}") from None

    def _model(self, runtime: RuntimeEntry, file: ModelFile, path: Path) -> Model:
        interface = self._interfaces[runtime.name, path]
        weightless = str(file.weightless.resolve()) if file.weightless else None
        model = Model(path.stem, str(path), _digest(path), weightless=weightless)
        try:
            given = self._given(interface)
            attempts = candidates(interface, given)
        except ModelError as error:
            raise UnusableModel(f"{file.option} {path.name}: {error}. Change --shape or --inputs") from None
        needs_trial = len(attempts) > 1 or any(tensor.name in given for tensor in interface.inputs)
        inputs = self._first_that_runs(runtime, file, model, attempts) if needs_trial else attempts[0]
        shapes = [tensor for tensor in inputs if tensor.name in _free_inputs(interface)]
        if shapes:
            texts = [shape_text(tensor.shape) for tensor in shapes]
            model = replace(model, name=" ".join([model.name, *texts]))
        if shapes or any(tensor.file or tensor.value is not None for tensor in inputs):
            digest = _digest_of_inputs(model.digest, inputs, self._arrays()[1])
            model = replace(model, digest=digest)
        return replace(model, inputs=inputs)

    def _first_that_runs(
        self, runtime: RuntimeEntry, file: ModelFile, model: Model, attempts: Sequence[tuple[Input, ...]]
    ) -> tuple[Input, ...]:
        """Return the first inputs that one inference runs with."""
        failures = []
        for inputs in attempts:
            trial = replace(model, inputs=inputs)
            plan = Plan("trial", None, runtime.name, (trial,), (Context(None, 0),), cores=1, rounds=1)
            failure = try_plan(self.targets[runtime.name], plan, self.time_limit_s)
            if failure is None:
                return inputs
            failures.append(failure)
        tried = "; ".join(dict.fromkeys(map(_shapes_text, attempts)))
        raise UnusableModel(
            f"{file.option} {file.path.name} does not run with {tried}: {failures[0].reason}. Give another shape with "
            "--shape NAME=SIZES, or data with --inputs FILE.npz"
        )


def built_in_model(path: Path, weightless: Path | None = None) -> Model:
    """Return a model of the built-in set, whose file says all of its inputs."""
    return Model(path.stem, str(path), _digest(path), weightless=str(weightless) if weightless else None)


def is_unchanged(model: Model) -> bool:
    """Whether a stored model's file is still the one that its digest, with its inputs, was taken of."""
    digest = _digest(Path(model.path))
    # Arrays of a file are unpacked in a folder that is called by its digest.
    arrays = next((Path(tensor.file).parent.name for tensor in model.inputs if tensor.file), "")
    return model.digest in (digest, _digest_of_inputs(digest, model.inputs, arrays))


def assumptions(model: Model) -> str:
    """Return what was assumed of a model's inputs, with the option that says it; empty where nothing was."""
    shapes = [f"--shape {tensor.name}={shape_text(tensor.shape)}" for tensor in model.inputs if tensor.assumed]
    values = [f"{tensor.name} of {tensor.value}" for tensor in model.inputs if tensor.value is not None]
    parts = [" ".join(shapes)] if shapes else []
    parts += [f"{', '.join(values)} (--inputs FILE.npz gives others)"] if values else []
    return f"assumed for {Path(model.path).name}: {', '.join(parts)}" if parts else ""


def _free_inputs(interface: Interface) -> set[str]:
    """Return the names of the inputs whose sizes the file leaves free."""
    return {tensor.name for tensor in interface.inputs if any(isinstance(size, str) for size in tensor.dimensions)}


def _shapes_text(inputs: Sequence[Input]) -> str:
    return ", ".join(f"{tensor.name}={shape_text(tensor.shape)}" for tensor in inputs)


def _digest_of_inputs(digest: str, inputs: Sequence[Input], arrays: str) -> str:
    """Return the digest of a model with these inputs; where a file of them is unpacked does not count."""
    fed = [asdict(replace(tensor, file=None, assumed=())) for tensor in inputs]
    has_data = any(tensor.file for tensor in inputs)
    return hashlib.sha256(json.dumps([digest, fed, arrays if has_data else ""]).encode()).hexdigest()


def _check_suffix(runtime: RuntimeEntry, file: ModelFile) -> None:
    """Raise NoModels where the file has the suffix of another runtime's models."""
    others = {entry.suffix for entry in RUNTIMES} - {runtime.suffix}
    if file.path.suffix in others:
        raise NoModels(
            f"{file.option} {file.path}: {runtime.name} reads {runtime.suffix} files. Give one, or choose another "
            "--runtime"
        )


def _checked(path: Path, option: str) -> Path:
    path = path.resolve()
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "does not exist"
        raise UserError(f"{option} {path}: {problem}. Give a model file, or leave {option} out for the built-in set")
    if path.stat().st_size == 0:
        raise UserError(f"{option} {path}: the file is empty. Export or copy it again")
    return path


def _digest(path: Path) -> str:
    """Return the SHA-256 of the file and of every file beside it that it names: ONNX keeps large weights there."""
    digest = hashlib.sha256()
    with _mapped(path) as content:
        digest.update(content)
        # Looked for first: a search for the name of each of a hundred files takes seconds.
        siblings = sorted(path.parent.iterdir()) if content.find(_NAMES_A_FILE) >= 0 else []
        for sibling in siblings:
            has_weights = sibling != path and sibling.is_file() and sibling.stat().st_size > 0
            if has_weights and len(sibling.name) > 3 and content.find(sibling.name.encode()) >= 0:
                with _mapped(sibling) as weights:
                    digest.update(weights)
    return digest.hexdigest()


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    """Yield the file's bytes, which may be gigabytes."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        yield content
