"""How a measured process ended: the kinds of failure, and why it failed as a message."""

from __future__ import annotations

import signal
from typing import NamedTuple, Optional

import msgspec

from reusebench.measured.failures import tells_of_memory
from reusebench.measured.messages import ENGLISH, Message, words

__all__ = ["OUTCOMES", "Ending", "Failure", "classify_exit", "classify_failure", "oom_kills_in"]

#: Every outcome a result may have, and what it means.
OUTCOMES = {
    "ok": "measured",
    "not_supported": "the runtime has no such mechanism, or this model does not allow it",
    "failed": "the runtime reported an error",
    "out_of_memory": "an allocation failed, or the kernel killed the process for memory",
    "crashed": "the process ended by a signal or left without finishing",
    "cut_off": (
        "the session ended before the run did, as by a power cut; what was measured until then is"
        " kept"
    ),
    "hung": "a step took longer than the time limit",
    "connection_lost": "the board could no longer be reached; what was measured until then is kept",
    "outputs_differ": "the outputs are not equal to those without reuse",
    "input_changed": "a file that it needs is no longer the one that the session began with",
    "wrong_memory": (
        "a run read freed memory, or memory of a context that the plan shares none with"
    ),
}


class Ending(NamedTuple):
    """How a process ended."""

    #: As subprocess gives it: below 0 it is the signal.
    exit_code: int
    #: Whether the kernel has killed a process for memory since this one was started.
    memory_ran_out: bool


class Failure(msgspec.Struct, frozen=True):
    """Why a repeat, or a configuration, has no figures."""

    #: A key of OUTCOMES other than "ok".
    kind: str
    #: The phase that was under way, and its context where it has one.
    phase: str
    context: Optional[int]
    #: What happened.
    message: Message
    #: The end of what the process wrote to standard error.
    last_words: str = ""

    def sentence(self, language: str = ENGLISH) -> str:
        """Return what happened and in which phase, in a language of messages.LANGUAGES."""
        kind = Message(f"kind_{self.kind}")
        phase = Message(f"phase_{self.phase}")
        if self.context is None:
            return words(
                Message("failure", {"kind": kind, "phase": phase, "message": self.message}),
                language,
            )
        message = Message(
            "failure_of_context",
            {"kind": kind, "phase": phase, "context": self.context, "message": self.message},
        )
        return words(message, language)

    def __str__(self) -> str:
        return self.sentence()


def oom_kills_in(vmstat: str) -> int | None:
    """Return how many processes a kernel has killed for memory since boot; None if it does not
    count them.
    """
    for line in vmstat.splitlines():
        key, _, value = line.partition(" ")
        if key == "oom_kill":
            return int(value)
    return None


def classify_exit(ending: Ending, last_words: str = "") -> tuple[str, Message]:
    """Return (kind, message) for a process that ended between two barriers, and what it wrote at
    last.
    """
    code = ending.exit_code
    if code > 0 and tells_of_memory(last_words):  # it could not even begin, or report it
        return "out_of_memory", Message("process_exited_for_memory", {"code": code})
    if code >= 0:
        return "crashed", Message("process_exited", {"code": code})
    if code == -signal.SIGKILL and ending.memory_ran_out:
        return "out_of_memory", Message("process_killed_for_memory")
    try:
        return "crashed", Message("process_ended_by_signal", {"signal": signal.Signals(-code).name})
    except ValueError:  # most real-time signals have no name
        return "crashed", Message("process_ended_by_signal_number", {"number": -code})


def classify_failure(kind: str, message: Message, last_words: str) -> str:
    """Return the kind of a failure that a process told; libraries in C only print why they could
    not be imported.
    """
    is_import = message.code == "exception" and message.values["type"] in (
        "ImportError",
        "SystemError",
    )
    return (
        "out_of_memory" if kind == "failed" and is_import and tells_of_memory(last_words) else kind
    )
