"""The order of nodes in prepared models, and the memory that choosing it saves."""

from __future__ import annotations

from reusebench.reports.base.formatting import mib
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.rows import Group
from reusebench.storage.result import NodeOrder


def node_order_note(group: Group, texts: Texts) -> str | None:
    """Return one sentence for all prepared models of the group; None if there are none."""
    models: dict[str, list[str]] = {}
    for name, order in _orders(group).values():
        models.setdefault(_in_words(order, texts), []).append(name)
    if not models:
        return None
    parts = [f"{texts.joined(names)}{texts('colon')}{words}" for words, names in models.items()]
    return texts("note_node_order", parts=texts.joined(parts))


def _orders(group: Group) -> dict[str, tuple[str, NodeOrder]]:
    """Return the name and the order of each prepared model. Key: the model's digest."""
    orders: dict[str, tuple[str, NodeOrder]] = {}
    for row in group.rows:
        for model in row.info.models:
            order = row.info.node_orders.get(model.digest)
            if order:
                orders.setdefault(model.digest, (model.name, order))
    return orders


def _in_words(order: NodeOrder, texts: Texts) -> str:
    if order.chosen_bytes is None or order.saved_bytes is None:
        reason = texts.message(order.reason) if order.reason else ""
        return texts("node_order_as_saved", reason=reason)
    return texts(
        "node_order_chosen",
        chosen=mib(Figure(order.chosen_bytes)),
        saved=mib(Figure(order.saved_bytes)),
        tried=order.tried,
    )
