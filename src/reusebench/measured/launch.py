"""What start.py does for modules other than the driver, and why there is start.py.

Nothing has to be installed for the Python that runs it: the package is found beside it. `-m` and
`-c` would search the working folder first, so that a json.py of the user's would run; `-P`, which
does not, is Python 3.11. The name `reusebench` is an empty package at first, so a board needs the
folder `measured` alone.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys

__all__ = ["main"]

_MEASURED = "reusebench.measured"


def main() -> int:
    """Run the module that is named first, with the other arguments as its own; return 0."""
    del sys.argv[0]
    module = sys.argv[0]
    if not module.startswith(_MEASURED):
        _import_package()
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0


def _import_package() -> None:
    """Put `reusebench` with all of its content in place of the empty package, whatever is
    installed.
    """
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
