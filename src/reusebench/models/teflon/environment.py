"""The converter of ONNX files into INT8 `.tflite` files, which Teflon gives to an NPU.

It is onnx2tf with LiteRT's calibrator, in the environment of the float32 files. Standard library
only: the harness imports this.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reusebench.models.litert.environment import ONNX2TF, LiteRtConverter
from reusebench.models.recipe import NativeForm, NativeRecipe, OnnxFile, Recipe

__all__ = ["CONVERTER", "TeflonConverter"]

_KIND = ".int8.tflite"


class TeflonConverter(LiteRtConverter):
    """onnx2tf and LiteRT's calibrator: INT8 in and out, one scale per tensor."""

    program = Path(__file__).resolve().with_name("converter.py")

    @classmethod
    def recipe(
        cls,
        source: Recipe | OnnxFile,
        chip: str | None = None,  # noqa: ARG003
        weightless: bool = False,  # noqa: ARG003
        quantised: bool = True,
    ) -> NativeRecipe:
        """Return the recipe for the source; without quantisation it is LiteRT's."""
        if not quantised:
            return super().recipe(source)
        form = NativeForm(_KIND, f"onnx2tf{ONNX2TF.version}", revision=1, precision="INT8")
        return NativeRecipe(source, form)

    def job(self, recipe: NativeRecipe, source: Path) -> dict[str, Any]:
        """Return the job for converter.py.

        Of built-in networks only sizes matter, so their windows may move by a pixel to be padded
        within the convolutions.
        """
        return {
            **super().job(recipe, source),
            "calibrate": recipe.calibrates,
            "shifts_padding": isinstance(recipe.source, Recipe),
        }


CONVERTER = TeflonConverter
