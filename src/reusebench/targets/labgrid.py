"""Places of labgrid that are chosen by their tags: reserved, locked, and released in every case."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

from reusebench.targets.errors import NotMeasurable, TargetError

__all__ = ["Place", "is_tag", "take_place"]

_CLIENT = "labgrid-client"
#: Time to wait for a place that somebody else has.
_WAIT_S = 60.0
_TIME_LIMIT_S = 60.0
_TOKEN = re.compile(r"LG_TOKEN=(\S+)")
_ACQUIRED = re.compile(r"acquired place (\S+)")
#: Gives the place back when its input ends, however this process has ended.
_GUARD = f"""
read -r line
{_CLIENT} -p "+$1" release
{_CLIENT} cancel-reservation "$1"
"""


def is_tag(target: str) -> bool:
    """Whether this is any free place with these tags: labgrid:KEY=VALUE[,KEY=VALUE]."""
    kind, _, argument = target.partition(":")
    return kind == "labgrid" and "=" in argument


class Place:
    """A place that this process has reserved and locked."""

    def __init__(self, name: str, guard: subprocess.Popen[bytes]) -> None:
        self.name = name
        self._guard = guard

    def release(self) -> None:
        """Give the place back."""
        _release(self._guard)


def take_place(target: str, show_step: Callable[[str], None]) -> Place:
    """Reserve and lock a free place with the tags of the target.

    Raises NotMeasurable if there is none within a minute, TargetError if labgrid cannot be asked.
    """
    filters = target.partition(":")[2].split(",")
    token = _token(target, filters)
    guard = subprocess.Popen(
        ["sh", "-c", _GUARD, "sh", token],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is not for it
    )
    try:
        show_step(f"{target}: waiting for a free place, {_WAIT_S:g} s at most")
        _wait(target, token)
        done = _client(target, "-p", f"+{token}", "acquire")
        acquired = _ACQUIRED.search(done.stdout)
        if acquired is None:
            raise NotMeasurable(f"{target}: the place cannot be locked: {_words(done)}")
    except BaseException:
        _release(guard)
        raise
    show_step(f"{target}: {acquired[1]}")
    return Place(acquired[1], guard)


def _token(target: str, filters: list[str]) -> str:
    done = _client(target, "reserve", "--shell", *filters)
    token = _TOKEN.search(done.stdout)
    if token is None:
        raise TargetError(f"{target}: labgrid makes no reservation: {_words(done)}")
    return token[1]


def _wait(target: str, token: str) -> None:
    try:
        done = _client(target, "wait", token, limit_s=_WAIT_S)
    except subprocess.TimeoutExpired:
        raise NotMeasurable(
            f"{target}: no place with these tags was free within {_WAIT_S:g} s; `{_CLIENT} who`"
            " shows who has them"
        ) from None
    if "allocated" not in done.stdout:
        raise NotMeasurable(
            f"{target}: no place has these tags; `{_CLIENT} -v places` shows the tags of all places"
        )


def _client(
    target: str, *arguments: str, limit_s: float = _TIME_LIMIT_S
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [_CLIENT, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except OSError as error:
        raise TargetError(
            f"{target}: {_CLIENT} does not start ({error.strerror}); pip install labgrid"
        ) from None


def _words(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last line that the client has written."""
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"


def _release(guard: subprocess.Popen[bytes]) -> None:
    guard.communicate()  # closes its input
