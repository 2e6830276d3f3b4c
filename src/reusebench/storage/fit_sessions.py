"""Answers of `reusebench fit --sessions`, as stored beside the runs and given by --json."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import msgspec

from reusebench.measured.messages import Message
from reusebench.measured.plan import Plan
from reusebench.measured.runtimes.base import Conversation
from reusebench.storage.fit_answer import FitShortage, read_stored_answers, write_stored_answer
from reusebench.storage.group_charge import GroupCharge
from reusebench.storage.run_file import BadFile

__all__ = [
    "SESSIONS_SCHEMA",
    "SessionPoint",
    "SessionsAnswer",
    "read_session_answers",
    "write_session_answer",
]

#: Schema of every answer; raise the number if a name or a meaning changes.
SESSIONS_SCHEMA = "reusebench-fit-sessions-1"
_KIND = "sessions"


class SessionPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A layout with its predicted figures."""

    #: "contexts", "sequences", "unified" or "shared_prompt".
    kind: str
    #: The runtime's own options, NAME=VALUE each; empty: its defaults.
    options: tuple[str, ...]
    #: Its description.
    words: Message
    #: Caches of all conversations.
    kv_bytes: int
    #: The whole process in the steady state; its peak while it loads and runs; and the peak with
    #: its uncertainty, which must be within the limit.
    bytes: float
    peak_bytes: float
    limited_bytes: float
    #: Memory of one conversation more.
    further_bytes: float
    #: Tokens per second of each conversation, with full contexts: while all generate, and while the
    #: others wait.
    tokens_per_s: Optional[float]
    alone_tokens_per_s: Optional[float]
    #: Seconds to compute the prompts of all conversations, at the speed of the prompts that were
    #: measured.
    prompts_s: Optional[float]
    #: Whether short conversations gave the tokens of the runtime's defaults.
    has_equal_tokens: bool


class SessionsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one question of how many conversations fit."""

    schema: str = SESSIONS_SCHEMA
    #: ISO 8601, UTC.
    recorded_at: str
    runtime: str
    runtime_version: Optional[str]
    target: str
    model: str
    #: Number of conversations.
    sessions: int
    conversation: Conversation
    #: Wished tokens per second of each conversation while all generate; None: any.
    tokens_per_s: Optional[float]
    limit_bytes: Optional[int]
    #: The file of the control group's limit that `--limit free` took.
    limit_source: Optional[str] = None
    #: Whether the peak of the recommended layout is within the limit, its uncertainty included;
    #: with --verify, whether it was so when it was measured, too.
    fits: bool
    #: None if no layout is fast enough.
    recommended: Optional[Plan]
    predicted_kv_bytes: Optional[int]
    predicted_application_memory_bytes: Optional[int]
    predicted_peak_bytes: Optional[int]
    predicted_peak_plus_minus_bytes: Optional[int]
    predicted_tokens_per_s: Optional[float]
    #: The same figures measured in a fresh process, with --verify.
    measured_kv_bytes: Optional[int] = None
    measured_application_memory_bytes: Optional[int] = None
    measured_peak_bytes: Optional[int] = None
    measured_tokens_per_s: Optional[float] = None
    #: A context for each conversation, with the runtime's defaults.
    today: SessionPoint
    #: The recommended layout.
    best: Optional[SessionPoint]
    #: All layouts, by memory.
    candidates: tuple[SessionPoint, ...]
    #: Reasons for which layouts are missing.
    refused: tuple[Message, ...] = ()
    #: Plans that were measured while memory was short.
    short: tuple[FitShortage, ...] = ()
    #: Highest share of the CPUs that other work had before a plan was measured.
    busy_percent: float
    #: Charge of the control group while the recommended layout ran, with --verify; None without a
    #: limit of the group.
    charge: Optional[GroupCharge] = None


def write_session_answer(storage: Path, answer: SessionsAnswer) -> Path:
    """Write the answer in place of the former one of its runtime and target; return the path."""
    return write_stored_answer(storage, _KIND, answer)


def read_session_answers(storage: Path) -> Iterator[SessionsAnswer | BadFile]:
    """Yield the answers of a storage, and files that could not be read; skip other versions."""
    for answer in read_stored_answers(storage, _KIND, SessionsAnswer):
        if isinstance(answer, BadFile) or answer.schema == SESSIONS_SCHEMA:
            yield answer
