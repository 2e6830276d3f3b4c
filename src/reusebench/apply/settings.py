"""The settings of an applied program: environment variables, which library and hooks read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

__all__ = [
    "HOOKS",
    "PLAN_NAME",
    "PREFIX",
    "PROBLEMS_NAME",
    "REPORT_NAME",
    "ApplySettings",
    "with_hooks",
    "with_library",
]

#: Folder for PYTHONPATH. It is all that Python needs in production, and imports nothing of ours.
HOOKS = Path(__file__).with_name("hooks")
#: Beginning of the names of all variables.
PREFIX = "REUSEBENCH_APPLY_"
#: Name of the report in a folder of its own.
REPORT_NAME = "report.jsonl"
#: Name of the file beside it with what could not be applied, a sentence a line.
PROBLEMS_NAME = "problems.txt"
#: Name of the plan beside it.
PLAN_NAME = "plan"


@dataclass(frozen=True)
class ApplySettings:
    """What an applied program is told; None leaves it to the library and the hooks."""

    #: File to which each process appends a line at its end.
    report: Path | None = None
    #: Most runs at once of contexts that share memory.
    at_once: int | None = None
    #: Everything is left alone.
    is_off: bool = False
    #: The report has digests of all outputs.
    has_digests: bool = False
    #: Folder of prepared models.
    cache: Path | None = None
    #: File with the settings of a plan, by model.
    plan: Path | None = None

    def in_folder(self, folder: Path) -> ApplySettings:
        """Return the settings with report and plan in a folder of launch.py."""
        plan = folder / PLAN_NAME
        return replace(self, report=folder / REPORT_NAME, plan=plan if plan.exists() else None)

    def variables(self) -> dict[str, str]:
        """Return the environment variables.

        >>> ApplySettings(at_once=2).variables()
        {'REUSEBENCH_APPLY_AT_ONCE': '2'}
        """
        values = {
            "REPORT": self.report,
            "AT_ONCE": self.at_once,
            "OFF": 1 if self.is_off else None,
            "DIGESTS": 1 if self.has_digests else None,
            "CACHE": self.cache,
            "PLAN": self.plan,
        }
        return {f"{PREFIX}{name}": str(value) for name, value in values.items() if value}


def with_hooks(environment: Mapping[str, str]) -> dict[str, str]:
    """Return PYTHONPATH with the hooks first: they run the program's own sitecustomize.

    >>> with_hooks({"PYTHONPATH": "/a"})["PYTHONPATH"].endswith("/apply/hooks:/a")
    True
    """
    others = environment.get("PYTHONPATH")
    return {"PYTHONPATH": f"{HOOKS}:{others}" if others else str(HOOKS)}


def with_library(library: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return LD_PRELOAD with the library last: what others stand in for stays theirs.

    >>> with_library("/a.so", {"LD_PRELOAD": "/b.so"})
    {'LD_PRELOAD': '/b.so:/a.so'}
    """
    others = environment.get("LD_PRELOAD")
    return {"LD_PRELOAD": f"{others}:{library}" if others else library}
