"""The subjects that names, options and plans mean."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reusebench.harness.errors import UserError
from reusebench.harness.measuring.subject import Job, PlanSubject, ScenarioSubject
from reusebench.harness.plans.plan_file import PlanFile
from reusebench.harness.plans.python_plan import Context, Model, Plan
from reusebench.harness.plans.reading import read_plan_file
from reusebench.harness.subjects import Subjects
from reusebench.scenarios.catalogue import DEFAULT_OPTIONS
from tests.helpers.support import CHECKOUT

_PLAN = Plan("own", {"net": Model(network="mobilenet_v2", size=96)}, {"first": Context("net")})


@pytest.fixture
def file(tmp_path: Path) -> PlanFile:
    """Return a plan file with streams."""
    path = tmp_path / "gate.toml"
    path.write_text(
        """
        models.net = { network = "mobilenet_v2", size = 96 }
        streams.count = 1
        contexts.first = { model = "net", stream = 0 }
        """
    )
    return read_plan_file(path)


def test_a_built_in_scenario() -> None:
    """A name of the catalogue means that scenario, with what it needs."""
    subject = Subjects(()).of("streams_full_dup")
    assert isinstance(subject, ScenarioSubject)
    assert (subject.name, subject.has_streams, subject.runs_once) == (
        "streams_full_dup",
        True,
        False,
    )
    assert Subjects(()).of("cycles_dups").runs_once
    assert Job("onnxruntime", subject).title == "onnxruntime  Streams, full dup"


def test_an_option() -> None:
    """NAME=VALUE means one context with this option, which is compared with the default ones."""
    subject = Subjects(()).of("session.disable_prepacking=1")
    assert isinstance(subject, ScenarioSubject)
    assert subject.name == "session.disable_prepacking=1"
    assert subject.scenario.baseline == DEFAULT_OPTIONS


def test_a_plan_file(file: PlanFile) -> None:
    """A file has two subjects: the plan, and its baseline without reuse."""
    subjects = Subjects([file])
    plan = subjects.of("gate")
    baseline = subjects.of("gate.no_reuse")
    assert (plan, baseline) == (PlanSubject(file), PlanSubject(file, reuses=False))
    assert (plan.name, baseline.name) == ("gate", "gate.no_reuse")
    assert plan.has_streams
    assert not plan.runs_once


def test_a_plan_of_python() -> None:
    """A plan may be measured several times, with and without reuse."""
    subjects = Subjects(())
    assert [subjects.of(plan).name for plan in (_PLAN, _PLAN.without_reuse(), _PLAN)] == [
        "own",
        "own.no_reuse",
        "own",
    ]


def test_an_unknown_name(file: PlanFile) -> None:
    """The nearest scenario is told."""
    with pytest.raises(UserError, match="there is no scenario 'ful_dup'; did you mean 'full_dup'"):
        Subjects([file]).of("ful_dup")


def test_another_plan_of_one_name(file: PlanFile) -> None:
    """Two plans of one name are refused: their results could not be told apart."""
    other = Plan("gate", dict(_PLAN.models), dict(_PLAN.contexts))
    with pytest.raises(UserError, match="this session has another plan of this name"):
        Subjects([file]).of(other)


@pytest.mark.parametrize(
    ("package", "look_up", "module"),
    [
        ("harness", "find_scenario", "plans/writing.py"),
        ("harness", "name_of_plan", "plans/stored_plan.py"),
        ("harness", "option_scenario", "subjects.py"),
        ("reports", "name_of_plan", "base/stored_scenario.py"),
        ("reports", "question_of", "base/stored_scenario.py"),
    ],
)
def test_names_are_looked_up_in_one_place(package: str, look_up: str, module: str) -> None:
    """All other modules get subjects, or stored scenarios, instead of names."""
    folder = CHECKOUT / "src" / "reusebench" / package
    users = []
    for path in folder.rglob("*.py"):
        if re.search(rf"\b{look_up}\b", path.read_text(encoding="utf-8")):
            users.append(path)
    assert users == [folder / module]
