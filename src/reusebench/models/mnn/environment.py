"""MNN's converter of ONNX files into `.mnn` files, which is part of the package MNN.

Standard library only: the harness imports this.
"""

from __future__ import annotations

from pathlib import Path

from reusebench.models.conversion.converter import NativeConverter
from reusebench.models.conversion.environments import PythonPackage
from reusebench.models.recipe import NativeForm

__all__ = ["CONVERTER", "PACKAGE", "MnnConverter"]

PACKAGE = PythonPackage(library="MNN", module="MNN", makes=".mnn", install="pip install MNN")


class MnnConverter(NativeConverter):
    """MNN, which converts built-in and users' ONNX files into `.mnn` files."""

    environment = PACKAGE
    program = Path(__file__).resolve().with_name("converter.py")

    @classmethod
    def form(cls) -> NativeForm:
        """Return the format of .mnn files (v1 is the first); ModelError if MNN is not installed."""
        PACKAGE.check_installed()
        return NativeForm(".mnn", f"mnn{PACKAGE.version}", revision=1)


CONVERTER = MnnConverter
