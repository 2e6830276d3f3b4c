"""The quick form of the scripts in this folder, which shows in seconds whether a script works.

`python -m benchmarks.NAME --quick` runs it for one script, `python -m benchmarks` for all. The
figures of a quick form mean nothing.
"""

from __future__ import annotations

import argparse
import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from reusebench.models import Recipe, ensure_all

__all__ = ["SKIPPED", "compiler", "own_folder", "parse", "skip", "tiny_model"]

#: Exit code of a skipped script; the last line of its output has the missing requirement.
SKIPPED = 77


def parse(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
    quick_options: Sequence[str] | Callable[[], Sequence[str]],
) -> argparse.Namespace:
    """Return the parsed options, with --quick added.

    With --quick, `quick_options` replace the defaults; other arguments override them.
    """
    parser.add_argument(
        "--quick",
        action="store_true",
        help="show in a few seconds that it works; its figures mean nothing",
    )
    given = list(sys.argv[1:] if arguments is None else arguments)
    if "--quick" in given:
        first = quick_options() if callable(quick_options) else quick_options
        given = [*first, *given]
    return parser.parse_args(given)


def skip(reason: str) -> NoReturn:
    """End the script as skipped, because a requirement is missing."""
    print(reason, flush=True)
    sys.exit(SKIPPED)


def compiler() -> str:
    """Return the C compiler; skip the script if there is none."""
    name = os.environ.get("CC", "cc")
    if shutil.which(name) is None:
        skip(f"no C compiler: `{name}` is not in the path; CC=NAME names another")
    return name


def own_folder() -> Path:
    """Return a new folder, which is removed when the script ends."""
    folder = Path(tempfile.mkdtemp(prefix="reusebench-benchmark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def tiny_model() -> str:
    """Return the path of the smallest built-in network as an ONNX file."""
    (model,) = ensure_all(".onnx", [Recipe("tiny", 64, 1)])
    return str(model)
