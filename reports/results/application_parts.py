"""What application memory is made of: the do-nothing baseline, and by kind of page what stands over it."""

from __future__ import annotations

from dataclasses import dataclass

from reports.base.statistics import Figure
from reports.results.rows import Row
from storage.result import StoredRepeat

#: The kinds of pages that the kernel tells apart, by their figures in a reading of the process.
PARTS = {"anonymous": "pss_anon_bytes", "file": "pss_file_bytes", "shared": "pss_shmem_bytes"}


@dataclass(frozen=True)
class ApplicationParts:
    """The application memory of one configuration at the end of the steady phase, in bytes."""

    total: Figure
    baseline: Figure
    #: Over the do-nothing baseline, by part of PARTS; empty where the kernel does not tell them apart.
    over: dict[str, Figure]


def application_parts(row: Row) -> ApplicationParts | None:
    """Return the parts over the repeats; None where the configuration was not measured."""
    total, baseline = row.memory("application_memory_bytes"), row.memory("baseline_memory_bytes")
    if total is None or baseline is None:
        return None
    over = {name: Figure.of(_over(repeat, key) for repeat in row.info.repeats) for name, key in PARTS.items()}
    known = {name: figure for name, figure in over.items() if figure is not None}
    return ApplicationParts(total, baseline, known if len(known) == len(PARTS) else {})


def _over(repeat: StoredRepeat, key: str) -> int | None:
    """Return what a part grew by between import and the end of the steady phase; None where one is not known."""
    imported, steady = repeat.phases.get("imported"), repeat.phases.get("steady")
    if imported is None or steady is None:
        return None
    before: int | None = getattr(imported.process, key)
    after: int | None = getattr(steady.process, key)
    return None if before is None or after is None else after - before
