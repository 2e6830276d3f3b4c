"""The shapes and arrays that the user gives for the inputs of models: --shape and --inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reusebench.harness.errors import UnusableModel, UserError
from reusebench.harness.measuring.models.model_files import InputShape
from reusebench.measured.runtimes.base import Interface
from reusebench.models import ModelError
from reusebench.models.inputs.candidates import Given, shape_text
from reusebench.models.inputs.given import as_declared, given_arrays
from reusebench.system.cache import CacheError

__all__ = ["GivenInputs"]


@dataclass(frozen=True)
class GivenInputs:
    """The user's statements about inputs, which hold for all models that have such inputs."""

    #: The value of each --shape.
    shapes: Sequence[InputShape] = ()
    #: File of --inputs (.npz).
    file: Path | None = None

    @property
    def arrays_digest(self) -> str:
        """The digest of the file of arrays; empty without one."""
        return self._arrays()[1]

    def check_names(self, interfaces: Sequence[Interface]) -> None:
        """Raise UnusableModel if the user names an input that no model has."""
        names: set[str] = set()
        for interface in interfaces:
            names.update(tensor.name for tensor in interface.inputs)
        known = f"The models have: {', '.join(sorted(names))}"
        has_only_input = any(len(interface.inputs) == 1 for interface in interfaces)
        for shape in self.shapes:
            if shape.name is None and not has_only_input:
                raise UnusableModel(
                    f"--shape {shape_text(shape.shape)} is of the only input, and there are"
                    f" several. {known}"
                )
            if shape.name is not None and shape.name not in names:
                raise UnusableModel(f"--shape {shape.name}: no model has such an input. {known}")
        unknown = sorted(set(self._arrays()[0]) - names)
        if unknown:
            raise UnusableModel(
                f"--inputs {self.file}: no model has an input {unknown[0]!r}. {known}"
            )

    def of(self, interface: Interface) -> dict[str, Given]:
        """Return the given shapes and arrays of a model's inputs by name.

        Raises UserError if the user contradicts himself, ModelError if the file declares otherwise.
        """
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
            raise UserError(f"--inputs {self.file}: {error}") from None

    def _arrays(self) -> tuple[dict[str, Given], str]:
        """Return the given arrays by the names of inputs, and the digest of their file."""
        if self.file is None:
            return {}, ""
        try:
            return given_arrays(self.file)
        except (CacheError, ModelError) as error:
            raise UserError(f"--inputs {error}") from None
