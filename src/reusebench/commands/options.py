"""Options of several commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from reusebench.reports.base.texts import LANGUAGES
from reusebench.storage.board_storage import board_storage
from reusebench.storage.metrics import METRICS, Metric, find_metric

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

#: A path. The code that opens it checks whether it exists, and says what to do.
PATH = click.Path(path_type=Path)

storage = click.option(
    "--storage",
    type=PATH,
    metavar="DIR",
    default=board_storage,
    help="Storage of the runs. Default: this board's.",
)


def _of_target(context: click.Context, _option: click.Parameter, given: Path | None) -> Path:
    """Return the given folder, or the default folder of the target; click reads --target first."""
    if given:
        return given
    target = context.params.get("target")
    if target is None:
        return board_storage()
    # Not at the top: the import would add to the recorder's memory on this machine.
    from reusebench.harness.selection import storage_of

    return storage_of(target)


target_storage = click.option(
    "--storage",
    type=PATH,
    metavar="DIR",
    callback=_of_target,
    help="Storage of the runs. Default: the target board's.",
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
    help="Folder to write to.",
)
language = click.option(
    "--lang",
    "language",
    type=click.Choice(LANGUAGES),
    default=LANGUAGES[0],
    show_default=True,
    help="Language shown first.",
)
project = click.option(
    "--project",
    type=PATH,
    metavar="DIR",
    default=Path(),
    help="Checkout with the commits. Default: the working folder.",
)


def metrics(default: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return the option --metric; `default` describes the figures without it, for the help."""
    names = [metric.name for metric in METRICS]

    def find_all(_context: object, _option: object, given: Sequence[str]) -> list[Metric]:
        return [find_metric(name) for name in dict.fromkeys(given)]

    return click.option(
        "--metric",
        "metrics",
        type=click.Choice(names),
        metavar="METRIC",
        multiple=True,
        callback=find_all,
        help=f"Only this figure; repeatable. Default: {default}. Valid: {', '.join(names)}.",
    )
