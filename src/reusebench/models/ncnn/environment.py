"""pnnx: its environment, and the converter of ONNX files into ncnn's files.

Its package requires PyTorch, but the program needs that only for files of PyTorch. ncnn is
installed beside it, to check whether it can load the converted files. Standard library only: the
harness imports this.
"""

from __future__ import annotations

from pathlib import Path

from reusebench.models.conversion.converter import NativeConverter
from reusebench.models.conversion.environments import ConverterEnvironment, Installation, ShowStep
from reusebench.models.recipe import NativeForm

__all__ = ["CONVERTER", "PNNX", "NcnnConverter", "install_pnnx"]

#: Version of pnnx and ncnn, which are released together.
_VERSION = "20261020"

#: v1: the first.
PNNX = ConverterEnvironment(
    library="pnnx",
    version=_VERSION,
    revision=1,
    makes=".param",
    command="pnnx",
    gigabytes=0.2,
    machines=("x86_64", "aarch64"),
    machines_in_words="x86-64 or 64-bit ARM",
    oldest_python=(3, 9),
    newest_python=(3, 14),
    pythons=tuple(f"python3.{minor}" for minor in (11, 12, 13, 10, 9, 14)),
    python_source="Debian: apt install python3 python3-venv",
    suspects="pip's configuration",
)

_REQUIREMENTS = Path(__file__).with_name("requirements.txt")

#: Code that proves that both work; pnnx without arguments prints its usage and ends with 255.
_TRY = (
    "import importlib.util, subprocess; spec = importlib.util.find_spec('pnnx'); import ncnn; "
    "program = spec.submodule_search_locations[0] + '/pnnx'; "
    "assert b'Usage' in subprocess.run([program], capture_output=True).stderr, program"
)


def install_pnnx(show_step: ShowStep, python: str | None = None) -> Path:
    """Return the folder of pnnx, made first if it is missing.

    Raises ModelError, and leaves nothing, if that fails. `python` is the interpreter to use; None
    means any that fits.
    """

    def fill(installation: Installation) -> None:
        installation.show_step("pnnx and ncnn")
        installation.install(_REQUIREMENTS)
        installation.try_out("running it", _TRY)

    return PNNX.install(show_step, python, fill)


class NcnnConverter(NativeConverter):
    """pnnx, which converts built-in and users' ONNX files into `.param` and `.bin` files."""

    environment = PNNX
    installer = staticmethod(install_pnnx)
    program = Path(__file__).resolve().with_name("converter.py")
    takes_scalars = False

    @classmethod
    def form(cls) -> NativeForm:
        """Return the format of .param files; v1 is the first."""
        return NativeForm(".param", f"pnnx{_VERSION}", revision=1, weights=".bin")


CONVERTER = NcnnConverter
