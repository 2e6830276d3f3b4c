from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reusebench.accounting.account import Account
from reusebench.accounting.sizes import COMPONENTS, ContextMemory
from reusebench.measured.plan import Plan
from reusebench.reports.explanation.application_prediction import (
    BASELINE_CONTEXTS,
    FIRST_OF_KIND,
    OWN_CONTEXTS,
)
from reusebench.reports.explanation.explained_memory import APPLICATION_MEMORY, NPU_MEMORY, TOTAL
from reusebench.reports.explanation.explanation import (
    ACCOUNT,
    EXPLANATION_COLUMNS,
    Explanation,
    explain,
    explanation_records,
)
from reusebench.reports.results.rows import Row
from reusebench.storage.result import Result
from tests.reports.stored import (
    FAILED,
    IMPORTED,
    MIB,
    MakeAccount,
    account_with,
    changed,
    dup,
    even,
    group_of,
    npu_account,
    result,
    row_of,
    runtime_account,
    with_more_memory,
)


def last_row(storage: Path, *infos: Result) -> Row:
    """Return the row of the last of these results."""
    return row_of(group_of(storage, *infos), infos[-1].scenario)


def explained(storage: Path, *infos: Result) -> Explanation:
    """Return the explanation of the last of these results."""
    explanation = explain(last_row(storage, *infos))
    assert explanation is not None
    return explanation


def in_mib(figures: Any) -> dict[str, float | None]:
    """Return the medians in MiB."""
    return {name: figure and figure.median / MIB for name, figure in figures.items()}


def with_more(component: str, more_bytes: int, indices: Sequence[int]) -> MakeAccount:
    """Return a maker of accounts in which these contexts have more of a component."""

    def account(plan: Plan) -> Account:
        ledger = npu_account(plan)
        contexts = list(ledger.contexts)
        for index in indices:
            size = (contexts[index].size_bytes(component) or 0) + more_bytes
            contexts[index] = replace(contexts[index], **{f"{component}_bytes": size})
        return account_with(contexts, ledger)

    return account


def by_model(plan: Plan) -> Account:
    """Return an account with i + 1 MiB of internal tensors for model i, if they are not shared."""
    ledger = npu_account(plan)
    contexts = [
        replace(context, internal_bytes=(planned.model + 1) * MIB * bool(context.internal_bytes))
        for context, planned in zip(ledger.contexts, plan.contexts)
    ]
    return account_with(contexts, ledger)


def first_only(plan: Plan) -> Account:
    """Return an account in which contexts after the first take nothing."""
    ledger = npu_account(plan)
    nothing = ContextMemory(**dict.fromkeys(ContextMemory.__struct_fields__, 0))
    return account_with([ledger.contexts[0], *[nothing] * (len(plan.contexts) - 1)], ledger)


def test_a_dup_is_predicted_to_share_only_its_weights(tmp_path: Path) -> None:
    """Full dup keeps the weights of 1 of 12 contexts (6 of 10 MiB each), and the rest of all 12."""
    names = ("no_reuse_one_model", "full_dup")
    explanation = explained(
        tmp_path, *(result(tmp_path, name, even(3), npu=npu_account) for name in names)
    )
    assert (explanation.basis, explanation.measured.name) == (ACCOUNT, NPU_MEMORY)
    assert explanation.predicted.total.median == (6 + 12 * 4) * MIB
    assert (explanation.predicted_saved.median, explanation.measured_saved.median) == (
        66 * MIB,
        66 * MIB,
    )
    assert explanation.percent(explanation.predicted_saved).median == pytest.approx(55)
    assert set(in_mib(explanation.error_by_component).values()) == {0, None}
    assert explanation.shared == ("weights",)
    assert in_mib(explanation.own)["weights"] == 0
    assert in_mib(explanation.own)["internal"] == 2


def test_the_claim_is_the_share_of_contexts_that_reuse_another(tmp_path: Path) -> None:
    """The claim for 11 of 12 dups is 11/12 of everything, and it is not reached."""
    names = ("no_reuse_one_model", "full_dup")
    explanation = explained(
        tmp_path, *(result(tmp_path, name, even(3), npu=npu_account) for name in names)
    )
    assert (explanation.reusing, explanation.contexts) == (11, 12)
    assert explanation.naive_percent == pytest.approx(100 * 11 / 12)
    assert explanation.naive_saved_bytes == pytest.approx(110 * MIB)
    assert not explanation.claim_is_reached


def test_errors_stand_by_component(tmp_path: Path) -> None:
    """If dups have less than the baseline's contexts, only that component has an error."""
    less = with_more("register_commands", -MIB // 16, range(1, 12))
    baseline = result(tmp_path, "no_reuse_one_model", even(3), npu=npu_account)
    explanation = explained(tmp_path, baseline, result(tmp_path, "full_dup", even(3), npu=less))
    errors = in_mib(explanation.error_by_component)
    none = {**dict.fromkeys(COMPONENTS, 0), "biases": None}
    assert errors == {**none, "register_commands": -11 / 16}
    assert explanation.error.median == -11 * MIB / 16


def test_a_prediction_uses_no_figure_of_the_scenario(tmp_path: Path) -> None:
    """Whatever the scenario's account says, the prediction by account stays the same."""
    baseline = result(tmp_path, "no_reuse_one_model", even(3), npu=npu_account)
    other = result(tmp_path, "full_dup", even(9), npu=with_more("io", 5 * MIB, range(12)))
    explanation = explained(tmp_path, baseline, other)
    assert explanation.predicted.total.median == 54 * MIB
    assert explanation.error.median == 60 * MIB


@pytest.mark.parametrize("scenario", ["internal_reuse", "internal_reuse_last_first"])
def test_one_internal_memory_is_as_large_as_the_largest(tmp_path: Path, scenario: str) -> None:
    """Models with 1, 2, 3 and 4 MiB of internal tensors share 4, whatever their order."""
    names = ("in_turn", scenario)
    explanation = explained(
        tmp_path, *(result(tmp_path, name, even(3), npu=by_model) for name in names)
    )
    assert (
        in_mib(explanation.baseline.sizes)["internal"],
        in_mib(explanation.predicted.sizes)["internal"],
    ) == (10, 4)
    assert explanation.reusing == 3
    assert explanation.shared == ("internal",)


def test_contexts_share_internal_memory_by_core(tmp_path: Path) -> None:
    """Full dup with internal reuse has internal memory for 2 cores, and one set of weights."""
    names = ("no_reuse_one_model", "full_dup_internal_reuse")
    explanation = explained(
        tmp_path, *(result(tmp_path, name, even(3), npu=npu_account) for name in names)
    )
    predicted = in_mib(explanation.predicted.sizes)
    assert (predicted["weights"], predicted["internal"], predicted["register_commands"]) == (
        6,
        2 * 2,
        12,
    )
    assert explanation.shared == ("weights", "internal")


def test_a_thread_on_a_shared_context_adds_nothing(tmp_path: Path) -> None:
    """Twelve threads on one context are predicted to take as much as one context."""
    names = ("no_reuse_one_model", "shared_context")
    explanation = explained(
        tmp_path, *(result(tmp_path, name, even(3), npu=npu_account) for name in names)
    )
    assert explanation.predicted.total.median == 10 * MIB
    assert explanation.percent(explanation.predicted_saved).median == pytest.approx(
        explanation.naive_percent
    )
    assert explanation.shared == COMPONENTS


def test_memory_of_no_context_is_other(tmp_path: Path) -> None:
    """Memory of no context's step in the baseline is predicted to be there again, as other."""

    def account(plan: Plan) -> Account:
        ledger = npu_account(plan, unattributed_bytes=3 * MIB)
        return account_with(ledger.contexts, ledger)

    names = ("no_reuse_one_model", "full_dup")
    explanation = explained(
        tmp_path, *(result(tmp_path, name, even(3), npu=account) for name in names)
    )
    assert in_mib(explanation.predicted.sizes)["other"] == 3
    assert explanation.error.median == 0


def test_components_that_a_source_does_not_tell_apart_stay_unknown(tmp_path: Path) -> None:
    """If only the runtime tells sizes, io is unknown in prediction and error, not zero."""
    names = ("no_reuse_one_model", "full_dup")
    explanation = explained(
        tmp_path, *(result(tmp_path, name, even(3), npu=runtime_account) for name in names)
    )
    assert explanation.predicted.sizes["io"] is None
    assert explanation.error_by_component["io"] is None
    assert in_mib(explanation.predicted.sizes)["weights"] == 6
    assert explanation.error.median == 0


def test_accounts_of_two_sources_are_not_compared(tmp_path: Path) -> None:
    """A ledger and a runtime's figures explain nothing together; application memory does."""
    baseline = result(tmp_path, "no_reuse_one_model", even(4), npu=npu_account)
    explanation = explained(
        tmp_path, baseline, result(tmp_path, "full_dup", even(3), npu=runtime_account)
    )
    assert explanation.measured.name == APPLICATION_MEMORY


def test_the_second_context_of_a_kind_stands_for_all_later_ones(tmp_path: Path) -> None:
    """The first dup, often unlike the others, stands for itself; growth of a later one is the
    error.
    """
    costs = [40, 25, *[10] * 9, 13]
    own = [[size * MIB for size in costs]] * 3
    baseline = result(tmp_path, "no_reuse_one_model", even(40))
    explanation = explained(tmp_path, baseline, result(tmp_path, "full_dup", own))
    assert (explanation.basis, explanation.measured.name) == (FIRST_OF_KIND, APPLICATION_MEMORY)
    assert in_mib(explanation.predicted.sizes) == {
        "import": 30,
        "loaded": 40,
        "reusing": 25 + 10 * 10,
        "at_once": 0,
    }
    assert in_mib(explanation.error_by_component) == {
        "import": 0,
        "loaded": 0,
        "reusing": 3,
        "at_once": 0,
    }
    assert in_mib(explanation.own)["reusing"] == pytest.approx((25 + 9 * 10 + 13) / 11)
    assert explanation.unshared is not None
    assert explanation.unshared.median == 40 * MIB


def test_if_no_kind_has_more_than_two_contexts_all_stand_for_themselves(tmp_path: Path) -> None:
    """Then only their sum is tested, and the basis says so."""
    names = ("no_reuse", "partial_dup")
    explanation = explained(tmp_path, *(result(tmp_path, name, even(20)) for name in names))
    assert explanation.basis == OWN_CONTEXTS
    assert explanation.error.median == 0
    assert (explanation.reusing, explanation.contexts) == (8, 12)


def test_running_at_the_same_time_is_predicted_from_the_baseline(tmp_path: Path) -> None:
    """Growth beyond import and contexts is predicted as in the baseline."""
    infos = [
        result(tmp_path, "no_reuse_one_model", even(40)),
        result(tmp_path, "full_dup", dup(40, 10)),
    ]
    explanation = explained(
        tmp_path, *(with_more_memory(info, more * MIB) for info, more in zip(infos, (24, 7)))
    )
    assert in_mib(explanation.predicted.sizes)["at_once"] == 24
    assert in_mib(explanation.error_by_component)["at_once"] == -17
    assert explanation.baseline.total.median == IMPORTED + (12 * 40 + 24) * MIB


def test_avoided_copies_are_predicted_to_be_saved(tmp_path: Path) -> None:
    """Contexts that share nothing are like the baseline's, less the 3 MiB not copied."""
    infos = [result(tmp_path, "copied_io", even(40)), result(tmp_path, "zero_copy_io", even(38))]
    explanation = explained(tmp_path, *infos)
    assert explanation.basis == BASELINE_CONTEXTS
    assert in_mib(explanation.predicted.sizes)["loaded"] == 12 * 37
    assert explanation.error.median == 12 * MIB
    assert (
        explanation.naive_percent,
        explanation.naive_saved_bytes,
        explanation.claim_is_reached,
    ) == (
        None,
        None,
        False,
    )


def test_without_counted_copies_nothing_is_predicted_to_be_saved(tmp_path: Path) -> None:
    """Older results without counted copies are predicted from the baseline's contexts only."""
    infos = [result(tmp_path, "copied_io", even(40)), result(tmp_path, "zero_copy_io", even(38))]
    infos[0] = changed(infos[0], copies=None)
    assert explained(tmp_path, *infos).predicted_saved.median == 0


def test_spreads_of_both_sides_add(tmp_path: Path) -> None:
    """The error may be as large as both ranges together, and each side keeps its own."""
    infos = [
        result(tmp_path, "no_reuse_one_model", even(40, spread=0.5)),
        result(tmp_path, "full_dup", dup(40, 10)),
    ]
    explanation = explained(tmp_path, *infos)
    assert explanation.baseline.total.spread == 6 * MIB
    assert explanation.measured.total.spread == 0
    assert explanation.measured_saved.spread == 6 * MIB


def test_the_claim_can_be_reached(tmp_path: Path) -> None:
    """The claim holds if contexts that reuse another one take nothing, nor does the rest."""
    baseline = result(tmp_path, "no_reuse_one_model", even(3), npu=npu_account)
    shared = result(tmp_path, "shared_context", even(3), npu=first_only)
    assert explained(tmp_path, baseline, shared).claim_is_reached


def test_only_what_was_compared_is_explained(tmp_path: Path) -> None:
    """A baseline, a failure and a scenario whose baseline is missing have no explanation."""
    alone = last_row(tmp_path / "alone", result(tmp_path / "alone", "full_dup", dup(40, 10)))
    baseline = result(tmp_path, "no_reuse_one_model", even(40))
    failed = last_row(tmp_path, baseline, result(tmp_path, "full_dup", [], failure=FAILED))
    assert failed.baseline is not None
    assert [explain(row) for row in (alone, failed, failed.baseline)] == [None, None, None]
    assert explanation_records(failed) == []


def test_a_baseline_of_other_things_explains_nothing(tmp_path: Path) -> None:
    """Only a changed file has a baseline without decoders, or without a context of the model."""
    infos = [
        result(tmp_path, "no_reuse_one_model", even(40)),
        result(tmp_path, "full_dup", dup(40, 10)),
    ]
    row = last_row(tmp_path, *infos)
    assert row.baseline is not None
    decoded = replace(row.info.memory, decoder_memory_bytes=(MIB,) * len(infos[1].repeats))
    others = tuple(replace(model, digest="another") for model in row.info.models)
    assert explain(row) is not None
    for info in (replace(row.info, memory=decoded), replace(row.info, models=others)):
        assert explain(Row(replace(row.result, info=info), row.file, row.baseline)) is None


def test_exported_rows_add_up(tmp_path: Path) -> None:
    """Each component and the total have a row of whole bytes; only the total has a claim."""
    infos = [
        result(tmp_path, "no_reuse_one_model", even(40)),
        result(tmp_path, "full_dup", dup(40, 10)),
    ]
    rows = explanation_records(last_row(tmp_path, *infos))
    assert [tuple(row) for row in rows] == [EXPLANATION_COLUMNS] * 5
    *parts, total = rows
    assert total["component"] == TOTAL
    for column in ("baseline_bytes", "predicted_bytes", "measured_bytes", "error_bytes"):
        assert sum(part[column] for part in parts) == total[column]
    assert {part["naive_bytes"] for part in parts} == {None}
    assert total["naive_bytes"] == round((IMPORTED + 480 * MIB) / 12)
    assert {row["basis"] for row in rows} == {FIRST_OF_KIND}
