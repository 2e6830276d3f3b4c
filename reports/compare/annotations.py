"""A comparison as annotations: GitHub's workflow commands, and GitLab's code quality report."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reusebench.reports.compare.changes import Changes
from reusebench.reports.compare.gate import NOT_HELD, UNDECIDED, WORSE, GateResult, Held
from reusebench.reports.compare.gate_words import (
    change_words,
    held_words,
    lost_words,
    remedy,
)
from reusebench.reports.compare.headline import headline
from reusebench.reports.compare.sides import refusals

_ERROR = "error"
_WARNING = "warning"
_NOTICE = "notice"
#: GitHub shows ten annotations of a kind for each step, and drops the others.
_MOST_OF_A_KIND = 10
#: Outcomes of the gate that are told, by importance.
_LEVELS = {WORSE: _ERROR, NOT_HELD: _WARNING, UNDECIDED: _WARNING}
#: Words of GitLab for the levels. A notice is no degradation.
_SEVERITIES = {_ERROR: "major", _WARNING: "minor"}
#: The escapes of a workflow command: of its message, and of the values of its properties, too.
#: https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
_IN_MESSAGES = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_IN_PROPERTIES = {**_IN_MESSAGES, ":": "%3A", ",": "%2C"}


@dataclass(frozen=True)
class _Annotation:
    level: str
    title: str
    message: str


def as_github(changes: Changes, result: GateResult | None, _shows_all: bool = False) -> str:
    """Return workflow commands, the worst first; a notice has the verdict on the whole."""
    lines = []
    counts: dict[str, int] = {}
    annotations = list(_annotations(changes, result))
    whole = headline(changes, result)
    for annotation in (*annotations, _Annotation(_NOTICE, "reusebench", whole.text)):
        count = counts[annotation.level] = counts.get(annotation.level, 0) + 1
        total = sum(other.level == annotation.level for other in annotations)
        if count < _MOST_OF_A_KIND or total <= _MOST_OF_A_KIND:
            lines.append(_command(annotation, changes))
        elif count == _MOST_OF_A_KIND:
            rest = f"and {total - count + 1} more like these"
            lines.append(_command(_Annotation(annotation.level, "reusebench", rest), changes))
    return "\n".join(lines)


def as_gitlab(changes: Changes, result: GateResult | None, _shows_all: bool = False) -> str:
    """Return a code quality report: a list of degradations."""
    path = _baseline_file(changes) or changes.base[-1].path.name
    entries: list[dict[str, Any]] = []
    for annotation in _annotations(changes, result):
        # The same degradation has the same fingerprint in every run, so figures are not in it.
        identity = f"reusebench {annotation.level} {annotation.title}"
        entries.append(
            {
                "description": annotation.message,
                "check_name": f"reusebench {annotation.title}",
                "fingerprint": hashlib.sha256(identity.encode()).hexdigest(),
                "severity": _SEVERITIES[annotation.level],
                "location": {"path": path, "lines": {"begin": 1}},
            }
        )
    return json.dumps(entries, ensure_ascii=False, indent=1)


def _annotations(changes: Changes, result: GateResult | None) -> Iterator[_Annotation]:
    has_limits = result is not None and bool(result.limits)
    for lost in (each for each in changes.unmeasured if each.is_broken):
        title = f"fails now: {lost.subject}"
        yield _Annotation(_ERROR if has_limits else _WARNING, title, lost_words(lost))
    if result is None or not has_limits:
        for change in changes.rows:
            if change.is_worse:
                title = f"{change.metric.name}: {change.subject}"
                yield _Annotation(_WARNING, title, change_words(change))
        return
    for outcome, level in _LEVELS.items():
        for held in result.of(outcome):
            reason = "" if outcome == WORSE else f"; {remedy(held)}"
            yield _Annotation(level, _title(held), f"{outcome}: {held_words(held)}{reason}")
    for limit in result.unused:
        yield _Annotation(_WARNING, limit.text, f"nothing to hold {limit.text} against")
    for refusal in refusals(changes):
        yield _Annotation(_WARNING, "not compared", refusal)


def _title(held: Held) -> str:
    return f"{held.limit.text}: {held.change.subject}"


def _command(annotation: _Annotation, changes: Changes) -> str:
    properties = {"title": annotation.title}
    path = _baseline_file(changes)
    if path and annotation.level != _NOTICE:
        properties = {"file": path, **properties}
    words = ",".join(
        f"{name}={_escaped(value, _IN_PROPERTIES)}" for name, value in properties.items()
    )
    return f"::{annotation.level} {words}::{_escaped(annotation.message, _IN_MESSAGES)}"


def _escaped(text: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(letter, letter) for letter in text)


def _baseline_file(changes: Changes) -> str | None:
    """Return the newest file of the base, which a change would replace to accept the figures.

    None if it is outside of the working folder, and so of the repository.
    """
    newest = max(changes.base, key=lambda run: run.order)
    try:
        return newest.path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return None
