"""The answer that opens the page: figures, advice, and what it leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reusebench.measured.plan import Model
from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.results.labels import labels_of
from reusebench.reports.sections.answer import Answer, opening, warnings_of
from reusebench.storage.result import Result
from reusebench.targets.outcome import Failure
from tests.reports.pages import page, section
from tests.reports.stored import (
    FAILED,
    MODELS,
    NOT_SUPPORTED,
    changed,
    dup,
    even,
    full_run,
    group_of,
    groups_of,
    npu_account,
    npu_run,
    result,
    with_speed,
    write_run,
)

ENGLISH = texts_of("en")


def answer(storage: Path, infos: Sequence[Result]) -> Answer:
    (one,) = opening([group_of(storage, *infos)], ["here"], ENGLISH).answers
    return one


def shown(one: Answer) -> list[tuple[str, str, str]]:
    return [(figure.value, figure.unit, figure.remark) for figure in one.figures]


def full_dup(storage: Path, throughput: float = 1.0, **options: Any) -> list[Result]:
    """Return a full dup that saves 330 of 480 MiB, at `throughput` times the baseline's rate."""
    baseline = result(storage, "no_reuse_one_model", even(40, spread=0.1), **options)
    faster = result(storage, "full_dup", dup(40, 10), **options)
    rates = [rate and throughput * rate for rate in faster.speed.throughput_per_s]
    return [baseline, with_speed(faster, throughput_per_s=rates)]


def test_three_figures_and_what_to_do(tmp_path: Path) -> None:
    """Without reuse, the least with equal outputs, and the speed with it, each with its spread."""
    one = answer(tmp_path, full_dup(tmp_path, throughput=0.5))
    assert [figure.head for figure in one.figures] == [
        "Without reuse",
        "The least, with equal outputs",
        "Inferences a second",
    ]
    assert shown(one) == [
        ("510.0", "±1.2 MiB", "application memory of the whole process"),
        ("180.0", "±0.0 MiB", "64.7 % less"),
        (
            *("12.0", "±0.0"),
            (
                "50.0 ±0.0 % fewer than 24.0 ±0.0 without reuse; latency 20.00 ±0.00 ms, without"
                " reuse 20.00 ±0.00 ms"
            ),
        ),
    ]
    assert (
        one.sentence == "12 contexts of model-a need 510.0 ±1.2 MiB of application memory; 180.0"
        " ±0.0 MiB is enough (-64.7 %), 50.0 ±0.0 % slower: dup further contexts."
    )
    assert list(one.remarks) == []


def test_speed_that_does_not_differ_is_said_so(tmp_path: Path) -> None:
    """A difference within its spread is none; a faster layout is said to be faster."""
    assert (
        "as without reuse, 24.0"
        in answer(tmp_path / "a", full_dup(tmp_path / "a")).figures[2].remark
    )
    faster = answer(tmp_path / "b", full_dup(tmp_path / "b", throughput=2)).figures[2]
    assert (faster.value, faster.remark.partition(" without")[0]) == (
        "48.0",
        "100.0 ±0.0 % more than 24.0 ±0.0",
    )


def test_speed_is_not_answered_where_it_cannot_be(tmp_path: Path) -> None:
    """Words replace the figure on a busy machine, with one process, or if nothing computes."""
    busy = full_dup(tmp_path / "busy", throughput=0.5, idle_cpu_percent=80.0)
    virtual = full_dup(tmp_path / "virtual", npu=npu_account, computes=False)
    once = [
        result(tmp_path / "once", "no_reuse_one_model", even(40, repeats=1)),
        result(tmp_path / "once", "full_dup", dup(40, 10, repeats=1)),
    ]
    answers = {
        name: answer(tmp_path / name, infos) for name, infos in (("busy", busy), ("once", once))
    }
    answers["virtual"] = answer(tmp_path / "virtual", virtual)
    for name, remark in (
        ("busy", "busy"),
        ("once", "one_repeat"),
        ("virtual", "virtual"),
    ):
        figure = answers[name].figures[2]
        assert (figure.value, figure.unit, figure.is_word) == ("not known", "", True)
        assert figure.remark == ENGLISH(f"answer_speed_{remark}")
        assert answers[name].sentence.endswith("speed not known: dup further contexts.")
    assert shown(answers["virtual"])[0] == ("120.00", "±0.00 MiB", "NPU memory")
    assert answers["virtual"].figures[1].head == ENGLISH("answer_least_unchecked")
    assert list(answers["virtual"].remarks) == [ENGLISH("answer_unchecked_virtual")]


def test_outputs_that_differ_are_said(tmp_path: Path) -> None:
    """Such a layout is named as not recommended, however little it takes."""
    infos = [*full_dup(tmp_path), result(tmp_path, "shared_context", even(1), digest="0000000f")]
    one = answer(tmp_path, infos)
    assert one.sentence.endswith(": dup further contexts.")
    assert list(one.remarks) == [ENGLISH("answer_differing", scenarios="Shared context")]


def test_what_takes_as_little_is_said(tmp_path: Path) -> None:
    """Another layout that differs by noise alone is named: it may be simpler."""
    infos = [*full_dup(tmp_path), result(tmp_path, "full_dup_internal_reuse", even(13, spread=0.5))]
    (remark,) = answer(tmp_path, infos).remarks
    assert (
        remark
        == "Takes as little, as far as can be measured: Full dup, internal reuse (186.0 ±6.0 MiB)."
    )


def test_without_a_saving_the_contexts_stay(tmp_path: Path) -> None:
    """There is one figure and a sentence if differences are noise, or if one layout ran."""
    noisy = [
        result(tmp_path, "no_reuse", even(40, spread=5)),
        result(tmp_path, "partial_dup", even(39, spread=5)),
    ]
    for name, infos, advice in (("a", noisy, "nothing_saves"), ("b", noisy[:1], "one_layout")):
        one = answer(tmp_path / name, infos)
        assert len(one.figures) == 1
        assert one.sentence.endswith(f" MiB of application memory. {ENGLISH(f'answer_{advice}')}")


def test_without_a_baseline_nothing_is_compared(tmp_path: Path) -> None:
    """A layout alone, or one that failed, has a sentence and no figure."""
    for infos in (
        [result(tmp_path, "full_dup", dup(40, 10))],
        [result(tmp_path, "no_reuse", [], failure=FAILED)],
    ):
        one = answer(tmp_path / infos[0].scenario, infos)
        assert (list(one.figures), one.sentence) == ([], ENGLISH("answer_nothing_compared"))


def test_no_reuse_that_does_not_fit_is_the_answer_too(tmp_path: Path) -> None:
    """Its outcome replaces its figure; the least layout that ran has one."""
    full = Failure("out_of_memory", "context", 7, FAILED.message)
    one = answer(
        tmp_path,
        [
            result(tmp_path, "no_reuse_one_model", [], failure=full),
            result(tmp_path, "full_dup", dup(3, 1)),
        ],
    )
    assert [figure.value for figure in one.figures] == ["out of memory", "44.0", "not known"]
    assert one.sentence == (
        "Without reuse, 12 contexts of model-a did not run. The least of what did: 44.0 ±0.0 MiB of"
        " application memory: dup further contexts."
    )
    assert list(one.remarks) == [ENGLISH("answer_unchecked")]


def test_models_without_an_answer_are_said(tmp_path: Path) -> None:
    """All models of the user's are in the answers, or a sentence says which are."""
    infos = full_dup(tmp_path)
    covered = "This covers 1 of the 4 models that were given: model-a. "

    def warnings(*infos: Result) -> list[str]:
        return warnings_of([group_of(tmp_path, *infos)], ["here"], ENGLISH)

    assert [warning[: len(covered)] for warning in warnings(*infos)] == [covered]
    in_turn = [result(tmp_path, name, even(40)) for name in ("no_reuse", "partial_dup")]
    assert warnings(*infos, *in_turn) == []
    assert warnings(*full_dup(tmp_path, models=named("mobilenet_v2-224-seed1"))) == []


def of_runtime(
    storage: Path, runtime: str, further_mib: float, models: Sequence[Model], number: int
) -> None:
    infos = [
        result(storage, "no_reuse_one_model", even(40, spread=0.5), models=models),
        result(storage, "full_dup", dup(40, further_mib), models=models),
    ]
    write_run(storage, [changed(info, runtime=runtime) for info in infos], number)


def named(name: str) -> list[Model]:
    return [Model(name, f"/models/{name}", name * 4)]


def ranking(storage: Path) -> Sequence[str]:
    groups = groups_of(storage)
    return opening(groups, labels_of(groups, ENGLISH), ENGLISH).ranking


def test_which_runtime_needs_least(tmp_path: Path) -> None:
    """Runtimes with the same network are compared; a difference within noise is none."""
    of_runtime(tmp_path / "a", "onnxruntime", 10, named("net-224-seed1-v1"), 1)
    of_runtime(tmp_path / "a", "megengine_lite", 20, named("net-224-seed1-megengine1.13.0-v1.1"), 2)
    (sentence,) = ranking(tmp_path / "a")
    assert (
        sentence
        == "For the same network and contexts, ONNX Runtime (180.0 ±0.0 MiB, 24.0 ±0.0 inferences a"
        " second) needs the least application memory, then MegEngine Lite (290.0 ±0.0 MiB, 24.0"
        " ±0.0 inferences a second)."
    )
    of_runtime(tmp_path / "b", "onnxruntime", 10, MODELS, 1)
    of_runtime(tmp_path / "b", "megengine_lite", 10, MODELS, 2)
    (sentence,) = ranking(tmp_path / "b")
    assert sentence.startswith(
        "For the same network and contexts these need equally little application memory"
    )


def test_runtimes_that_ran_other_things_are_not_compared(tmp_path: Path) -> None:
    """Other networks and other kinds of memory are not compared, nor is a single runtime."""
    of_runtime(tmp_path / "a", "onnxruntime", 10, named("net-224-seed1-v1"), 1)
    assert ranking(tmp_path / "a") == []
    of_runtime(tmp_path / "a", "megengine_lite", 20, named("net-96-seed1-v1"), 2)
    assert ranking(tmp_path / "a") == [ENGLISH("answer_not_comparable")]
    full_run(tmp_path / "b")
    npu_run(tmp_path / "b", 2, computes=True)
    assert ranking(tmp_path / "b") == [ENGLISH("answer_not_comparable")]


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_that_did_not_run_is_in_the_answer(tmp_path: Path, language: str) -> None:
    """Mechanisms that the runtime lacks are named below the answer."""
    texts = texts_of(language)
    infos = [*full_dup(tmp_path), result(tmp_path, "external_memory", [], failure=NOT_SUPPORTED)]
    write_run(tmp_path, infos)
    html = page(tmp_path, tmp_path / "out", language)
    assert texts("outcome_not_supported") not in section(html, "answer")
    assert texts.scenario("external_memory") not in section(html, "answer")
    assert texts("mechanism_not_supported") in section(html, "mechanisms")
