"""The model files that the user gives, with what their inputs are fed with."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from reusebench.harness.errors import NoModels, UnusableModel, UserError
from reusebench.harness.selection import chip_of
from reusebench.measured.plan import Context, Conversion, Model, Plan
from reusebench.measured.runtimes import RUNTIMES, RuntimeEntry
from reusebench.measured.runtimes.base import InputData, Interface
from reusebench.models import ConversionError, Converter, ModelError, OnnxFile, Recipe, converter_of
from reusebench.models.inputs.candidates import Given, candidates, shape_text
from reusebench.models.inputs.given import as_declared, given_arrays
from reusebench.models.inspection import rknn_file
from reusebench.models.recipe import ConvertedRecipe, NativeRecipe
from reusebench.models.weight_files import weight_files
from reusebench.system.cache import CacheError
from reusebench.system.user_files import ChangedFile, Pins, UserFileError, check_file
from reusebench.targets.chips import runs_models_for
from reusebench.targets.measured_process import interface_of, try_plan
from reusebench.targets.outcome import Failure
from reusebench.targets.target import THIS_INTERPRETER, Target

__all__ = [
    "InputShape",
    "ModelFile",
    "UserModels",
    "assumptions",
    "built_in_model",
    "conversion_text",
    "is_unchanged",
]


#: How the names of the files end that converters take.
_ONNX = ".onnx"
#: What Rockchip's library puts before its words.
_TIME = re.compile(r"\[\d\d:\d\d:\d\d\.\d+\] ")


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


class _DoesNotRun(Exception):
    """A model with certain inputs."""


@dataclass
class UserModels:
    """Reads the user's files, each once for each runtime, in processes of their own."""

    targets: Mapping[str, Target]
    time_limit_s: float
    shapes: Sequence[InputShape] = ()
    #: --inputs: a file of arrays (.npz).
    arrays: Path | None = None
    #: Whether files are converted to INT8; else to floating point.
    quantised: bool = True
    #: The files as they were when they were first read.
    pins: Pins = field(default_factory=Pins)
    #: Why runtimes left files out.
    left_out: list[str] = field(default_factory=list)
    #: By runtime and file: the model, or why there is none, since a conversion that fails takes its
    #: time too.
    _models: dict[tuple[str, ModelFile], Model | UnusableModel] = field(default_factory=dict)
    _interfaces: dict[tuple[str, Path], Interface] = field(default_factory=dict)

    def of(
        self, runtime: RuntimeEntry, files: Sequence[ModelFile], slaves: Sequence[ModelFile] = ()
    ) -> tuple[Model, ...]:
        """Return the models; slaves share the weights of another one, and are converted without
        their own too.

        Raises NoModels where the runtime takes none of the files, UnusableModel where it cannot
        read or run one, or one cannot be converted, UserError if one is no file.
        """
        self.check(files)
        files = self._taken(runtime, files)
        self._check_names([self._interface(_reader(runtime, file), file) for file in files])
        models = []
        kind_of_converter = converter_of(runtime.suffix)
        with ExitStack() as resources:
            # Its process starts with the first conversion.
            converter = resources.enter_context(kind_of_converter()) if kind_of_converter else None
            for file in files:
                models.append(self._model(runtime, file, converter, file in slaves))
        return tuple(models)

    def check(self, files: Iterable[ModelFile]) -> None:
        """Pin the files; raise UserError if one cannot be read."""
        for file in files:
            for path in filter(None, (file.path, file.weightless)):
                self._check_file(path, file.option)

    def _check_file(self, path: Path, option: str) -> None:
        """Pin the file, and those beside it with its weights; raise UserError if one of them
        cannot be read.
        """
        try:
            resolved = check_file(path)
        except UserFileError as error:
            remedy = f"Give a model file, or leave {option} out for the built-in set"
            raise UserError(f"{option} {error}. {remedy}") from None
        try:
            _digest(resolved, self.pins)
        except UserFileError as error:
            raise UserError(f"{option} {error}") from None

    def _taken(self, runtime: RuntimeEntry, files: Sequence[ModelFile]) -> list[ModelFile]:
        """Return the files that the runtime reads; if there are none, those that can be converted
        for it.
        """
        others = {suffix for entry in RUNTIMES for suffix in entry.suffixes} - {*runtime.suffixes}
        taken = [file for file in files if file.path.suffix not in others]
        taken = taken or [file for file in files if _reader(runtime, file) is not runtime]
        left_out = []
        for file in files:
            if file in taken:
                continue
            if _reader(runtime, file) is not runtime:
                reason = (
                    f"it is not converted, since {runtime.name} has {runtime.suffix} files of"
                    " its own"
                )
            else:
                readers = [entry.name for entry in RUNTIMES if file.path.suffix in entry.suffixes]
                reason = (
                    f"{runtime.name} reads {' and '.join(runtime.suffixes)}"
                    f" files{_how_made(runtime)}. Give one, or choose another --runtime:"
                    f" {' or '.join(readers)} reads {file.path.suffix}"
                )
            left_out.append(f"{file.option} {file.path}: {reason}")
        self.left_out += left_out
        if not taken:
            raise NoModels("; ".join(left_out))
        return taken

    def _target(self, runtime: RuntimeEntry) -> Target:
        """Return where the runtime runs; one that reads for another, and is not measured, runs
        here.
        """
        return self.targets.get(runtime.name, THIS_INTERPRETER)

    def _interface(self, runtime: RuntimeEntry, file: ModelFile) -> Interface:
        key = (runtime.name, file.path.resolve())
        if key not in self._interfaces:
            target = self._target(runtime)
            origin = _checked_origin(file, target) if runtime.suffix == ".rknn" else ""
            interface = interface_of(target, runtime.name, str(key[1]), self.time_limit_s)
            if isinstance(interface, Failure):
                raise UnusableModel(
                    f"{file.option} {file.path.name}{origin} cannot be loaded: {interface.message}"
                )
            self._interfaces[key] = interface
        return self._interfaces[key]

    def _check_names(self, interfaces: Sequence[Interface]) -> None:
        """Raise UnusableModel where the user names an input that no model has."""
        names = {tensor.name for interface in interfaces for tensor in interface.inputs}
        known = f"The models have: {', '.join(sorted(names))}"
        for shape in self.shapes:
            if shape.name is None and not any(
                len(interface.inputs) == 1 for interface in interfaces
            ):
                raise UnusableModel(
                    f"--shape {shape_text(shape.shape)} is of the only input, and there are"
                    f" several. {known}"
                )
            if shape.name not in (None, *names):
                raise UnusableModel(f"--shape {shape.name}: no model has such an input. {known}")
        unknown = sorted(set(self._arrays()[0]) - names)
        if unknown:
            raise UnusableModel(
                f"--inputs {self.arrays}: no model has an input {unknown[0]!r}. {known}"
            )

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
                raise UserError(
                    f"--shape {name}={shape_text(shape.shape)}: {array}. Leave one of the two out"
                )
            given.setdefault(name, Given(shape.shape))
        try:
            return as_declared(given, interface)
        except CacheError as error:
            raise UserError(f"--inputs {self.arrays}: {error}") from None

    def _model(
        self,
        runtime: RuntimeEntry,
        file: ModelFile,
        converter: Converter[Any] | None,
        weightless: bool,
    ) -> Model:
        key = (runtime.name, file)
        if key not in self._models:
            try:
                self._models[key] = self._first_that_runs(runtime, file, converter, weightless)
            except UnusableModel as error:
                self._models[key] = error
        model = self._models[key]
        if isinstance(model, UnusableModel):
            raise model
        return model

    def _first_that_runs(
        self,
        runtime: RuntimeEntry,
        file: ModelFile,
        converter: Converter[Any] | None,
        weightless: bool,
    ) -> Model:
        """Return the model with the first inputs that one inference runs with, converted where it
        must be.

        A file that is to be converted is tried by the runtime that reads it first, which takes less
        time.
        """
        path = file.path.resolve()
        reader = _reader(runtime, file)
        interface = self._interface(reader, file)
        weightless_path = str(file.weightless.resolve()) if file.weightless else None
        model = Model(path.stem, str(path), _digest(path, self.pins), weightless=weightless_path)
        try:
            given = self._given(interface)
            attempts = candidates(interface, given)
        except ModelError as error:
            raise UnusableModel(
                f"{file.option} {path.name}: {error}. Change --shape or --inputs"
            ) from None
        needs_trial = len(attempts) > 1 or any(tensor.name in given for tensor in interface.inputs)
        tried: list[str] = []
        reasons: list[str] = []
        refusal = ""
        for inputs in attempts:
            tried.append(_shapes_text(inputs))
            fed = self._fed(model, interface, inputs)
            try:
                if needs_trial:
                    self._try(reader, fed)
                if reader is runtime:
                    return fed
            except _DoesNotRun as error:
                reasons.append(str(error))
                continue
            assert converter is not None
            source = OnnxFile(fed.path, fed.digest, fed.inputs, bool(_free_inputs(interface)))
            recipe = self._recipe(file, source, converter, weightless=False)
            try:
                made = self._converted(runtime, file, fed, recipe, converter, weightless)
                if needs_trial:
                    self._try(runtime, made)
                return made
            except (ConversionError, _DoesNotRun) as error:
                words = _refusal(recipe, converter, error)
            if words == refusal:
                break  # Equal words at two shapes: they are not to blame.
            refusal = refusal or words
        with_inputs = f"with {'; '.join(dict.fromkeys(tried))}"
        if refusal:
            raise UnusableModel(f"{file.option} {path.name}, {with_inputs}: {refusal}")
        raise UnusableModel(
            f"{file.option} {path.name} does not run {with_inputs}: {reasons[0]}. Give another"
            " shape with --shape NAME=SIZES, or data with --inputs FILE.npz"
        )

    def _fed(self, model: Model, interface: Interface, inputs: tuple[InputData, ...]) -> Model:
        """Return the model with these inputs: its name tells the shapes that the file leaves
        free.
        """
        shapes = [tensor for tensor in inputs if tensor.name in _free_inputs(interface)]
        name = " ".join([model.name, *(shape_text(tensor.shape) for tensor in shapes)])
        digest = model.digest
        if shapes or any(tensor.file or tensor.value is not None for tensor in inputs):
            digest = _digest_of_inputs(digest, inputs, self._arrays()[1])
        return replace(model, name=name, digest=digest, inputs=inputs)

    def _recipe(
        self, file: ModelFile, source: OnnxFile, converter: Converter[Any], weightless: bool
    ) -> ConvertedRecipe:
        """Return what makes a file of the source; raise NoModels where there can be none for the
        chip.
        """
        try:
            recipe: ConvertedRecipe = converter.recipe(
                source, chip_of(self.targets), weightless, self.quantised
            )
            return recipe
        except ModelError as error:
            raise self._not_converted(file, error) from None

    def _converted(
        self,
        runtime: RuntimeEntry,
        file: ModelFile,
        model: Model,
        recipe: ConvertedRecipe,
        converter: Converter[Any],
        weightless: bool,
    ) -> Model:
        """Return a model of an ONNX file, with its inputs, as the runtime's own; its name tells an
        NPU's precision.

        Raises ConversionError if the converter refuses it, NoModels where it cannot be asked.
        """
        recipes = [recipe]
        if weightless and converter.can_be_weightless(chip_of(self.targets)):
            assert isinstance(recipe.source, OnnxFile)
            recipes.append(self._recipe(file, recipe.source, converter, weightless=True))
        try:
            path, *slaves = converter.ensure_all(recipes)
        except ConversionError:
            raise
        except (CacheError, ModelError) as error:
            raise self._not_converted(file, error) from None
        try:
            self.pins.check(Path(model.path))
        except ChangedFile as error:
            for made in (path, *slaves):  # perhaps of what the source is now
                made.unlink(missing_ok=True)
            raise UnusableModel(f"{file.option} {error}") from None
        # What is quantised is fed with what its file declares: pixels.
        is_native = isinstance(recipe, NativeRecipe)
        return Model(
            model.name if is_native else f"{model.name} {recipe.precision}",
            str(path),
            # Not of the file: rknn-toolkit2 never writes the same bytes twice.
            hashlib.sha256(f"{model.digest} {recipe.form}".encode()).hexdigest(),
            weightless=str(slaves[0]) if slaves else model.weightless,
            inputs=(
                self._inputs_of(runtime, replace(file, path=path), model.inputs)
                if is_native
                else ()
            ),
            conversion=Conversion(
                model.path,
                converter.environment.title,
                recipe.precision,
                model.inputs,
                recipe.calibrates,
            ),
            origin=model.digest,
        )

    def _inputs_of(
        self, runtime: RuntimeEntry, file: ModelFile, sources: Sequence[InputData]
    ) -> tuple[InputData, ...]:
        """Return what a converted file is fed with: the values and data of its source's inputs, in
        their order.

        None if all are noise. The file may have other names, and channels last.
        """
        own = self._interface(runtime, file)
        if len(own.inputs) != len(sources) or all(
            source.value is None and not source.file for source in sources
        ):
            return ()
        pairs = list(zip(own.inputs, sources))
        given = as_declared(
            {tensor.name: Given(source.shape, source.file) for tensor, source in pairs}, own
        )
        fed = []
        for tensor, source in pairs:
            said = given[tensor.name]
            fed.append(InputData(tensor.name, tensor.type, said.shape, source.value, said.file))
        return tuple(fed)

    def _not_converted(self, file: ModelFile, error: Exception) -> NoModels:
        self.left_out.append(f"{file.option} {file.path} is not converted: {error}")
        return NoModels(self.left_out[-1])

    def _try(self, runtime: RuntimeEntry, model: Model) -> None:
        """Raise _DoesNotRun unless one inference runs."""
        plan = Plan("trial", None, runtime.name, (model,), (Context(None, 0),), cores=1, rounds=1)
        failure = try_plan(self._target(runtime), plan, self.time_limit_s)
        if failure:
            raise _DoesNotRun(failure.message)


def built_in_model(pins: Pins, recipe: Recipe, path: Path, weightless: Path | None = None) -> Model:
    """Return a model of the built-in set, whose file says all of its inputs."""
    weightless_path = str(weightless) if weightless else None
    return Model(
        path.stem, str(path), _digest(path, pins), weightless=weightless_path, origin=recipe.label
    )


def is_unchanged(model: Model, pins: Pins) -> bool:
    """Whether a stored model's file is still the one that its digest, with its inputs, was taken
    of.
    """
    conversion = model.conversion
    path, inputs = (
        (conversion.source, conversion.inputs) if conversion else (model.path, model.inputs)
    )
    try:
        digest = _digest(Path(path), pins)
        _digest(Path(model.path), pins)
    except UserFileError:
        return False
    # Arrays of a file are unpacked in a folder that is called by its digest.
    arrays = next((Path(tensor.file).parent.name for tensor in inputs if tensor.file), "")
    digests = (digest, _digest_of_inputs(digest, inputs, arrays))
    if conversion is None:
        return model.digest in digests
    labels = [OnnxFile(path, known, inputs, has_free_sizes=False).label for known in digests]
    return Path(model.path).name.startswith(tuple(labels))


def assumptions(model: Model) -> str:
    """Return what was assumed of a model's inputs, with the option that says it; empty where
    nothing was.
    """
    conversion = model.conversion
    inputs, path = (
        (conversion.inputs, conversion.source) if conversion else (model.inputs, model.path)
    )
    shapes = [
        f"--shape {tensor.name}={shape_text(tensor.shape)}" for tensor in inputs if tensor.assumed
    ]
    values = [
        f"{tensor.name} of {tensor.value}" for tensor in model.inputs if tensor.value is not None
    ]
    parts = [" ".join(shapes)] if shapes else []
    parts += [f"{', '.join(values)} (--inputs FILE.npz gives others)"] if values else []
    return f"assumed for {Path(path).name}: {', '.join(parts)}" if parts else ""


def conversion_text(model: Model) -> str:
    """Return how a model was converted, and with which data; empty if it was not."""
    conversion = model.conversion
    if conversion is None:
        return ""
    text = (
        f"{Path(conversion.source).name} is converted to {conversion.precision} by {conversion.by}"
    )
    if not conversion.is_calibrated:
        return text
    without_data = [tensor.name for tensor in conversion.inputs if not tensor.file]
    if not without_data:
        return f"{text}, calibrated with the data of --inputs"
    return (
        f"{text}, calibrated with noise in {', '.join(without_data)} (--inputs FILE.npz gives data)"
    )


def _free_inputs(interface: Interface) -> set[str]:
    """Return the names of the inputs whose sizes the file leaves free."""
    return {
        tensor.name
        for tensor in interface.inputs
        if any(isinstance(size, str) for size in tensor.dimensions)
    }


def _shapes_text(inputs: Sequence[InputData]) -> str:
    return ", ".join(f"{tensor.name}={shape_text(tensor.shape)}" for tensor in inputs)


def _digest_of_inputs(digest: str, inputs: Sequence[InputData], arrays: str) -> str:
    """Return the digest of a model with these inputs; where a file of them is unpacked does not
    count.
    """
    fed = [asdict(replace(tensor, file=None, assumed=())) for tensor in inputs]
    has_data = any(tensor.file for tensor in inputs)
    return hashlib.sha256(
        json.dumps([digest, fed, arrays if has_data else ""]).encode()
    ).hexdigest()


def _reader(runtime: RuntimeEntry, file: ModelFile) -> RuntimeEntry:
    """Return the runtime that reads the file as it is: itself, or the one of the kind that its own
    are made of.
    """
    converter = converter_of(runtime.suffix)
    if file.path.suffix in runtime.suffixes or converter is None or not converter.imports_onnx:
        return runtime
    onnx = next(entry for entry in RUNTIMES if entry.suffix == _ONNX)
    return onnx if file.path.suffix == _ONNX else runtime


def _how_made(runtime: RuntimeEntry) -> str:
    """Return what to say of the files that a runtime takes, besides their kinds, as an
    insertion.
    """
    converter = converter_of(runtime.suffix)
    if converter is None:
        return ""
    if converter.imports_onnx:
        return f", and {_ONNX} files, which {converter.environment.library} converts"
    return f", and {converter.instead_of_onnx}"


def _refusal(
    recipe: ConvertedRecipe, converter: Converter[Any], error: ConversionError | _DoesNotRun
) -> str:
    """Return why a file is not converted, or does not run then, and what to do."""
    title = converter.environment.title
    if isinstance(error, ConversionError):
        words = error.words.rstrip("!. ")
        return f"{title} cannot convert it: {words}. {converter.remedy(recipe, error.words)}"
    return (
        f"converted by {title} it does not run: {_TIME.sub('', str(error))}."
        f" {converter.remedy(recipe, '')}"
    )


def _checked_origin(file: ModelFile, target: Target) -> str:
    """Return who made a .rknn file, as an insertion; raise UnusableModel where it cannot run on the
    target's chip.
    """
    text = ""
    for path in filter(None, (file.weightless, file.path)):
        try:
            origin = rknn_file.origin(path)
        except ModelError as error:
            raise UnusableModel(f"{file.option} {error}. Copy or convert it again") from None
        if origin is None:
            continue
        chips = " and ".join(origin.platforms)
        text = f" (by rknn-toolkit2 {origin.toolkit_version} for {chips})"
        if target.chip and not any(
            runs_models_for(target.chip, platform) for platform in origin.platforms
        ):
            raise UnusableModel(
                f"{file.option} {path.name} is for {chips}, and {target.name} has the NPU of"
                f" {target.chip}, which is another one. Convert the ONNX file for that chip"
                " (target_platform of rknn-toolkit2), or give the .onnx file itself"
            )
    return text


def _digest(path: Path, pins: Pins) -> str:
    """Return the SHA-256 of the file and of those beside it that have its weights; raise
    UserFileError.
    """
    return pins.digest(check_file(path), *weight_files(path))
