"""onnx2tf: its environment, and the converter of ONNX files into `.tflite` files.

It converts without TensorFlow (flatbuffer_direct): the environment has a fifth of the size that
TensorFlow would need, and a conversion takes seconds. The files are fp32, with the ONNX files'
weights. Standard library only: the harness imports this.
"""

from __future__ import annotations

from pathlib import Path

from reusebench.models.conversion.converter import NativeConverter
from reusebench.models.conversion.environments import ConverterEnvironment, Installation, ShowStep
from reusebench.models.recipe import NativeForm

__all__ = ["CONVERTER", "ONNX2TF", "LiteRtConverter", "install_onnx2tf"]

#: v1: the first.
ONNX2TF = ConverterEnvironment(
    library="onnx2tf",
    version="2.6.9",
    revision=1,
    makes=".tflite",
    command="onnx2tf",
    gigabytes=0.35,
    machines=("x86_64", "aarch64"),
    machines_in_words="x86-64 or aarch64",
    oldest_python=(3, 10),
    newest_python=(3, 13),
    pythons=("python3.12", "python3.11", "python3.10", "python3.13"),
    python_source="Debian 12: apt install python3-venv; elsewhere with pyenv or uv",
    suspects="pip's configuration",
)

_REQUIREMENTS = Path(__file__).with_name("requirements.txt")
_LIBRARY = Path(__file__).with_name("library.txt")

_TRY = "import onnx2tf.onnx2tf, onnx2tf.tflite_builder, onnxruntime, ai_edge_litert.interpreter"


def install_onnx2tf(show_step: ShowStep, python: str | None = None) -> Path:
    """Return onnx2tf's folder, made first if it is missing.

    Raises ModelError, and leaves nothing, if that fails. `python` is the interpreter to use; None
    means any that fits.
    """

    def fill(installation: Installation) -> None:
        installation.show_step("libraries")
        installation.install(_REQUIREMENTS)
        installation.show_step(f"{ONNX2TF.library}=={ONNX2TF.version}")
        # onnx2tf requires Python 3.12, but runs on 3.10.
        installation.install(_LIBRARY, "--ignore-requires-python")
        installation.try_out("importing it", _TRY)

    return ONNX2TF.install(show_step, python, fill)


class LiteRtConverter(NativeConverter):
    """onnx2tf, which converts ONNX files into `.tflite` files."""

    environment = ONNX2TF
    installer = staticmethod(install_onnx2tf)
    program = Path(__file__).resolve().with_name("converter.py")

    @classmethod
    def form(cls) -> NativeForm:
        """Return the format; since v2 sizes that the ONNX file computes are constants."""
        return NativeForm(ONNX2TF.makes, f"onnx2tf{ONNX2TF.version}", revision=2)


CONVERTER = LiteRtConverter
