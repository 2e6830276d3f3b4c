from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from reusebench.accounting.sharing import Finding
from reusebench.reports.base.texts import texts_of
from reusebench.reports.explanation.sentences import explanation_sentences
from reusebench.reports.results.rows import Row
from tests.reports.explanation.test_explanation import first_only, with_more
from tests.reports.stored import (
    MIB,
    changed,
    dup,
    even,
    group_of,
    groups_of,
    npu_account,
    result,
    with_more_memory,
    write_run,
)

ENGLISH = texts_of("en")


def npu_rows(storage: Path) -> tuple[Row, ...]:
    """Return no reuse, full dup with 1/16 MiB less of register commands, and a wrong zero copy."""
    less = with_more("register_commands", -MIB // 16, range(1, 12))
    accounts = {
        "no_reuse_one_model": npu_account,
        "full_dup": less,
        "copied_io": npu_account,
        "zero_copy_io": with_more("io", MIB, range(12)),
    }
    write_run(
        storage, [result(storage, name, even(3), npu=account) for name, account in accounts.items()]
    )
    return groups_of(storage)[0].rows


def application_rows(storage: Path) -> tuple[Row, ...]:
    """Return no reuse, and a full dup whose last dup takes 3 MiB more than the others."""
    costs = dup(40, 10)
    more = [[*added[:-1], added[-1] + 3 * MIB] for added in costs]
    baseline = result(storage, "no_reuse_one_model", even(40))
    write_run(storage, [baseline, result(storage, "full_dup", more)])
    return groups_of(storage)[0].rows


def test_a_sentence_says_why_the_claim_is_not_reached(tmp_path: Path) -> None:
    """It names the shared memory, each dup's own memory, and the error of the prediction."""
    assert explanation_sentences(npu_rows(tmp_path), ENGLISH) == [
        "Full dup saves 55.6 %."
        " It would be 91.7 % if the 11 of 12 contexts that reuse another one took nothing."
        " Only weights are shared, 72.00 of the baseline's 120.00 MiB. Each reusing context"
        " takes 3.94 MiB of its own on average: internal tensors 2.00; register commands 0.94; task"
        " list 0.06; input and output 0.94. Predicted: 55.0 %; measured: 0.69 MiB less,"
        " 0.6 % of the baseline's."
    ]


def test_weights_that_a_runtime_did_not_share_are_not_called_shared(tmp_path: Path) -> None:
    """If the ledger found that contexts read weights of their own, the sentence says so."""
    finding = Finding("not_shared", context=1, buffer=None, owner=0, amount=0)
    own_weights = with_more("weights", 6 * MIB, range(1, 12))
    group = group_of(
        tmp_path,
        result(tmp_path, "no_reuse_one_model", even(3), npu=npu_account),
        result(
            tmp_path,
            "full_dup",
            even(3),
            npu=lambda plan: replace(own_weights(plan), findings=(finding,)),
        ),
    )
    (sentence,) = explanation_sentences(group.rows, ENGLISH)
    assert sentence.startswith("Full dup saves 0.0 %.")
    assert "The runtime did not share what the plan shares, 72.00 of the baseline's" in sentence
    assert "measured: 66.00 MiB more, 55.0 % of the baseline's." in sentence


def test_a_sentence_on_application_memory_names_the_unshared_memory(tmp_path: Path) -> None:
    """It compares a dup with a context of the baseline, and says that the import is needed once."""
    assert explanation_sentences(application_rows(tmp_path), ENGLISH) == [
        "Full dup saves 64.1 %."
        " It would be 91.7 % if the 11 of 12 contexts that reuse another one took nothing."
        " The import takes 30.0 MiB once. Each reusing context takes 10.3 MiB; without reuse"
        " 40.0 MiB. Predicted: 64.7 %; measured: 3.0 MiB more, 0.6 % of the baseline's."
    ]


def test_what_scenarios_have_in_common_is_said_once(tmp_path: Path) -> None:
    """The claim and the import stand in the first paragraph, the memory of contexts in each."""
    names = ("full_dup", "full_dup_internal_reuse")
    reusing = [result(tmp_path, name, dup(40, 10)) for name in names]
    group = group_of(tmp_path, result(tmp_path, "no_reuse_one_model", even(40)), *reusing)
    first, second = explanation_sentences(group.rows, ENGLISH)
    for common in ("It would be 91.7 %", "The import takes"):
        assert common in first
        assert common not in second
    assert "Each reusing context takes 10.0 MiB" in second


def test_running_at_the_same_time_is_named_if_it_shows(tmp_path: Path) -> None:
    """The memory that it takes, or gives back, is named."""
    sentences = []
    baseline = result(tmp_path, "no_reuse_one_model", even(40))
    full_dup = result(tmp_path, "full_dup", dup(40, 10))
    for more in (24, -24):
        group = group_of(tmp_path, baseline, with_more_memory(full_dup, more * MIB))
        sentences += explanation_sentences(group.rows, ENGLISH)
    assert "Running at once takes 24.0 MiB more." in sentences[0]
    assert "24.0 MiB of what the contexts took alone are released." in sentences[1]


def test_sizes_that_a_cpu_runtime_reports_are_summed_by_component(tmp_path: Path) -> None:
    """Input and output are one component; sizes that round to zero are left out."""
    accounts = (
        {"weights_bytes": 28 * MIB, "input_bytes": MIB},
        {"output_bytes": 2 * MIB, "session_bytes": 100},
    )
    full_dup = changed(result(tmp_path, "full_dup", dup(40, 10)), runtime_accounts=accounts)
    group = group_of(tmp_path, result(tmp_path, "no_reuse_one_model", even(40)), full_dup)
    (sentence,) = explanation_sentences(group.rows, ENGLISH)
    assert "and the application, in MiB: weights 28.0; input and output 3.0." in sentence


def test_a_reached_claim_is_called_reached(tmp_path: Path) -> None:
    """Threads on one context that add nothing reach 11/12; nothing is left to explain."""
    group = group_of(
        tmp_path,
        result(tmp_path, "no_reuse_one_model", even(3), npu=npu_account),
        result(tmp_path, "shared_context", even(3), npu=first_only),
    )
    assert explanation_sentences(group.rows, ENGLISH) == [
        "Shared context saves 91.7 %. That is as if the 11 of 12 contexts that reuse another one"
        " took nothing, 91.7 %. The whole context is shared, 120.00 of the baseline's"
        " 120.00 MiB. Predicted: 91.7 %, right within 0.01 MiB."
    ]


def test_an_error_within_the_spread_is_called_chance(tmp_path: Path) -> None:
    """If the error is smaller than the spread of repeats, it is called neither more nor less."""
    costs = [[40 * MIB, *[10 * MIB] * 10, (10 + more) * MIB] for more in (-2, 1, 3)]
    write_run(
        tmp_path,
        [result(tmp_path, "no_reuse_one_model", even(40)), result(tmp_path, "full_dup", costs)],
    )
    (sentence,) = explanation_sentences(groups_of(tmp_path)[0].rows, ENGLISH)
    assert sentence.endswith("64.7 %, equal within the spread: 1.0 MiB ±3.0, 0.2 %.")
