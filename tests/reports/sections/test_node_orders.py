"""The note on the order of nodes in prepared models."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.measured.messages import Message
from reusebench.reports.base.texts import LANGUAGES, Texts, texts_of
from reusebench.reports.material import read_material
from reusebench.reports.sections.measured import MeasuredSection
from reusebench.reports.sections.node_orders import node_order_note
from reusebench.reports.sections.section import Page
from reusebench.storage.result import NodeOrder
from tests.reports.stored import MIB, MODELS, changed, dup, even, groups_of, result, write_run

ENGLISH, CHINESE = map(texts_of, LANGUAGES)


def note(storage: Path, orders: list[NodeOrder], texts: Texts = ENGLISH) -> str | None:
    """Return the note of a run whose models were prepared with these orders."""
    infos = [result(storage, "no_reuse", even(4)), result(storage, "partial_dup", dup(4, 1))]
    prepared = {model.digest: order for model, order in zip(MODELS, orders)}
    write_run(storage, [infos[0], changed(infos[1], node_orders=prepared)])
    (group,) = groups_of(storage)
    return node_order_note(group, texts)


def test_nothing_is_said_of_models_that_were_not_prepared(tmp_path: Path) -> None:
    """A run from before node orders has no sentence either."""
    assert note(tmp_path, []) is None


def test_models_with_equal_words_are_named_together(tmp_path: Path) -> None:
    """The sentence has the memory with the chosen order and with the saved order."""
    orders = [NodeOrder(5, 20 * MIB, 14 * MIB)] * 2 + [NodeOrder(1, 3 * MIB, 3 * MIB)]
    sentence = str(note(tmp_path, orders))
    assert (
        "model-a; model-b: 14.0 MiB a context, the least of 5 tried (20.0 MiB as saved)" in sentence
    )
    assert "model-c: 3.0 MiB a context, the least of 1 tried (3.0 MiB as saved)" in sentence
    assert "model-d" not in sentence


@pytest.mark.parametrize(
    ("texts", "words"),
    [(ENGLISH, "none was chosen, because no order"), (CHINESE, "没有一种节点顺序的输出")],
)
def test_why_none_was_chosen(tmp_path: Path, texts: Texts, words: str) -> None:
    """The reason is in the reader's language."""
    order = NodeOrder(5, 20 * MIB, None, Message("onnx_order_outputs_differ"))
    assert words in str(note(tmp_path, [order], texts))


def test_it_stands_before_the_figures(tmp_path: Path) -> None:
    """The note is one of the group's notes."""
    sentence = note(tmp_path, [NodeOrder(5, 20 * MIB, 14 * MIB)])
    page = Page(read_material([tmp_path], None), ENGLISH)
    (group,) = MeasuredSection().values(page)["parts"]
    assert sentence in group["notes"]
