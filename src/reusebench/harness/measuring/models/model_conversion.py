"""The user's ONNX files converted for a runtime that reads other files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reusebench.harness.errors import NoModels, UnusableModel
from reusebench.harness.measuring.models.model_files import ModelFile
from reusebench.harness.measuring.models.model_trials import DoesNotRun, ModelTrials
from reusebench.measured.plan import Conversion, Model
from reusebench.measured.runtimes import RUNTIMES, RuntimeEntry
from reusebench.measured.runtimes.base import InputData
from reusebench.models import ConversionError, Converter, ModelError, OnnxFile, converter_of
from reusebench.models.inputs.candidates import Given
from reusebench.models.inputs.given import as_declared
from reusebench.models.recipe import ConvertedRecipe, NativeRecipe
from reusebench.system.cache import CacheError
from reusebench.system.user_files import ChangedFile, Pins

__all__ = ["ModelConversion", "how_made", "reader_of"]

#: Suffix of the files that converters take.
_ONNX = ".onnx"
#: Prefix of messages of Rockchip's library.
_TIME = re.compile(r"\[\d\d:\d\d:\d\d\.\d+\] ")


@dataclass(frozen=True)
class ModelConversion:
    """Converts one file of the user's for a runtime."""

    runtime: RuntimeEntry
    file: ModelFile
    converter: Converter[Any]
    #: Whether a copy without weights is made too.
    weightless: bool
    #: The chip whose NPU runs it; None: not known.
    chip: str | None
    quantised: bool
    pins: Pins
    trials: ModelTrials

    def recipe(self, source: OnnxFile, weightless: bool = False) -> ConvertedRecipe:
        """Return the recipe of a file of the source; raise NoModels if the chip can have none."""
        try:
            recipe: ConvertedRecipe = self.converter.recipe(
                source, self.chip, weightless, self.quantised
            )
        except ModelError as error:
            raise self._not_converted(error) from None
        return recipe

    def convert(self, model: Model, recipe: ConvertedRecipe) -> Model:
        """Return the model of an ONNX file, with its inputs, as the runtime's own.

        For an NPU its name tells the precision. Raises ConversionError if the converter refuses the
        file, NoModels if the converter cannot be used.
        """
        path, weightless_path = self._make_files(recipe)
        if isinstance(recipe, NativeRecipe):
            name = model.name
            inputs = self._converted_inputs(path, model.inputs)
        else:
            name = f"{model.name} {recipe.precision}"
            # Quantised models get the inputs that their files declare: pixels.
            inputs = ()
        return Model(
            name,
            str(path),
            # The converted file itself is no base: rknn-toolkit2 never writes the same bytes twice.
            hashlib.sha256(f"{model.digest} {recipe.form}".encode()).hexdigest(),
            weightless=str(weightless_path) if weightless_path else model.weightless,
            inputs=inputs,
            conversion=Conversion(
                model.path,
                self.converter.environment.title,
                recipe.precision,
                model.inputs,
                recipe.calibrates,
            ),
            origin=model.digest,
        )

    def _make_files(self, recipe: ConvertedRecipe) -> tuple[Path, Path | None]:
        """Return the converted file, and the same without its weights if it has such a copy."""
        source = recipe.source
        assert isinstance(source, OnnxFile)
        recipes = [recipe]
        if self.weightless and self.converter.can_be_weightless(self.chip):
            recipes.append(self.recipe(source, weightless=True))
        try:
            paths = self.converter.ensure_all(recipes)
        except ConversionError:
            raise
        except (CacheError, ModelError) as error:
            raise self._not_converted(error) from None
        try:
            self.pins.check(Path(source.path))
        except ChangedFile as error:
            for path in paths:  # it may be made of the source's new content
                path.unlink(missing_ok=True)
            raise UnusableModel(f"{self.file.option} {error}") from None
        return paths[0], paths[1] if len(paths) > 1 else None

    def _converted_inputs(self, path: Path, sources: Sequence[InputData]) -> tuple[InputData, ...]:
        """Return the inputs of a converted file: the values and data of its source's, in order.

        Empty if all are noise. The file may have other names, and channels last.
        """
        interface = self.trials.interface(self.runtime, replace(self.file, path=path))
        are_noise = all(source.value is None and not source.file for source in sources)
        if are_noise or len(interface.inputs) != len(sources):
            return ()
        pairs = list(zip(interface.inputs, sources))
        given = as_declared(
            {tensor.name: Given(source.shape, source.file) for tensor, source in pairs}, interface
        )
        inputs = []
        for tensor, source in pairs:
            data = given[tensor.name]
            # A scalar of the source may be a tensor of one element in the converted file.
            shape = data.shape or tensor.shape
            inputs.append(InputData(tensor.name, tensor.type, shape, source.value, data.file))
        return tuple(inputs)

    def refusal(self, recipe: ConvertedRecipe, error: ConversionError | DoesNotRun) -> str:
        """Return the reason why the file is not converted, or the converted file does not run."""
        title = self.converter.environment.title
        if isinstance(error, ConversionError):
            words = error.words.rstrip("!. ")
            remedy = self.converter.remedy(recipe, error.words)
            return f"{title} cannot convert it: {words}. {remedy}"
        words = _TIME.sub("", str(error))
        remedy = self.converter.remedy(recipe, "")
        return f"converted by {title} it does not run: {words}. {remedy}"

    def _not_converted(self, error: Exception) -> NoModels:
        return NoModels(f"{self.file.option} {self.file.path} is not converted: {error}")


def reader_of(runtime: RuntimeEntry, file: ModelFile) -> RuntimeEntry:
    """Return the runtime that reads the file as it is: `runtime`, or the one of ONNX files."""
    converter = converter_of(runtime.kind)
    if file.path.suffix in runtime.suffixes or converter is None or not converter.imports_onnx:
        return runtime
    if file.path.suffix != _ONNX:
        return runtime
    return next(entry for entry in RUNTIMES if entry.suffix == _ONNX)


def how_made(runtime: RuntimeEntry) -> str:
    """Return the origin of a runtime's files, as an insertion; empty if nothing converts."""
    converter = converter_of(runtime.kind)
    if converter is None:
        return ""
    if converter.imports_onnx:
        return f", and {_ONNX} files, which {converter.environment.library} converts"
    return f", and {converter.instead_of_onnx}"
