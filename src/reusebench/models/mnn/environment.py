"""MNN's converter, which the package MNN brings: it makes `.mnn` files of ONNX files.

Standard library only: the harness imports it.
"""

from __future__ import annotations

from pathlib import Path

from reusebench.models.conversion.converter import NativeConverter
from reusebench.models.conversion.environments import PythonPackage
from reusebench.models.recipe import NativeForm

__all__ = ["CONVERTER", "PACKAGE", "MnnConverter"]

PACKAGE = PythonPackage(library="MNN", module="MNN", makes=".mnn", install="pip install MNN")


class MnnConverter(NativeConverter):
    """Has MNN make `.mnn` files of ONNX files: built-in ones and the user's."""

    environment = PACKAGE
    program = Path(__file__).resolve().with_name("converter.py")

    @classmethod
    def form(cls) -> NativeForm:
        """Return the form of .mnn files, v1 is the first; raise ModelError if MNN is not
        installed.
        """
        PACKAGE.check_installed()
        return NativeForm(".mnn", f"mnn{PACKAGE.version}", revision=1)


CONVERTER = MnnConverter
