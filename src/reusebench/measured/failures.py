"""The kind of failure and the message that the harness gets for a step's exception.

Runs in the measured process: standard library only, Python 3.8.
"""

from __future__ import annotations

from typing import Dict, Optional

from reusebench.measured.messages import Message, Value
from reusebench.measured.runtimes.base import AdapterError, NotSupported, OutOfMemory

__all__ = ["kind_of", "message_of", "tells_of_memory"]

#: Longest text in a message: some runtimes print whole graphs.
_TEXT_CHARACTERS = 2000
#: Phrases of Python, C++ and runtimes for a lack of memory or address space.
_NO_MEMORY = ("MemoryError", "bad_alloc", "Failed to allocate memory")
#: Phrases of the loader, C and OpenBLAS. If an adapter's error has one, the adapter knows better
#: what it means: all mappings can be used up, too.
_NO_MEMORY_OF_SYSTEM = (
    "failed to map segment",
    "Cannot allocate memory",
    "cannot allocate memory",
    "Memory allocation still failed",
)
#: Phrase of the loader for an order of libraries that it cannot load, however much memory there is.
_NO_PLACE_FOR_THREADS = "cannot allocate memory in static TLS block"


def kind_of(error: Exception) -> str:
    """Return the kind of failure, a key of targets.outcome.OUTCOMES."""
    if isinstance(error, NotSupported):
        return "not_supported"
    cause: Optional[BaseException] = error
    while cause is not None:  # an import that fails for lack of memory raises another error
        words = str(cause.args)  # str() of an AdapterError would read the texts
        if isinstance(cause, (MemoryError, OutOfMemory)) or any(
            phrase in words for phrase in _NO_MEMORY
        ):
            return "out_of_memory"
        if not isinstance(cause, AdapterError) and tells_of_memory(words):
            return "out_of_memory"
        cause = cause.__cause__ or cause.__context__
    return "failed"


def tells_of_memory(words: str) -> bool:
    """Whether the words of a library or a process tell of a lack of memory."""
    words = words.replace(_NO_PLACE_FOR_THREADS, "")
    return any(phrase in words for phrase in (*_NO_MEMORY, *_NO_MEMORY_OF_SYSTEM))


def message_of(error: Exception) -> Message:
    """Return the error's message; its type and text if it is no AdapterError."""
    if isinstance(error, AdapterError):
        message = error.message
    else:
        message = Message("exception", {"type": type(error).__name__, "text": str(error)})
    values: Dict[str, Value] = {}
    for name, value in message.values.items():
        values[name] = value[:_TEXT_CHARACTERS] if isinstance(value, str) else value
    return Message(message.code, values)
