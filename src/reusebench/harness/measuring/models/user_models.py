"""The models of a session whose files the user gives: read, converted if necessary, and tried."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
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
from reusebench.harness.measuring.models.model_trials import DoesNotRun, ModelTrials, Ran
from reusebench.harness.selection import chip_of
from reusebench.measured.plan import Model
from reusebench.measured.runtimes import RUNTIMES, RuntimeEntry
from reusebench.measured.runtimes.base import InputData, Interface
from reusebench.models import ConversionError, Converter, ModelError, OnnxFile, converter_of
from reusebench.models.inputs.candidates import candidates, shape_text
from reusebench.models.model_kinds import is_language_model, model_name, parts_of, reads
from reusebench.system.user_files import Pins, UserFileError, check_file
from reusebench.targets.target import Target

__all__ = ["UserModels"]

#: Time limit of a step of a trial with doubtful sizes: there are other guesses.
_DOUBTFUL_LIMIT_S = 20.0
#: Latency above which a doubtful guess gives way to another, if that is _SLOWER times faster.
_SLOW_NS = 1_000_000_000
_SLOWER = 10
#: Smallest ratio of the latencies of two guesses that is told; single inferences vary.
_TOLD = 3


@dataclass
class _Tried:
    """The inputs that a file was tried with, and how it failed."""

    shapes: list[str] = field(default_factory=list)
    failures: list[DoesNotRun] = field(default_factory=list)

    @property
    def with_inputs(self) -> str:
        """The shapes, for a message; empty if the model has no inputs."""
        shapes = dict.fromkeys(filter(None, self.shapes))
        return f" with {'; '.join(shapes)}" if shapes else ""


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
    #: Reasons why runtimes left files out, options that files need, and guesses with what another
    #: one costs.
    remarks: list[str] = field(default_factory=list)
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
        converter_type = converter_of(runtime.kind)
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
        self._check_parts(resolved, option)
        try:
            model_digest(resolved, self.pins)
        except UserFileError as error:
            raise UserError(f"{option} {error}") from None

    def _check_parts(self, path: Path, option: str) -> None:
        """Raise UserError unless it is a whole file, or the first part of one with all others."""
        parts = parts_of(path)
        if not parts:
            return
        if path != parts[0]:
            raise UserError(
                f"{option} {path}: it is a part of a file that is split. Give the first part,"
                f" {parts[0].name}"
            )
        for part in parts:
            if not part.exists():
                raise UserError(
                    f"{option} {path}: its part {part.name} is missing; all {len(parts)} parts must"
                    " be in one folder"
                )

    def _taken(self, runtime: RuntimeEntry, files: Sequence[ModelFile]) -> list[ModelFile]:
        """Return the files that the runtime reads; if there are none, those that can be converted
        for it.
        """
        taken = [file for file in files if _may_read(runtime, file.path)]
        if not taken:
            taken = [file for file in files if reader_of(runtime, file) is not runtime]
        left_out = [_left_out(runtime, file) for file in files if file not in taken]
        self.remarks += left_out
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
                self.remarks.append(str(error))
                raise
        model = self._models[key]
        if isinstance(model, UnusableModel):
            raise model
        return model

    def _first_that_runs(
        self, runtime: RuntimeEntry, file: ModelFile, conversion: ModelConversion | None
    ) -> Model:
        """Return the model with the first inputs that an inference succeeds with.

        Every file is run once, so that what a runtime lacks is named before anything is measured.
        A file that is to be converted is tried first by the runtime that reads it, which takes less
        time than a conversion.
        """
        path = file.path.resolve()
        reader = reader_of(runtime, file)
        interface = self._trials.interface(reader, file)
        model = Model(
            model_name(path),
            str(path),
            model_digest(path, self.pins),
            weightless=str(file.weightless.resolve()) if file.weightless else None,
        )
        trials = _Tried()
        refusals: list[str] = []
        for fed in self._running(file, reader, model, interface, conversion is not None, trials):
            if conversion is None:
                self._note_option(file, fed)
                return fed
            source = OnnxFile(fed.path, fed.digest, fed.inputs, _fixes_sizes(interface, fed))
            recipe = conversion.recipe(source)
            try:
                converted = self._trials.run(runtime, conversion.convert(fed, recipe)).model
            except (ConversionError, DoesNotRun) as error:
                words = conversion.refusal(recipe, error)
            else:
                self._note_option(file, converted)
                return converted
            if words in refusals:
                break  # Equal words at two shapes: the shapes are not to blame.
            refusals.append(words)

        name = f"{file.option} {path.name}"
        if refusals:
            raise UnusableModel(f"{name},{trials.with_inputs}: {refusals[0]}")
        if trials.failures[-1].is_final:
            raise UnusableModel(f"{name} cannot be run: {trials.failures[-1]}")
        text = f"{name} does not run{trials.with_inputs}: {trials.failures[0]}"
        if _free_inputs(interface):
            text += ". Give another shape with --shape NAME=SIZES, or data with --inputs FILE.npz"
        raise UnusableModel(text)

    def _running(
        self,
        file: ModelFile,
        reader: RuntimeEntry,
        model: Model,
        interface: Interface,
        is_converted: bool,
        trials: _Tried,
    ) -> Iterator[Model]:
        """Yield the model with each of the inputs that it runs with, the likeliest first.

        After one that takes too long only smaller ones are tried, and a remark tells it. If its
        sizes are fixed, and the process crashes, hangs or lacks memory, it is yielded, too: such a
        failure is a result.
        """
        attempts = self._attempts(file, interface, is_converted)
        slow: list[Sequence[InputData]] = []
        for inputs in attempts:
            if any(_elements(inputs) >= _elements(other) for other in slow):
                continue
            trials.shapes.append(_shapes_text(inputs))
            fed = self._with_inputs(model, interface, inputs)
            rival = _rival(inputs, attempts)
            try:
                if rival is None:
                    fed = self._trials.run(reader, fed).model
                else:
                    other = self._with_inputs(model, interface, rival)
                    fed = self._likelier(file, reader, fed, other)
            except DoesNotRun as error:
                trials.failures.append(error)
                is_result = not error.is_reported and not _free_inputs(interface)
                if not is_result:
                    if error.is_final:
                        return
                    if error.is_slow:
                        slow.append(inputs)
                    continue
            if slow:
                self.remarks.append(
                    f"{file.option} {file.path.name} is run with {_shapes_text(inputs)}, since with"
                    f" {'; '.join(map(_shapes_text, slow))} a step takes more than"
                    f" {self.time_limit_s:g} s (--time-limit). Give the shape that you deploy with"
                    " --shape"
                )
            yield fed

    def _likelier(self, file: ModelFile, reader: RuntimeEntry, model: Model, rival: Model) -> Model:
        """Return a model with doubtful sizes after it has run; the rival if that is far faster.

        Both are told in a remark if one is far slower. Raises DoesNotRun if the model fails.
        """
        is_hung = False
        try:
            own = self._trials.run(reader, model, _DOUBTFUL_LIMIT_S)
        except DoesNotRun as error:
            if not error.is_slow:
                raise
            is_hung = True
            own = Ran(model, int(_DOUBTFUL_LIMIT_S * 1e9))
        other: Ran | None = None
        with suppress(DoesNotRun):
            other = self._trials.run(reader, rival, _DOUBTFUL_LIMIT_S)

        if other is None or not other.latency_ns:
            # Nothing to compare with; a slow one gets all the time that the session allows.
            return self._trials.run(reader, model).model if is_hung else own.model
        ratio = own.latency_ns / other.latency_ns
        is_slow = is_hung or (own.latency_ns > _SLOW_NS and ratio > _SLOWER)
        chosen, left = (other, own) if is_slow else (own, other)
        times = left.latency_ns / chosen.latency_ns
        at_least = "at least " if is_hung else ""
        if max(times, 1 / times) >= _TOLD:
            self.remarks.append(
                f"{file.option} {file.path.name}: {_doubtful_shapes(chosen.model.inputs)} is a"
                " guess, since nothing in the file tells what is counted. With"
                f" {_doubtful_shapes(left.model.inputs)} an inference takes"
                f" {at_least}{times:.2g} times as long. Give yours with --shape"
            )
        return chosen.model

    def _note_option(self, file: ModelFile, model: Model) -> None:
        """Keep a remark on the option without which a model does not run."""
        reason = self._trials.needed.get(model.path)
        if model.options and reason:
            options = ", ".join(model.options)
            self.remarks.append(
                f"{file.option} {file.path.name} is measured with {options}. Without it the runtime"
                f" says: {reason.values['reason']}"
            )

    def _attempts(
        self, file: ModelFile, interface: Interface, is_converted: bool
    ) -> Sequence[tuple[InputData, ...]]:
        """Return the inputs to try, in order."""
        try:
            given = self._given.of(interface)
            return candidates(interface, given, file.path.name, without_empty=is_converted)
        except ModelError as error:
            name = file.path.resolve().name
            raise UnusableModel(
                f"{file.option} {name}: {error}. Change --shape or --inputs"
            ) from None

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


def _may_read(runtime: RuntimeEntry, path: Path) -> bool:
    """Whether the runtime reads such files, or no runtime is known to."""
    if is_language_model(path) != runtime.has_conversations:
        return False
    return reads(runtime, path) or not any(reads(entry, path) for entry in RUNTIMES)


def _left_out(runtime: RuntimeEntry, file: ModelFile) -> str:
    """Return the reason why a runtime does not take a file."""
    if reader_of(runtime, file) is not runtime:
        reason = f"it is not converted, since {runtime.name} has {runtime.suffix} files of its own"
    else:
        readers = [entry.name for entry in RUNTIMES if _may_read(entry, file.path)]
        kind = file.path.suffix
        reason = (
            f"{runtime.name} reads {' and '.join(runtime.suffixes)} files{how_made(runtime)}. Give"
            f" one, or choose another --runtime: {' or '.join(readers)} reads {kind}"
        )
    return f"{file.option} {file.path}: {reason}"


def _free_inputs(interface: Interface) -> set[str]:
    """Return the names of the inputs whose sizes the file leaves free."""
    names = set()
    for tensor in interface.inputs:
        if any(isinstance(size, str) for size in tensor.dimensions):
            names.add(tensor.name)
    return names


def _fixes_sizes(interface: Interface, model: Model) -> bool:
    """Whether an input has sizes that the file leaves free; with any rank, if the file has none."""
    declared = {tensor.name: tensor.dimensions for tensor in interface.inputs}
    return any(declared[tensor.name] != tensor.shape for tensor in model.inputs)


def _elements(inputs: Sequence[InputData]) -> int:
    return sum(math.prod(tensor.shape) for tensor in inputs)


def _shapes_text(inputs: Sequence[InputData]) -> str:
    return ", ".join(f"{tensor.name}={shape_text(tensor.shape)}" for tensor in inputs)


def _rival(
    inputs: Sequence[InputData], attempts: Sequence[Sequence[InputData]]
) -> tuple[InputData, ...] | None:
    """Return the next attempt with other doubtful sizes; None if no size is doubtful."""
    shapes = _doubtful_shapes(inputs)
    if not shapes:
        return None
    for other in attempts[attempts.index(inputs) + 1 :]:
        if _doubtful_shapes(other) != shapes:
            return tuple(other)
    return None


def _doubtful_shapes(inputs: Sequence[InputData]) -> str:
    """Return the shapes of the inputs with doubtful sizes."""
    return _shapes_text([tensor for tensor in inputs if tensor.doubtful])
