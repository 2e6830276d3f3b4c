"""The files of `reusebench apply --plan`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from reusebench.apply.errors import ApplyError
from reusebench.commands.apply_plan import read_plan
from reusebench.fit.answering import stored_answer
from reusebench.fit.layouts import ContextGroup, Form, Layout, plan_of
from reusebench.fit.prediction import Prediction
from reusebench.fit.search import Answer, Candidate, Wish
from reusebench.fit.study import Study
from reusebench.harness.measuring.models.model_files import model_digest
from reusebench.measured.plan import DUP, Model
from reusebench.storage.fit_answer import write_answer
from reusebench.storage.measured_figure import Figure
from reusebench.system.user_files import Pins
from tests.fit.made_up import demand_of
from tests.reports import stored

_PLAN = """
[models]
detector = "detector.rknn"

[contexts]
one = { model = "detector", internal = "a", core = 0 }
two = { dup = "one", internal = "b", core = 1 }
"""


@pytest.fixture
def detector(tmp_path: Path) -> Path:
    """Return the file of a model."""
    path = tmp_path / "detector.rknn"
    path.write_bytes(b"weights")
    return path


def _refusal(path: Path) -> str:
    with pytest.raises(ApplyError) as refused:
        read_plan(path)
    assert refused.value.exit_code == 2
    return str(refused.value)


def test_a_plan_of_the_user_is_for_the_runtime_of_its_files(detector: Path) -> None:
    """It says the runs at once only if it has `cores`; nothing is predicted for it."""
    path = detector.with_name("mine.toml")
    path.write_text(_PLAN, encoding="utf-8")
    settings, at_once = read_plan(path)
    assert (settings.runtime, settings.predicted_bytes, at_once) == ("rknn", None, None)
    (model,) = settings.models
    assert [(one.weights, one.memory, one.core) for one in model.contexts] == [(0, 0, 0), (0, 1, 1)]
    path.write_text("cores = 2\n" + _PLAN, encoding="utf-8")
    assert read_plan(path)[1] == 2


def test_a_wrong_file_is_refused_with_its_line(detector: Path) -> None:
    """A file that is not there, is no plan, has models of no one runtime, or built-in ones."""
    path = detector.with_name("mine.toml")
    assert "mine.toml" in _refusal(path)
    path.write_text("[models", encoding="utf-8")
    assert "it is no valid TOML" in _refusal(path)
    path.write_text(_PLAN.replace("one = { model", "one = { model_file"), encoding="utf-8")
    assert "mine.toml, line 6" in _refusal(path)
    path.write_text(_PLAN.replace(".rknn", ".txt"), encoding="utf-8")
    detector.with_name("detector.txt").write_bytes(b"weights")
    assert "its models are files with .txt; valid: all of one runtime, " in _refusal(path)
    built_in = _PLAN.replace('"detector.rknn"', '{ network = "tiny", size = 96, seed = 1 }')
    path.write_text(built_in, encoding="utf-8")
    assert "is a built-in network, which no program loads" in _refusal(path)


def test_a_stored_plan_has_the_prediction_of_the_answer_beside_it(
    detector: Path, tmp_path: Path
) -> None:
    """A plan with other contexts has none, and a model that has changed is refused."""
    model = Model("detector", str(detector), model_digest(detector, Pins()))
    demand = replace(demand_of((2,), cores=1), runtime="rknn", models=(model,))
    form = Form(DUP, shares_internal=True)
    layout = Layout((ContextGroup(0, form, (2,)),))
    steady = Prediction({"weights": 7}, 9, Figure(5.0, 0.0), None, Figure(3.0, 0.0), None)
    today = replace(steady, npu={"weights": 14})
    study = Study(demand, computes=False)
    study.add([stored.result(tmp_path, "no_reuse", stored.even(1))], tmp_path)
    first = Candidate(layout, today)
    best = Candidate(layout, steady)
    answer = stored_answer(
        study, Wish(), Answer(first, first, first, (first,), (first,), None, applied=best)
    )
    write_answer(tmp_path, answer)
    assert answer.applied_plan is not None
    path = tmp_path / "fit" / "applied-rknn.json"
    path.write_text(json.dumps(answer.applied_plan.to_json()), encoding="utf-8")
    settings, at_once = read_plan(path)
    assert (settings.predicted_bytes, at_once) == (7, 1)

    shorter = plan_of(layout, demand, "mine", rounds=1).limited_to(1)
    path.write_text(json.dumps(shorter.to_json()), encoding="utf-8")
    assert read_plan(path)[0].predicted_bytes is None
    detector.write_bytes(b"others!")
    assert "has changed since the plan was stored" in _refusal(path)
