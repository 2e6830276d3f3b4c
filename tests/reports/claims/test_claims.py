"""The claims ledger: its data, and the judgements on runs with chosen figures."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reusebench.accounting.account import Account, ApplicationBuffers
from reusebench.measured.plan import Plan
from reusebench.measured.runtimes.base import Copies
from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.claims.claims import (
    CLAIMS_COLUMNS,
    claim_tests,
    claims_records,
    claims_table,
    decided_claims,
    judge_claims,
    read_claims,
)
from reusebench.reports.claims.judgement import (
    CLAIM_VERDICTS,
    DOES_NOT_HOLD,
    HOLDS,
    OPEN,
    Judgement,
    Phrase,
)
from reusebench.reports.claims.judges import JUDGES, judge
from reusebench.reports.results.labels import group_id
from reusebench.reports.results.rows import Group
from reusebench.scenarios.catalogue import find_scenario
from reusebench.targets.outcome import Failure
from tests.helpers.chinese import with_foreign_punctuation
from tests.reports.stored import (
    FAILED,
    MIB,
    NOT_SUPPORTED,
    NPU_SIZES,
    MakeAccount,
    account_with,
    as_measured,
    changed,
    dup,
    even,
    group_of,
    groups_of,
    npu_account,
    npu_run,
    result,
    runtime_account,
    with_memory,
    with_short_memory,
    with_speed,
)

ENGLISH = texts_of("en")
SHARE = {"scenario": "full_dup", "memory": "application"}
ZERO_COPY = {"scenarios": ["zero_copy_io_4k", "zero_copy_io"]}


def full_dup(storage: Path, **changes: Any) -> Group:
    """Return a group in which full dup saves 330 of 510 MiB, 64.7 %; both have equal repeats."""
    infos = [result(storage, "no_reuse_one_model", even(40), **changes)]
    return group_of(storage, *infos, result(storage, "full_dup", dup(40, 10), **changes))


def said(judgement: Judgement) -> str:
    return judgement.reason.in_words(ENGLISH)


# Data


@pytest.mark.parametrize("claim", read_claims(), ids=lambda claim: claim.id)
def test_a_claim_is_whole(claim: Any) -> None:
    """A claim has a judge for its parameters, words in each language, existing scenarios, an https
    URL.
    """
    inspect.signature(JUDGES[claim.judge]).bind(None, **claim.parameters)
    for words in (claim.claim, claim.test, claim.source.title):
        assert sorted(words) == sorted(LANGUAGES)
        assert all(words.values())
    scenarios = [claim.parameters.get("scenario"), *claim.parameters.get("scenarios", ())]
    assert all(find_scenario(name) for name in scenarios if name)
    assert claim.source.url is None or claim.source.url.startswith("https://")
    assert len(claim.source.read.split("-")) == 3


def test_chinese_claims_have_chinese_punctuation() -> None:
    """No ASCII comma, colon, semicolon, question mark or bracket is next to a Chinese character."""
    words = [
        translations["zh-CN"]
        for claim in read_claims()
        for translations in (claim.claim, claim.test, claim.source.title)
    ]
    assert with_foreign_punctuation(words) == []


def test_claims_have_different_names_and_every_judge_has_work() -> None:
    """No two claims have one id, and no judge is without a claim."""
    claims = read_claims()
    assert len({claim.id for claim in claims}) == len(claims)
    assert {claim.judge for claim in claims} == set(JUDGES)


def test_every_reason_and_figure_has_words(tmp_path: Path) -> None:
    """Every reason and every figure has a text in every language."""
    npu_run(tmp_path)
    for judged in judge_claims(groups_of(tmp_path)):
        for language in LANGUAGES:
            for phrase in filter(None, (judged.judgement.reason, judged.judgement.shown)):
                assert phrase.in_words(texts_of(language))
    words = ENGLISH.words
    assert {f"claims_{verdict}" for verdict in CLAIM_VERDICTS} <= set(words)


# Shares of memory


@pytest.mark.parametrize(("claimed", "verdict"), [(64, HOLDS), (65, DOES_NOT_HOLD)])
def test_a_share_is_compared_with_the_claimed_one(
    tmp_path: Path, claimed: float, verdict: str
) -> None:
    """64.7 % saved reach 64 % and stay below 65 %."""
    judgement = judge("share_saved", full_dup(tmp_path), {**SHARE, "claimed_percent": claimed})
    assert judgement.verdict == verdict
    assert judgement.figure is not None
    assert judgement.figure.median == pytest.approx(100 * 330 / 510)


def test_a_claimed_share_within_the_spread_is_open(tmp_path: Path) -> None:
    """If the claimed share lies between the ends of the range, nothing is decided."""
    infos = [
        result(tmp_path, "no_reuse_one_model", even(40, spread=1)),
        result(tmp_path, "full_dup", dup(40, 10)),
    ]
    judgement = judge("share_saved", group_of(tmp_path, *infos), {**SHARE, "claimed_percent": 65})
    assert judgement.verdict == OPEN
    assert "smaller than the spread" in said(judgement)


def test_the_noise_of_system_memory_is_part_of_its_spread(tmp_path: Path) -> None:
    """A share that the repeats alone would decide is open if the idle machine moves by more."""
    infos = [
        result(tmp_path, "no_reuse_one_model", even(40)),
        result(tmp_path, "full_dup", dup(40, 10)),
    ]
    parameters = {**SHARE, "memory": "system", "claimed_percent": 20}
    assert judge("share_saved", group_of(tmp_path, *infos), parameters).verdict == HOLDS
    noisy = [with_memory(info, system_memory_noise_bytes=[100 * MIB] * 3) for info in infos]
    judgement = judge("share_saved", group_of(tmp_path, *noisy), parameters)
    assert judgement.verdict == OPEN
    assert "noise" in said(judgement)


def test_a_single_repeat_decides_no_share(tmp_path: Path) -> None:
    """It has no spread."""
    infos = [result(tmp_path, name, even(cost, repeats=1)) for name, cost in _COSTS.items()]
    judgement = judge("share_saved", group_of(tmp_path, *infos), {**SHARE, "claimed_percent": 1})
    assert (judgement.verdict, said(judgement)) == (OPEN, "a single repeat has no spread")


_COSTS = {"no_reuse_one_model": 40, "full_dup": 10}


def test_application_memory_of_the_virtual_board_decides_nothing(tmp_path: Path) -> None:
    """It includes the emulator's; the figure is shown with the share of NPU memory all the same."""
    group = full_dup(tmp_path, npu=npu_account, computes=False)
    judgement = judge("share_saved", group, {**SHARE, "claimed_percent": 29.6})
    assert judgement.verdict == OPEN
    assert "emulator" in said(judgement)
    assert judgement.shown is not None
    # 11 of 12 contexts lack 6 of their 10 MiB.
    assert "55.0 % of NPU memory" in judgement.shown.in_words(ENGLISH)


def test_a_virtual_board_without_an_emulator(tmp_path: Path) -> None:
    """Its application memory decides nothing either: nothing writes into the NPU's buffers."""
    names = {"no_reuse_one_model": even(40), "full_dup": dup(40, 10)}
    infos = [
        result(tmp_path, name, costs, npu=npu_account, computes=False)
        for name, costs in names.items()
    ]
    group = group_of(tmp_path, *(changed(info, emulated=False) for info in infos))
    judgement = judge("share_saved", group, {**SHARE, "claimed_percent": 29.6})
    assert judgement.verdict == OPEN
    assert "pages of NPU buffers that only an NPU would write" in said(judgement)


def test_a_claim_without_measurements_is_open_with_the_reason(tmp_path: Path) -> None:
    """A scenario that is missing, one that failed and one without a baseline are told apart."""
    parameters = {**SHARE, "claimed_percent": 1}
    alone = group_of(tmp_path / "a", result(tmp_path / "a", "no_reuse_one_model", even(40)))
    assert said(judge("share_saved", alone, parameters)) == "Full dup was not measured"
    failed = group_of(tmp_path / "b", result(tmp_path / "b", "full_dup", [], failure=FAILED))
    assert said(judge("share_saved", failed, parameters)) == "Full dup: crashed"
    orphan = group_of(tmp_path / "c", result(tmp_path / "c", "full_dup", even(40)))
    assert "baseline" in said(judge("share_saved", orphan, parameters))


def test_a_copy_is_judged_by_its_name(tmp_path: Path) -> None:
    """A scenario measured under another name is judged as that one, with the name that the claim
    has.
    """
    dups = result(tmp_path, "partial_dup", even(20))
    parameters = {"scenario": "full_dup"}
    first = result(tmp_path, "no_reuse", even(40))
    copies = [as_measured(first, "no_reuse_one_model"), as_measured(dups, "full_dup")]
    group = group_of(tmp_path, first, dups, *copies)
    judgement = judge("memory_saved", group, parameters)
    assert judgement.verdict == HOLDS
    assert judgement == judge("memory_saved", group, {"scenario": "partial_dup"})


def test_the_theory_is_all_contexts_but_one(tmp_path: Path) -> None:
    """If only the first of 12 contexts takes memory, 11/12 is saved; with 10 MiB each, less is."""
    parameters = {"scenario": "full_dup"}
    assert judge("all_but_one_saved", full_dup(tmp_path / "a"), parameters).verdict == DOES_NOT_HOLD
    infos = [
        result(tmp_path / "b", "no_reuse_one_model", even(40)),
        result(tmp_path / "b", "full_dup", dup(40, 0)),
    ]
    assert judge("all_but_one_saved", group_of(tmp_path / "b", *infos), parameters).verdict == HOLDS


@pytest.mark.parametrize(
    ("cost", "verdict"),
    [
        (even(20), HOLDS),
        (even(40), DOES_NOT_HOLD),
        (even(41), DOES_NOT_HOLD),
        (even(40, spread=1), OPEN),
    ],
)
def test_saved_memory_has_to_exceed_its_spread(
    tmp_path: Path, cost: list[list[int]], verdict: str
) -> None:
    """A saving above its spread holds, none or more memory does not, and a chance difference is
    open.
    """
    infos = [result(tmp_path, "in_turn", even(40)), result(tmp_path, "internal_reuse", cost)]
    assert (
        judge("memory_saved", group_of(tmp_path, *infos), {"scenario": "internal_reuse"}).verdict
        == verdict
    )


# Speed and copies


@pytest.mark.parametrize(
    ("rates", "verdict"),
    [
        ([99.0, 100.0, 101.0], HOLDS),
        ([60.0, 61.0, 62.0], DOES_NOT_HOLD),
        ([80.0, 95.0, 110.0], OPEN),
    ],
)
def test_a_loss_of_throughput_is_judged_by_its_range(
    tmp_path: Path, rates: list[float], verdict: str
) -> None:
    """From 100 per second, 1 % less is kept, 39 % less is lost; a range around the tolerance is
    open.
    """
    infos = [
        result(tmp_path, "no_reuse_one_model", even(40)),
        result(tmp_path, "full_dup", dup(40, 10)),
    ]
    timed = [
        with_speed(info, throughput_per_s=per_s) for info, per_s in zip(infos, ([100.0] * 3, rates))
    ]
    parameters = {"scenarios": ["full_dup"], "tolerance_percent": 5}
    assert judge("rate_kept", group_of(tmp_path, *timed), parameters).verdict == verdict


def test_the_worst_scenario_decides_on_throughput(tmp_path: Path) -> None:
    """One scenario that loses frames is enough, whatever the others do."""
    names = ("no_reuse", "partial_dup", "no_reuse_one_model", "full_dup")
    rates = dict.fromkeys(names, [100.0] * 3) | {"partial_dup": [50.0, 51.0, 52.0]}
    infos = [
        with_speed(result(tmp_path, name, even(40)), throughput_per_s=rates[name]) for name in names
    ]
    parameters = {"scenarios": ["full_dup", "partial_dup"], "tolerance_percent": 5}
    judgement = judge("rate_kept", group_of(tmp_path, *infos), parameters)
    assert judgement.verdict == DOES_NOT_HOLD
    assert judgement.shown is not None
    assert judgement.shown.values["scenario"] == "partial_dup"


def test_other_work_leaves_frames_unjudged(tmp_path: Path) -> None:
    """If the machine was busy, a loss of frames may come from other work."""
    names = ("no_reuse_one_model", "full_dup")
    infos = [result(tmp_path, name, even(40), idle_cpu_percent=50.0) for name in names]
    judgement = judge(
        "rate_kept", group_of(tmp_path, *infos), {"scenarios": ["full_dup"], "tolerance_percent": 5}
    )
    assert (judgement.verdict, judgement.reason.key) == (OPEN, "claims_reason_disturbed")


def test_short_memory_leaves_savings_unjudged(tmp_path: Path) -> None:
    """Evicted pages of the baseline make the saving look smaller."""
    short = with_short_memory(result(tmp_path, "no_reuse_one_model", even(40)))
    group = group_of(tmp_path, short, result(tmp_path, "full_dup", dup(40, 10)))
    judgement = judge("memory_saved", group, {"scenario": "full_dup"})
    assert (judgement.verdict, judgement.reason.key) == (OPEN, "claims_reason_short")


def test_if_nothing_computes_there_is_no_speed(npu_group: Group) -> None:
    """The virtual board does not tell a frame rate."""
    judgement = judge("rate_kept", npu_group, {"scenarios": ["full_dup"], "tolerance_percent": 5})
    assert judgement.verdict == OPEN
    assert "nothing computes" in said(judgement)


def test_fewer_copies_are_counted_with_the_largest_tensors(tmp_path: Path) -> None:
    """The first scenario in the list that was measured is judged, and its latency is shown."""
    names = ("copied_io", "zero_copy_io", "copied_io_4k", "zero_copy_io_4k")
    judgement = judge(
        "copies_avoided",
        group_of(tmp_path, *(result(tmp_path, name, even(3)) for name in names)),
        ZERO_COPY,
    )
    assert judgement.verdict == HOLDS
    assert judgement.figure is not None
    assert judgement.figure.median == 144 * MIB
    assert judgement.shown is not None
    assert "latency 0.00 ±0.00 ms less" in judgement.shown.in_words(ENGLISH)


@pytest.mark.parametrize(
    ("baseline", "own", "verdict", "words"),
    [
        (8, 8, DOES_NOT_HOLD, "as much"),
        (0, 0, OPEN, "no copy to leave out"),
        (None, None, OPEN, "not counted"),
    ],
)
def test_copies_that_are_not_fewer(
    tmp_path: Path, baseline: int | None, own: int | None, verdict: str, words: str
) -> None:
    """Equal copies refute it; a baseline without copies, or copies that were not counted, leave it
    open.
    """
    infos = [result(tmp_path, name, even(3)) for name in ("copied_io", "zero_copy_io")]
    copies = [None if size is None else (Copies(size, 0),) for size in (baseline, own)]
    counted = [changed(info, copies=of_context) for info, of_context in zip(infos, copies)]
    judgement = judge("copies_avoided", group_of(tmp_path, *counted), ZERO_COPY)
    assert judgement.verdict == verdict
    assert words in said(judgement)


# Accounts


def others_with(**sizes: int) -> MakeAccount:
    """Return a maker of accounts in which each context but the first has these bytes."""

    def account(plan: Plan) -> Account:
        ledger = npu_account(plan)
        first, *others = ledger.contexts
        changed_others = [replace(context, **sizes) for context in others]
        return account_with([first, *changed_others], ledger)

    return account


def accounted(storage: Path, account: MakeAccount, *names: str) -> Group:
    infos = [
        result(storage, name, even(3, repeats=1), npu=account, computes=False) for name in names
    ]
    return group_of(storage, *infos)


def test_internal_reuse_saves_all_but_the_largest(tmp_path: Path) -> None:
    """The account shows it to the page in one repeat; a context that keeps its own refutes it."""
    parameters = {"scenario": "internal_reuse"}
    names = ("in_turn", "internal_reuse")
    judgement = judge(
        "smaller_internal_saved", accounted(tmp_path / "a", npu_account, *names), parameters
    )
    assert judgement.verdict == HOLDS
    assert judgement.figure is not None
    assert judgement.figure.median == 3 * 2 * MIB
    own = accounted(tmp_path / "b", others_with(internal_bytes=2 * MIB), *names)
    assert judge("smaller_internal_saved", own, parameters).verdict == DOES_NOT_HOLD


def test_without_an_account_internal_reuse_is_open(tmp_path: Path) -> None:
    """Application memory does not tell components apart."""
    group = group_of(
        tmp_path, *(result(tmp_path, name, even(3)) for name in ("in_turn", "internal_reuse"))
    )
    judgement = judge("smaller_internal_saved", group, {"scenario": "internal_reuse"})
    assert judgement.verdict == OPEN
    assert "no account" in said(judgement)


@pytest.mark.parametrize(
    ("account", "verdict"),
    [(npu_account, HOLDS), (others_with(weights_bytes=1), DOES_NOT_HOLD), (runtime_account, OPEN)],
)
def test_slaves_have_no_weights(tmp_path: Path, account: MakeAccount, verdict: str) -> None:
    """Only a ledger decides; the other components of the slaves are listed."""
    group = accounted(tmp_path, account, "resolutions", "shared_weights")
    judgement = judge("slaves_without_weights", group, {"scenario": "shared_weights"})
    assert judgement.verdict == verdict
    if judgement.shown:
        assert "internal tensors 6.00" in judgement.shown.in_words(ENGLISH)


def test_published_sizes_are_those_of_contexts_of_their_own(tmp_path: Path) -> None:
    """Every loaded context of the model counts, in each repeat; a dup does not. One size that
    differs decides.
    """
    info = result(tmp_path, "full_dup", even(3), npu=npu_account)
    group = group_of(tmp_path, info)
    (row,) = group.rows
    names = {model.name for model in info.plan.models}
    loaded = sum(context.mechanism == "load" for context in info.plan.contexts)
    published = {
        "weights": NPU_SIZES["weights"],
        "weights_buffer": NPU_SIZES["weights"] + NPU_SIZES["register_commands"],
        "rest_kib": (NPU_SIZES["register_commands"] + NPU_SIZES["task_list"]) / 1024,
        "total_mib": round(9 + 1 / 16, 2),
    }
    judgement = judge("published_sizes", group, {"models": {"model-.*": published}})
    assert all(name.startswith("model-") for name in names)
    assert judgement.verdict == HOLDS
    assert judgement.figure is not None
    assert judgement.figure.median == 4 * loaded * len(row.accounts) < 4 * len(names) * 100

    wrong = {**published, "weights": published["weights"] + 1}
    judgement = judge("published_sizes", group, {"models": {"model-.*": wrong}})
    assert judgement.verdict == DOES_NOT_HOLD
    assert judgement.shown is not None
    compared = 4 * loaded * len(row.accounts)
    assert f"{compared * 3 // 4} of {compared} sizes" in judgement.shown.in_words(ENGLISH)

    for models in ({"model-": published}, {"other": published}):
        assert judge("published_sizes", group, {"models": models}).verdict == OPEN


def test_published_sizes_need_a_ledger(tmp_path: Path) -> None:
    """The runtime's own figures know neither register commands nor task lists."""
    group = accounted(tmp_path, runtime_account, "resolutions", "shared_weights")
    judgement = judge("published_sizes", group, {"models": {"model-.*": {"weights": 1}}})
    assert judgement.verdict == OPEN
    assert "none of these models was measured" in said(judgement)


def test_a_claim_about_a_chip_is_judged_there(tmp_path: Path) -> None:
    """Published sizes of an RK3588 say nothing about other chips."""
    for chip, is_judged in (("rk3588", True), ("rk3566", False)):
        info = changed(result(tmp_path, "full_dup", even(3), npu=npu_account), chip=chip)
        ids = {judged.claim.id for judged in judge_claims([group_of(tmp_path / chip, info)])}
        assert ("mobilenet_v2_sizes" in ids) == is_judged


def sharing(component: str) -> MakeAccount:
    """Return a maker of accounts in which the contexts share this component and the weights."""

    def account(plan: Plan) -> Account:
        ledger = npu_account(plan)
        more = tuple(replace(memory, component=component) for memory in ledger.shared[:1])
        return replace(ledger, shared=(*ledger.shared, *more))

    return account


@pytest.mark.parametrize(
    ("account", "verdict"),
    [
        (npu_account, HOLDS),
        (others_with(weights_bytes=MIB), DOES_NOT_HOLD),
        (others_with(internal_bytes=0), DOES_NOT_HOLD),
        (sharing("register_commands"), DOES_NOT_HOLD),
        (runtime_account, OPEN),
    ],
)
def test_dup_shares_weights_and_nothing_else(
    tmp_path: Path, account: MakeAccount, verdict: str
) -> None:
    """Dups with weights, without internal tensors or with something else in common refute it."""
    group = accounted(tmp_path, account, "no_reuse_one_model", "full_dup")
    assert judge("only_weights_shared", group, {"scenario": "full_dup"}).verdict == verdict


def buffers(*kinds: tuple[str, int, int]) -> MakeAccount:
    """Return a maker of accounts with application buffers: (kind, named, all)."""
    of_application = tuple(
        ApplicationBuffers(kind, count, MIB, read) for kind, read, count in kinds
    )
    return lambda plan: npu_account(plan, application_buffers=of_application)


@pytest.mark.parametrize(
    ("account", "verdict", "words"),
    [
        (buffers(("input", 12, 12), ("output", 0, 36)), HOLDS, "name them"),
        (buffers(("output", 0, 36)), DOES_NOT_HOLD, "name none"),
        (buffers(), OPEN, "allocated no buffer"),
        (npu_account, OPEN, "stored before"),
        (runtime_account, OPEN, "no ledger"),
    ],
)
def test_buffers_of_the_application_are_read_to_the_end(
    tmp_path: Path, account: MakeAccount, verdict: str, words: str
) -> None:
    """The buffers that inferences name decide; results without the figure are open."""
    group = accounted(tmp_path, account, "external_memory")
    judgement = judge(
        "application_memory_read", group, {"scenarios": ["external_memory", "zero_copy_io"]}
    )
    assert judgement.verdict == verdict
    assert words in said(judgement)
    if verdict == HOLDS:
        assert judgement.shown is not None
        assert judgement.shown.in_words(ENGLISH).endswith("inputs 12/12, outputs 0/36")


@pytest.mark.parametrize(
    ("failure", "verdict"), [(NOT_SUPPORTED, HOLDS), (None, DOES_NOT_HOLD), (FAILED, OPEN)]
)
def test_an_unsupported_scenario_was_refused(
    tmp_path: Path, failure: Failure | None, verdict: str
) -> None:
    """A refusal supports the claim, a run refutes it, and a crash decides nothing."""
    group = group_of(
        tmp_path, result(tmp_path, "full_dup", [] if failure else even(3), failure=failure)
    )
    assert judge("refused", group, {"scenario": "full_dup"}).verdict == verdict


# The ledger


def test_a_claim_is_judged_if_it_is_about_the_runtime(tmp_path: Path) -> None:
    """Claims about RKNN are judged for RKNN only."""
    full_dup(tmp_path)
    npu_run(tmp_path, number=2)
    groups = groups_of(tmp_path)
    judged = {
        (judged.claim.id, groups[judged.group].info.runtime) for judged in judge_claims(groups)
    }
    assert {
        ("dup_theory", "rknn"),
        ("onnxruntime_io_binding", "onnxruntime"),
        ("internal_reuse", "rknn"),
    } <= judged
    assert not {("dup_theory", "onnxruntime"), ("internal_reuse", "onnxruntime")} & judged


def test_a_claim_of_the_mini_runtime_is_judged_on_its_chips(tmp_path: Path) -> None:
    """Claims about small chips are judged there only; claims that exclude them are not."""
    for chip, about, not_about in (
        ("rv1106", "mini_runtime_no_dup", "dup_shares_weights"),
        ("rk3588", "dup_shares_weights", "mini_runtime_no_dup"),
    ):
        info = changed(result(tmp_path, "full_dup", even(3), npu=npu_account), chip=chip)
        ids = {judged.claim.id for judged in judge_claims([group_of(tmp_path / chip, info)])}
        assert about in ids
        assert not_about not in ids


def test_the_exported_rows_have_their_columns(tmp_path: Path) -> None:
    """Each claim about the group has one row, with figures as numbers and reasons in English."""
    rows = claims_records(full_dup(tmp_path, npu=npu_account))
    assert all(tuple(row) == CLAIMS_COLUMNS for row in rows)
    row = next(row for row in rows if row["claim"] == "full_dup_application")
    assert (row["verdict"], row["figure"], row["spread"], row["unit"]) == (
        HOLDS,
        64.706,
        0,
        "percent",
    )
    assert row["source"].startswith("https://")
    zero_copy = next(row for row in rows if row["claim"] == "rknn_zero_copy")
    assert (zero_copy["verdict"], zero_copy["figure"], zero_copy["unit"]) == (OPEN, None, None)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_table_says_claim_verdict_and_figure(tmp_path: Path, language: str) -> None:
    """A row has claim, group label, verdict with reason, and figure; its class is the group's."""
    texts = texts_of(language)
    table = claims_table(decided_claims([full_dup(tmp_path, npu=npu_account)]), ["here"], texts)
    assert len(table.heads) == len(table.rows[0][1])
    claim = read_claims()[1]
    cells = next(list(row) for _, row in table.rows if row[0] == claim.claim[language])
    assert cells[1] == "here"
    assert cells[2].startswith(texts("claims_holds"))
    assert "64.7 ±0.0 %" in cells[3]
    assert {look for look, _ in table.rows} == {group_id(0)}


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_shown_claim_has_its_test_and_source_once(tmp_path: Path, language: str) -> None:
    """A claim of two groups has one test, with the dates when its source was published and read."""
    group = full_dup(tmp_path, npu=npu_account)
    claims = decided_claims([group])
    assert all(judged.judgement.verdict != OPEN for judged in claims)
    tests = claim_tests(decided_claims([group, group]), texts_of(language))
    assert [test[:4] for test in tests] == [
        (
            judged.claim.claim[language],
            judged.claim.test[language],
            judged.claim.source.title[language],
            judged.claim.source.url,
        )
        for judged in claims
    ]
    assert all(judged.claim.source.read in dates for judged, (*_, dates) in zip(claims, tests))


def test_words_of_a_phrase_are_of_the_language() -> None:
    """A scenario in a reason has the name that the page gives it in that language."""
    phrase = Phrase("claims_reason_not_measured", {"scenario": "full_dup"})
    assert texts_of("zh-CN").scenario("full_dup") in phrase.in_words(texts_of("zh-CN"))
