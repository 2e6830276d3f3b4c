"""Former names of the options of `pytest bench/`, and proposals for a wrong one."""

from __future__ import annotations

import argparse
from types import SimpleNamespace
from typing import Any

import pytest

from reusebench.harness import former_names
from reusebench.harness.bench_options import declare_options
from reusebench.harness.former_names import propose_names
from reusebench.system.option_names import BENCH, FORMER_NAMES


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    """Return a parser of our options."""
    made = argparse.ArgumentParser(exit_on_error=False)
    declare_options(lambda _: made.add_argument)
    return made


@pytest.mark.parametrize(
    ("former", "today", "value"),
    [
        ("--memory-baseline", "--baseline", "base"),
        ("--memory-fail", "--fail", "npu_memory:0"),
        ("--memory-across", "--across", "board"),
        ("--limit-contexts", "--most-contexts", "7"),
    ],
)
def test_former_names_work(
    parser: argparse.ArgumentParser,
    former: str,
    today: str,
    value: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A former name gives the same values, with a hint that is printed once."""
    former_names._hint.cache_clear()
    for _ in range(2):
        assert parser.parse_args([former, value]) == parser.parse_args([today, value])
    assert capsys.readouterr().err == (
        f"Hint: {former} is now {today}; the former name is gone in 0.3\n"
    )


def test_the_help_has_names_of_today_alone(parser: argparse.ArgumentParser) -> None:
    """Former names have no line."""
    text = parser.format_help()
    for row in FORMER_NAMES:
        if row.command == BENCH:
            assert row.former not in text
            assert row.name in text


def test_proposals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong option gets the nearest name of today; right ones are not named."""
    options = [SimpleNamespace(names=lambda: ["--repeats", "--fail", "--memory-fail"])]
    group = SimpleNamespace(options=options)
    parser: Any = SimpleNamespace(_groups=[group], _anonymous=group, extra_info={})
    propose_names(parser)
    words = ["pytest", "--repeat=3", "--fail", "x", "--memory-fial=y", "bench/"]
    monkeypatch.setattr("sys.argv", words)
    (proposals,) = parser.extra_info.values()
    assert str(proposals) == (
        "the nearest to --repeat is --repeats; the nearest to --memory-fial is --fail;"
        " `reusebench bench --help` lists ours"
    )
