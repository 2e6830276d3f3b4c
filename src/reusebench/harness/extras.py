"""Modules that a part of the commands needs, and that an installation may lack: a board needs few
of them.
"""

from __future__ import annotations

import importlib.util

from reusebench.harness.errors import UserError

__all__ = ["EXTRAS", "check_extra", "install_line", "missing_modules"]

#: By part: its modules, which are called as the packages that pip installs.
EXTRAS: dict[str, tuple[str, ...]] = {
    "reports": ("matplotlib", "rich"),
    "frames": ("pandas",),
    "streams": ("av",),
}


def missing_modules(extra: str) -> list[str]:
    """Return the modules of a part that are not installed; none of them is imported."""
    return [name for name in EXTRAS[extra] if importlib.util.find_spec(name) is None]


def install_line(extra: str) -> str:
    """Return the command that installs what a part lacks."""
    return f"pip install {' '.join(missing_modules(extra))}"


def check_extra(extra: str, subject: str) -> None:
    """Raise UserError if a module is missing that the subject of the sentence needs."""
    missing = missing_modules(extra)
    if missing:
        raise UserError(f"{subject} needs {', '.join(missing)}: {install_line(extra)}")
