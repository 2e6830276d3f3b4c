"""What the worker of a board tells the session: messages over a channel of execnet, as JSON."""

from __future__ import annotations

from typing import Union

import msgspec

__all__ = [
    "MESSAGES",
    "Begun",
    "Ended",
    "Kept",
    "Live",
    "Message",
    "Note",
    "Reached",
    "Shown",
    "Unusable",
    "message_of",
]


class Begun(msgspec.Struct, frozen=True, tag="begun"):
    """The worker runs."""

    pid: int


class Reached(msgspec.Struct, frozen=True, tag="reached"):
    """The board can be measured; the answer is empty, or says why it must not be."""

    #: The target, with the place of a labgrid tag.
    target: str
    #: Name of the board in results.
    board: str
    #: Name that the board gives itself; empty if it is virtual.
    node: str
    #: pytest-benchmark's machine_info.
    machine: msgspec.Raw


class Kept(msgspec.Struct, frozen=True, tag="kept"):
    """A result, in the form of pytest-benchmark's entries; the answer comes when it is stored."""

    entry: msgspec.Raw


class Shown(msgspec.Struct, frozen=True, tag="shown"):
    """The line of a configuration that has ended; the text is empty if another line has it."""

    test: str
    title: str
    text: str


class Live(msgspec.Struct, frozen=True, tag="live"):
    """The line that tells the present step."""

    line: str


class Note(msgspec.Struct, frozen=True, tag="note"):
    """A line of its own."""

    line: str


class Unusable(msgspec.Struct, frozen=True, tag="unusable"):
    """Nothing is measured on this board."""

    reason: str


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """The worker has ended in order."""

    #: Reasons why its session has failed although its tests may have been skipped; may be empty.
    problem: str
    #: Names of scenarios without a line; may be empty.
    equal: str


Message = Union[Begun, Reached, Kept, Shown, Live, Note, Unusable, Ended]
MESSAGES: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def message_of(data: bytes) -> Message:
    """Return the message that a worker has sent."""
    return MESSAGES.decode(data)
