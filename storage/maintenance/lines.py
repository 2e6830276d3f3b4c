"""What `python -m storage` prints, as lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from storage.maintenance.inventory import Inventory
from storage.maintenance.pruning import Pruning
from storage.recovery import CUT_OFF, Recovery
from storage.runs import Run

__all__ = ["end_line", "pruning_lines", "recovery_lines", "run_lines"]

_HEADS = ("number", "date (UTC)", "name", "board", "commit", "runtimes", "ok", "failed", "MiB")
#: Of these columns the numbers stand below one another.
_TO_THE_RIGHT = ("number", "ok", "failed", "MiB")
_NONE = "-"


def run_lines(inventories: Sequence[Inventory], limit: int | None) -> Iterator[str]:
    """Yield a table of the runs, newest last, and what all of them take; with a limit only so many of them.

    It is laid out here: rich takes twenty seconds for ten thousand rows.
    """
    runs = [(each, inventory.size_bytes(each)) for inventory in inventories for each in inventory.runs]
    runs.sort(key=lambda each: each[0].run.recorded_at)
    shown = runs[len(runs) - limit :] if limit is not None and limit < len(runs) else runs
    if shown:
        yield from _table([_HEADS, *(_cells(each.run, size_bytes) for each, size_bytes in shown)])
    here = f", {len(shown)} of them above" if len(shown) < len(runs) else ""
    yield f"{_count(len(runs), 'run')}{here}, {_mib(sum(size_bytes for _, size_bytes in runs))} MiB with traces"


def pruning_lines(pruning: Pruning) -> Iterator[str]:
    """Yield every file that goes, how many they are, and what was chosen and stays."""
    yield from (f"{each.run.moment}  {each.run.path}" for each in pruning.runs)
    yield from (f"  {each.path}" for each in (*pruning.traces, *pruning.leftovers))
    yield f"{_count(len(pruning.runs), 'run')} with {_count(len(pruning.traces), 'trace')}"
    if pruning.leftovers:
        yield f"{_count(len(pruning.leftovers), 'file')} that no run has, a day old or more"
    if pruning.named:
        names = ", ".join(dict.fromkeys(each.run.name for each in pruning.named))
        yield f"kept for the name: {_count(len(pruning.named), 'run')} ({names}); --named removes named runs too"
    if pruning.linked:
        yield f"kept: {_count(len(pruning.linked), 'run')} behind links, which are not followed"
    if pruning.unclear:
        count = _count(len(pruning.unclear), "trace")
        yield f"kept: {count} that no run has, for they may be of a damaged file, which is never removed"


def end_line(pruning: Pruning, is_dry: bool) -> str:
    """Return how much all that goes takes."""
    return f"{_mib(pruning.freed_bytes)} MiB {'would be removed' if is_dry else 'removed'}"


def recovery_lines(recovery: Recovery) -> Iterator[str]:
    """Yield what a journal was made, or why not, and each configuration that was being measured."""
    if recovery.run is None:
        yield f"{recovery.journal}: {recovery.remark}"
        return
    measured = recovery.run.measured
    yield f"{recovery.run.path}: {_count(len(measured), 'result')} of the session of {recovery.run.moment} (UTC)"
    yield from (f"  cut off: {each.configuration}" for each in measured if each.outcome == CUT_OFF)


def _cells(run: Run, size_bytes: int) -> tuple[str, ...]:
    outcomes = [each.outcome for each in run.measured]
    failed = sum(outcome not in ("ok", "not_supported") for outcome in outcomes)
    return (
        str(run.number or _NONE),
        run.moment,
        run.name,
        run.board,
        run.short_commit or _NONE,
        ", ".join(dict.fromkeys(each.configuration.runtime for each in run.measured)),
        str(outcomes.count("ok")),
        str(failed),
        _mib(size_bytes),
    )


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        cells = zip(_HEADS, row, widths)
        padded = (cell.rjust(width) if head in _TO_THE_RIGHT else cell.ljust(width) for head, cell, width in cells)
        yield "  ".join(padded).rstrip()


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:,.2f}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
