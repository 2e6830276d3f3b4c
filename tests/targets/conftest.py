"""The preload library, compiled once for this machine's own architecture."""

from __future__ import annotations

from pathlib import Path

import pytest

from targets.preload.build import compile_preload
from targets.preload.compilers import Compiler, find_compiler
from targets.rknn_library import architecture_of_this_python


@pytest.fixture(scope="session")
def compiler() -> Compiler:
    """Return this machine's C compiler."""
    found = find_compiler(architecture_of_this_python() or "")
    if found is None:
        pytest.skip("no C compiler: the preload library cannot be compiled here (Debian: apt install gcc)")
    return found


@pytest.fixture(scope="session")
def preload(compiler: Compiler, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the preload library."""
    library = tmp_path_factory.mktemp("preload") / "preload.so"
    compile_preload(compiler, library, "-Werror")
    return library


@pytest.fixture(scope="session")
def lower_preload(compiler: Compiler, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a second copy with variables of its own (LOWER_BOARD, ...), to play the board below the first one."""
    library = tmp_path_factory.mktemp("preload") / "lower.so"
    compile_preload(compiler, library, "-Werror", '-DVARIABLES="LOWER"')
    return library
