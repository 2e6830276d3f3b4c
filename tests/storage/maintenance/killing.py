"""A process that is killed at a given moment of its changes of files."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

#: The functions of `os` by which files are made and changed.
CALLS = (
    "open",
    "write",
    "unlink",
    "rename",
    "replace",
    "fsync",
    "fchmod",
    "fchown",
    "utime",
    "mkdir",
    "rmdir",
)


def is_killed(number: int, act: Callable[[], object]) -> bool:
    """Whether a process that acts is killed: before call number `number` of CALLS, if it comes."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            _die_at(number)
            act()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def _die_at(number: int) -> None:
    calls = 0

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return counting

    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))
