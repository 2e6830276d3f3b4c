"""Prints the versions of Python and a runtime: `start.py reusebench.measured.versions ADAPTER`."""

from __future__ import annotations

import importlib
import platform
import sys

# Imported so that Python has it compiled from now on, and no measured process compiles it.
from reusebench.measured import driver  # noqa: F401
from reusebench.measured.runtimes.base import AdapterError

__all__ = ["MARK"]

#: Word before the versions: a library may print words of its own, earlier or when its process ends.
MARK = "reusebench-versions"


def _main(adapter: str) -> None:
    """Print the mark and both versions; the runtime's version may have spaces."""
    try:
        runtime = importlib.import_module(adapter).open_runtime()
    except AdapterError as error:
        sys.exit(str(error))
    print(MARK, platform.python_version(), runtime.version)


if __name__ == "__main__":
    _main(sys.argv[1])
