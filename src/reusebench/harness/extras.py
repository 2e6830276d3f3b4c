"""The extras of the installation: what each consists of, and the line that installs it."""

from __future__ import annotations

import importlib.util
import shlex
from pathlib import Path

from reusebench.harness.errors import UserError

__all__ = ["EXTRAS", "check_extra", "install_line", "missing_modules"]

_CHECKOUT = Path(__file__).resolve().parent.parent

#: The modules of each extra of pyproject.toml, as they are imported.
EXTRAS: dict[str, tuple[str, ...]] = {
    "reports": ("matplotlib", "pandas", "rich", "ruptures", "scipy"),
    "streams": ("av",),
}


def missing_modules(extra: str) -> list[str]:
    """Return the modules of the extra that are not installed; imports none of them."""
    return [name for name in EXTRAS[extra] if importlib.util.find_spec(name) is None]


def install_line(extra: str) -> str:
    """Return the command that installs the extra, as it is typed in the working folder."""
    checkout = "." if Path.cwd() == _CHECKOUT else str(_CHECKOUT)
    return f"pip install -e {shlex.quote(f'{checkout}[{extra}]')}"


def check_extra(extra: str, subject: str) -> None:
    """Raise UserError where the extra, which the subject of the sentence needs, is not installed whole."""
    if missing_modules(extra):
        raise UserError(f"{subject} needs the {extra} extra: {install_line(extra)}")
