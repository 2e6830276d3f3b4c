"""How a measured process ended: the kinds of failure, and why it failed as a message."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Optional, Union

import msgspec

from messages import ENGLISH, Message, read_sentence, words

__all__ = ["OUTCOMES", "Failure", "classify_exit", "oom_kills"]

#: Every outcome a result may have, and what it means.
OUTCOMES = {
    "ok": "measured",
    "not_supported": "the runtime has no such mechanism, or this model does not allow it",
    "failed": "the runtime reported an error",
    "out_of_memory": "an allocation failed, or the kernel killed the process for memory",
    "crashed": "the process ended by a signal or left without finishing",
    "cut_off": "the session ended before the run did, as by a power cut; what was measured until then is kept",
    "hung": "a step took longer than the time limit",
    "outputs_differ": "the outputs are not equal to those without reuse",
    "wrong_memory": "a run read freed memory, or memory of a context that the plan shares none with",
}


class Failure(msgspec.Struct, frozen=True):
    """Why a repeat, or a configuration, has no figures."""

    #: A key of OUTCOMES other than "ok".
    kind: str
    #: The phase that was under way, and its context where it has one.
    phase: str
    context: Optional[int]
    #: What happened; version 0.1.0 stored a sentence.
    message: Union[Message, str]
    #: The end of what the process wrote to standard error.
    last_words: str = ""

    @property
    def reason(self) -> Message:
        """What happened, as a message whoever stored it."""
        return self.message if isinstance(self.message, Message) else read_sentence(self.message)

    def sentence(self, language: str = ENGLISH) -> str:
        """Return what happened and in which phase, in a language of messages.LANGUAGES."""
        kind, phase = Message(f"kind_{self.kind}"), Message(f"phase_{self.phase}")
        if self.context is None:
            return words(Message("failure", {"kind": kind, "phase": phase, "message": self.reason}), language)
        message = Message(
            "failure_of_context", {"kind": kind, "phase": phase, "context": self.context, "message": self.reason}
        )
        return words(message, language)

    def __str__(self) -> str:
        return self.sentence()


def oom_kills(vmstat: Path = Path("/proc/vmstat")) -> int:
    """Return how many processes the kernel has killed for memory since boot (Linux 4.13; 0 where not counted)."""
    for line in vmstat.read_text().splitlines():
        key, _, value = line.partition(" ")
        if key == "oom_kill":
            return int(value)
    return 0


def classify_exit(code: int, killed_for_memory: bool) -> tuple[str, Message]:
    """Return (kind, message) for a process that ended between two barriers; code as subprocess gives it."""
    if code >= 0:
        return "crashed", Message("process_exited", {"code": code})
    if code == -signal.SIGKILL and killed_for_memory:
        return "out_of_memory", Message("process_killed_for_memory")
    try:
        return "crashed", Message("process_ended_by_signal", {"signal": signal.Signals(-code).name})
    except ValueError:  # most real-time signals have no name
        return "crashed", Message("process_ended_by_signal_number", {"number": -code})
