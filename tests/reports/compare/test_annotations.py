"""Annotations: GitHub's workflow commands and GitLab's report, read as their sites read them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from reusebench.reports.compare.annotations import as_github, as_gitlab
from tests.reports.compare.short_runs import SHORT, compared

MEMORY = "application_memory"
_COMMAND = re.compile(r"::(?P<level>\w+) (?P<properties>.*?)::(?P<message>.*)")


def commands(text: str) -> list[dict[str, str]]:
    """Return level, properties and message of each command, as the runner reads them: properties
    are split at commas, names end at the first equals sign, then escapes are undone.
    """
    found = []
    for line in text.splitlines():
        match = _COMMAND.fullmatch(line)
        assert match, line
        command = {"level": match["level"], "message": _unescaped(match["message"])}
        for part in match["properties"].split(","):
            name, _, value = part.partition("=")
            command[name] = _unescaped(value).replace("%3A", ":").replace("%2C", ",")
        found.append(command)
    return found


def _unescaped(text: str) -> str:
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def test_what_is_worse_is_an_error_and_what_is_open_a_warning() -> None:
    """The worst comes first; a notice has the whole verdict."""
    text = as_github(*compared([("plan", 50, 90), ("other", 50, 52.4)], [f"{MEMORY}:5%"]))
    found = commands(text)
    assert [command["level"] for command in found] == ["error", "warning", "notice"]
    assert found[0]["title"] == f"{MEMORY}:5%: onnxruntime plan (4 x 3, model-a)"
    assert "50.0 -> 90.0 MiB, +40.00" in found[0]["message"]
    assert "allowed 2.50 MiB" in found[0]["message"]
    assert "may be worse" not in found[2]["message"]


def test_without_limits_a_rise_is_a_warning() -> None:
    """Nobody has said what is too much."""
    changes, _ = compared([("plan", 50, 90), ("same", 50, 50)])
    assert [command["level"] for command in commands(as_github(changes, None))] == [
        "warning",
        "notice",
    ]
    changes, _ = compared([("plan", 50, 50)], outcome="crashed")
    warning, notice = commands(as_github(changes, None))
    assert warning["level"] == "warning"
    assert "plan (4 x 3, model-a) fails now: crashed" in notice["message"]


@pytest.mark.parametrize("name", ["100%0A::error::x", "a,b=c:d", "line\nbreak\rhere", "::x::"])
def test_names_end_no_command(name: str) -> None:
    """Whatever a plan is called is read again as it was."""
    found = commands(as_github(*compared([(name, 50, 90)], [f"{MEMORY}:5%"])))
    assert [command["level"] for command in found] == ["error", "notice"]
    assert f"onnxruntime {name} (4 x 3" in found[0]["title"]


def test_more_than_ten_of_a_kind_are_counted() -> None:
    """The site would drop them without a word."""
    levels = [(f"plan_{number}", 50.0, 90.0) for number in range(30)]
    found = commands(as_github(*compared(levels, [f"{MEMORY}:5%"])))
    errors = [command for command in found if command["level"] == "error"]
    assert len(errors) == 10
    assert errors[-1]["message"] == "and 21 more like these"


def test_a_configuration_that_fails_now_is_an_error() -> None:
    """It has no figure that could be beyond a limit."""
    found = commands(as_github(*compared([("plan", 50, 90)], [f"{MEMORY}:5%"], outcome="crashed")))
    assert found[0]["level"] == "error"
    assert "here it is: crashed" in found[0]["message"]


def test_what_is_not_judged_is_a_warning() -> None:
    """Memory was short, or a limit has no figure."""
    found = commands(
        as_github(*compared([("plan", 50, 50)], ["npu_memory:0"], shortage_signs=SHORT))
    )
    assert [command["level"] for command in found] == ["warning", "notice"]
    assert "nothing to hold npu_memory:0 against" in found[0]["message"]


def test_the_file_is_that_of_the_base_if_it_is_in_the_working_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An annotation leads to the file that would be replaced to accept the figures."""
    monkeypatch.chdir(tmp_path)
    for path, shown in (
        (tmp_path / "baseline" / "a,b.json", "baseline/a,b.json"),
        (Path("/x"), ""),
    ):
        changes, result = compared([("plan", 50, 90)], [f"{MEMORY}:5%"])
        changes = replace(changes, base=tuple(replace(each, path=path) for each in changes.base))
        assert commands(as_github(changes, result))[0].get("file", "") == shown


def test_a_code_quality_report() -> None:
    """Each entry has what GitLab requires; the same degradation has the same fingerprint, whatever
    its figures.
    """
    reports = [
        json.loads(as_gitlab(*compared([("plan", 50, after), ("new", 50, 52)], [f"{MEMORY}:5%"])))
        for after in (90, 91)
    ]
    for report in reports:
        assert [entry["severity"] for entry in report] == ["major", "minor"]
        for entry in report:
            assert set(entry) == {
                "description",
                "check_name",
                "fingerprint",
                "severity",
                "location",
            }
            path = entry["location"]["path"]
            assert path
            assert not path.startswith(("/", "./"))
            assert entry["location"]["lines"]["begin"] == 1
    prints = [[entry["fingerprint"] for entry in report] for report in reports]
    assert prints[0] == prints[1]
    assert len(set(prints[0])) == 2
    assert json.loads(as_gitlab(*compared([("plan", 50, 50)], [f"{MEMORY}:50%"]))) == []
