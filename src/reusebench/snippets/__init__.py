"""What to write in an application: a plan as a program, with the runtime's calls in the order that
works.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Optional

from reusebench.measured.plan import Plan
from reusebench.measured.runtimes import RUNTIMES
from reusebench.measured.runtimes.base import NotSupported
from reusebench.snippets.base import Snippet, check_is_served

__all__ = ["Snippet", "snippet_of"]


def snippet_of(plan: Plan, chip: Optional[str] = None) -> Snippet:
    """Return the program of a plan, for its runtime; `chip` is Rockchip's, a name of targets.chips,
    where it is known.

    Raises NotSupported of what the runtime lacks, and of plans that no program of an application
    does.
    """
    check_is_served(plan)
    # A stored plan may come from anywhere.
    if plan.runtime not in (runtime.name for runtime in RUNTIMES):
        raise NotSupported("no_code_of_runtime", runtime=plan.runtime)
    # Each runtime has a module of its name.
    write: Callable[[Plan, Optional[str]], Snippet] = importlib.import_module(
        f"reusebench.snippets.{plan.runtime}"
    ).write
    return write(plan, chip)
