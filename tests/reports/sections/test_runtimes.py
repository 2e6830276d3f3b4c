"""The comparison of runtimes: sentences, table and figure."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.results.colours import PALETTE
from reusebench.reports.results.labels import labels_of
from reusebench.reports.sections.answer import opening
from reusebench.reports.sections.runtimes import outputs_in_words, runtimes_figure
from tests.reports.pages import page, section
from tests.reports.results.test_runtime_comparison import of_runtime
from tests.reports.stored import changed, groups_of, npu_account, runs_of, write_run

ENGLISH = texts_of("en")


def test_which_is_the_fastest_and_whose_outputs_agree(tmp_path: Path) -> None:
    """The fastest comes after the least; a runtime with other outputs is not ranked."""
    of_runtime(tmp_path, "onnxruntime", 1, 10, rates=(30, 20))
    of_runtime(tmp_path, "megengine_lite", 2, 5, output=1.00001)
    of_runtime(tmp_path, "ncnn", 3, 1, output=1.1)
    groups = groups_of(tmp_path)
    least, fastest, agreeing, differing = opening(
        groups, labels_of(groups, ENGLISH), ENGLISH
    ).ranking
    assert "MegEngine Lite (125.0 ±0.0 MiB, 20.0 ±0.0 inferences a second) needs the least" in least
    assert "ncnn" not in least + fastest + agreeing
    assert fastest.startswith("The fastest is ONNX Runtime with No reuse, one model: 30.0 ±0.0")
    assert agreeing == "Outputs agree with ONNX Runtime: MegEngine Lite: within 1e-5."
    assert "ncnn: differ by 0.1" in differing


def test_a_table_has_every_runtime(tmp_path: Path) -> None:
    """A runtime that does not compute has no speed; if none does, these columns are missing."""
    of_runtime(tmp_path, "onnxruntime", 1, 10)
    of_runtime(tmp_path, "rknn", 2, 5, npu=npu_account, computes=False)
    groups = groups_of(tmp_path)
    one = opening(groups, labels_of(groups, ENGLISH), ENGLISH)
    assert one.runtimes is not None
    assert [list(cells) for _, cells in one.runtimes.rows] == [
        [
            *(
                "ONNX Runtime 1.2.3",
                "510.0 ±1.2",
                "180.0 ±0.0",
                "64.7",
                "20.0 ±0.0",
                "20.00 ±0.00",
            ),
            *("Full dup", "application memory", "the reference"),
        ],
        [
            *(
                "RKNN 1.6.0 on the virtual board rk3588",
                "120.00 ±0.00",
                "54.00 ±0.00",
                "55.0",
                "-",
                "-",
            ),
            *("Full dup", "NPU memory", "not compared"),
        ],
    ]
    assert one.ranking == [ENGLISH("answer_not_comparable")]
    assert runtimes_figure(groups, labels_of(groups, ENGLISH), ENGLISH) is None
    of_runtime(tmp_path / "b", "rknn", 1, 5, npu=npu_account, computes=False)
    of_runtime(tmp_path / "b", "rknn_2", 2, 5, npu=npu_account, computes=False)
    groups = groups_of(tmp_path / "b")
    virtual = opening(groups, labels_of(groups, ENGLISH), ENGLISH).runtimes
    assert virtual is not None
    of_speed = {ENGLISH(name) for name in ("answer_inferences", "column_latency", "column_outputs")}
    assert not of_speed & set(virtual.heads)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_figure_of_every_layout(tmp_path: Path, language: str) -> None:
    """Each runtime has a colour; the legend names the least, the fastest, and other outputs."""
    of_runtime(tmp_path, "onnxruntime", 1, 10, rates=(30, 20))
    of_runtime(tmp_path, "megengine_lite", 2, 5)
    of_runtime(tmp_path, "ncnn", 3, 1, output=1.1)
    groups = groups_of(tmp_path)
    texts = texts_of(language)
    svg = runtimes_figure(groups, labels_of(groups, texts), texts)
    assert svg is not None
    for text in (
        texts("runtimes_least_mark", runtime="MegEngine Lite", scenario=texts.scenario("full_dup")),
        texts(
            "runtimes_fastest_mark",
            runtime="ONNX Runtime",
            scenario=texts.scenario("no_reuse_one_model"),
        ),
        texts("runtimes_differing", runtime="ncnn"),
    ):
        assert f">{text}<" in svg
    assert [colour in svg for colour in PALETTE] == [True] * 3 + [False] * (len(PALETTE) - 3)


def test_npu_memory_has_a_panel_of_its_own(tmp_path: Path) -> None:
    """It has a frontier of its own too, since the two memories are never mixed."""
    of_runtime(tmp_path, "onnxruntime", 1, 10)
    of_runtime(tmp_path, "rknn", 2, 5, npu=npu_account)
    groups = groups_of(tmp_path)
    svg = runtimes_figure(groups, labels_of(groups, ENGLISH), ENGLISH)
    assert svg is not None
    for text, count in (
        (ENGLISH("axis_npu_memory"), 1),
        (ENGLISH("axis_application_memory"), 1),
        (ENGLISH("answer_inferences"), 2),
        (ENGLISH("fit_frontier"), 1),
        (ENGLISH("runtimes_least_mark", runtime="RKNN", scenario="Full dup"), 1),
    ):
        assert svg.count(f">{text}<") == count


def test_runtimes_of_which_none_is_faster_have_no_second_sentence(tmp_path: Path) -> None:
    """The runtime with the least memory is the fastest as well."""
    of_runtime(tmp_path, "onnxruntime", 1, 10)
    of_runtime(tmp_path, "megengine_lite", 2, 5)
    groups = groups_of(tmp_path)
    assert len(opening(groups, labels_of(groups, ENGLISH), ENGLISH).ranking) == 2


def test_streams_have_frames(tmp_path: Path, streams_storage: Path) -> None:
    """Without other contexts to compare, the rate counts the frames of all streams."""
    infos = [one.info for file in runs_of(streams_storage) for one in file.results]
    write_run(tmp_path, infos)
    write_run(tmp_path, [changed(info, runtime="ncnn") for info in infos], 2)
    groups = groups_of(tmp_path)
    one = opening(groups, labels_of(groups, ENGLISH), ENGLISH)
    assert one.runtimes is not None
    assert "Frames a second" in one.runtimes.heads
    assert "frames a second)" in one.ranking[0]


def test_speeds_of_a_busy_machine_are_doubted(tmp_path: Path) -> None:
    """A sentence names the runtimes that were measured while other work ran."""
    of_runtime(tmp_path, "onnxruntime", 1, 10)
    of_runtime(tmp_path, "megengine_lite", 2, 5, idle_cpu_percent=80)
    groups = groups_of(tmp_path)
    ranking = opening(groups, labels_of(groups, ENGLISH), ENGLISH).ranking
    assert ENGLISH("runtimes_disturbed", runtimes="MegEngine Lite") in ranking


def test_many_groups_are_folded(tmp_path: Path) -> None:
    """The comparison of runtimes comes first, and the parts of groups can be opened."""
    for number, runtime in enumerate(("onnxruntime", "megengine_lite", "ncnn"), start=1):
        of_runtime(tmp_path, runtime, number, 10)
    few = page(tmp_path, tmp_path / "few")
    of_runtime(tmp_path, "mnn", 4, 5)
    many = page(tmp_path, tmp_path / "many")
    for html, folded in ((few, False), (many, True)):
        answer = section(html, "answer")
        assert (answer.index(ENGLISH("section_runtimes")) < answer.index("need 510.0")) == folded
        assert ('<details class="part g0">' in section(html, "dup")) == folded
        assert ('class="sortable matrix"' in section(html, "dup")) == folded
    assert section(many, "dup").count("<summary><h3") == 4


@pytest.mark.parametrize(
    ("difference", "words"),
    [
        (None, "not compared"),
        (0, "bit-equal"),
        (2.6e-7, "within 3e-7"),
        (0.001, "within 1e-3"),
        (0.25, "differ by 0.25"),
    ],
)
def test_outputs_in_words(difference: float | None, words: str) -> None:
    """The words tell how far outputs differ from a reference."""
    assert outputs_in_words(difference, ENGLISH) == words
