"""What stands in the file of every stored run, in pytest-benchmark's form: the machine and the commit."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from samplers.environment import environment
from storage.board import board_name

__all__ = ["run_document"]

#: What pytest-benchmark calls a commit that is none.
_NO_COMMITS = ("unversioned", "unknown")


def run_document(project: Path) -> dict[str, Any]:
    """Return the document of a run without results; its commit is that of the project, none outside a checkout."""
    # Only now: while the program ran, they would have weighed on it.
    import pytest_benchmark.plugin

    plugin: Any = pytest_benchmark.plugin
    with _inside(project):
        commit = plugin.get_commit_info()
    return {
        "machine_info": {
            **plugin.pytest_benchmark_generate_machine_info(),
            "reusebench": environment(board_name()),
        },
        "commit_info": {} if commit["id"] in _NO_COMMITS else commit,
        "benchmarks": [],
        "datetime": datetime.datetime.now(datetime.timezone.utc).isoformat(),
        "version": pytest_benchmark.__version__,
    }


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in that folder."""
    before = os.open(".", os.O_RDONLY)
    os.chdir(folder)
    try:
        yield
    finally:
        os.fchdir(before)
        os.close(before)
