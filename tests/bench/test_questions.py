"""The questions in bench/ and the catalogue of scenarios."""

from __future__ import annotations

import importlib
import re

import pytest

from reusebench.measured.runtimes import find_runtime
from reusebench.scenarios.catalogue import (
    DEFAULT_OPTIONS,
    OPTIONS,
    SCENARIOS,
    find_scenario,
    first_look,
    scenarios_of,
    suits,
)
from tests.bench.bench_process import BENCH_LIMIT_S, start_pytest
from tests.helpers.support import CHECKOUT

pytestmark = pytest.mark.process


def _first_look(model_files: int) -> tuple[str, ...]:
    """Return the scenarios of --quick on a runtime without conversations."""
    return tuple(name for name in first_look(model_files) if suits(name, False))


_FIRST_LOOK = _first_look(model_files=0)
_LEAKS = tuple(name for name in scenarios_of("leaks") if suits(name, False))
#: Modules whose scenarios are those of the user's files, or the runtimes' own options.
_PLANS = "bench.test_plans"
_OPTIONS = "bench.test_options"
_MODULES = [
    importlib.import_module(f"bench.{path.stem}")
    for path in sorted((CHECKOUT / "bench").glob("test_*.py"))
]


def test_every_scenario_is_in_one_file_with_its_baseline() -> None:
    """Scenarios are in the order of the catalogue, a baseline before its scenarios: a file alone is
    enough.
    """
    order = {scenario.name: scenario for scenario in SCENARIOS}
    in_files: list[str] = []
    for module in _MODULES:
        if module.__name__ == _PLANS:
            continue
        if module.__name__ == _OPTIONS:
            in_files += scenarios_of(OPTIONS)
            continue
        (mark,) = getattr(module, module.__name__.removeprefix("bench.")).pytestmark
        names = mark.args[1]
        assert names == [name for name in order if name in names]
        assert {order[name].baseline for name in names} - {None} <= set(names)
        in_files += names
    assert sorted(in_files) == sorted(order)


def test_every_file_opens_with_its_question() -> None:
    """The first line of a file ends with a question mark."""
    assert [
        module for module in _MODULES if not (module.__doc__ or "").partition("\n")[0].endswith("?")
    ] == []


@pytest.mark.parametrize("model_files", [0, 1, 2])
def test_the_first_look_has_its_baselines(model_files: int) -> None:
    """Each line of the terminal can tell a saving."""
    names = first_look(model_files)
    assert {find_scenario(name).baseline for name in names} - {None} <= set(names)


def _collected(*arguments: str) -> tuple[int, str]:
    """Return the exit code of pytest and the tests that it would run."""
    process = start_pytest(*arguments, "--collect-only", "-q")
    words, _ = process.communicate(timeout=BENCH_LIMIT_S)
    return process.returncode, words.decode()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("bench/",), _FIRST_LOOK),
        (("bench/", "--model=a.onnx"), _FIRST_LOOK),
        (("bench/", "--model=a.onnx", "--model=b.onnx"), _first_look(2)),
        (("bench/", "-k", "test_leaks"), _LEAKS),
        (("bench/test_leaks.py::test_leaks[onnxruntime-cycles_dups]",), ("cycles_dups",)),
        (("bench/", "bench/test_leaks.py"), (*_FIRST_LOOK, *_LEAKS)),
    ],
)
def test_what_quick_measures(arguments: tuple[str, ...], expected: tuple[str, ...]) -> None:
    """--quick measures the first look, and anything that -k, a file or a test names.

    bench/ has a file for plans, too: without a plan it is not mentioned.
    tests/commands/test_bench.py tests that the name of a file alone is enough.
    """
    code, words = _collected(*arguments, "--quick", "--runtime=onnxruntime")
    assert code == 0, words
    scenarios = re.findall(r"\[onnxruntime-(\w+)\]$", words, re.MULTILINE)
    assert sorted(scenarios) == sorted(expected)
    assert ("--quick: the first look alone" in words) is ("full_dup" in expected)
    assert "plan" not in words


def test_options_are_those_of_the_runtimes() -> None:
    """Each runtime has its options after one default; a runtime without options has no question,
    and no error.
    """
    _, words = _collected("bench/test_options.py", "--runtime=onnxruntime")
    names = [line.partition("[")[2].rstrip("]") for line in words.splitlines() if "[" in line]
    assert names == [
        f"onnxruntime-{option}"
        for option in (DEFAULT_OPTIONS, *find_runtime("onnxruntime").options)
    ]
    code, words = _collected("bench/test_options.py", "--runtime=rknn")
    assert code == pytest.ExitCode.NO_TESTS_COLLECTED, words
