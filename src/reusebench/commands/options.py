"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from reusebench.reports.base.texts import LANGUAGES
from reusebench.storage.board_storage import board_storage
from reusebench.storage.metrics import METRICS, find_metric

__all__ = [
    "PATH",
    "language",
    "metrics",
    "output",
    "project",
    "storage",
    "storages",
    "target_storage",
]

#: Whether it exists is checked where it is opened, with a message of what to do.
PATH = click.Path(path_type=Path)

storage = click.option(
    "--storage",
    type=PATH,
    metavar="DIR",
    default=board_storage,
    help="Storage of the runs. Default: this board's.",
)


def _of_target(context: click.Context, _option: click.Parameter, given: Path | None) -> Path:
    """Return the folder, or the default one of the target, which is known by now where it was
    given.
    """
    target = context.params.get("target")
    if given or target is None:
        return given or board_storage()
    # Not at the top: it would weigh on what is recorded on this machine.
    from reusebench.harness.selection import storage_of

    return storage_of(target)


target_storage = click.option(
    "--storage",
    type=PATH,
    metavar="DIR",
    callback=_of_target,
    help="Storage of the runs. Default: that of the target's board.",
)
storages = click.option(
    "--storage",
    "storages",
    type=PATH,
    metavar="DIR",
    multiple=True,
    help="Storage of a board, or a folder of several; repeatable. Default: this board's.",
)
output = click.option(
    "--output",
    type=PATH,
    metavar="DIR",
    default=Path("out/report"),
    show_default=True,
    help="Folder of what is written.",
)
language = click.option(
    "--lang",
    "language",
    type=click.Choice(LANGUAGES),
    default=LANGUAGES[0],
    show_default=True,
    help="Language that is shown first.",
)
project = click.option(
    "--project",
    type=PATH,
    metavar="DIR",
    default=Path(),
    help="Checkout whose commits are meant. Default: the working folder.",
)


def metrics(default: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return the option --metric; `default` is the text of its help for the figures without it."""
    names = [metric.name for metric in METRICS]
    return click.option(
        "--metric",
        "metrics",
        type=click.Choice(names),
        metavar="METRIC",
        multiple=True,
        callback=lambda _context, _option, chosen: [
            find_metric(name) for name in dict.fromkeys(chosen)
        ],
        help=f"This figure alone; repeatable. Default: {default}. Valid: {', '.join(names)}.",
    )
