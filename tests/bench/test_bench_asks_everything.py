"""The questions in bench/ and the catalogue of scenarios."""

from __future__ import annotations

import importlib

import pytest

from scenarios.catalogue import SCENARIOS
from tests.support import CHECKOUT

_FILES = sorted(path.stem for path in (CHECKOUT / "bench").glob("test_*.py"))


def _scenarios(file: str) -> list[str]:
    """Return the scenarios that the test of the file is parametrised with."""
    (mark,) = getattr(importlib.import_module(f"bench.{file}"), file).pytestmark
    names: list[str] = mark.args[1]
    return names


def test_every_scenario_is_measured_once() -> None:
    """Each is in one file, in the order of the catalogue, a baseline before what is compared with it."""
    order = [scenario.name for scenario in SCENARIOS]
    assert sorted(name for file in _FILES for name in _scenarios(file)) == sorted(order)
    for file in _FILES:
        assert _scenarios(file) == [name for name in order if name in _scenarios(file)]


def test_what_is_compared_is_in_one_file() -> None:
    """A scenario and its baseline are in one file, so that choosing the file is enough."""
    baselines = {scenario.name: scenario.baseline for scenario in SCENARIOS}
    for file in _FILES:
        names = _scenarios(file)
        assert {baselines[name] for name in names if baselines[name]} <= set(names)


@pytest.mark.parametrize("file", _FILES)
def test_every_file_opens_with_its_question(file: str) -> None:
    """The first line of a file ends with a question mark."""
    words = importlib.import_module(f"bench.{file}").__doc__
    assert words
    assert words.splitlines()[0].endswith("?")
