"""The gate's cases in a JUnit file, written by pytest's own writer."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from _pytest.junitxml import LogXML

from reusebench.harness.gate_reports import gate_reports
from reusebench.harness.memory_gate import BROKEN, FAILED, PASSED, UNDECIDED, GateCase

_WORDS = 'FAILED application_memory:2%: <rknn> full_dup: 180.00 -> 240.00 MiB\x1b\nand "more"'
_CASES = [
    GateCase(f"application_memory:{number}%+512KiB [a::b/c]", outcome, _WORDS, "./baseline")
    for number, outcome in enumerate((PASSED, FAILED, UNDECIDED, BROKEN))
]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> ElementTree.Element:
    """Return the test suite of a file with a case of each outcome."""
    path = tmp_path_factory.mktemp("junit") / "gate.xml"
    log = LogXML(str(path), None)
    log.pytest_sessionstart()
    for report in gate_reports(_CASES):
        log.pytest_runtest_logreport(report)
    log.pytest_sessionfinish()
    found = ElementTree.parse(path).find("testsuite")
    assert found is not None
    return found


def test_each_case_counts_once(suite: ElementTree.Element) -> None:
    """A figure that got worse is a failure, a gate that cannot be judged an error, and what is not
    decided is skipped.
    """
    counts = {name: suite.attrib[name] for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}


def test_the_sentences_are_the_message(suite: ElementTree.Element) -> None:
    """Whatever is in them, the file is sound XML; a case that has passed has none."""
    told = []
    for case in suite.findall("testcase"):
        children = [child for child in case if child.tag != "properties"]
        told.append([child.tag for child in children])
        for child in children:
            assert "180.00 -> 240.00 MiB" in child.attrib["message"]
    assert told == [[], ["failure"], ["skipped"], ["error"]]


def test_a_case_has_the_name_of_its_limit_and_the_baseline(suite: ElementTree.Element) -> None:
    """They stand in one group, apart from the tests that measure."""
    for case, given in zip(suite.findall("testcase"), _CASES):
        assert case.attrib["name"].endswith(given.name.rpartition("::")[2])
        (baseline,) = case.findall("properties/property[@name='baseline']")
        assert baseline.attrib["value"] == "./baseline"
