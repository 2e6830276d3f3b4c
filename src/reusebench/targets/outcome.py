"""Outcomes of a measured process: the kinds of failure, each with its reason as a message."""

from __future__ import annotations

import signal
from typing import NamedTuple, Optional

import msgspec

from reusebench.measured.failures import tells_of_memory
from reusebench.measured.messages import ENGLISH, Message, words

__all__ = [
    "LEDGER_BROKEN",
    "OUTCOMES",
    "PROTOCOL_BROKEN",
    "Ending",
    "Failure",
    "classify_exit",
    "classify_failure",
    "oom_kills_in",
]

#: Code of the message for a ledger that the preload library has not written.
LEDGER_BROKEN = "ledger_broken"
#: Code of the message for a process that has sent what no step sends.
PROTOCOL_BROKEN = "protocol_broken"
#: Codes of failures that the harness has found, which tell nothing about the runtime.
_OF_HARNESS = (LEDGER_BROKEN, PROTOCOL_BROKEN, "process_not_readable")

#: Outcomes that a result may have, with their meanings.
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
    "not_measured": "the board could not be reached or used, or somebody else had it",
    "outputs_differ": "the outputs are not equal to those without reuse",
    "input_changed": "a file that it needs is no longer the one that the session began with",
    "wrong_memory": (
        "a run read freed memory, or memory of a context that the plan shares none with"
    ),
}


class Ending(NamedTuple):
    """The end of a process."""

    #: Return code as in subprocess: a negative number is the signal.
    exit_code: int
    #: Whether the kernel has killed any process for memory since this one started.
    memory_ran_out: bool


class Failure(msgspec.Struct, frozen=True):
    """The reason why a repeat or a configuration has no figures."""

    #: A key of OUTCOMES other than "ok".
    kind: str
    #: The phase in progress.
    phase: str
    #: The context of the phase, if it is a phase of one context.
    context: Optional[int]
    message: Message
    #: The end of the process's standard error.
    last_words: str = ""

    @property
    def is_of_runtime(self) -> bool:
        """Whether it tells about the runtime; otherwise the process only could not be measured."""
        return self.message.code not in _OF_HARNESS

    def sentence(self, language: str = ENGLISH) -> str:
        """Return kind, phase and message in a language of messages.LANGUAGES."""
        kind = Message(f"kind_{self.kind}")
        phase = Message(f"phase_{self.phase}")
        if self.context is None:
            message = Message("failure", {"kind": kind, "phase": phase, "message": self.message})
            return words(message, language)
        message = Message(
            "failure_of_context",
            {"kind": kind, "phase": phase, "context": self.context, "message": self.message},
        )
        return words(message, language)

    def __str__(self) -> str:
        return self.sentence()


def oom_kills_in(vmstat: str) -> int | None:
    """Return the number of processes killed for memory since boot; None if not counted."""
    for line in vmstat.splitlines():
        key, _, value = line.partition(" ")
        if key == "oom_kill":
            return int(value)
    return None


def classify_exit(ending: Ending, last_words: str = "") -> tuple[str, Message]:
    """Return (kind, message) for a process that ended between two barriers."""
    code = ending.exit_code
    if code > 0 and tells_of_memory(last_words):  # it could not start or report it
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
    """Return the kind of a failure that a process has reported.

    A library in C that cannot be imported for lack of memory only prints this.
    """
    if kind != "failed" or message.code != "exception":
        return kind
    is_import = message.values.get("type") in ("ImportError", "SystemError")
    return "out_of_memory" if is_import and tells_of_memory(last_words) else kind
