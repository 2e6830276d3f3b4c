"""The kinds of failure and their sentences."""

from __future__ import annotations

import signal

import msgspec
import pytest

from reusebench.measured.messages import Message
from reusebench.targets.outcome import (
    Ending,
    Failure,
    classify_exit,
    classify_failure,
    oom_kills_in,
)

#: Shortened output of Linux 6.1.
_VMSTAT = """nr_free_pages 5646218
pgfault 2950950
oom_kill 3
oom_kill_other 9
numa_hit 3012594
"""


def test_killed_processes_are_counted() -> None:
    """The count is in the line of exactly that name, which Linux before 4.13 does not have."""
    assert oom_kills_in(_VMSTAT) == 3
    assert oom_kills_in(_VMSTAT.replace("oom_kill", "other")) is None


@pytest.mark.parametrize(
    ("code", "killed_for_memory", "kind", "word"),
    [
        (0, False, "crashed", "exit code 0"),
        (3, True, "crashed", "exit code 3"),
        (-signal.SIGKILL, True, "out_of_memory", "out-of-memory killer"),
        (-signal.SIGKILL, False, "crashed", "SIGKILL"),
        (-signal.SIGSEGV, True, "crashed", "SIGSEGV"),
    ],
)
def test_how_a_process_ended(code: int, killed_for_memory: bool, kind: str, word: str) -> None:
    """Only a SIGKILL while the kernel killed for memory counts as out of memory."""
    kind_of_exit, message = classify_exit(Ending(code, killed_for_memory))
    assert kind_of_exit == kind
    assert word in str(message)


def test_every_signal_has_a_sentence() -> None:
    """Even those without a name, such as the real-time signals in between."""
    for number in range(1, 65):
        kind, message = classify_exit(Ending(-number, memory_ran_out=False))
        assert kind == "crashed"
        assert str(message).startswith("the process was ended by ")
    assert "40" in str(classify_exit(Ending(-40, memory_ran_out=False))[1])


def test_a_failure_as_a_sentence() -> None:
    """Kind, phase and context come first in every language; a stored failure reads back."""
    failure = Failure(
        "out_of_memory", "context", 3, Message("text", {"text": "an allocation failed"})
    )
    assert str(failure) == "out of memory in phase 'context 3': an allocation failed"
    assert "内存不足" in failure.sentence("zh-CN")
    assert "上下文 3" in failure.sentence("zh-CN")
    killed = Failure(
        "crashed", "steady", None, Message("process_ended_by_signal", {"signal": "SIGSEGV"})
    )
    assert str(killed) == "crashed in phase 'steady': the process was ended by SIGSEGV"
    assert msgspec.json.decode(msgspec.json.encode(killed), type=Failure) == killed


@pytest.mark.parametrize(
    ("code", "last_words", "kind"),
    [
        (
            1,
            "OpenBLAS error: Memory allocation still failed after 10 retries, giving up.",
            "out_of_memory",
        ),
        (120, "MemoryError:", "out_of_memory"),
        (1, "a.so: failed to map segment from shared object", "out_of_memory"),
        (0, "MemoryError:", "crashed"),
        (1, "KeyError: 3", "crashed"),
        (1, "libgomp.so.1: cannot allocate memory in static TLS block", "crashed"),
    ],
)
def test_a_process_that_could_not_begin_for_want_of_memory(
    code: int, last_words: str, kind: str
) -> None:
    """It ends without a message, as with a small address space; its output has the reason."""
    assert classify_exit(Ending(code, False), last_words)[0] == kind


@pytest.mark.parametrize(
    ("type_name", "last_words", "kind"),
    [
        (
            "ImportError",
            "libgfortran.so.5: failed to map segment from shared object",
            "out_of_memory",
        ),
        ("SystemError", "MemoryError", "out_of_memory"),
        ("ImportError", "libgomp.so.1: cannot allocate memory in static TLS block", "failed"),
        ("ImportError", "No module named 'numpy'", "failed"),
        ("KeyError", "std::bad_alloc", "failed"),
    ],
)
def test_an_import_whose_cause_is_on_standard_error_alone(
    type_name: str, last_words: str, kind: str
) -> None:
    """Other failures may have nothing to do with memory that was short before."""
    message = Message("exception", {"type": type_name, "text": "import numpy failed"})
    assert classify_failure("failed", message, last_words) == kind
    assert classify_failure("not_supported", message, last_words) == "not_supported"
