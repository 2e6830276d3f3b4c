"""Options of several commands."""

from __future__ import annotations

import argparse
import datetime
import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from reusebench.reports.base.texts import LANGUAGES
from reusebench.reports.results.leak_limits import DEFAULT_LEAK_LIMITS, LeakLimits
from reusebench.storage.board_storage import board_storage
from reusebench.storage.limits import parse_age, parse_size
from reusebench.storage.metrics import METRICS, Metric, find_metric

__all__ = [
    "PATH",
    "RUNS_ARE_NAMED",
    "MetricType",
    "Parsed",
    "ages",
    "language",
    "leak_limits",
    "metrics",
    "output",
    "project",
    "storage",
    "storages",
    "target_storage",
]

#: A path. The code that opens it checks whether it exists, and says what to do.
PATH = click.Path(path_type=Path)
#: The forms of a reference to runs, for help texts.
RUNS_ARE_NAMED = (
    "Runs are named by a number, a name, `latest~1`, a range, a file or a git revision."
)
#: Events per unit of time.
_RATE = click.FloatRange(min=0, min_open=True, max=1e6)


class Parsed(click.ParamType):  # type: ignore[type-arg]
    """The value of one of pytest's options, read by its parser."""

    name = "TEXT"

    def __init__(self, parse: Callable[[str], Any], *words: str) -> None:
        """Take the parser, and `words` that stand for themselves."""
        self._parse = parse
        self._words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value; a mistake becomes click's error."""
        if not isinstance(value, str) or value in self._words:
            return value
        try:
            return self._parse(value)
        except argparse.ArgumentTypeError as error:
            self.fail(f"{error}{''.join(f', or {word}' for word in self._words)}", param, ctx)


class MetricType(Parsed):
    """The name of a metric."""

    def __init__(self) -> None:
        super().__init__(find_metric)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin so."""
        names = [metric.name for metric in METRICS]
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


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

    def once(_context: object, _option: object, given: Sequence[Metric]) -> list[Metric]:
        return list(dict.fromkeys(given))

    return click.option(
        "--metric",
        "metrics",
        type=MetricType(),
        metavar="METRIC",
        multiple=True,
        callback=once,
        help=f"Only this figure (`reusebench metrics`); repeatable. Default: {default}.",
    )


def ages(what: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return the options of an age, as which the command gets the moment `before`.

    `what` is done to older runs, for the help.
    """

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @click.option(
            "--older", type=Parsed(parse_age), metavar="AGE", help=f"{what} than 90d (h, d, w, y)."
        )
        @click.option(
            "--before", callback=_date, metavar="DATE", help=f"{what} than 2026-11-30 (UTC)."
        )
        @functools.wraps(command)
        def with_moment(
            *arguments: Any,
            older: datetime.timedelta | None,
            before: datetime.datetime | None,
            **options: Any,
        ) -> int:
            if older is not None and before is not None:
                raise click.UsageError("--older and --before are one rule: leave one of them out")
            if older is not None:
                before = datetime.datetime.now(datetime.timezone.utc) - older
            return command(*arguments, before=before, **options)

        return with_moment

    return decorate


def _date(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> datetime.datetime | None:
    if not text:
        return None
    try:
        date = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not valid; valid: 2026-11-30 or 2026-11-30T12:00"
        ) from None
    return date if date.tzinfo else date.replace(tzinfo=datetime.timezone.utc)


def leak_limits(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of LeakLimits, which the command gets as `leak_limits`."""
    default = DEFAULT_LEAK_LIMITS

    @click.option(
        "--leak-rate",
        type=_RATE,
        metavar="N",
        help=(
            "Inferences, or turns of conversations, per second in use, by which a leak of each is"
            f" told per day. Default: {default.inferences_per_s:g} inferences,"
            f" {default.turns_per_s:g} turn."
        ),
    )
    @click.option(
        "--leak-cycles",
        type=_RATE,
        metavar="N",
        default=default.cycles_per_hour,
        help=(
            "Contexts made and destroyed, replaced or given new memory per hour in use. Default:"
            f" {default.cycles_per_hour:g}."
        ),
    )
    @click.option(
        "--leak-limit",
        type=Parsed(parse_size),
        metavar="SIZE",
        default=default.bytes_per_day,
        help=(
            "Memory per day, such as 1MiB: what could still grow is level below this. Default:"
            f" {default.bytes_per_day / 2**20:g}MiB."
        ),
    )
    @functools.wraps(command)
    def with_limits(
        *arguments: Any,
        leak_rate: float | None,
        leak_cycles: float,
        leak_limit: float,
        **options: Any,
    ) -> int:
        limits = LeakLimits(cycles_per_hour=leak_cycles, bytes_per_day=leak_limit)
        if leak_rate is not None:
            limits = replace(limits, inferences_per_s=leak_rate, turns_per_s=leak_rate)
        return command(*arguments, leak_limits=limits, **options)

    return with_limits
