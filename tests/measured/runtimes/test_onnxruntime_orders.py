"""Orders of nodes, on graphs that are lists."""

from __future__ import annotations

import pytest

from reusebench.measured.runtimes.onnxruntime.orders import candidate_orders, depth_first

#: A node, two branches of two nodes each, and the node that joins them.
_DIAMOND = [[], [0], [1], [0], [3], [2, 4]]


def _is_order(order: list[int], sources: list[list[int]]) -> bool:
    """Whether each node comes once, after its sources."""
    place = {node: index for index, node in enumerate(order)}
    return sorted(order) == list(range(len(sources))) and all(
        place[source] < place[node] for node, of_node in enumerate(sources) for source in of_node
    )


def test_a_depth_first_walk() -> None:
    """A branch ends before the next begins, and nodes that no root reads are left out."""
    assert depth_first(_DIAMOND, [5]) == [0, 1, 2, 3, 4, 5]
    assert depth_first([list(reversed(of_node)) for of_node in _DIAMOND], [5]) == [0, 3, 4, 1, 2, 5]
    assert depth_first(_DIAMOND, [4, 2]) == [0, 3, 4, 1, 2]
    chain = [[], *([node] for node in range(9999))]
    assert depth_first(chain, [9999]) == list(range(10000))


@pytest.mark.parametrize(
    ("sources", "results"),
    [
        (_DIAMOND, [5]),
        ([[], [0], [1]], [2]),
        ([[], [0], [0], [0]], [1, 2, 3]),
        ([[], []], [0, 1]),
        ([], []),
    ],
)
def test_candidates_are_distinct_orders(sources: list[list[int]], results: list[int]) -> None:
    """The first is the given order, and a chain has no other."""
    orders = list(candidate_orders(sources, results, [100] * len(sources)))
    assert orders[0] == list(range(len(sources)))
    assert [order for order in orders if not _is_order(order, sources)] == []
    assert len(set(map(tuple, orders))) == len(orders) <= 8
    assert orders == list(candidate_orders(sources, results, [100] * len(sources)))


def test_the_branch_that_needs_most_comes_first() -> None:
    """While it runs, the result of the other branch is not there yet."""
    sizes = [1, 10, 5, 1000, 5, 1]
    assert [0, 3, 4, 1, 2, 5] in list(candidate_orders(_DIAMOND, [5], sizes))
    assert [0, 1, 3, 2, 4, 5] in list(candidate_orders(_DIAMOND, [5], sizes)), "level by level"
    assert [0, 1, 2, 3, 4, 5] in list(candidate_orders(_DIAMOND, [5], sizes)), "least first"
