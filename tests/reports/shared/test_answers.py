from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reusebench.accounting.sharing import Finding
from reusebench.measured.runtimes.base import Copies
from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.shared.answers import (
    answers,
    group_warnings,
    not_supported,
    virtual_note,
)
from reusebench.reports.shared.comparison import comparison_table
from reusebench.storage.measured_figure import DOUBT
from reusebench.storage.result import Result
from tests.reports.stored import (
    FAILED,
    LATENCY_NS,
    NOT_SUPPORTED,
    as_measured,
    changed,
    dup,
    even,
    first_look,
    group_of,
    groups_of,
    npu_account,
    result,
    with_short_memory,
    with_speed,
    write_run,
)

ENGLISH = texts_of("en")


def answer(storage: Path, *infos: Result) -> str:
    (sentence,) = answers(group_of(storage, *infos).rows, ENGLISH)
    return sentence


def test_a_saving_is_said_with_its_whole_and_spread(tmp_path: Path) -> None:
    """The sentence names what is saved, of how much, against what, in both percentages."""
    infos = [
        result(tmp_path, "no_reuse_one_model", even(40, spread=0.25)),
        result(tmp_path, "full_dup", dup(40, 10)),
    ]
    assert answer(tmp_path, *infos).startswith(
        "Full dup saves 330.0 MiB ±3.0 of the 510.0 MiB of application memory that No reuse, one"
        " model takes: 64.7 %."
    )


def test_a_saving_within_the_spread_is_no_saving(tmp_path: Path) -> None:
    """A difference that is smaller than the spreads of both is not called a saving."""
    infos = [
        result(tmp_path, "no_reuse_one_model", even(40, spread=1)),
        result(tmp_path, "full_dup", even(39.5)),
    ]
    assert answer(tmp_path, *infos).startswith(
        "Full dup saves no measurable memory compared with No reuse, one model: 6.0 MiB ±12.0."
    )


def test_a_cost_is_said_as_a_cost(tmp_path: Path) -> None:
    """A mechanism that takes more memory than its baseline is said to."""
    infos = [
        result(tmp_path, "no_reuse_one_model", even(40)),
        result(tmp_path, "full_dup", even(41)),
    ]
    assert answer(tmp_path, *infos).startswith(
        "Full dup takes 12.0 MiB ±0.0 more application memory"
    )


def test_a_missing_baseline_is_said(tmp_path: Path) -> None:
    """Without its baseline in the storage a scenario is not compared, and the sentence says what to
    run.
    """
    sentence = answer(tmp_path, result(tmp_path, "full_dup", dup(40, 10)))
    assert (
        "its baseline No reuse, one model with the same models is not in this storage" in sentence
    )


def test_a_failure_is_said(tmp_path: Path) -> None:
    """A configuration that failed has a sentence too, with what happened."""
    failed = result(tmp_path, "full_dup", [], failure=FAILED)
    assert answer(tmp_path, failed) == "Full dup: crashed: the process was ended by SIGSEGV"


def test_a_busy_machine_is_warned_of(tmp_path: Path) -> None:
    """Other work before the processes started is said, with what to do; a quiet machine gives no
    warning.
    """
    assert group_warnings(group_of(tmp_path, result(tmp_path, "no_reuse", even(40))), ENGLISH) == []
    busy = group_of(tmp_path, result(tmp_path, "no_reuse", even(40), idle_cpu_percent=55.0))
    (warning,) = group_warnings(busy, ENGLISH)
    assert "55 % busy" in warning


def test_a_single_repeat_is_warned_of(tmp_path: Path) -> None:
    """Figures of one process alone are said to have no spread."""
    (warning,) = group_warnings(
        group_of(tmp_path, result(tmp_path, "no_reuse", even(40, repeats=1))), ENGLISH
    )
    assert "--repeats 3" in warning


@pytest.mark.parametrize(
    ("emulated", "words"),
    [
        (None, "Application memory contains the emulator"),  # as before it was stored
        (True, "Application memory contains the emulator"),
        (False, "no emulator ran"),
    ],
)
def test_the_note_of_a_virtual_board(tmp_path: Path, emulated: bool | None, words: str) -> None:
    """The note tells of an emulator if one ran; a target that computes has no note."""
    virtual = npu_pair(tmp_path / "virtual", computes=False)
    real = npu_pair(tmp_path / "real")
    group = group_of(tmp_path / "virtual", *(changed(info, emulated=emulated) for info in virtual))
    note = virtual_note(group, ENGLISH) or ""
    assert note.startswith("Virtual board: ")
    assert words in note
    assert note.count("emulator") == 1 + (emulated is not False)
    assert virtual_note(group_of(tmp_path / "real", *real), ENGLISH) is None


def npu_pair(storage: Path, computes: bool = True, further_mib: float = 1) -> list[Result]:
    return [
        result(storage, "no_reuse_one_model", even(3), npu=npu_account, computes=computes),
        result(storage, "full_dup", dup(3, further_mib), npu=npu_account, computes=computes),
    ]


def test_npu_memory_goes_before_application_memory(tmp_path: Path) -> None:
    """NPU memory is the answer if it was measured; application memory and speed follow."""
    assert (
        answer(tmp_path, *npu_pair(tmp_path))
        == "Full dup saves 66.00 MiB ±0.00 of the 120.00 MiB of NPU memory that No reuse, one model"
        " takes: 55.0 %. It also takes 22.0 MiB ±0.0 less application memory."
        " Latency does not differ measurably: 20.00 ±0.00 ms and"
        " 20.00 ±0.00 ms."
    )


def test_nothing_is_said_of_speed_where_nothing_computes(tmp_path: Path) -> None:
    """On the virtual board the answer ends with memory."""
    sentence = answer(tmp_path, *npu_pair(tmp_path, computes=False))
    assert "atency" not in sentence
    assert "of NPU memory that" in sentence


def test_application_memory_that_differs_by_nothing_is_no_saving(tmp_path: Path) -> None:
    """A difference that its one decimal shows as nothing is neither a saving nor a cost."""
    assert "does not differ measurably (0.0 MiB ±0.0)" in answer(
        tmp_path, *npu_pair(tmp_path, further_mib=2.999)
    )


def test_equal_npu_memory_is_said_to_be_equal(tmp_path: Path) -> None:
    """A mechanism that changes nothing takes as much as its baseline; one that takes more is said
    to.
    """
    baseline = result(tmp_path, "copied_io", even(3), npu=npu_account)
    same = answer(tmp_path, baseline, result(tmp_path, "zero_copy_io", even(3), npu=npu_account))
    assert same.startswith("Zero-copy input and output takes as much NPU memory as Copied input")
    larger = result(
        tmp_path,
        "zero_copy_io",
        even(3),
        npu=lambda plan: npu_account(plan, total_bytes=130 * 2**20),
    )
    more = answer(tmp_path, baseline, larger)
    assert "10.00 MiB ±0.00 more NPU memory than Copied input and output" in more


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "kind", ["reads_freed", "reads_foreign", "reads_unknown", "not_shared", "not_run", "leak"]
)
def test_findings_are_warned_of(tmp_path: Path, kind: str, language: str) -> None:
    """Whatever the ledger found is a warning that names the scenario and, but for a leak, its
    contexts.
    """
    finding = Finding(kind, 3, 7, None, 3 * 2**20)
    info = result(
        tmp_path, "full_dup", even(3), npu=lambda plan: npu_account(plan, findings=(finding,))
    )
    texts = texts_of(language)
    (warning,) = group_warnings(group_of(tmp_path, info), texts)
    assert texts.scenario("full_dup") in warning
    assert ("3.00" if kind == "leak" else "4") in warning


def test_addresses_past_an_end_say_how_far(tmp_path: Path) -> None:
    """A warning of unknown addresses names the memory before them and the distance of the lowest
    from its end.
    """
    findings = tuple(
        Finding("reads_unknown", 3, 7, 1, 9, past_end_bytes=size) for size in (3 * 2**19, 2**21)
    )
    info = result(
        tmp_path, "full_dup", even(3), npu=lambda plan: npu_account(plan, findings=findings)
    )
    (warning,) = group_warnings(group_of(tmp_path, info), ENGLISH)
    assert (
        "The lowest address is 1.50 MiB past the end of the last buffer before it (memory of: 2)"
        in warning
    )


def test_latency_is_compared_with_its_spread(tmp_path: Path) -> None:
    """A latency that differs by more than its spread is given as it is; one that does not is said
    not to differ.
    """
    baseline, same = (
        result(tmp_path, name, even(3)) for name in ("no_reuse_one_model", "full_dup")
    )
    same = with_speed(same, latency_median_ns=[LATENCY_NS - 1, LATENCY_NS, LATENCY_NS + 1])
    assert "Latency does not differ measurably: 20.00" in answer(tmp_path, baseline, same)
    faster = with_speed(same, latency_median_ns=[15_000_000] * 3)
    write_run(tmp_path / "faster", [faster], 1, "2026-01-01T00:00:00")
    write_run(tmp_path / "faster", [baseline], 2, "2026-01-02T00:00:00")
    (sentence,) = answers(groups_of(tmp_path / "faster")[0].rows, ENGLISH)
    assert " Latency: 15.00 ±0.00 ms instead of 20.00 ±0.00 ms." in sentence


def test_what_an_inference_copies_is_said(tmp_path: Path) -> None:
    """The answer to a question about copies has both numbers, even if none can be avoided."""
    infos = [
        result(tmp_path, name, even(3)) for name in ("copied_io_1080p", "zero_copy_input_1080p")
    ]
    assert answer(tmp_path, *infos).endswith("An inference copies 12.00 MiB instead of 36.00 MiB.")
    nothing = [changed(info, copies=(Copies(0, 0),)) for info in infos]
    assert "Neither copies anything during an inference" in answer(tmp_path, *nothing)
    assert "copies" not in answer(tmp_path, *(changed(info, copies=None) for info in infos))


def test_lean_says_what_was_combined(tmp_path: Path) -> None:
    """The scenario of every mechanism names those that its plan has, and those that it has not."""
    plain = result(tmp_path, "plain", even(3))
    lean = result(tmp_path, "lean", even(1))
    tensors = "; ".join(map(ENGLISH, ("combined_native_io", "combined_shared_tensors")))
    all_of_them = answer(tmp_path, plain, lean)
    assert all_of_them.endswith(f"It combines: dup; one internal memory per core; {tensors}.")
    contexts = tuple(replace(context, internal=None) for context in lean.plan.contexts)
    sentence = answer(tmp_path, plain, changed(lean, plan=replace(lean.plan, contexts=contexts)))
    assert f"It combines: dup; {tensors}." in sentence
    assert sentence.endswith("combine with the rest: one internal memory per core.")


def test_each_step_to_lean_says_what_it_gave(tmp_path: Path) -> None:
    """The saving beyond the step before, after the sentences of the scenarios; one step alone has
    no such sentence.
    """
    costs = {"plain": 40, "lean_weights": 30, "lean_internal": 12, "lean": 10}
    group = group_of(
        tmp_path, *(result(tmp_path, name, even(cost)) for name, cost in costs.items())
    )
    assert (
        answers(group.rows, ENGLISH)[-1]
        == "Step by step: weights shared 120.0 ±0.0 MiB; one internal memory per core 216.0 ±0.0"
        " MiB; "
        "input and output in place 24.0 ±0.0 MiB."
    )
    assert "Step by step" not in " ".join(answers(group.rows[:2], ENGLISH))


def test_steps_that_were_measured_as_dup_are_steps(tmp_path: Path) -> None:
    """Lean is compared with the scenario of dup, its steps are found by name, and it says what it
    copies.
    """
    group = group_of(tmp_path, *first_look(tmp_path))
    *_, lean, steps = answers(group.rows, ENGLISH)
    assert (
        steps
        == "Step by step: weights shared 120.0 ±0.0 MiB; one internal memory per core 216.0 ±0.0"
        " MiB; "
        "input and output in place 24.0 ±0.0 MiB."
    )
    assert lean.startswith(
        "Lean saves 360.0 MiB ±0.0 of the 510.0 MiB of application memory that No reuse, one model"
    )
    assert "Neither copies anything" not in lean
    assert "An inference copies 0 MiB instead of 3.00 MiB." in lean
    against = [cells[-2] for _, cells in comparison_table(group, group.rows, [], ENGLISH).rows]
    assert against == ["-", *["No reuse, one model"] * 3]


def test_a_step_that_is_equal_to_another_adds_nothing(tmp_path: Path) -> None:
    """If lean can combine no more than the step before, its sentence says so, and there is no step
    of nothing.
    """
    plain, dups, internal, _, *copies = first_look(tmp_path)
    group = group_of(tmp_path, plain, dups, internal, *copies, as_measured(internal, "lean"))
    *_, internal_reuse, steps = answers(group.rows, ENGLISH)
    assert steps.endswith(
        "weights shared 120.0 ±0.0 MiB; one internal memory per core 216.0 ±0.0 MiB."
    )
    assert "It combines: dup; one internal memory per core." in internal_reuse
    assert internal_reuse.endswith("combine with the rest: zero-copy input and output.")


def test_what_is_not_supported_is_one_sentence(tmp_path: Path) -> None:
    """All that a runtime lacks is named in one sentence, apart from the answers."""
    names = ("external_memory", "external_mmz")
    rows = group_of(
        tmp_path, *(result(tmp_path, name, [], failure=NOT_SUPPORTED) for name in names)
    ).rows
    assert answers(rows, ENGLISH) == []
    assert (
        not_supported(rows, ENGLISH)
        == "Not supported here: All outside (create_mem); All outside (MMZ)."
    )
    assert not_supported(rows[:0], ENGLISH) is None


@pytest.mark.parametrize("language", LANGUAGES)
def test_short_memory_is_marked_and_warned_of(tmp_path: Path, language: str) -> None:
    """Figures that it falsifies are marked, the outcome and a warning say why, and savings are
    doubted.
    """
    texts = texts_of(language)
    short = with_short_memory(result(tmp_path, "no_reuse_one_model", even(40)))
    group = group_of(tmp_path, short, result(tmp_path, "full_dup", dup(40, 10)))
    sign = texts.message(short.shortage_signs[0])
    (warning,) = group_warnings(group, texts)
    assert DOUBT in warning
    assert sign in warning
    assert all(texts("answer_short") in sentence for sentence in answers(group.rows[1:], texts))
    table = comparison_table(group, group.rows, [], texts)
    cells = [dict(zip(table.heads, cells)) for _, cells in table.rows]
    application, saved, outcome = (
        texts(f"column_{name}") for name in ("application", "saved", "outcome")
    )
    assert [DOUBT in row[application] for row in cells] == [True, False]
    assert [DOUBT in row[saved] for row in cells] == [False, True]
    assert sign in cells[0][outcome]
