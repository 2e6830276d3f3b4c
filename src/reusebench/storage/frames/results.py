"""The frame of results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from reusebench.storage.frames.columns import FIELDS, OF_WHOLE, RESULT_KEYS
from reusebench.storage.frames.configurations import Configurations
from reusebench.storage.frames.frame_rows import NONE, Figures, Rows
from reusebench.storage.metrics import METRICS
from reusebench.storage.recorded_program import Phase
from reusebench.storage.result import Result
from reusebench.storage.run_file import StoredRun

__all__ = ["results_frame"]


def results_frame(files: Iterable[StoredRun], metrics: Sequence[str], wide: bool) -> pd.DataFrame:
    """Return the frame of the results of these files, with these metrics."""
    configurations = Configurations()
    rows = Rows(RESULT_KEYS, metrics, OF_WHOLE, tuple(field.name for field in FIELDS))
    whole, reading = rows.kinds
    for file in files:
        for number, info in configurations.results_of(file):
            figures_of_repeats = _figures_of_repeats(info, len(info.repeats))
            for repeat, figures in enumerate(figures_of_repeats, start=1):
                rows.add(whole, (number, NONE, repeat), figures)
            for repeat, stored in enumerate(info.repeats, start=1):
                for phase, at_end in stored.phases.items():
                    keys = (number, rows.phase(phase), repeat)
                    rows.add(reading, keys, tuple(field.of(at_end) for field in FIELDS))
            rows.add_if_first((number, NONE, NONE))
        for number, program in configurations.programs_of(file):
            for part in program.phases:
                figures_of_repeats = _figures_of_repeats(part, len(program.repeats))
                for repeat, figures in enumerate(figures_of_repeats, start=1):
                    rows.add(whole, (number, rows.phase(part.name), repeat), figures)
            rows.add_if_first((number, NONE, NONE))
        rows.pack()
    return rows.frame(configurations.frame(), wide)


def _figures_of_repeats(figures: Result | Phase, repeats: int) -> list[Figures]:
    """Return the values of all metrics for each repeat."""
    lacking = (None,) * repeats
    by_metric = [metric.of_repeats(figures) or lacking for metric in METRICS]
    return list(zip(*by_metric))
