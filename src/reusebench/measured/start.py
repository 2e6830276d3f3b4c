"""Starts the driver or a module: `python .../measured/start.py [MODULE [ARGUMENT...]]`.

launch.py has the reasons.
"""

import sys

# This file is short, because Python compiles a script in every process and that memory is measured.
_FOLDER = __file__.rpartition("/")[0]
sys.path[:] = [path for path in sys.path if path != _FOLDER]
_package = type(sys)("reusebench")
_package.__path__ = [_FOLDER.rpartition("/")[0]]
sys.modules["reusebench"] = _package

if len(sys.argv) == 1:
    from reusebench.measured.driver import main
else:
    from reusebench.measured.launch import main
sys.exit(main())
