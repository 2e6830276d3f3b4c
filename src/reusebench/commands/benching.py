"""`pytest bench/` run by a command, in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Optional, TextIO

from reusebench.storage.run_file import run_files, run_stem
from reusebench.system.package import python_command
from reusebench.system.processes import run_in_terminal

__all__ = ["run_bench"]


def run_bench(
    options: Sequence[str],
    storage: Path,
    tests: Sequence[str] = (),
    output: Optional[TextIO] = None,
) -> tuple[int, list[Path]]:
    """Run `tests` of bench/, all by default, and return pytest's exit code and the new run files.

    pytest prints to `output` if it is given, otherwise to standard output. A signal to this process
    is passed on to pytest, which stores its results before this raises Interrupted.
    """
    before = {run_stem(path) for path in run_files(storage)}
    command = python_command("reusebench", "bench", *tests, *options)
    code = run_in_terminal([*command, "--storage", str(storage.absolute())], output)
    return code, [path for path in run_files(storage) if run_stem(path) not in before]
