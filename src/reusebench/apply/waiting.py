"""Waits for an applied program with little memory, in the place of reusebench's process: a script.

    python -I -S waiting.py OUTPUT COUNT WORD... NAME=VALUE... -- COMMAND...

It starts the command, with the variables added to its environment and descriptor OUTPUT as its
standard output, and forwards signals to it. At its end the COUNT words are executed, followed by
`--`, the command, and the outcome: `exit:3`, `signal:9`, or `errno:2` if it cannot be started.

Every import is memory beside the program.
"""

from __future__ import annotations

import os
import signal
import sys

__all__ = ["main", "started_environment"]

#: Python ignores them, and programs expect to end by them.
_RESET = (signal.SIGPIPE, signal.SIGXFSZ)
_END = "--"


def main(words: list[str]) -> None:
    """Run the command, and execute the words that come after it."""
    output, count = int(words[0]), int(words[1])
    after, rest = words[2 : 2 + count], words[2 + count :]
    end = rest.index(_END)
    environment = started_environment()
    variables = dict(word.split("=", 1) for word in rest[:end])

    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    command = rest[end + 1 :]
    outcome = _run(command, output, {**environment, **variables}, mask)
    for number in (signal.SIGINT, signal.SIGQUIT):  # what comes after is short
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.execve(after[0], [*after, _END, *command, outcome], environment)


def started_environment() -> dict[str, str]:
    """Return the environment as it was before Python added LC_CTYPE to it."""
    try:
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
            entries = os.fsdecode(file.read()).split("\0")
    except OSError:
        return dict(os.environ)
    return dict(entry.split("=", 1) for entry in entries if entry.find("=") > 0)


def _run(command: list[str], output: int, environment: dict[str, str], mask: set[int]) -> str:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it was ignored, no ending would be known
    try:
        program = os.posix_spawnp(
            command[0],
            command,
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, output, 1)],
            setsigmask=mask,
            setsigdef=_RESET,
        )
    except OSError as error:
        return f"errno:{error.errno}"
    while True:
        came = signal.sigwaitinfo(signal.valid_signals())
        # The terminal's own signals reach the program too, as it is in the same group.
        if came.si_signo != signal.SIGCHLD and came.si_code <= 0 and came.si_pid != program:
            _forward(came.si_signo, program)
        outcome = _outcome(program)
        if outcome:
            return outcome


def _forward(number: int, program: int) -> None:
    try:
        os.kill(program, number)
    except PermissionError:  # as sudo, it has become another user's
        return


def _outcome(program: int) -> str | None:
    """Return the ending of the program, or None; stop with it if it was stopped."""
    while True:
        process, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        if not process:
            return None
        if process == program and os.WIFSTOPPED(status):
            os.kill(os.getpid(), signal.SIGSTOP)
        elif process == program and os.WIFSIGNALED(status):
            return f"signal:{os.WTERMSIG(status)}"
        elif process == program:
            return f"exit:{os.WEXITSTATUS(status)}"


if __name__ == "__main__":
    main(sys.argv[1:])
