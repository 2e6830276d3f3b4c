"""The default storage of a board: each has its own, as memory of two boards is never one series."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from reusebench.samplers.host import LOCAL_HOST, Host, read_texts

__all__ = ["board_name", "board_storage", "far_board_name", "far_storage", "fleet_storage"]

_HOST_NAME = "/proc/sys/kernel/hostname"
_MACHINE_ID = "/etc/machine-id"
#: pytest-benchmark's own default folder; every board has a folder in it.
_STORAGES = Path(".benchmarks")


def board_name(host: Host = LOCAL_HOST) -> str:
    """Return the host name and, if there is a machine id, the start of its digest.

    Two boards that were flashed with one image, and still have its host name, differ in the digest.
    """
    texts = read_texts(host, [_HOST_NAME, _MACHINE_ID])
    # The form of the name must not change: a board's runs stay one series.
    host_name = texts.get(_HOST_NAME, "").strip().lower()
    name = re.sub(r"[^a-z0-9-]+", "-", host_name).strip("-") or "board"
    if _MACHINE_ID not in texts:
        return name
    digest = hashlib.sha256(texts[_MACHINE_ID].encode()).hexdigest()
    return f"{name}-{digest[:6]}"


def board_storage(host: Host = LOCAL_HOST) -> Path:
    """Return the board's default storage, relative to the working folder."""
    return _STORAGES / board_name(host)


def fleet_storage() -> Path:
    """Return the default storage of runs of several boards, relative to the working folder."""
    return _STORAGES / "fleet"


def far_board_name(target: str) -> str:
    """Return the name of a remote board, made of the name or the address after --target."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", target).strip("-.") or "board"


def far_storage(target: str) -> Path:
    """Return the default storage of a remote board, relative to the working folder."""
    return _STORAGES / far_board_name(target)
