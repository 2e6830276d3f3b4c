"""The preload library, compiled once for this machine's own architecture."""

from __future__ import annotations

from pathlib import Path

import pytest

from targets.preload.build import compile_preload
from targets.preload.compilers import Compiler, find_compiler
from targets.rknn_library import architecture_of_this_python
from tests.support import made_once


@pytest.fixture(scope="session")
def compiler() -> Compiler:
    """Return this machine's C compiler."""
    found = find_compiler(architecture_of_this_python() or "")
    if found is None:
        pytest.skip("no C compiler: the preload library cannot be compiled here (Debian: apt install gcc)")
    return found


@pytest.fixture(scope="session")
def preload(compiler: Compiler, shared_folder: Path) -> Path:
    """Return the preload library."""
    return made_once(shared_folder / "preload.so", lambda path: compile_preload(compiler, path, "-Werror"))


@pytest.fixture(scope="session")
def lower_preload(compiler: Compiler, shared_folder: Path) -> Path:
    """Return a second copy with variables of its own (LOWER_BOARD, ...), to play the board below the first one."""
    options = ("-Werror", '-DVARIABLES="LOWER"')
    return made_once(shared_folder / "lower.so", lambda path: compile_preload(compiler, path, *options))
