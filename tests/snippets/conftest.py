"""Compilers for the programs that snippets are."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reusebench.targets.compilers import Compiler, find_compiler, missing_package

_TRIPLES = {"armhf": "arm-linux-gnueabihf", "aarch64": "aarch64-linux-gnu"}


@pytest.fixture(scope="session")
def compiler_for(shared_folder: Path) -> Callable[[str], Compiler]:
    """Return a function that returns a C compiler for an architecture: this machine's, or the
    package ziglang's.

    Skips if there is none.
    """

    def find(architecture: str) -> Compiler:
        own = find_compiler(architecture)
        if own is not None:
            return own
        if architecture not in _TRIPLES or importlib.util.find_spec("ziglang") is None:
            package = missing_package(architecture)
            pytest.skip(
                f"no C compiler for {architecture} (Debian: apt install {package}; or pip install"
                " ziglang)"
            )
        caches = {
            name: str(shared_folder / "zig-cache")
            for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")
        }
        return Compiler(
            (sys.executable, "-m", "ziglang", "cc", "-target", _TRIPLES[architecture]), caches
        )

    return find
