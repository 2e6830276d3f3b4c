"""Lets the models of a Python program share memory, although the program knows nothing of it.

Python imports this module at its start if its folder is in PYTHONPATH. It needs nothing but the
standard library and the package beside it, so production needs only this folder. A runtime's module
is wrapped when the program imports it; if that fails, the program goes on as without.
`reusebench_hooks/settings.py` has the environment variables.

A program may start any Python: this file can be read by 2.7, and does nothing before 3.8.
"""

import os
import sys

if sys.version_info >= (3, 8):  # noqa: UP036
    from reusebench_hooks.finding import find_runtimes, run_next_sitecustomize

    if not os.environ.get("REUSEBENCH_APPLY_OFF") or (
        os.environ.get("REUSEBENCH_APPLY_DIGESTS") == "1"
    ):
        find_runtimes()
    run_next_sitecustomize()
else:
    _package = "reusebench_hooks"
    sys.path[:] = [place for place in sys.path if not os.path.isdir(os.path.join(place, _package))]
    _this = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # noqa: F401
    except ImportError:
        sys.modules["sitecustomize"] = _this
