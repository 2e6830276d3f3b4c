"""Modules that only some commands need, and that an installation on a board may lack."""

from __future__ import annotations

import importlib.util

from reusebench.harness.errors import UserError

__all__ = ["EXTRAS", "check_extra", "install_line", "missing_modules"]

#: Modules of each part; their names are those of the packages that pip installs.
EXTRAS: dict[str, tuple[str, ...]] = {
    "reports": ("matplotlib", "rich"),
    "frames": ("pandas",),
    "parquet": ("duckdb", "pandas"),
    "streams": ("av",),
}


def missing_modules(extra: str) -> list[str]:
    """Return the modules of a part that are not installed, without importing any."""
    return [name for name in EXTRAS[extra] if importlib.util.find_spec(name) is None]


def install_line(extra: str) -> str:
    """Return the command that installs the missing modules of a part."""
    return f"pip install {' '.join(missing_modules(extra))}"


def check_extra(extra: str, subject: str) -> None:
    """Raise UserError, with `subject` as the sentence's subject, if a module is missing."""
    missing = missing_modules(extra)
    if missing:
        raise UserError(f"{subject} needs {', '.join(missing)}: {install_line(extra)}")
