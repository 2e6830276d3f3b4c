"""The commands for remote boards, and the meanings of their error messages."""

from __future__ import annotations

import re

import pytest

from reusebench.targets.errors import TargetError
from reusebench.targets.far.transport import transport_of


@pytest.mark.parametrize(
    ("target", "begin", "end"),
    [
        ("ssh:root@board", ("ssh", "-T"), ("--", "root@board", "sh")),
        ("adb", ("adb",), ("adb", "shell", "sh")),
        ("adb:0123", ("adb",), ("adb", "-s", "0123", "shell", "sh")),
        ("labgrid:shelf", ("labgrid-client",), ("labgrid-client", "-p", "shelf", "ssh", "sh")),
        ("pipe:nc 'a board' 23", ("nc",), ("nc", "a board", "23")),
    ],
)
def test_a_target_is_a_command(target: str, begin: tuple[str, ...], end: tuple[str, ...]) -> None:
    """Each form runs a program of the system; the user's text stays one argument."""
    command = transport_of(target).command
    assert command[: len(begin)] == begin
    assert command[-len(end) :] == end


@pytest.mark.parametrize("target", ["ssh:", "ssh", "telnet:board", "pipe:", "pipe: ", "pipe:'", ""])
def test_what_is_no_target(target: str) -> None:
    """The sentence has the user's text and the valid forms."""
    with pytest.raises(TargetError, match=r"valid are ssh:HOST|write"):
        transport_of(target)


#: Messages of OpenSSH 9.2 and adb 1.0.41.
_COMPLAINTS = [
    (
        "ssh:far",
        "ssh: Could not resolve hostname far: Name or service not known",
        "knows no host far",
    ),
    ("ssh:far", "Host key verification failed.", "run `ssh far` once by hand"),
    (
        "ssh:far",
        (
            "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification"
            " failed."
        ),
        "not the one that ssh has seen before",
    ),
    ("ssh:far", "root@far: Permission denied (publickey,password).", "ssh-copy-id far"),
    (
        "ssh:far",
        "ssh: connect to host far port 22: Connection refused",
        "far port 22 cannot be reached .*refused",
    ),
    (
        "ssh:far",
        "ssh: connect to host 10.0.0.9 port 22: Connection timed out",
        "cannot be reached .*timed out",
    ),
    (
        "ssh:far",
        "ssh: connect to host far port 22: No route to host",
        "cannot be reached .*No route",
    ),
    ("ssh:far", "Timeout, server far not responding.", "has gone silent"),
    ("ssh:far", "Connection to far closed by remote host.", "did the board restart"),
    ("ssh:far", "client_loop: send disconnect: Broken pipe", "did the board restart"),
    (
        "ssh:far",
        "kex_exchange_identification: read: Connection reset by peer",
        "did the board restart",
    ),
    ("ssh:far", "Connection reset by 10.0.0.9 port 22", "did the board restart"),
    ("adb", "adb: no devices/emulators found", "sees no board; is its cable"),
    ("adb", "error: no devices/emulators found", "sees no board; is its cable"),
    ("adb:0123", "adb: device '0123' not found", "sees no board 0123"),
    (
        "adb",
        "adb: device unauthorized.\nThis adb server's $ADB_VENDOR_KEYS is not set",
        "adbkey.pub",
    ),
    ("adb", "adb: more than one device/emulator", "adb:SERIAL"),
    ("adb", "adb: device offline", "plug its cable"),
]


@pytest.mark.parametrize(("target", "words", "sentence"), _COMPLAINTS)
def test_a_complaint_is_explained(target: str, words: str, sentence: str) -> None:
    """An error message becomes its meaning and a remedy."""
    explained = transport_of(target).explain(f"Pseudo-terminal will not be allocated\n{words}\n")
    assert explained is not None
    assert re.search(sentence, explained)


def test_other_words_are_not_explained() -> None:
    """The caller passes them on unchanged."""
    assert transport_of("ssh:far").explain("sh: out of memory") is None
    assert transport_of("pipe:sh").explain("Host key verification failed.") is None
