"""Which runtime has which mechanism, by the stored trials: a table, and the reasons where one does not work."""

from __future__ import annotations

from collections.abc import Sequence

from storage.mechanisms import RuntimeTrials, Trial

from reports.base.format import EMPTY, copied_mib, mib, percent
from reports.base.messages import message_words
from reports.base.statistics import Figure
from reports.base.table import Cell, Table
from reports.base.texts import Texts
from scenarios.catalogue import SCENARIOS

__all__ = ["reasons", "trials_dates", "trials_table"]

_ORDER = {scenario.name: position for position, scenario in enumerate(SCENARIOS)}


def trials_table(tried: Sequence[RuntimeTrials], texts: Texts) -> Table | None:
    """Return a row for each mechanism and a column for each runtime; None where nothing was tried."""
    if not tried:
        return None
    names = {trial.scenario for each in tried for trial in each.trials}
    of_runtimes = [{trial.scenario: trial for trial in each.trials} for each in tried]
    rows = [
        ("ok", [Cell(texts.scenario(name), False), *(_cell(trials.get(name), texts) for trials in of_runtimes)])
        for name in sorted(names, key=lambda name: (_ORDER.get(name, len(_ORDER)), name))
    ]
    return Table([texts("column_mechanism_alone"), *(_name(each, texts) for each in tried)], rows)


def trials_dates(tried: Sequence[RuntimeTrials], texts: Texts) -> str:
    """Return when each runtime was tried."""
    return texts("sentence_separator").join(
        texts(
            "trials_date",
            runtime=_name(each, texts),
            python=each.python_version or EMPTY,
            date=each.recorded_at[:16].replace("T", " "),
        )
        for each in tried
    )


def reasons(tried: Sequence[RuntimeTrials], texts: Texts) -> list[tuple[str, str, str]]:
    """Return (runtime, mechanisms, reason), equal reasons of a runtime once."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in tried:
        for trial in each.trials:
            if trial.reason:
                found.setdefault((_name(each, texts), trial.reason), []).append(texts.scenario(trial.scenario))
    return [(runtime, texts.joined(names), message_words(reason, texts)) for (runtime, reason), names in found.items()]


def _name(tried: RuntimeTrials, texts: Texts) -> str:
    version = (tried.runtime_version or EMPTY).partition(" ")[0]
    return texts("runtime_tried", runtime=texts.runtime(tried.runtime), version=version, target=tried.target)


def _cell(trial: Trial | None, texts: Texts) -> Cell:
    """Return the verdict, with what was measured."""
    if trial is None:
        return Cell(EMPTY, False)
    parts = [texts(f"trial_{trial.verdict}")]
    if trial.saved_bytes is not None and (saved := Figure(trial.saved_bytes, trial.spread_bytes)).exceeds_spread:
        parts.append(_saved(trial, saved, texts))
    if trial.copies_avoided_bytes:
        parts.append(texts("trial_copies", avoided=copied_mib(trial.copies_avoided_bytes)))
    if trial.combined:
        parts.append(texts("trial_combined", mechanisms=" + ".join(map(texts.scenario, trial.combined))))
    return Cell(texts.joined(parts), False)


def _saved(trial: Trial, saved: Figure, texts: Texts) -> str:
    values = {"saved": mib(saved), "memory": texts(f"memory_{trial.memory}")}
    if not trial.whole_bytes:
        return texts("trial_saved", **values)
    return texts("trial_saved_percent", percent=percent(100 * saved.median / trial.whole_bytes), **values)
