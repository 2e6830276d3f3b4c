"""The notes of the measured groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.measured.messages import Message
from reusebench.reports.base.texts import texts_of
from reusebench.reports.material import read_material
from reusebench.reports.sections.measured import MeasuredSection
from reusebench.reports.sections.section import Page
from tests.reports.stored import MODELS, changed, even, result, write_run


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", "Outputs of model-a are not compared: the model has Multinomial."),
        ("zh-CN", "model-a 的输出不作比较\N{FULLWIDTH COLON}模型中有 Multinomial。"),
    ],
)
def test_outputs_that_are_not_compared(tmp_path: Path, language: str, words: str) -> None:
    """A model whose outputs are not compared is named once, with the reason."""
    reason = Message("outputs_vary_by_operators", {"operators": "Multinomial"})
    infos = []
    for scenario in ("no_reuse", "shared_context"):
        info = result(tmp_path, scenario, even(4))
        infos.append(changed(info, not_compared={MODELS[0].digest: reason}))
    write_run(tmp_path, infos)
    page = Page(read_material([tmp_path], None), texts_of(language))
    values = MeasuredSection().values(page)
    notes = [note for part in values["parts"] for note in part["notes"]]
    assert notes.count(words) == 1
