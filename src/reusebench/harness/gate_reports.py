"""The gate's cases as reports of pytest, so that JUnit files and summaries count them as tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from reusebench.harness.memory_gate import (
    BROKEN,
    FAILED,
    PASSED,
    UNDECIDED,
    GateCase,
    Verdict,
)

__all__ = ["GateReporter", "gate_reports"]

#: The place of the cases in names of tests, and the class name in JUnit files.
SUITE = "memory_gate"


class GateReporter:
    """A plug-in that judges the gate once the run is stored, and before reports are written.

    pytest-benchmark stores it in a wrapper of this hook, which begins earlier.
    """

    def __init__(self, judge: Callable[[], Verdict | None]) -> None:
        self._judge = judge

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Give the cases to whatever reports tests."""
        verdict = self._judge()
        for report in gate_reports(verdict.cases if verdict else ()):
            session.config.hook.pytest_runtest_logreport(report=report)


def gate_reports(cases: Iterable[GateCase]) -> Iterator[pytest.TestReport]:
    """Yield the reports of each case: of its set-up, of its call unless it could not be judged, and
    of its end.

    A figure that got worse is a failure of the call, a gate that cannot be judged an error of the
    set-up, and what is undecided is skipped with the reason.
    """
    for case in cases:
        if case.outcome == BROKEN:
            yield _report(case, "setup", "failed", case.text)
        else:
            yield _report(case, "setup", "passed")
        if case.outcome == FAILED:
            yield _report(case, "call", "failed", case.text)
        elif case.outcome == UNDECIDED:
            yield _report(case, "call", "skipped", (SUITE, 0, case.text))
        elif case.outcome == PASSED:
            yield _report(case, "call", "passed")
        yield _report(case, "teardown", "passed")


def _report(case: GateCase, when: Any, outcome: Any, reason: Any = None) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid=f"{SUITE}::{case.name}",
        location=(SUITE, None, case.name),
        keywords={},
        outcome=outcome,
        longrepr=reason,
        when=when,
        sections=[("Captured stdout call", case.text)] if when != "setup" else [],
        user_properties=[("baseline", case.baseline)],
    )
