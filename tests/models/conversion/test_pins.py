"""Packages that are installed on a user's machine have versions and hashes in the checkout."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reusebench.models.conversion.environments import ConverterEnvironment
from reusebench.models.litert.environment import ONNX2TF
from reusebench.models.megengine.environment import MEGENGINE
from reusebench.models.ncnn.environment import PNNX
from reusebench.models.rknn.toolkit import TOOLKIT
from reusebench.system.package import PACKAGE

_LISTS = [*sorted((PACKAGE / "models").glob("*/*.in")), PACKAGE / "targets" / "ziglang.in"]
_REQUIREMENT = re.compile(r"([\w.-]+)==(\S+?)( ;.*)?")
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def _requirements(path: Path) -> list[list[str]]:
    """Return each requirement with its hashes."""
    lines = [
        line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    ]
    return [
        list(filter(None, text.split("\0")))
        for text in "\n".join(lines).replace(" \\\n    ", "\0").split("\n")
    ]


@pytest.mark.parametrize("source", _LISTS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_requirement_has_one_version_and_hashes(source: Path) -> None:
    """The list has the direct requirements, and no address of a registry."""
    pinned = source.with_suffix(".txt")
    names = set()
    for requirement, *hashes in filter(None, _requirements(pinned)):
        match = _REQUIREMENT.fullmatch(requirement)
        assert match, requirement
        assert hashes, requirement
        assert all(map(_HASH.fullmatch, hashes)), requirement
        names.add(_normal(match[1]))
    lines = [
        line for line in source.read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    ]
    assert names >= {_normal(re.split(r"[<>=]", line)[0]) for line in lines}
    assert "://" not in pinned.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "environment", [TOOLKIT, MEGENGINE, ONNX2TF, PNNX], ids=lambda environment: environment.command
)
def test_the_pinned_library_is_the_one_that_is_named(environment: ConverterEnvironment) -> None:
    """Its version is part of the names of folders and files, and is told to the user."""
    pinned = {
        text
        for path in _LISTS
        for text in path.with_suffix(".txt").read_text(encoding="utf-8").split()
    }
    assert f"{environment.library.lower()}=={environment.version}" in pinned


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
