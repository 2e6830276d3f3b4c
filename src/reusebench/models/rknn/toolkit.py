"""rknn-toolkit2: its environment, and the converter of ONNX files into `.rknn` files.

Its pins (numpy 1, an old onnx and protobuf) clash with the project's. The files are INT8 by
default, as such models are deployed and as the smaller chips demand. Standard library only: the
harness imports this.
"""

from __future__ import annotations

import platform
import re
from pathlib import Path
from typing import Any

from reusebench.models.conversion.converter import Converter
from reusebench.models.conversion.environments import ConverterEnvironment, Installation, ShowStep
from reusebench.models.errors import ModelError
from reusebench.models.platforms import TOOLKIT_VERSION, find_platform
from reusebench.models.recipe import OnnxFile, Recipe, RknnRecipe

__all__ = ["CONVERTER", "TOOLKIT", "RknnConverter", "install_toolkit"]

#: v1: the first. v2: every version is pinned, except PyTorch's.
#: Python 3.11 comes first, since the toolkit was tried most on it.
TOOLKIT = ConverterEnvironment(
    library="rknn-toolkit2",
    version=TOOLKIT_VERSION,
    revision=2,
    makes=".rknn",
    command="rknn-toolkit",
    gigabytes=1.5,
    machines=("x86_64", "aarch64"),
    machines_in_words="x86-64 or 64-bit ARM",
    oldest_python=(3, 8),
    newest_python=(3, 12),
    pythons=("python3.11", "python3.10", "python3.12", "python3.9", "python3.8"),
    python_source="Debian: apt install python3.11 python3.11-venv",
    suspects="pip's configuration, --torch",
)

#: The libraries that the toolkit, and PyTorch without CUDA, need.
_REQUIREMENTS = Path(__file__).with_name("requirements.txt")
_LIBRARY = Path(__file__).with_name("library.txt")
_PIP = Path(__file__).with_name("pip.txt")

#: Code that proves that the toolkit works; it fails with PyTorch's builds for CUDA.
_TRY = "import torch; from rknn.api import RKNN"


def install_toolkit(
    show_step: ShowStep, python: str | None = None, torch: str | None = None
) -> Path:
    """Return the toolkit's folder, made first if it is missing.

    Raises ModelError, and leaves nothing, if that fails. `python` is the interpreter to use; None
    means any that fits. `torch` is the requirement that pip installs as PyTorch; None means the
    newest build for CPUs that pip finds with the user's configuration.
    """

    def fill(installation: Installation) -> None:
        pytorch = torch or _cpu_torch(installation)
        installation.show_step("libraries")
        installation.install(_REQUIREMENTS)
        installation.show_step(f"{TOOLKIT.library}=={TOOLKIT_VERSION}")
        installation.install(_LIBRARY)
        installation.show_step(pytorch)
        # PyTorch's builds for CPUs are in an index of its own, which the user configures.
        installation.pip("install", "--no-deps", pytorch)
        installation.try_out(f"importing it with {pytorch}", _TRY)

    return TOOLKIT.install(show_step, python, fill)


def _cpu_torch(installation: Installation) -> str:
    """Return the newest build of PyTorch for CPUs; on 64-bit ARM the usual builds are for CPUs."""
    # A pip that has `index`: Debian 11 and Ubuntu 20.04 bring an older one.
    installation.install(_PIP)
    builds = re.findall(r"[\w.]+\+cpu\b", installation.pip("index", "versions", "torch"))
    if builds:
        return f"torch=={builds[0]}"
    if platform.machine() == "x86_64":
        raise ModelError(
            "rknn-toolkit2 needs PyTorch, and pip finds no build of it for CPUs (a version that"
            " ends in +cpu), only one that brings gigabytes of CUDA; add PyTorch's package index"
            " for CPUs to pip's configuration (`pip config set global.extra-index-url URL`), or"
            " name what pip shall install with --torch"
        )
    return "torch"


class RknnConverter(Converter[RknnRecipe]):
    """rknn-toolkit2, which converts built-in and users' ONNX files into `.rknn` files."""

    environment = TOOLKIT
    installer = staticmethod(install_toolkit)
    program = Path(__file__).resolve().with_name("converter.py")

    @classmethod
    def recipe(
        cls, source: Recipe | OnnxFile, chip: str | None, weightless: bool, quantised: bool
    ) -> RknnRecipe:
        """Return the recipe for the source; raise ModelError if the chip has no such files."""
        if chip is None:
            raise ModelError(
                "a .rknn file is made for one chip, and the target's is not known; name one with"
                " --target vboard:CHIP"
            )
        return RknnRecipe(source, chip, weightless, quantised)

    @classmethod
    def can_be_weightless(cls, chip: str | None) -> bool:
        """Whether the toolkit removes weights for the chip."""
        return chip is not None and find_platform(chip).removes_weights

    def remedy(self, recipe: RknnRecipe, words: str) -> str:
        """Return advice; quantisation can be left out if the chip has floating point."""
        is_quantisation = recipe.quantised and words.startswith("build")
        if is_quantisation and find_platform(recipe.platform).has_floats:
            return "Change the network, add --float, or convert it yourself and give the .rknn file"
        return super().remedy(recipe, words)

    def job(self, recipe: RknnRecipe, source: Path) -> dict[str, Any]:
        """Return the job for converter.py."""
        return {
            **super().job(recipe, source),
            "platform": recipe.platform,
            "remove_weight": recipe.weightless,
            "calibrate": recipe.calibrates,
        }


CONVERTER = RknnConverter
