"""MegEngine: its environment, and the converter that builds `.mge` files of the networks.

It needs numpy 1 and a Python that may be older than the project's. MegEngine Lite, its runtime,
comes with it. The files are fp32, with the ONNX files' weights. Standard library only: the harness
imports this.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reusebench.models.conversion.converter import NativeConverter
from reusebench.models.conversion.environments import ConverterEnvironment, Installation, ShowStep
from reusebench.models.recipe import NativeForm, NativeRecipe, Recipe
from reusebench.system.cache import run_in_another_process

__all__ = ["CONVERTER", "MEGENGINE", "MegEngineConverter", "install_megengine"]

#: The only version that makes `.mge` files.
_VERSION = "1.13.0"

#: v1: the first. v2: with PyAV, which decodes the frames of streams. v3: every version is pinned.
MEGENGINE = ConverterEnvironment(
    library="MegEngine",
    version=_VERSION,
    revision=3,
    makes=".mge",
    command="megengine",
    gigabytes=1.8,
    machines=("x86_64",),
    machines_in_words="x86-64",
    oldest_python=(3, 8),
    newest_python=(3, 10),
    pythons=("python3.10", "python3.9", "python3.8"),
    python_source=(
        "Ubuntu 22.04: apt install python3.10 python3.10-venv; elsewhere with pyenv or uv"
    ),
    suspects="pip's configuration",
)

_REQUIREMENTS = Path(__file__).with_name("requirements.txt")
_LIBRARY = Path(__file__).with_name("library.txt")
#: A package of one Python file that was only published as source.
_SOURCE_ONLY = "mprop"

#: Code that proves that both work. The variable keeps MegEngine from making a folder in the user's
#: cache.
_TRY = (
    "import os; os.environ['MGE_FASTRUN_CACHE_TYPE'] = 'MEMORY'; import megengine.utils.network,"
    " megenginelite, av"
)


def install_megengine(show_step: ShowStep, python: str | None = None) -> Path:
    """Return MegEngine's folder, made first if it is missing.

    Raises ModelError, and leaves nothing, if that fails. `python` is the interpreter to use; None
    means any that fits.
    """

    def fill(installation: Installation) -> None:
        installation.show_step("libraries")
        installation.install(_REQUIREMENTS)
        installation.show_step(f"MegEngine=={_VERSION}")
        # Without isolation mprop is built with the installed setuptools; otherwise pip would fetch
        # one that has no hash.
        installation.install(_LIBRARY, "--no-build-isolation", "--no-binary", _SOURCE_ONLY)
        installation.try_out("importing it", _TRY)

    return MEGENGINE.install(show_step, python, fill)


class MegEngineConverter(NativeConverter):
    """MegEngine, which makes `.mge` files from descriptions of networks."""

    environment = MEGENGINE
    installer = staticmethod(install_megengine)
    imports_onnx = False
    instead_of_onnx = "MegEngine has no importer of ONNX files: dump one with MegEngine"
    program = Path(__file__).resolve().with_name("converter.py")

    @classmethod
    def form(cls) -> NativeForm:
        """Return the format of .mge files; v1 is the first."""
        return NativeForm(".mge", f"megengine{_VERSION}", revision=1)

    def source(self, recipe: NativeRecipe) -> Path:
        """Return the folder with the network's description, which replaces the previous one."""
        network = recipe.source
        assert isinstance(network, Recipe)
        folder = self.folder() / "description"
        folder.mkdir(exist_ok=True)
        run_in_another_process(
            "reusebench.models.conversion.description",
            network.name,
            str(network.size),
            str(network.seed),
            str(folder),
        )
        return folder

    def job(self, recipe: NativeRecipe, source: Path) -> dict[str, Any]:  # noqa: ARG002 - the description has it all
        """Return the job for converter.py."""
        return {"description": str(source.absolute())}


CONVERTER = MegEngineConverter
