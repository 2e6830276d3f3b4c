"""The text of `reusebench board verify`."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reusebench.commands.verify_text import Comparison, comparison_lines
from reusebench.storage.board_sizes import BOARD_SIZES_SCHEMA, BoardSizes, ScenarioSizes

_LOADED = {"task_list": 440, "weights": 76_000, "register_commands": 6656}
_DUP = {"task_list": 440, "register_commands": 6656}


def _scenario(*contexts: dict[str, int], **fields: Any) -> ScenarioSizes:
    common = {"scenario": "full_dup", "outcome": "ok", "total_bytes": 98_304, "peak_bytes": 98_304}
    return ScenarioSizes(contexts=contexts, **{**common, **fields})


def _sizes(*scenarios: ScenarioSizes, **fields: Any) -> BoardSizes:
    common = {
        "schema": BOARD_SIZES_SCHEMA,
        "version": "0.2.0",
        "target": "rock",
        "chip": "rk3588",
        "driver_version": "0.9.8",
        "library_version": "2.3.2 (429f97ae6b)",
        "computes": True,
        "models": {"mobile": "ab" * 32},
    }
    return BoardSizes(scenarios=scenarios, **{**common, **fields})


def _text(measured: BoardSizes, expected: BoardSizes) -> str:
    return "\n".join(comparison_lines(Comparison(measured, expected)))


def test_equal_boards() -> None:
    """All sizes are counted; equal contexts are one line; an issue shows the text as it is."""
    sizes = _sizes(_scenario(_LOADED, _DUP, _DUP, _DUP))
    comparison = Comparison(sizes, msgspec.structs.replace(sizes, target="vboard:rk3588"))
    assert comparison.is_equal
    text = "\n".join(comparison_lines(comparison))
    lines = text.splitlines()
    assert (lines[0], lines[-1]) == ("```", "```")
    assert "target: rock (expected: vboard:rk3588)" in lines
    assert "library: 2.3.2 (429f97ae6b)" in lines
    assert [line.split() for line in lines if line.startswith("full_dup")] == [
        ["full_dup", "1", "440", "76,000", "6,656", "-", "-"],
        ["full_dup", "2-4", "440", "-", "6,656", "-", "-"],
        ["full_dup", "all", "-", "-", "-", "98,304", "98,304"],
    ]
    assert lines[-2] == "11 of 11 sizes are equal."


def test_a_size_that_differs() -> None:
    """Both sizes are shown, and the summary names the scenario and the part, once."""
    measured = _sizes(_scenario(_LOADED, *[{**_DUP, "register_commands": 10_240}] * 2))
    expected = _sizes(_scenario(_LOADED, _DUP, _DUP))
    assert not Comparison(measured, expected).is_equal
    text = _text(measured, expected)
    assert "10,240 (expected 6,656)" in text
    assert "7 of 9 sizes are equal. Different: full_dup (register_commands)." in text


def test_a_part_that_one_lacks() -> None:
    """It differs, whichever of the two has it."""
    both = (_sizes(_scenario(_LOADED)), _sizes(_scenario({**_LOADED, "internal": 4096})))
    assert "none (expected 4,096)" in _text(*both)
    assert "4,096 (expected none)" in _text(*reversed(both))
    text = _text(_sizes(_scenario(_LOADED, _DUP)), _sizes(_scenario(_LOADED)))
    assert "5 of 7 sizes are equal. Different: full_dup (task_list, register_commands)." in text


def test_conditions_that_differ() -> None:
    """Another library, or another file of a model, explains sizes that differ."""
    scenario = _scenario(_LOADED)
    expected = _sizes(scenario, library_version="1.6.0", models={"mobile": "cd" * 32, "more": "e"})
    text = _text(_sizes(scenario), expected)
    assert "library: 2.3.2 (429f97ae6b) (expected: 1.6.0)" in text
    assert f"model mobile: {'ab' * 32} (expected: {'cd' * 32})" in text
    assert "model more: unknown (expected: e)" in text


@pytest.mark.parametrize("outcome", ["not_supported", "crashed"])
def test_a_scenario_that_does_not_run(outcome: str) -> None:
    """If it runs on neither, nothing differs; on one alone, that is the difference."""
    failed = _scenario(outcome=outcome, total_bytes=None, peak_bytes=None)
    lone = _scenario(_LOADED, scenario="no_reuse")
    both = _sizes(failed, lone)
    assert Comparison(both, both).is_equal
    assert outcome.replace("_", " ") in _text(both, both)
    differing = Comparison(both, _sizes(_scenario(_LOADED), lone))
    assert not differing.is_equal
    text = "\n".join(comparison_lines(differing))
    assert f"full_dup ({outcome} here, ok there)" in text
    assert "5 of 5 sizes are equal." in text


def test_a_scenario_that_one_lacks() -> None:
    """It was not measured there, which is a difference."""
    text = _text(_sizes(_scenario(_LOADED)), _sizes(_scenario(_LOADED, scenario="no_reuse")))
    assert "no_reuse (not measured here, ok there); full_dup (ok here, not measured there)" in text
    assert "0 of 0 sizes" in text


def test_nothing_that_ran() -> None:
    """Without a size nothing is equal."""
    failed = _sizes(_scenario(outcome="crashed", total_bytes=None, peak_bytes=None))
    comparison = Comparison(failed, failed)
    assert not comparison.is_equal
    assert "No size was compared" in "\n".join(comparison_lines(comparison))
