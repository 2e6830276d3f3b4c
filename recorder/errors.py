"""Every mistake of a user that keeps `python -m samplers record` from recording."""

from __future__ import annotations

import errno
from pathlib import Path

__all__ = ["CannotExecute", "NoMarks", "NoProcess", "NoProject", "NotWritable", "RecordError"]


class RecordError(Exception):
    """The user can put it right; the message says how."""

    exit_code = 2


class CannotExecute(RecordError):
    """The command cannot be started; the exit codes are those of shells."""

    def __init__(self, command: str, error: OSError) -> None:
        missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
        self.exit_code = 127 if missing else 126
        if missing:
            reason = "there is no such command. Give its path, or a name that is in PATH"
        else:
            reason = f"it cannot be executed ({error.strerror}). A program needs permission (chmod +x), and must be of "
            reason += "this machine or a script whose first line is #!INTERPRETER"
        super().__init__(f"{command}: {reason}. Nothing was stored")


class NoProcess(RecordError):
    """There is no process of that id."""

    def __init__(self, pid: int) -> None:
        super().__init__(f"there is no process {pid}. Running ones: `ps -e`, or `pidof NAME`")


class NoMarks(RecordError):
    """Marks cannot come in the way that was asked for."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"the file of phases {path} cannot be written ({error.strerror}). Name another with --phases FILE"
        )


class NotWritable(RecordError):
    """Results cannot be stored."""

    def __init__(self, storage: Path, error: OSError) -> None:
        super().__init__(f"cannot store in {storage} ({error.strerror}). Name another folder with --storage DIR")


class NoProject(RecordError):
    """The folder of the project is not there."""

    def __init__(self, project: Path) -> None:
        super().__init__(f"{project} is no folder. --project DIR is the checkout whose commit is noted")
