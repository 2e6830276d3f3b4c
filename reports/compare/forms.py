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

#: Functions from a comparison, and the result of its gate if there is one, to the output.
FORMS: dict[str, Callable[[Changes, Optional[GateResult]], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "csv": as_csv,
    "github": as_github,
    "gitlab": as_gitlab,
}
