"""The questions in bench/ and the catalogue of scenarios."""

from __future__ import annotations

import importlib

from scenarios.catalogue import SCENARIOS
from tests.support import CHECKOUT

#: Its scenarios are those of the user's files.
_PLANS = "bench.test_plans"
_MODULES = [importlib.import_module(f"bench.{path.stem}") for path in sorted((CHECKOUT / "bench").glob("test_*.py"))]


def test_every_scenario_is_in_one_file_with_its_baseline() -> None:
    """In the order of the catalogue, a baseline before what is compared with it: choosing a file is enough."""
    order = {scenario.name: scenario for scenario in SCENARIOS}
    in_files: list[str] = []
    for module in _MODULES:
        if module.__name__ == _PLANS:
            continue
        (mark,) = getattr(module, module.__name__.removeprefix("bench.")).pytestmark
        names = mark.args[1]
        assert names == [name for name in order if name in names]
        assert {order[name].baseline for name in names} - {None} <= set(names)
        in_files += names
    assert sorted(in_files) == sorted(order)


def test_every_file_opens_with_its_question() -> None:
    """The first line of a file ends with a question mark."""
    assert [module for module in _MODULES if not (module.__doc__ or "").partition("\n")[0].endswith("?")] == []
