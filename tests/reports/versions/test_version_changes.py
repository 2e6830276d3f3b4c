"""Changes from one version to the next, and their sentences."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from reusebench.accounting.account import Account
from reusebench.measured.plan import MECHANISMS, Plan
from reusebench.reports.base.texts import Texts, texts_of
from reusebench.reports.versions.sentences import version_sentences
from reusebench.reports.versions.table import component_table
from reusebench.reports.versions.version_changes import ComponentChange, version_changes
from tests.reports.stored import MIB, MakeAccount, account_with, changed, even, npu_account, result
from tests.reports.versions.stored_versions import (
    MORE_BYTES,
    NEW,
    OLD,
    heavier_dups,
    of_version,
    store_versions,
    three_versions,
    version_set,
)

ENGLISH = texts_of("en")
CHINESE = texts_of("zh-CN")


def test_a_component_that_each_dup_has_more_of(tmp_path: Path) -> None:
    """The component is named with its bytes, and no other is."""
    _, change = version_changes(version_set(three_versions(tmp_path)))
    assert change.components == (
        ComponentChange(
            "dup", "register_commands", MORE_BYTES, MORE_BYTES, True, scenarios=1, of_scenarios=1
        ),
    )
    assert (change.npu_compared, change.npu) == (2, (11 * MORE_BYTES,))


def test_application_memory_is_compared_within_an_architecture(tmp_path: Path) -> None:
    """Memory is compared within an architecture, or with the previous version, which is said."""
    versions = version_set(three_versions(tmp_path))
    first, second = version_changes(versions)
    assert [str(change.application_before) for change in (first, second)] == [
        "1.5.2 (aarch64)",
        "1.5.2 (aarch64)",
    ]
    # Full dup failed in 1.5.2.
    assert [round(one.change / MIB) for one in second.application] == [120]
    sentences = version_sentences(versions, ENGLISH)
    assert "The architecture changed too, aarch64 to armhf" in sentences[0]
    assert (
        "Application memory is compared with 1.5.2 (aarch64), which has the same architecture. "
        "Application memory above the baseline changed in 1 of 1 scenarios, by +120.00 MiB."
        in sentences[1]
    )
    assert "The architecture changed" not in sentences[1]


def test_what_failed_before(tmp_path: Path) -> None:
    """A configuration without figures on one side counts as measured now or lost."""
    versions = version_set(three_versions(tmp_path))
    first, _ = version_changes(versions)
    assert (first.compared, [row.scenario for row in first.gained], first.lost) == (
        1,
        ["full_dup"],
        (),
    )
    assert (
        "Measured now and not before: Full dup (crashed)."
        in version_sentences(versions, ENGLISH)[0]
    )


def test_sentences(tmp_path: Path) -> None:
    """Every version but the first has a paragraph, in both languages."""
    versions = version_set(three_versions(tmp_path))
    english, chinese = (version_sentences(versions, texts) for texts in (ENGLISH, CHINESE))
    assert english[1].startswith(
        "2.3.2 (aarch64), compared with 1.6.0 (armhf): NPU memory changed in 1 of 2 scenarios"
    )
    assert "Each dup takes 69,632 bytes more in register commands." in english[1]
    assert "每个 dup 的寄存器命令多占 69,632 字节。" in chinese[1]


@pytest.mark.parametrize(
    ("others", "sentence"),
    [
        (heavier_dups, "Each dup takes 69,632 to 1,118,208 bytes less in register commands."),
        (npu_account, "Some dups take 1,048,576 bytes less in register commands."),
    ],
)
def test_a_change_of_some_contexts(others: MakeAccount, sentence: str, tmp_path: Path) -> None:
    """Unequal changes are a range; changes of some contexts are described as such."""

    def uneven(plan: Plan) -> Account:
        account = others(plan)
        size = (account.contexts[-1].register_commands_bytes or 0) + MIB
        last = msgspec.structs.replace(account.contexts[-1], register_commands_bytes=size)
        return account_with([*account.contexts[:-1], last], account)

    runs = [of_version(tmp_path, OLD, account=uneven), of_version(tmp_path, NEW)]
    (words,) = version_sentences(version_set(store_versions(tmp_path, *runs)), ENGLISH)
    assert sentence in words


@pytest.mark.parametrize("texts", [ENGLISH, CHINESE], ids=["en", "zh-CN"])
def test_contexts_of_every_mechanism_can_change(texts: Texts) -> None:
    """Every mechanism has words for changes of all its contexts, and of some."""
    for mechanism in (*MECHANISMS, "none"):
        assert f"versions_each_{mechanism}" in texts.words
        assert f"versions_some_{mechanism}" in texts.words
        assert f"mechanism_{mechanism}" in texts.words or mechanism == "none"


def test_equal_changes_are_said_once(tmp_path: Path) -> None:
    """Consecutive versions with equal changes share a paragraph."""
    runs = [of_version(tmp_path, f"{number}.0.0") for number in (1, 2, 3)]
    (sentence,) = version_sentences(version_set(store_versions(tmp_path, *runs)), ENGLISH)
    assert sentence.startswith(
        "2.0.0, 3.0.0, each compared with the version before it: NPU memory is the same in all"
        " scenarios (2). Application memory above the baseline: no change that could be shown, in 2"
        " scenarios; "
    )


def test_one_repeat_shows_no_change_of_the_application(tmp_path: Path) -> None:
    """A single repeat shows no change, since its noise is unknown."""
    infos = [
        result(tmp_path, "no_reuse", even(mib, repeats=1), npu=npu_account) for mib in (10, 20)
    ]
    runs = [[changed(info, runtime_version=version)] for info, version in zip(infos, (OLD, NEW))]
    (sentence,) = version_sentences(version_set(store_versions(tmp_path, *runs)), ENGLISH)
    assert "one repeat of each shows no noise" in sentence


def test_results_of_earlier_versions_have_no_change_of_their_own(tmp_path: Path) -> None:
    """An account that has register commands, copy and padding as one is compared by their sum."""

    def whole(plan: Plan) -> Account:
        account = npu_account(plan)
        contexts = [context.with_commands_as_one() for context in account.contexts]
        return account_with(contexts, account)

    def apart(plan: Plan) -> Account:
        contexts = []
        account = npu_account(plan)
        for context in account.contexts:
            size = (context.register_commands_bytes or 0) - 4096
            changes = {"register_commands_bytes": size, "padding_bytes": 4096}
            contexts.append(msgspec.structs.replace(context, **changes))
        return account_with(contexts, account)

    old = of_version(tmp_path, OLD, account=whole)
    new = of_version(tmp_path, NEW, account=apart)
    (change,) = version_changes(version_set(store_versions(tmp_path, old, new)))
    assert (change.npu, change.components) == ((), ())
    assert component_table(version_set(tmp_path), ENGLISH) is None
