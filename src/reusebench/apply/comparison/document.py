"""The result of a comparison for programs."""

from __future__ import annotations

from typing import Optional

import msgspec

__all__ = ["ComparedFigure", "ComparedProgram"]


class ComparedFigure(msgspec.Struct, frozen=True):
    """A figure of both sides, in the unit that its name says."""

    #: Medians over the repeats.
    as_is: float
    applied: float
    as_is_repeats: tuple[float, ...]
    applied_repeats: tuple[float, ...]
    #: The means differ by this; half the width of its 95 % interval, null if it is unknown.
    change: float
    error: Optional[float]
    #: "within", "worse" or "undecided".
    outcome: str


class ComparedProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A program as it is and applied."""

    #: "ok", "worse" or "undecided".
    verdict: str
    #: Highest PSS of all processes; its median over the time; highest RSS of a process.
    application_memory_bytes: Optional[ComparedFigure]
    usual_application_memory_bytes: Optional[ComparedFigure]
    peak_rss_bytes: Optional[ComparedFigure]
    npu_memory_bytes: Optional[ComparedFigure]
    time_ns: Optional[ComparedFigure]
    cpu_time_ns: Optional[ComparedFigure]
    #: Whether all outputs are equal; null if not all could be compared.
    output_equal: Optional[bool]
    models_equal: Optional[bool]
    standard_output_equal: Optional[bool]
    #: Kind of memory, or code of a reason, to the number of contexts.
    shared: dict[str, int]
    left_alone: dict[str, int]
    #: How each run of a side ended.
    as_is_endings: tuple[str, ...]
    applied_endings: tuple[str, ...]
    #: What failed or became worse, in sentences.
    problems: tuple[str, ...]
    #: What cannot be told.
    doubts: tuple[str, ...]
    #: The stored run; null if none was measured.
    run: Optional[str]
