"""How a measured process ended: the kinds of failure, each with the sentence that tables and terminals show."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True)
class Failure:
    """Why a repeat has no figures."""

    #: A key of OUTCOMES other than "ok".
    kind: str
    #: The phase that was under way, and its context where it has one.
    phase: str
    context: int | None
    #: One sentence: what happened.
    message: str
    #: The end of what the process wrote to standard error.
    last_words: str = ""

    def __str__(self) -> str:
        """Return the sentence with its place."""
        where = self.phase if self.context is None else f"{self.phase} {self.context}"
        return f"{self.kind.replace('_', ' ')} in phase {where!r}: {self.message}"


def oom_kills(vmstat: Path = Path("/proc/vmstat")) -> int:
    """Return how many processes the kernel has killed for memory since boot (Linux 4.13; 0 where not counted)."""
    for line in vmstat.read_text().splitlines():
        key, _, value = line.partition(" ")
        if key == "oom_kill":
            return int(value)
    return 0


def classify_exit(code: int, killed_for_memory: bool) -> tuple[str, str]:
    """Return (kind, message) for a process that ended between two barriers; code as subprocess gives it."""
    if code >= 0:
        return "crashed", f"the process ended with exit code {code} before the plan was done"
    if code == -signal.SIGKILL and killed_for_memory:
        return "out_of_memory", "the kernel's out-of-memory killer ended the process (SIGKILL)"
    return "crashed", f"the process was ended by {_signal_name(-code)}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"
