"""In which order the nodes of prepared models run, and what choosing it saves in each context."""

from __future__ import annotations

from reusebench.reports.base.formatting import mib
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.rows import Group
from reusebench.storage.result import NodeOrder


def node_order_note(group: Group, texts: Texts) -> str | None:
    """Return one sentence for all models of the group that were prepared; None if none was."""
    models: dict[str, list[str]] = {}
    for name, order in _orders(group).values():
        models.setdefault(_in_words(order, texts), []).append(name)
    parts = [f"{texts.joined(names)}{texts('colon')}{words}" for words, names in models.items()]
    return texts("note_node_order", parts=texts.joined(parts)) if parts else None


def _orders(group: Group) -> dict[str, tuple[str, NodeOrder]]:
    """Return by digest the name of each prepared model, and its order."""
    orders: dict[str, tuple[str, NodeOrder]] = {}
    for row in group.rows:
        for model in row.info.models:
            order = row.info.node_orders.get(model.digest)
            if order:
                orders.setdefault(model.digest, (model.name, order))
    return orders


def _in_words(order: NodeOrder, texts: Texts) -> str:
    if order.chosen_bytes is None or order.saved_bytes is None:
        return texts(
            "node_order_as_saved", reason=texts.message(order.reason) if order.reason else ""
        )
    chosen, saved = (
        mib(Figure(size_bytes)) for size_bytes in (order.chosen_bytes, order.saved_bytes)
    )
    return texts("node_order_chosen", chosen=chosen, saved=saved, tried=order.tried)
