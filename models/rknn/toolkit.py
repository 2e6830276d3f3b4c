"""rknn-toolkit2 in an environment of its own: what it consists of, and how it gets there.

Its pins (numpy 1, an old onnx and protobuf) clash with the project's. Standard library only, as the harness asks
here whether it is installed.
"""

from __future__ import annotations

import platform
import re
from pathlib import Path

from models.conversion.environments import Environment, Installation, Say
from models.errors import ModelError
from models.platforms import TOOLKIT_VERSION

__all__ = ["TOOLKIT", "install_toolkit"]

#: v1: the first. Of the Pythons 3.11 comes first, on which the toolkit was tried most.
TOOLKIT = Environment(
    library="rknn-toolkit2",
    version=TOOLKIT_VERSION,
    revision=1,
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

#: What pip asks for as it is, within the bounds that the toolkit states and these: opencv 4.12 needs numpy 2, and
#: the toolkit imports pkg_resources, which setuptools 80 and later warn about or lack. Headless, as nothing is shown.
_REQUIREMENTS = (
    "numpy<=1.26.4",
    "onnx>=1.16.1,<=1.18.0",
    "protobuf>=4.21.6,<=4.25.4",
    "onnxruntime>=1.17.0",
    "opencv-python-headless<4.12",
    "scipy>=1.9.3",
    "ruamel.yaml>=0.17.21",
    "fast-histogram>=0.11",
    "psutil>=5.9.0",
    "tqdm>=4.64.1",
    "setuptools<80",
)
#: What PyTorch needs besides CUDA, which it names as well: so it is installed without what it names.
_TORCH_REQUIREMENTS = ("typing_extensions", "filelock", "sympy", "networkx", "jinja2", "fsspec")

#: The proof that the toolkit works here; PyTorch's builds for CUDA fail at it.
_TRY = "import torch; from rknn.api import RKNN"


def install_toolkit(say: Say, python: str | None = None, torch: str | None = None) -> Path:
    """Return the toolkit's folder, made first where it is missing; raise ModelError, and leave nothing, if it fails.

    say gets a line before each step. python is the interpreter to use, or found by name; torch is what pip shall
    install as PyTorch, or the newest build for CPUs that pip's own configuration offers.
    """
    return TOOLKIT.install(say, python, lambda installation: _fill(installation, torch))


def _fill(installation: Installation, torch: str | None) -> None:
    torch = torch or _cpu_torch(installation)
    installation.say("libraries")
    installation.pip("install", *_REQUIREMENTS, *_TORCH_REQUIREMENTS)
    for requirement in (f"rknn-toolkit2=={TOOLKIT_VERSION}", torch):
        installation.say(requirement)
        installation.pip("install", "--no-deps", requirement)
    installation.try_out(f"importing it with {torch}", _TRY)


def _cpu_torch(installation: Installation) -> str:
    """Return the newest of pip's builds of PyTorch for CPUs; on 64-bit ARM the usual ones are."""
    # The first that has `index`; Debian 11 and Ubuntu 20.04 bring an older one.
    installation.pip("install", "pip>=21.2")
    words = installation.pip("index", "versions", "torch")
    builds = re.findall(r"[\w.]+\+cpu\b", words)
    if builds:
        return f"torch=={builds[0]}"
    if platform.machine() == "x86_64":
        raise ModelError(
            "rknn-toolkit2 needs PyTorch, and pip finds no build of it for CPUs (a version that ends in +cpu), only "
            "one that brings gigabytes of CUDA; add PyTorch's package index for CPUs to pip's configuration "
            "(`pip config set global.extra-index-url URL`), or name what pip shall install with --torch"
        )
    return "torch"
