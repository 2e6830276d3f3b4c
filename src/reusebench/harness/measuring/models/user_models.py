"""The models of a session whose files the user gives: read, converted if necessary, and tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reusebench.harness.errors import NoModels, UnusableModel, UserError
from reusebench.harness.measuring.models.given_inputs import GivenInputs
from reusebench.harness.measuring.models.model_conversion import (
    ModelConversion,
    how_made,
    reader_of,
)
from reusebench.harness.measuring.models.model_files import (
    InputShape,
    ModelFile,
    digest_with_inputs,
    model_digest,
)
from reusebench.harness.measuring.models.model_trials import DoesNotRun, ModelTrials
from reusebench.harness.selection import chip_of
from reusebench.measured.plan import Model
from reusebench.measured.runtimes import RUNTIMES, RuntimeEntry
from reusebench.measured.runtimes.base import InputData, Interface
from reusebench.models import ConversionError, Converter, ModelError, OnnxFile, converter_of
from reusebench.models.inputs.candidates import candidates, shape_text
from reusebench.system.user_files import Pins, UserFileError, check_file
from reusebench.targets.target import Target

__all__ = ["UserModels"]


@dataclass
class UserModels:
    """Reads each of the user's files once for each runtime, in processes of their own."""

    targets: Mapping[str, Target]
    time_limit_s: float
    shapes: Sequence[InputShape] = ()
    #: File of --inputs (.npz).
    arrays: Path | None = None
    #: Whether files are converted to INT8; False: to floating point.
    quantised: bool = True
    #: The files as they were when they were first read.
    pins: Pins = field(default_factory=Pins)
    #: Reasons why runtimes left files out.
    left_out: list[str] = field(default_factory=list)
    #: Key: runtime and file. The model, or why there is none: a conversion that fails takes its
    #: time, too.
    _models: dict[tuple[str, ModelFile], Model | UnusableModel] = field(default_factory=dict)
    _given: GivenInputs = field(init=False)
    _trials: ModelTrials = field(init=False)

    def __post_init__(self) -> None:
        self._given = GivenInputs(self.shapes, self.arrays)
        self._trials = ModelTrials(self.targets, self.time_limit_s)

    def of(
        self, runtime: RuntimeEntry, files: Sequence[ModelFile], slaves: Sequence[ModelFile] = ()
    ) -> tuple[Model, ...]:
        """Return the models for a runtime.

        Slaves share the weights of another model: they are converted without their own, too. Raises
        NoModels if the runtime takes none of the files, UnusableModel if it cannot read, convert or
        run one, UserError if one is no file.
        """
        self.check(files)
        files = self._taken(runtime, files)
        interfaces = [self._trials.interface(reader_of(runtime, file), file) for file in files]
        self._given.check_names(interfaces)
        models = []
        converter_type = converter_of(runtime.suffix)
        with ExitStack() as resources:
            # Its process starts with the first conversion.
            converter = resources.enter_context(converter_type()) if converter_type else None
            for file in files:
                models.append(self._model(runtime, file, converter, file in slaves))
        return tuple(models)

    def check(self, files: Iterable[ModelFile]) -> None:
        """Pin the files and the weight files beside them; raise UserError if one is unreadable."""
        for file in files:
            self._check_file(file.path, file.option)
            if file.weightless:
                self._check_file(file.weightless, file.option)

    def _check_file(self, path: Path, option: str) -> None:
        try:
            resolved = check_file(path)
        except UserFileError as error:
            remedy = f"Give a model file, or leave {option} out for the built-in set"
            raise UserError(f"{option} {error}. {remedy}") from None
        try:
            model_digest(resolved, self.pins)
        except UserFileError as error:
            raise UserError(f"{option} {error}") from None

    def _taken(self, runtime: RuntimeEntry, files: Sequence[ModelFile]) -> list[ModelFile]:
        """Return the files that the runtime reads; if there are none, those that can be converted
        for it.
        """
        foreign: set[str] = set()
        for entry in RUNTIMES:
            foreign.update(entry.suffixes)
        foreign.difference_update(runtime.suffixes)
        taken = [file for file in files if file.path.suffix not in foreign]
        if not taken:
            taken = [file for file in files if reader_of(runtime, file) is not runtime]
        left_out = [_left_out(runtime, file) for file in files if file not in taken]
        self.left_out += left_out
        if not taken:
            raise NoModels("; ".join(left_out))
        return taken

    def _model(
        self,
        runtime: RuntimeEntry,
        file: ModelFile,
        converter: Converter[Any] | None,
        is_slave: bool,
    ) -> Model:
        key = (runtime.name, file)
        if key not in self._models:
            conversion = None
            if converter is not None and reader_of(runtime, file) is not runtime:
                conversion = ModelConversion(
                    runtime,
                    file,
                    converter,
                    is_slave,
                    chip_of(self.targets),
                    self.quantised,
                    self.pins,
                    self._trials,
                )
            try:
                self._models[key] = self._first_that_runs(runtime, file, conversion)
            except UnusableModel as error:
                self._models[key] = error
            except NoModels as error:
                self.left_out.append(str(error))
                raise
        model = self._models[key]
        if isinstance(model, UnusableModel):
            raise model
        return model

    def _first_that_runs(
        self, runtime: RuntimeEntry, file: ModelFile, conversion: ModelConversion | None
    ) -> Model:
        """Return the model with the first inputs that an inference succeeds with.

        A file that is to be converted is tried first by the runtime that reads it, which takes less
        time than a conversion.
        """
        path = file.path.resolve()
        reader = reader_of(runtime, file)
        interface = self._trials.interface(reader, file)
        model = Model(
            path.stem,
            str(path),
            model_digest(path, self.pins),
            weightless=str(file.weightless.resolve()) if file.weightless else None,
        )
        attempts, needs_trial = self._attempts(file, interface)
        tried: list[str] = []
        reasons: list[str] = []
        refusal = ""
        for inputs in attempts:
            tried.append(_shapes_text(inputs))
            fed = self._with_inputs(model, interface, inputs)
            if needs_trial:
                try:
                    self._trials.check_runs(reader, fed)
                except DoesNotRun as error:
                    reasons.append(str(error))
                    continue
            if conversion is None:
                return fed
            source = OnnxFile(fed.path, fed.digest, fed.inputs, bool(_free_inputs(interface)))
            recipe = conversion.recipe(source)
            try:
                converted = conversion.convert(fed, recipe)
                if needs_trial:
                    self._trials.check_runs(runtime, converted)
            except (ConversionError, DoesNotRun) as error:
                words = conversion.refusal(recipe, error)
            else:
                return converted
            if words == refusal:
                break  # Equal words at two shapes: the shapes are not to blame.
            refusal = refusal or words

        name = f"{file.option} {path.name}"
        with_inputs = f"with {'; '.join(dict.fromkeys(tried))}"
        if refusal:
            raise UnusableModel(f"{name}, {with_inputs}: {refusal}")
        raise UnusableModel(
            f"{name} does not run {with_inputs}: {reasons[0]}. Give another shape with --shape"
            " NAME=SIZES, or data with --inputs FILE.npz"
        )

    def _attempts(
        self, file: ModelFile, interface: Interface
    ) -> tuple[Sequence[tuple[InputData, ...]], bool]:
        """Return the inputs to try in order, and whether the first has to be tried at all."""
        try:
            given = self._given.of(interface)
            attempts = candidates(interface, given)
        except ModelError as error:
            name = file.path.resolve().name
            raise UnusableModel(
                f"{file.option} {name}: {error}. Change --shape or --inputs"
            ) from None
        is_given = any(tensor.name in given for tensor in interface.inputs)
        return attempts, is_given or len(attempts) > 1

    def _with_inputs(
        self, model: Model, interface: Interface, inputs: tuple[InputData, ...]
    ) -> Model:
        """Return the model with these inputs; its name has the shapes that the file leaves free."""
        free = _free_inputs(interface)
        shapes = [shape_text(tensor.shape) for tensor in inputs if tensor.name in free]
        digest = model.digest
        if shapes or any(tensor.file or tensor.value is not None for tensor in inputs):
            digest = digest_with_inputs(digest, inputs, self._given.arrays_digest)
        return replace(model, name=" ".join([model.name, *shapes]), digest=digest, inputs=inputs)


def _left_out(runtime: RuntimeEntry, file: ModelFile) -> str:
    """Return the reason why a runtime does not take a file."""
    if reader_of(runtime, file) is not runtime:
        reason = f"it is not converted, since {runtime.name} has {runtime.suffix} files of its own"
    else:
        readers = [entry.name for entry in RUNTIMES if file.path.suffix in entry.suffixes]
        reason = (
            f"{runtime.name} reads {' and '.join(runtime.suffixes)} files{how_made(runtime)}. Give"
            f" one, or choose another --runtime: {' or '.join(readers)} reads {file.path.suffix}"
        )
    return f"{file.option} {file.path}: {reason}"


def _free_inputs(interface: Interface) -> set[str]:
    """Return the names of the inputs whose sizes the file leaves free."""
    names = set()
    for tensor in interface.inputs:
        if any(isinstance(size, str) for size in tensor.dimensions):
            names.add(tensor.name)
    return names


def _shapes_text(inputs: Sequence[InputData]) -> str:
    return ", ".join(f"{tensor.name}={shape_text(tensor.shape)}" for tensor in inputs)
