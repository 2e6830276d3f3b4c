"""The part of start.py for modules other than the driver, and the reasons for start.py.

The Python that runs it needs nothing installed: the package is found beside the script. `-m` and
`-c` would search the working folder first, and run a json.py of the user's; `-P` prevents that, but
needs Python 3.11. The name `reusebench` is an empty package at first, so a board needs only the
folder `measured`.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys

__all__ = ["main"]

_MEASURED = "reusebench.measured"


def main() -> int:
    """Run the module that the first argument names, with the remaining arguments; return 0."""
    del sys.argv[0]
    module = sys.argv[0]
    if not module.startswith(_MEASURED):
        _import_package()
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0


def _import_package() -> None:
    """Replace the empty package `reusebench` by the one beside this file, whatever is installed."""
    (folder,) = sys.modules["reusebench"].__path__
    file = os.path.join(folder, "__init__.py")
    spec = importlib.util.spec_from_file_location(
        "reusebench", file, submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["reusebench"] = package
    spec.loader.exec_module(package)
    package.__dict__["measured"] = sys.modules[_MEASURED]
