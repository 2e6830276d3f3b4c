"""The forms of a comparison, by the names that users write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

from reusebench.reports.compare.annotations import as_github, as_gitlab
from reusebench.reports.compare.changes import Changes
from reusebench.reports.compare.comment import as_markdown
from reusebench.reports.compare.gate import GateResult
from reusebench.reports.compare.records import as_csv
from reusebench.reports.compare.text import as_text

#: Functions from a comparison, the result of its gate if there is one, and whether all rows are
#: shown of a large one, to the output. Forms for programs have all rows in any case; annotations
#: are of changes alone.
FORMS: dict[str, Callable[[Changes, Optional[GateResult], bool], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "csv": as_csv,
    "github": as_github,
    "gitlab": as_gitlab,
}
