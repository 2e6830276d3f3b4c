"""Commands with a shell of a remote board on a pipe, and the meaning of their error messages."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from reusebench.targets.errors import TargetError

__all__ = ["FORMS", "Transport", "transport_of"]

#: Forms of a remote target, as users write them.
FORMS = (
    "ssh:HOST",
    "adb",
    "adb:SERIAL",
    "labgrid:PLACE",
    "labgrid:TAG=VALUE",
    "pipe:COMMAND",
)

#: Interval of ssh's checks; it gives up a silent server after three of them.
_SSH_ALIVE_S = 5
_SSH_OPTIONS = (
    # A terminal would change bytes.
    "-T",
    "-oBatchMode=yes",
    "-oConnectTimeout=10",
    f"-oServerAliveInterval={_SSH_ALIVE_S}",
    # The connection is not shared: a shared one would end with its ControlMaster.
    "-oControlPath=none",
)

#: Error messages of ssh and adb, and their meanings. {argument} is the target's, the other names
#: are groups of the expression.
_COMPLAINTS = {
    "ssh": (
        (
            r"Could not resolve hostname (?P<host>[^\s:]+)",
            "ssh knows no host {host}; give one as for `ssh HOST`",
        ),
        (
            r"REMOTE HOST IDENTIFICATION HAS CHANGED",
            (
                "the key of {argument} is not the one that ssh has seen before. If the board was"
                " installed anew, remove the old key (ssh-keygen -R, as `ssh {argument}` tells),"
                " and run `ssh {argument}` once by hand"
            ),
        ),
        (
            r"Host key verification failed",
            (
                "ssh has not seen the key of {argument} before; run `ssh {argument}` once by hand"
                " and accept it"
            ),
        ),
        (
            r"Permission denied \((?P<ways>[^)]*)\)",
            (
                "{argument} wants a password or a known key ({ways}), and the harness types no"
                " password: run `ssh-copy-id {argument}` once, or use an ssh-agent"
            ),
        ),
        (
            r"Too many authentication failures",
            "{argument} refused all keys of ssh; choose one with IdentityFile",
        ),
        (
            r"connect to host (?P<address>.*): (?P<reason>.*)",
            "{address} cannot be reached ({reason}); is the board on, and its ssh server running?",
        ),
        (r"(?P<reason>Timeout, server .* not responding)", "the board has gone silent ({reason})"),
        (
            r"(?P<reason>(?:kex_exchange_identification|client_loop|ssh_dispatch_run_fatal|Connection"
            r" (?:closed|reset)"
            r"|Connection to \S+ closed|Read from remote host|Broken pipe|packet_write_wait).*)",
            "the connection was closed ({reason}); did the board restart, or its network break?",
        ),
    ),
    "adb": (
        (
            r"no devices/emulators found|no devices found",
            (
                "adb sees no board; is its cable plugged in, and USB debugging on? `adb devices`"
                " lists the boards that it sees"
            ),
        ),
        (
            r"device '?(?P<serial>[^' ]+)'? not found",
            "adb sees no board {serial}; `adb devices` lists the boards that it sees",
        ),
        (
            r"device unauthorized",
            (
                "the board does not know this computer's adb key: accept it on the board, or put"
                " ~/.android/adbkey.pub into its /adb_keys"
            ),
        ),
        (
            r"more than one device",
            "adb sees several boards; name one as adb:SERIAL (`adb devices` lists them)",
        ),
        (
            r"device offline",
            "adb sees the board, but it does not answer; unplug its cable and plug it in again",
        ),
        (
            r"cannot connect to daemon[^\n]*",
            "adb's server does not start; `adb start-server` says why",
        ),
    ),
}
_COMPLAINTS["labgrid"] = _COMPLAINTS["ssh"]

_PACKAGES = {"ssh": "openssh-client", "adb": "adb"}


@dataclass(frozen=True)
class Transport:
    """A command that gives a POSIX shell on its standard input and output."""

    #: The target, as the user writes it.
    name: str
    #: "ssh", "adb", "labgrid" or "pipe".
    kind: str
    #: The part after the colon.
    argument: str
    command: tuple[str, ...]

    def explain(self, words: str) -> str | None:
        """Return the meaning of the command's error message and a remedy; None if it is unknown."""
        for pattern, sentence in _COMPLAINTS.get(self.kind, ()):
            match = re.search(pattern, words)
            if match:
                return sentence.format(argument=self.argument, **match.groupdict())
        return None

    def missing(self) -> TargetError:
        """Return the error for a command that this machine does not have."""
        program = self.command[0]
        package = _PACKAGES.get(self.kind)
        if package:
            remedy = f"install it (Debian: apt install {package})"
        else:
            remedy = "install it, or give the path of another"
        return TargetError(f"{self.name}: this machine has no program {program}; {remedy}")


def transport_of(target: str) -> Transport:
    """Return the transport of a remote target; raise TargetError if the text is no such target."""
    kind, colon, argument = target.partition(":")
    if kind == "adb":
        serial = ("-s", argument) if argument else ()
        return Transport(target, kind, argument, ("adb", *serial, "shell", "sh"))
    if colon and argument:
        if kind == "ssh":
            return Transport(target, kind, argument, ("ssh", *_SSH_OPTIONS, "--", argument, "sh"))
        if kind == "labgrid":
            return Transport(
                target, kind, argument, ("labgrid-client", "-p", argument, "ssh", "sh")
            )
        if kind == "pipe":
            return Transport(target, kind, argument, _split(target, argument))
    raise TargetError(f"{target!r} is not a remote board; valid are {', '.join(FORMS)}")


def _split(target: str, command: str) -> tuple[str, ...]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise TargetError(f"{target!r} is no command: {error}; write it as for a shell") from None
    if not words:
        raise TargetError(f"{target!r} has no command; write pipe:COMMAND, as for a shell")
    return tuple(words)
