"""The interpreters that have a runtime, found without importing it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from reusebench.measured.runtimes import find_runtime
from reusebench.models.megengine.environment import MEGENGINE
from reusebench.targets import interpreters
from reusebench.targets.interpreters import finds_runtime, python_with
from tests.helpers.support import own_environment

pytestmark = pytest.mark.process

_ONNXRUNTIME = find_runtime("onnxruntime")
_MEGENGINE_LITE = find_runtime("megengine_lite")
_BROKEN = replace(_ONNXRUNTIME, module="broken_module")


def test_this_interpreter_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment of a runtime is only used if the runtime is not here."""
    assert python_with(_ONNXRUNTIME) == sys.executable
    monkeypatch.setattr(
        interpreters, "_own_environment", own_environment("onnxruntime", Path("/own/python"))
    )
    assert python_with(_ONNXRUNTIME) == sys.executable
    monkeypatch.setattr(interpreters, "available", lambda _: False)
    assert python_with(_ONNXRUNTIME) == "/own/python"
    assert python_with(find_runtime("rknn")) is None
    monkeypatch.undo()
    # The cache is empty, so MegEngine Lite is nowhere.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(interpreters, "available", lambda _: False)
    assert python_with(_MEGENGINE_LITE) is None


def test_megengine_lite_in_its_environment() -> None:
    """The interpreter of the environment has the runtime."""
    if not MEGENGINE.installed():
        pytest.skip("MegEngine is not installed: reusebench models install megengine")
    assert finds_runtime(str(MEGENGINE.python()), _MEGENGINE_LITE)
    assert python_with(_MEGENGINE_LITE) is not None


def test_a_module_is_looked_up_and_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module whose import fails is there all the same; one in the current folder is not."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    assert not finds_runtime(str(python), _BROKEN)
    (tmp_path / "broken_module.py").write_text("raise RuntimeError")
    assert finds_runtime(str(python), _BROKEN)
    monkeypatch.chdir(tmp_path)
    assert not finds_runtime(sys.executable, _BROKEN)
