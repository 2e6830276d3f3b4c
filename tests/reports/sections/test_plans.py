"""The section of users' plans: against themselves without reuse, and apart from scenarios."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from reusebench.measured.plan import DUP, Context, Plan, Streams
from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.results.colours import scenario_colour
from reusebench.reports.results.grouping import newest_groups
from reusebench.reports.results.labels import labels_of
from reusebench.reports.sections.plans import layout_tables
from reusebench.reports.shared.answers import answers
from reusebench.scenarios.catalogue import without_reuse
from reusebench.storage.result import Result
from reusebench.storage.runs import run_of
from tests.helpers.support import known
from tests.reports.pages import page, readable, section, sections
from tests.reports.stored import (
    MIB,
    MODELS,
    changed,
    full_run,
    group_of,
    groups_of,
    npu_account,
    result,
    row_of,
    runs_of,
    write_run,
)

#: Two streams, each with a detector and then a reader in one internal memory; the second has dups.
_GATE = Plan(
    "gate",
    "gate.no_reuse",
    "onnxruntime",
    MODELS[:2],
    (
        Context(0, 0, internal=0, name="detect-0"),
        Context(0, 1, internal=0, name="read-0"),
        Context(1, 0, DUP, 0, internal=1, name="detect-1"),
        Context(1, 1, DUP, 1, internal=1, name="read-1"),
    ),
    cores=2,
    rounds=2,
    chains=((0, 1), (2, 3)),
)
_ENGLISH = texts_of("en")


def _measured(
    storage: Path, plan: Plan, *mib: float, run: str = "run1", npu: bool = False
) -> Result:
    """Return the plan's result; the contexts add these MiB."""
    costs = [[round(size * MIB) for size in mib]] * 3
    account = npu_account if npu else None
    info = result(
        storage, plan.scenario, costs, plan=plan, models=plan.models, run=run, npu=account
    )
    return changed(info, streams=2, contexts=2)


def _pair(storage: Path, plan: Plan = _GATE, run: str = "run1", npu: bool = False) -> list[Result]:
    baseline = _measured(storage, without_reuse(plan), 40, 10, 40, 10, run=run, npu=npu)
    return [baseline, _measured(storage, plan, 40, 5, 8, 2, run=run, npu=npu)]


def test_a_plan_is_compared_with_itself_without_reuse(tmp_path: Path) -> None:
    """The baseline may come later in the file, as a result without speed does."""
    group = group_of(tmp_path, *_pair(tmp_path)[::-1])
    assert [row.scenario for row in group.rows] == ["gate.no_reuse", "gate"]
    assert list(group.questions) == ["plans"]
    assert group.is_of_plans
    assert known(row_of(group, "gate").saved()).median == 45 * MIB
    (sentence,) = answers(group.rows, _ENGLISH)
    assert sentence.startswith(
        "gate saves 45.0 MiB ±0.0 of the 130.0 MiB of application memory that gate, no reuse takes:"
        " 34.6 %."
    )


def test_a_plan_that_was_changed_is_not_compared_with_its_former_baseline(tmp_path: Path) -> None:
    """A plan of the same name and models, but with fewer contexts, has no baseline."""
    write_run(tmp_path, _pair(tmp_path)[:1])
    smaller = replace(_GATE, contexts=_GATE.contexts[:2], chains=((0, 1),))
    write_run(
        tmp_path, [_measured(tmp_path, smaller, 40, 5, run="run2")], 2, at="2026-01-03T03:04:05"
    )
    (group,) = groups_of(tmp_path)
    assert row_of(group, "gate").baseline is None
    assert "was not compared" in answers([row_of(group, "gate")], _ENGLISH)[0]


def test_plans_of_several_layouts_are_a_group_apart_from_scenarios(tmp_path: Path) -> None:
    """Plans share a group whatever their streams and cores; labels tell it from scenarios."""
    full_run(tmp_path)
    door = replace(
        _GATE,
        scenario="door",
        baseline="door.no_reuse",
        cores=1,
        contexts=_GATE.contexts[:2],
        chains=(),
    )
    others = [changed(info, streams=1, contexts=1, cores=1) for info in _pair(tmp_path, door)]
    write_run(tmp_path, [*_pair(tmp_path), *others], 2, at="2026-01-03T03:04:05")
    plans, scenarios = groups_of(tmp_path)
    assert [row.scenario for row in plans.rows] == [
        "door.no_reuse",
        "door",
        "gate.no_reuse",
        "gate",
    ]
    assert not scenarios.is_of_plans
    labels = labels_of([plans, scenarios], _ENGLISH)
    common = "ONNX Runtime 1.2.3"
    assert labels == [
        f"{common}, plans",
        f"{common}, {_ENGLISH('label_streams', streams=4, contexts=3)}",
    ]


def test_the_newest_plans_and_the_newest_scenarios_are_shown(tmp_path: Path) -> None:
    """However many groups of either are newer: the page has a limit."""
    full_run(tmp_path)
    write_run(tmp_path, _pair(tmp_path), 2, at="2026-01-03T03:04:05")
    groups = groups_of(tmp_path)
    assert newest_groups(groups) == groups


def test_mechanisms_and_claims_are_of_scenarios(tmp_path: Path) -> None:
    """Plans come after scenarios, and have no column in those tables."""
    full_run(tmp_path)
    write_run(tmp_path, _pair(tmp_path), 2, at="2026-01-03T03:04:05")
    html = page(tmp_path, tmp_path / "out")
    assert html.index("4 streams") < html.index("ONNX Runtime 1.2.3, plans")
    assert "Measured 2026-01-03" in html.partition("<main")[0]
    write_run(tmp_path / "plans", _pair(tmp_path))
    assert "Cannot be judged" not in page(tmp_path / "plans", tmp_path / "out")


def test_plans_with_other_models_are_not_joined(tmp_path: Path) -> None:
    """A plan's models are its own: another plan may have others in the same group."""
    other = replace(_GATE, scenario="door", baseline="door.no_reuse", models=MODELS[2:])
    write_run(tmp_path, _pair(tmp_path))
    write_run(tmp_path, _pair(tmp_path, other), 2, at="2026-01-03T03:04:05")
    (group,) = groups_of(tmp_path)
    assert len(group.rows) == 4
    moved = replace(_GATE, models=MODELS[2:])
    write_run(tmp_path, _pair(tmp_path, moved), 3, at="2026-01-04T03:04:05")
    assert [len(group.rows) for group in groups_of(tmp_path)] == [4, 2]


@pytest.mark.parametrize("npu", [False, True])
def test_the_layout_of_a_plan(tmp_path: Path, npu: bool) -> None:
    """A row has model, stream, source, memory, turn, and memory with and without reuse."""
    group = group_of(tmp_path, *_pair(tmp_path, npu=npu))
    ((name, table),) = layout_tables(group.rows, npu, _ENGLISH)
    assert name == "gate"
    rows = [cells for _, cells in table.rows]
    assert [cells[:7] for cells in rows] == [
        ["detect-0", "model-a", "0", "load", "shared with read-0", "-", "-"],
        ["read-0", "model-b", "0", "load", "shared with detect-0", "detect-0", "-"],
        ["detect-1", "model-a", "1", "dup of detect-0", "shared with read-1", "-", "-"],
        ["read-1", "model-b", "1", "dup of read-0", "shared with detect-1", "detect-1", "-"],
    ]
    added = [[cell.partition(" ")[0] for cell in cells[7:]] for cells in rows]
    if npu:
        assert added[0] == ["10.00", "10.00"]
        assert float(added[3][1]) < 10
    else:
        assert added == [["40.0", "40.0"], ["10.0", "5.0"], ["40.0", "8.0"], ["10.0", "2.0"]]


def test_a_plan_that_failed_has_its_layout_too(tmp_path: Path) -> None:
    """The layout is shown without figures."""
    info = changed(_pair(tmp_path)[1], outcome="failed")
    ((_, table),) = layout_tables(group_of(tmp_path, info).rows, False, _ENGLISH)
    assert [cells[7:] for _, cells in table.rows] == [["-", "-"]] * 4


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_of_plans(tmp_path: Path, language: str) -> None:
    """Plans have a question of their own; their conditions name no streams and contexts."""
    write_run(tmp_path, _pair(tmp_path))
    texts = texts_of(language)
    html = page(tmp_path, tmp_path / "out", language)
    assert [name for name in sections(html) if name in ("plans", "dup")] == ["plans"]
    text = readable(section(html, "plans"))
    for words in (
        texts("question_plans"),
        texts("section_layout", plan="gate"),
        texts("layout_note"),
        texts("section_explanation"),
        texts("section_comparison"),
        texts.scenario("gate.no_reuse"),
    ):
        assert words in text
    assert texts("conditions_plans", target="python", driver="Python 3.11.7") in html
    assert texts("about_plan_without_reuse") in section(html, "glossary")


def test_a_plan_with_streams_has_its_frames(tmp_path: Path) -> None:
    """Its frames are in the section of plans; no table of inferences has it."""
    plan = replace(_GATE, schedule=Streams(2, 10.0, 0, 1.0, 3.0, None))
    write_run(tmp_path, _pair(tmp_path, plan))
    text = readable(section(page(tmp_path, tmp_path / "out"), "plans"))
    assert (
        "2 streams of frames that are not decoded, 2 contexts for each; 3 s of steady state" in text
    )
    assert _ENGLISH("section_streams_table") in text
    assert _ENGLISH("section_comparison") not in re.findall(r"^#+ (.*)$", text, re.MULTILINE)


def test_plans_are_tracked_under_their_name(tmp_path: Path) -> None:
    """A renamed context leaves the plan the same; another order makes another plan."""
    renamed = replace(
        _GATE, contexts=tuple(replace(context, name=None) for context in _GATE.contexts)
    )
    reordered = replace(_GATE, chains=((1, 0), (2, 3)))
    for number, plan in enumerate((_GATE, renamed, reordered), start=1):
        write_run(tmp_path, _pair(tmp_path, plan)[1:], number)
    measured = [known(run_of(file).measured)[0] for file in runs_of(tmp_path)]
    assert {str(one.configuration) for one in measured} == {"onnxruntime gate (2 x 2, model-a +1)"}
    plans = [one.conditions["plan"] for one in measured]
    assert plans[0] == plans[1] != plans[2]


def test_colours_of_plans() -> None:
    """A plan has a colour by its name, other than its baseline's; scenarios keep theirs."""
    assert scenario_colour("gate") == scenario_colour("gate") != scenario_colour("gate.no_reuse")
    assert scenario_colour("no_reuse") != scenario_colour("gate.no_reuse")
