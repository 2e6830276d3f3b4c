"""The stored results that a study may use."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from reusebench.fit.study import Study
from reusebench.storage.result import Result
from tests.fit.made_up import demand_of
from tests.reports.stored import FAILED, changed, even, npu_account, result, with_memory

#: Figures that predictions are made from, and that a stored result may lack.
_NEEDED = ("baseline_memory_bytes", "context_memory_bytes")


@pytest.fixture
def npu_result(tmp_path: Path) -> Result:
    """Return a complete result of an NPU."""
    return result(tmp_path, "no_reuse", even(90), npu=npu_account, computes=False)


def _can_use(info: Result, is_npu: bool = True) -> bool:
    return Study(demand_of((1,), binds=is_npu), computes=False).can_use(info)


def test_a_whole_result_is_used(npu_result: Result) -> None:
    """A result with all figures of all repeats is used."""
    assert _can_use(npu_result)


@pytest.mark.parametrize("name", _NEEDED)
def test_a_result_without_a_needed_figure_is_not_used(npu_result: Result, name: str) -> None:
    """An empty list, which the schema allows, makes a result useless: it is measured again."""
    assert not _can_use(with_memory(npu_result, **{name: ()}))


@pytest.mark.parametrize("name", _NEEDED)
def test_a_result_with_a_figure_of_some_repeats_alone_is_not_used(
    npu_result: Result, name: str
) -> None:
    """A repeat without the figure makes the result useless."""
    first, *others = getattr(npu_result.memory, name)
    assert first is not None
    assert not _can_use(with_memory(npu_result, **{name: [None, *others]}))


def test_other_figures_may_be_missing(npu_result: Result) -> None:
    """Figures that no prediction needs may be missing."""
    assert _can_use(with_memory(npu_result, residue_memory_bytes=(), system_memory_noise_bytes=()))


def test_an_npu_needs_accounts(npu_result: Result) -> None:
    """An NPU needs the account of NPU memory; a CPU has none."""
    repeats = tuple(msgspec.structs.replace(repeat, npu=None) for repeat in npu_result.repeats)
    without = changed(npu_result, repeats=repeats)
    assert not _can_use(without)
    assert _can_use(without, is_npu=False)


def test_what_failed_is_known_to_fail(tmp_path: Path) -> None:
    """A failed layout needs no figures, and is not measured again."""
    assert _can_use(
        result(tmp_path, "no_reuse", [], failure=FAILED, npu=npu_account, computes=False)
    )
