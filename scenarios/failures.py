"""What a step's exception is to the harness: a kind of failure, and a message. Standard library only, Python 3.8."""

from __future__ import annotations

from typing import Dict

from messages import Message, Value
from runtimes.base import AdapterError, NotSupported, OutOfMemory

__all__ = ["kind_of", "message_of"]

#: A text in a message is cut here: some runtimes print whole graphs.
_TEXT_CHARACTERS = 2000


def kind_of(error: Exception) -> str:
    """Return the kind of failure, a key of targets.outcome.OUTCOMES."""
    if isinstance(error, NotSupported):
        return "not_supported"
    words = str(error.args)  # str(error) of an AdapterError would read the texts
    if isinstance(error, (MemoryError, OutOfMemory)) or "bad_alloc" in words or "Failed to allocate memory" in words:
        return "out_of_memory"
    return "failed"


def message_of(error: Exception) -> Message:
    """Return the error's message; of one that is no AdapterError its type and text."""
    if isinstance(error, AdapterError):
        message = error.message
    else:
        message = Message("exception", {"type": type(error).__name__, "text": str(error)})
    values: Dict[str, Value] = {}
    for name, value in message.values.items():
        values[name] = value[:_TEXT_CHARACTERS] if isinstance(value, str) else value
    return Message(message.code, values)
