"""What `reusebench fit` answered, as it is stored beside the runs, and printed by --json."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Optional

import msgspec

from reusebench.measured.messages import Message
from reusebench.measured.plan import Plan
from reusebench.storage.decoding import MOST_BYTES, decode_stored
from reusebench.storage.errors import StorageError
from reusebench.storage.run_file import BadFile
from reusebench.system.files import printable, read_regular, replacing

__all__ = [
    "FIT_SCHEMA",
    "FitAnswer",
    "FitGroup",
    "FitPoint",
    "FitShortage",
    "answer_json",
    "calibrations",
    "read_answers",
    "write_answer",
]

#: Written into every answer; a change of names or meanings makes a new number.
FIT_SCHEMA = "reusebench-fit-1"
_FOLDER = "fit"


class FitGroup(msgspec.Struct, frozen=True):
    """The contexts of one model."""

    model: str
    #: What they are, in parts of a sentence.
    words: tuple[Message, ...]


class FitPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A layout as it was predicted."""

    #: In words; empty for one of the many points of a figure.
    layout: tuple[FitGroup, ...] = ()
    contexts: int
    #: How many of them may infer at once.
    lanes: int
    #: NPU memory, or application memory, and its uncertainty.
    bytes: float
    plus_minus_bytes: float = 0.0
    #: What must be within the limit, the uncertainty included: of NPU memory the peak.
    limited_bytes: float
    #: Of all streams together; None: not known.
    frames_per_s: Optional[float] = None
    frames_per_s_plus_minus: Optional[float] = None


class FitShortage(msgspec.Struct, frozen=True):
    """A plan that was measured while memory was short, so that its figures read too small."""

    plan: str
    #: What shows it.
    signs: tuple[Message, ...]


class FitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one question of what fits."""

    schema: str = FIT_SCHEMA
    #: ISO 8601, UTC.
    recorded_at: str
    runtime: str
    runtime_version: Optional[str]
    target: str
    chip: Optional[str]
    models: tuple[str, ...]
    #: Of each model.
    streams: tuple[int, ...]
    #: Of each stream, at most.
    contexts: int
    cores: int
    #: Of each stream; None: as many frames as without reuse.
    fps: Optional[float]
    #: What must be within the limit.
    limit_of: Literal["npu_memory", "application_memory"]
    limit_bytes: Optional[int]
    #: Whether the recommended layout is within the limit, its uncertainty included, and has the
    #: frames.
    fits: bool
    #: None: no layout has the frames.
    recommended: Optional[Plan]
    predicted_npu_memory_bytes: Optional[int]
    #: The most at once, from when the first context is made; the limit is of this.
    predicted_npu_peak_bytes: Optional[int]
    #: By component.
    predicted_npu_components_bytes: Optional[dict[str, int]]
    #: Of the whole process, as allocated; and above the do-nothing baseline, as allocated and
    #: trimmed.
    predicted_application_memory_bytes: Optional[int]
    predicted_application_memory_plus_minus_bytes: Optional[int]
    predicted_application_memory_over_baseline_bytes: Optional[int]
    predicted_application_memory_trimmed_over_baseline_bytes: Optional[int]
    predicted_frames_per_s: Optional[float]
    predicted_frames_per_s_plus_minus: Optional[float]
    #: With --verify: the same, measured in fresh processes.
    measured_npu_memory_bytes: Optional[int] = None
    measured_npu_peak_bytes: Optional[int] = None
    measured_npu_components_bytes: Optional[dict[str, int]] = None
    measured_application_memory_bytes: Optional[int] = None
    measured_application_memory_over_baseline_bytes: Optional[int] = None
    measured_application_memory_trimmed_over_baseline_bytes: Optional[int] = None
    measured_frames_per_s: Optional[float] = None
    #: What no layout of the recommended contexts takes less than.
    least_bytes: Optional[int]
    #: As the application is without reuse; the recommended layout; those that no other is better
    #: than, by memory.
    today: FitPoint
    best: Optional[FitPoint]
    frontier: tuple[FitPoint, ...]
    #: Every layout that was weighed: distinct memory and frames.
    points: tuple[FitPoint, ...]
    #: How many layouts these are.
    layouts: int
    #: How busy the machine was with other work before a plan was measured, at most.
    busy_percent: float
    #: Plans that it was predicted from, and verified by, while memory was short; none in older
    #: answers.
    short: tuple[FitShortage, ...] = ()


def answer_json(answer: FitAnswer) -> str:
    """Return the answer as --json prints it."""
    return msgspec.json.format(msgspec.json.encode(answer), indent=2).decode()


def calibrations(storage: Path) -> Path:
    """Return the storage of the small plans that were measured; no report is made of them."""
    return storage / _FOLDER / "measured"


def write_answer(storage: Path, answer: FitAnswer) -> Path:
    """Keep the newest answer of each runtime and target, replacing the file as a whole; return its
    path.
    """
    folder = storage / _FOLDER
    path = (
        folder / f"answer-{answer.runtime}-{answer.target.replace(':', '-').replace('/', '-')}.json"
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as unfinished:
            unfinished.write_bytes(msgspec.json.encode(answer))
    except OSError as error:
        raise StorageError(f"the answer cannot be stored in {folder}: {error.strerror}") from None
    return path


def read_answers(storage: Path) -> Iterator[FitAnswer | BadFile]:
    """Yield the answers of a storage that this version reads, and those that could not be read."""
    for path in sorted((storage / _FOLDER).glob("answer-*.json")):
        try:
            answer = decode_stored(read_regular(path, MOST_BYTES), FitAnswer)
        except OSError as error:
            yield BadFile(path, Message("file_unreadable", {"error": error.strerror or str(error)}))
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            yield BadFile(path, Message("file_damaged", {"error": printable(str(error))}))
        else:
            if answer.schema == FIT_SCHEMA:
                yield answer
