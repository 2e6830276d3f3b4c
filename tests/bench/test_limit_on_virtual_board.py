"""The limit of contexts on the virtual board, with Rockchip's own libraries if they are found.

As in test_rknn_on_virtual_board.py, these tests need the libraries, the virtual board and the tiny
models.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Optional

import pytest

from reusebench.accounting.ledger import read_ledger
from reusebench.harness.measuring.context_limit import limit_of
from reusebench.scenarios.catalogue import Parameters, find_scenario
from reusebench.storage.result import ContextLimit
from tests.bench.test_rknn_on_virtual_board import Board, board
from tests.helpers.support import known, walk

pytestmark = pytest.mark.process

__all__ = ["board"]

_MOST = 6

#: Returns the limit of a scenario in NPU memory of this size; None: unlimited.
Limits = Callable[[str, Optional[int]], ContextLimit]


@pytest.fixture(scope="module")
def limits(board: Board) -> Limits:
    """Return a function that walks each scenario once in NPU memory of one size."""
    return lru_cache(maxsize=None)(
        lambda scenario, memory_bytes: _limit(board, scenario, memory_bytes)
    )


def _limit(board: Board, scenario: str, memory_bytes: int | None) -> ContextLimit:
    """Return the limit of contexts of a tiny model in `memory_bytes` of NPU memory, up to _MOST."""
    plan = find_scenario(scenario).plans(
        Parameters("rknn", board.models[:1], 1, 1, 1, 1, most_contexts=_MOST)
    )[-1]
    variables = dict(board.target.environment)
    if memory_bytes is not None:
        variables["REUSEBENCH_NPU_MEMORY"] = str(memory_bytes)
    run = walk(plan, replace(board.target, environment=variables))
    account = read_ledger(known(run.ledger))
    for barrier in run.barriers:
        barrier.npu_live_bytes = account.live_bytes(barrier.at_ns)
    return known(limit_of(plan, run, account))


def _memory_bytes(endless: ContextLimit) -> int:
    """Return memory for two and a half more contexts than the first."""
    further_bytes = known(endless.further_npu_bytes)
    first_bytes = known(endless.npu_memory_bytes) - (_MOST - 1) * further_bytes
    return round(first_bytes + 2.5 * further_bytes)


def test_memory_ends(limits: Limits) -> None:
    """The number of contexts follows from the ledger of unlimited memory; the failure of the next
    one is told.
    """
    endless = limits("limit_no_reuse", None)
    assert (endless.contexts, endless.failure) == (_MOST, None)
    memory_bytes = _memory_bytes(endless)
    limit = limits("limit_no_reuse", memory_bytes)
    assert limit.contexts == 3
    assert known(limit.failure).context == 3
    assert known(limit.npu_memory_bytes) <= memory_bytes
    if limit.survived:
        assert limit.afterwards is None


def test_dup_moves_the_limit(board: Board, limits: Limits) -> None:
    """More contexts fit into the same memory if the runtime can share weights."""
    if board.is_mini or board.is_old:
        pytest.skip("no dup here")
    memory_bytes = _memory_bytes(limits("limit_no_reuse", None))
    counts = [
        limits(name, memory_bytes).contexts
        for name in ("limit_no_reuse", "limit_full_dup", "limit_full_dup_internal_reuse")
    ]
    assert counts == sorted(counts)
    assert counts[0] < counts[1]
