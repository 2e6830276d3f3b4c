"""The comparison to make: a program, the place where it runs, and how often."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reusebench.apply.comparison.report_file import ReportFile
from reusebench.apply.settings import ApplySettings
from reusebench.recorder.site import Site

__all__ = ["APPLIED", "AS_IT_IS", "ComparisonTask"]

#: The two sides, as they are named in texts and in stored runs.
AS_IT_IS = "as it is"
APPLIED = "applied"


@dataclass(frozen=True)
class ComparisonTask:
    """A program that is to be compared with itself applied."""

    site: Site
    command: Sequence[str]
    #: Name in reports, without the side.
    name: str
    #: Returns the variables that a program with these settings gets.
    variables: Callable[[ApplySettings], Mapping[str, str]]
    #: On the site.
    report: ReportFile
    settings: ApplySettings
    #: Runs of each side.
    repeats: int
    #: Time after which a run has failed; None: it follows from the first run.
    timeout_s: float | None
    #: Time after which a program that does not end by itself is ended.
    duration_s: float | None
    storage: Path
    #: Checkout whose commit is stored.
    project: Path
    #: Whether the site computes what models compute; a virtual board does not.
    computes: bool = True
