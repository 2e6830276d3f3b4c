"""The boards that the user has named, stored in the user's configuration."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Optional

import msgspec

from reusebench.system.files import read_regular, replacing
from reusebench.targets.errors import TargetError

__all__ = ["Board", "add_board", "boards", "check_name", "remove_board"]

#: Values that --target takes by itself.
_RESERVED = ("python", "board", "vboard", "ssh", "adb", "pipe", "labgrid")
#: Much more than the boards of any laboratory take.
_MOST_BYTES = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Board(msgspec.Struct, frozen=True, omit_defaults=True):
    """A remote board that has a name."""

    #: Value for --target: ssh:HOST, adb:SERIAL, pipe:COMMAND, labgrid:PLACE.
    address: str
    #: Folder for files on the board; None: the first usual folder that is suitable.
    folder: Optional[str] = None
    #: Python with the runtimes; None: python3.
    python: Optional[str] = None


class _File(msgspec.Struct, frozen=True):
    boards: dict[str, Board] = {}


def boards() -> dict[str, Board]:
    """Return the boards by name; raise TargetError if the file cannot be read."""
    path = _path()
    try:
        return msgspec.json.decode(read_regular(path, _MOST_BYTES), type=_File).boards
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise TargetError(
            f"{path}, which has the names of boards, cannot be read: {reason}. Mend or remove it"
        ) from None


def check_name(name: str) -> None:
    """Raise TargetError if `name` cannot be the name of a board."""
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise TargetError(
            f"{name!r} cannot be a board's name; valid: letters, digits, '.', '_' and '-', and none"
            f" of {', '.join(_RESERVED)}"
        )


def add_board(name: str, board: Board) -> None:
    """Store the board; it replaces another one of that name."""
    check_name(name)
    _write({**boards(), name: board})


def remove_board(name: str) -> None:
    """Remove the board; raise TargetError if no board has that name."""
    known = boards()
    if name not in known:
        raise TargetError(f"there is no board {name!r}; known: {', '.join(known) or 'none'}")
    del known[name]
    _write(known)


def _write(known: dict[str, Board]) -> None:
    path = _path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.chmod(0o600)
            temporary.write_bytes(msgspec.json.format(msgspec.json.encode(_File(known))) + b"\n")
    except OSError as error:
        raise TargetError(
            f"{path}, which has the names of boards, cannot be written: {error.strerror}"
        ) from None


def _path() -> Path:
    configuration = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(configuration) / "reusebench" / "boards.json"
