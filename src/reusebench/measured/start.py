"""Starts a module: `python .../measured/start.py [MODULE [ARGUMENT...]]`; without one, the driver.

Nothing has to be installed for this Python: the package is found beside this file. `-m` and `-c` would search the
working folder first, so that a json.py of the user's would run; `-P`, which does not, is Python 3.11. Python 3.8.
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(_FOLDER)
_MEASURED = "reusebench.measured"


def _main() -> None:
    """Run the module that is named first, or the driver."""
    # Python puts the folder of a script first.
    sys.path[:] = [path for path in sys.path if path != _FOLDER]
    del sys.argv[0]
    module = sys.argv[0] if sys.argv else _MEASURED
    if module.startswith(_MEASURED):
        _stand_in_for_package()
    else:
        _import_package()
    if not sys.argv:
        from reusebench.measured.driver import main

        sys.exit(main())

    import runpy

    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _stand_in_for_package() -> None:
    """Have `reusebench` without the content of its __init__.py, so that a board needs the folder `measured` alone."""
    package = type(sys)("reusebench")
    package.__path__ = [_PACKAGE]
    sys.modules["reusebench"] = package


def _import_package() -> None:
    """Import `reusebench` from where this file is, whatever is installed."""
    import importlib.util

    file = os.path.join(_PACKAGE, "__init__.py")
    spec = importlib.util.spec_from_file_location("reusebench", file, submodule_search_locations=[_PACKAGE])
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["reusebench"] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    _main()
