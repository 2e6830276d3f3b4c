"""Answers of `reusebench fit`, as stored beside the runs and given by --json."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Optional, Protocol, TypeVar

import msgspec

from reusebench.measured.messages import Message
from reusebench.measured.plan import Plan
from reusebench.storage.decoding import MOST_BYTES, decode_stored
from reusebench.storage.errors import StorageError
from reusebench.storage.group_charge import GroupCharge
from reusebench.storage.run_file import BadFile
from reusebench.system.files import printable, read_regular, replacing

__all__ = [
    "FIT_SCHEMA",
    "FitAnswer",
    "FitGroup",
    "FitPatch",
    "FitPoint",
    "FitShortage",
    "calibrations",
    "read_answers",
    "read_stored_answers",
    "write_answer",
    "write_stored_answer",
]

#: Schema of every answer; raise the number if a name or a meaning changes.
FIT_SCHEMA = "reusebench-fit-1"
_FOLDER = "fit"
_KIND = "answer"


class FitGroup(msgspec.Struct, frozen=True):
    """The contexts of one model."""

    model: str
    #: Their description, in parts of a sentence.
    words: tuple[Message, ...]


class FitPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A layout with its predicted figures."""

    #: Description of the layout; empty for one of the many points of a figure.
    layout: tuple[FitGroup, ...] = ()
    contexts: int
    #: Number of contexts that may infer at once.
    lanes: int
    #: NPU memory, or application memory, and its uncertainty.
    bytes: float
    plus_minus_bytes: float = 0.0
    #: Bytes that must be within the limit, with their uncertainty: the peak of NPU memory, or
    #: application memory.
    limited_bytes: float
    #: All streams together; None if unknown.
    frames_per_s: Optional[float] = None
    frames_per_s_plus_minus: Optional[float] = None


class FitPatch(msgspec.Struct, frozen=True):
    """The NPU memory of the recommended contexts with a driver that nobody has yet.

    The driver would share weights and biases among the contexts of a model that have one open file
    of the device. Buffers of another open file are out of reach, and the jobs of one open file run
    on one core at a time.
    """

    #: Title of the driver.
    driver: str
    #: Number of open files, and so of contexts that may infer at once.
    open_files: int
    npu_memory_bytes: int
    #: Key: component.
    npu_components_bytes: dict[str, int]


class FitShortage(msgspec.Struct, frozen=True):
    """A plan that was measured while memory was short, so that its figures are too small."""

    plan: str
    #: Evidence of the shortage.
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
    #: Streams per model.
    streams: tuple[int, ...]
    #: Contexts per stream, at most.
    contexts: int
    cores: int
    #: Frames per second of each stream; None: as many as without reuse.
    fps: Optional[float]
    #: The figure that must be within the limit.
    limit_of: Literal["npu_memory", "application_memory"]
    limit_bytes: Optional[int]
    #: Whether the recommended layout does all frames within the limit, its uncertainty included;
    #: with --verify, whether it did so when it was measured, too. Frames do not count beside other
    #: work (busy_percent).
    fits: bool
    #: None if no layout does all frames.
    recommended: Optional[Plan]
    predicted_npu_memory_bytes: Optional[int]
    #: Peak since the first context was made; the limit applies to it.
    predicted_npu_peak_bytes: Optional[int]
    #: Key: component.
    predicted_npu_components_bytes: Optional[dict[str, int]]
    #: The whole process, as allocated; then the same above the do-nothing baseline, as allocated
    #: and trimmed.
    predicted_application_memory_bytes: Optional[int]
    predicted_application_memory_plus_minus_bytes: Optional[int]
    predicted_application_memory_over_baseline_bytes: Optional[int]
    predicted_application_memory_trimmed_over_baseline_bytes: Optional[int]
    predicted_frames_per_s: Optional[float]
    predicted_frames_per_s_plus_minus: Optional[float]
    #: The same figures measured in fresh processes, with --verify.
    measured_npu_memory_bytes: Optional[int] = None
    measured_npu_peak_bytes: Optional[int] = None
    measured_npu_components_bytes: Optional[dict[str, int]] = None
    measured_application_memory_bytes: Optional[int] = None
    measured_application_memory_over_baseline_bytes: Optional[int] = None
    measured_application_memory_trimmed_over_baseline_bytes: Optional[int] = None
    measured_frames_per_s: Optional[float] = None
    #: Lower bound for all layouts of the recommended contexts.
    least_bytes: Optional[int]
    #: The application without reuse.
    today: FitPoint
    #: The recommended layout.
    best: Optional[FitPoint]
    #: Layouts that no other beats in both memory and frames, by memory.
    frontier: tuple[FitPoint, ...]
    #: All layouts that were compared, once for each pair of memory and frames.
    points: tuple[FitPoint, ...]
    #: Number of layouts that were compared.
    layouts: int
    #: Highest share of the CPUs that other work had before a plan was measured.
    busy_percent: float
    #: Plans behind the prediction, or its verification, that were measured while memory was short;
    #: empty in older answers.
    short: tuple[FitShortage, ...] = ()
    #: The file of the control group's limit that `--limit free` took; None if the board's memory
    #: is less, or the user gave the limit.
    limit_source: Optional[str] = None
    #: Charge of the control group while the recommended layout ran, with --verify; None without a
    #: limit of the group.
    charge: Optional[GroupCharge] = None
    #: The layout with the least memory that `reusebench apply` gives to a program that nobody
    #: changes, with its predicted figures; None if that saves nothing, and in older answers.
    applied: Optional[FitPoint] = None
    applied_plan: Optional[Plan] = None
    #: The recommended contexts if a patch shared their weights: with as many open files as contexts
    #: may infer at once, then with one. No layout that exists; empty if the driver is closed, if a
    #: patch would save nothing, and in older answers.
    patches: tuple[FitPatch, ...] = ()


def calibrations(storage: Path) -> Path:
    """Return the storage of the small plans that were measured; reports do not show them."""
    return storage / _FOLDER / "measured"


def write_answer(storage: Path, answer: FitAnswer) -> Path:
    """Write the answer in place of the former one of its runtime and target; return the path."""
    return write_stored_answer(storage, _KIND, answer)


def read_answers(storage: Path) -> Iterator[FitAnswer | BadFile]:
    """Yield the answers of a storage, and files that could not be read; skip other versions."""
    for answer in read_stored_answers(storage, _KIND, FitAnswer):
        if isinstance(answer, BadFile) or answer.schema == FIT_SCHEMA:
            yield answer


class _Answer(Protocol):
    """An answer of any kind."""

    @property
    def runtime(self) -> str:
        """The runtime's name."""

    @property
    def target(self) -> str:
        """The target's name."""


_Stored = TypeVar("_Stored")


def write_stored_answer(storage: Path, kind: str, answer: _Answer) -> Path:
    """Write an answer of a kind, in place of the former one of its runtime and target."""
    folder = storage / _FOLDER
    target = answer.target.replace(":", "-").replace("/", "-")
    path = folder / f"{kind}-{answer.runtime}-{target}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as unfinished:
            unfinished.write_bytes(msgspec.json.encode(answer))
    except OSError as error:
        raise StorageError(f"the answer cannot be stored in {folder}: {error.strerror}") from None
    return path


def read_stored_answers(
    storage: Path, kind: str, stored: type[_Stored]
) -> Iterator[_Stored | BadFile]:
    """Yield the answers of a kind, and files that could not be read."""
    for path in sorted((storage / _FOLDER).glob(f"{kind}-*.json")):
        try:
            yield decode_stored(read_regular(path, MOST_BYTES), stored)
        except OSError as error:
            yield BadFile(path, Message("file_unreadable", {"error": error.strerror or str(error)}))
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            yield BadFile(path, Message("file_damaged", {"error": printable(str(error))}))
