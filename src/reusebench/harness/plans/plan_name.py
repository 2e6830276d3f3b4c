"""The rules for the name of a user's plan."""

from __future__ import annotations

import re

from reusebench.harness.plans.document import Document, shown
from reusebench.scenarios.catalogue import SCENARIOS

__all__ = ["checked_name", "is_built_in"]

#: Names of plans are in the names of tests, of traces and of configurations.
_NAME = re.compile(r"[\w-]+")
#: File systems allow names of 255 bytes, and the names of traces have other parts, too.
_LONGEST_NAME_BYTES = 128


def is_built_in(name: str) -> bool:
    """Whether a built-in scenario has this name."""
    return any(scenario.name == name for scenario in SCENARIOS)


def checked_name(document: Document, name: str) -> str:
    """Return the name of a plan; raise PlanFileError if results cannot have it."""
    if not _NAME.fullmatch(name) or len(name.encode()) > _LONGEST_NAME_BYTES:
        valid = f"letters, digits, - and _, up to {_LONGEST_NAME_BYTES} bytes"
        raise document.error(("name",), f"{shown(name)} is no name for a plan; valid: {valid}")
    if is_built_in(name):
        raise document.error(
            ("name",), f"{name!r} is the name of a built-in scenario; give the plan another"
        )
    return name
