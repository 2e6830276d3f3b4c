"""Plans as programs for an application, with the runtime's calls in the order that works."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Optional

from reusebench.measured.plan import Plan
from reusebench.measured.runtimes import RUNTIMES
from reusebench.measured.runtimes.base import NotSupported
from reusebench.snippets.base import Snippet, check_is_served

__all__ = ["Snippet", "snippet_of"]


def snippet_of(plan: Plan, chip: Optional[str] = None) -> Snippet:
    """Return the program of a plan, for its runtime; `chip` is a name in targets.chips, if known.

    Raises NotSupported if the runtime lacks a feature, or if no application would run the plan.
    """
    check_is_served(plan)
    # A stored plan may name any runtime. Each that code can be written for has a module.
    name = f"reusebench.snippets.{plan.runtime}"
    is_known = plan.runtime in (runtime.name for runtime in RUNTIMES)
    if not is_known or importlib.util.find_spec(name) is None:
        raise NotSupported("no_code_of_runtime", runtime=plan.runtime)
    module = importlib.import_module(name)
    write: Callable[[Plan, Optional[str]], Snippet] = module.write
    return write(plan, chip)
