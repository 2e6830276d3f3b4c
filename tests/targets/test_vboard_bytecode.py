"""The bytecode of the virtual board's Python, compiled by this machine's Python in its place."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reusebench.targets.errors import TargetError
from reusebench.targets.vboard import bytecode
from reusebench.targets.vboard.bytecode import bytecode_folder, ensure_bytecode
from reusebench.targets.vboard.catalogue import rknn_system
from reusebench.targets.vboard.loading import Guest

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("own_cache")]


_SYSTEM = rknn_system("armhf")


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a folder in place of the measured process's, for a system that has this Python."""
    folder = tmp_path / "measured"
    system = _SYSTEM.folder
    for path in (folder, system / "usr/lib/python3.x"):
        path.mkdir(parents=True)
    (folder / "module.py").write_text("value = 1\n")
    (system / "usr/lib/python3.x/standard.py").write_text("value = 2\n")
    (system / "python3.x").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (system / "python3.x").chmod(0o755)
    (system / "installed.json").write_text('{"layout": 1, "python": "python3.x"}')
    monkeypatch.setattr(bytecode, "MEASURED", folder)
    monkeypatch.setattr(bytecode, "started_in", lambda _, words: Guest(words))
    return folder


def test_modules_are_compiled_once(measured: Path) -> None:
    """Once for each content of the sources; the standard library is not compiled again."""
    steps: list[str] = []
    ensure_bytecode(_SYSTEM, steps.append)
    ensure_bytecode(_SYSTEM, steps.append)
    first = bytecode_folder(_SYSTEM)
    assert len(steps) == 2
    (measured / "module.py").write_text("value = 3\n")
    ensure_bytecode(_SYSTEM, steps.append)
    second = bytecode_folder(_SYSTEM)
    assert len(steps) == 3
    assert first != second
    for folder in (first, second):
        names = {path.name.partition(".")[0] for path in folder.rglob("*.pyc")}
        assert names >= {"module", "standard"}


def test_a_module_that_cannot_be_compiled(measured: Path) -> None:
    """The reason is Python's, and nothing is left that looks finished."""
    (measured / "module.py").write_text("value =\n")
    with pytest.raises(TargetError, match=r"cannot compile .*measured"):
        ensure_bytecode(_SYSTEM, lambda _: None)
    assert not bytecode_folder(_SYSTEM).exists()
