"""The frame of results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from reusebench.storage.configuration_row import figures_of_repeats
from reusebench.storage.frames.columns import FIELDS, OF_WHOLE, RESULT_KEYS
from reusebench.storage.frames.configurations import Configurations
from reusebench.storage.frames.frame_rows import NONE, Rows
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
            by_repeat = figures_of_repeats(info, len(info.repeats))
            for repeat, figures in enumerate(by_repeat, start=1):
                rows.add(whole, (number, NONE, repeat), figures)
            if reading.metrics:
                _add_readings(rows, number, info)
            rows.add_if_first((number, NONE, NONE))
        for number, program in configurations.programs_of(file):
            for part in program.phases:
                by_repeat = figures_of_repeats(part, len(program.repeats))
                for repeat, figures in enumerate(by_repeat, start=1):
                    rows.add(whole, (number, rows.phase(part.name), repeat), figures)
            rows.add_if_first((number, NONE, NONE))
        rows.pack()
    return rows.frame(configurations.frame(), wide)


def _add_readings(rows: Rows, number: int, info: Result) -> None:
    """Add a row for the reading at the end of each phase of each repeat."""
    _, reading = rows.kinds
    for repeat, stored in enumerate(info.repeats, start=1):
        for phase, at_end in stored.phases.items():
            keys = (number, rows.phase(phase), repeat)
            rows.add(reading, keys, tuple(field.of(at_end) for field in FIELDS))
