"""Fixtures of the tests of model files: separate caches and scripted libraries."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from reusebench.models.built_files import fill
from reusebench.models.recipe import Recipe
from tests.models.scripted_python import ScriptedPython


@pytest.fixture
def model_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test its own cache; return its folder of model files."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "reusebench" / "models"


@pytest.fixture
def onnx_file(model_cache: Path) -> Recipe:  # noqa: ARG001 - where the file is
    """Return the recipe of a cached ONNX file that no scripted library reads."""
    recipe = Recipe("tiny", 64, 1)
    fill(recipe, lambda path: path.write_bytes(b"onnx"))
    return recipe


@pytest.fixture
def python(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model_cache: Path,  # noqa: ARG001 - with an empty cache
) -> ScriptedPython:
    """Make the scripted interpreter the only program in the path, as python3.10 on x86-64."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    return ScriptedPython(tmp_path, "python3.10")
