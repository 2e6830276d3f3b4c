"""The processes that a process has started, and those that they have started."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from reusebench.samplers.host import Host, names_in

__all__ = ["Relation", "all_processes", "descendants", "fields_after_name", "parse_relation"]

#: Fields of /proc/PID/stat after the name (proc(5)): state, ppid and session.
_STATE_FIELD = 0
_PARENT_FIELD = 1
_SESSION_FIELD = 3


class Relation(NamedTuple):
    """A process, its parent, and the process that began its session."""

    pid: int
    parent: int
    session: int
    #: Whether it has ended, and its parent has not waited for it.
    is_zombie: bool = False


def all_processes(host: Host) -> list[int]:
    """Return the processes of the host that /proc shows; empty if it shows none."""
    return [int(name) for name in names_in(host, "/proc") if name.isdecimal()]


def parse_relation(stat: bytes | OSError) -> Relation | None:
    """Return the relation in /proc/PID/stat; None if the process has gone."""
    if isinstance(stat, OSError) or not stat:
        return None
    text = stat.decode(errors="replace")
    fields = fields_after_name(text)
    pid = int(text.split(maxsplit=1)[0])
    parent = int(fields[_PARENT_FIELD])
    session = int(fields[_SESSION_FIELD])
    return Relation(pid, parent, session, fields[_STATE_FIELD] == "Z")


def fields_after_name(stat: str) -> list[str]:
    """Return the fields of /proc/PID/stat after the name, which may hold parentheses and spaces."""
    return stat.rpartition(")")[2].split()


def descendants(pid: int, relations: Iterable[Relation]) -> list[int]:
    """Return the descendants of a process, and all other processes of the session that it began.

    A process whose parent has ended gets another parent, but stays in its session.
    """
    children: dict[int, list[int]] = {}
    found: dict[int, None] = {}
    pending = [pid]
    for relation in relations:
        children.setdefault(relation.parent, []).append(relation.pid)
        if relation.session == pid:
            pending.append(relation.pid)
    while pending:
        member = pending.pop()
        if member in found:
            continue
        found[member] = None
        pending += children.get(member, [])
    del found[pid]
    return sorted(found)
