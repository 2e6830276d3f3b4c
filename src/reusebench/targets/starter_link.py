"""The connection to the sandbox's own process, which stays beside the one that it has started."""

from __future__ import annotations

import contextlib
import socket

__all__ = ["StarterLink"]

#: Limit for the sandbox to be made.
_START_S = 20.0
_LONGEST_ID = 32


class StarterLink:
    """A socket between harness and sandbox.

    The sandbox tells the id of the process that it has started. All processes in it end when the
    harness closes the socket, or ends itself.
    """

    def __init__(self) -> None:
        self._harness, self._sandbox = socket.socketpair()
        self._harness.settimeout(_START_S)

    @property
    def descriptor(self) -> int:
        """The sandbox's end."""
        return self._sandbox.fileno()

    def started(self) -> int | None:
        """Return the id of the process; None if the sandbox could not be made.

        The sandbox must have been started with its end, which is closed here.
        """
        self._sandbox.close()
        word = b""
        with contextlib.suppress(OSError):
            while not word.endswith(b"\n") and len(word) < _LONGEST_ID:
                chunk = self._harness.recv(_LONGEST_ID)
                if not chunk:
                    return None
                word += chunk
        return int(word) if word else None

    def close(self) -> None:
        """Have the sandbox kill its process and all that this has started."""
        self._sandbox.close()
        self._harness.close()
