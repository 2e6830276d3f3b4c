"""The real savings of memory reuse between neural-network contexts: measured, stored and explained.

`pytest -p reusebench` gives tests the fixture `measure`; `load` reads stored results. Everything
that is not in `__all__` is private and may change.
"""

from __future__ import annotations

import importlib
import os

# Type checkers read these imports; at run time nothing is imported until it is used.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from reusebench.harness.measure import Measure, Result
    from reusebench.harness.plans.python_plan import (
        Context,
        Conversation,
        Model,
        Plan,
        Streams,
    )
    from reusebench.storage.frames import load
    from reusebench.storage.measured_figure import Figure

__all__ = [
    "Context",
    "Conversation",
    "Figure",
    "Measure",
    "Model",
    "Plan",
    "Result",
    "Streams",
    "load",
]

__version__ = "0.2.0"

#: The plug-in that `pytest -p reusebench` loads.
pytest_plugins = ("reusebench.harness.plugin",)

#: Module of each name in __all__.
_MODULES = {
    "Context": "harness.plans.python_plan",
    "Conversation": "harness.plans.python_plan",
    "Figure": "storage.measured_figure",
    "Measure": "harness.measure",
    "Model": "harness.plans.python_plan",
    "Plan": "harness.plans.python_plan",
    "Result": "harness.measure",
    "Streams": "harness.plans.python_plan",
    "load": "storage.frames",
}


#: Folders that are links in a checkout.
for _folder in ("bench", "native", "reports", "scenarios"):
    if not os.path.isdir(os.path.join(os.path.dirname(__file__), _folder)):
        raise ImportError(
            f"reusebench is not whole: {_folder} is no folder. A checkout needs symbolic links: git"
            " config core.symlinks true, then git checkout -- src/reusebench; then install it"
            " again"
        )


# There is no __dir__: pytest looks at all names of a plug-in. It would import pandas, and with it
# numpy, whose pages would then be shared with the measured process.
if not TYPE_CHECKING:  # type checkers would take every name

    def __getattr__(name):  # noqa: ANN001, ANN202
        """Return a public name from the module that has it."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
