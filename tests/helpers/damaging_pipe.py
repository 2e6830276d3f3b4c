"""`python damaging_pipe.py DIRECTION KIND AT COUNT COMMAND...`: a command behind a pipe that does
damage once.

DIRECTION is `to` or `from` the command. KIND with COUNT bytes at byte AT after the reader's marker:
`drop`, `add`, `flip`, `repeat`, `swap` (with as many bytes behind them); or COUNT frames at frame
AT: `drop_frames`, `repeat_frames`, `swap_frames`. `none` damages nothing.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable

_MARKER = b"\x01\x02reusebench reader\x02\x01\n"
_LENGTH = struct.Struct("<I")
_HEADER_BYTES = 21
_READ_BYTES = 1 << 16


def main() -> int:
    """Run the command and return its exit code."""
    direction, kind, at, count, *command = sys.argv[1:]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    began = threading.Event()
    damage = _Damage(kind, int(at), int(count))
    harmless = _Damage("none", 0, 0)
    to_it = damage if direction == "to" else harmless
    from_it = damage if direction == "from" else harmless
    outwards = threading.Thread(
        target=_pass_on, args=(process.stdout.fileno(), 1, from_it, began, True)
    )
    outwards.start()
    threading.Thread(
        target=_pass_on, args=(0, process.stdin.fileno(), to_it, began, False), daemon=True
    ).start()
    outwards.join()
    return process.wait()


def _pass_on(
    source: int, sink: int, damage: _Damage, began: threading.Event, has_marker: bool
) -> None:
    """Pass data on; damage it after the marker was seen."""
    seen = b""
    try:
        while data := os.read(source, _READ_BYTES):
            if began.is_set():
                data = damage.taken(data)
            elif has_marker:
                # The marker may come in pieces.
                end = (seen + data).find(_MARKER) + len(_MARKER) - len(seen)
                is_there = _MARKER in seen + data
                seen = (seen + data)[-len(_MARKER) :]
                if is_there:
                    began.set()
                    data = data[:end] + damage.taken(data[end:])
            while data:
                data = data[os.write(sink, data) :]
    except OSError:
        pass
    finally:
        os.close(sink)


class _Damage:
    """Damage to one direction."""

    def __init__(self, kind: str, at: int, count: int) -> None:
        self._is_of_frames = kind.endswith("_frames")
        self._change: Callable[[bytes, bytes], bytes] | None = _CHANGES.get(kind.split("_")[0])
        self._at = at
        self._count = count
        self._passed = 0
        self._data = b""

    def taken(self, data: bytes) -> bytes:
        """Return the bytes to pass on in place of these."""
        if self._change is None:
            return data
        self._data += data
        units = self._units()
        needed = self._at + 2 * self._count - self._passed
        if len(units) < needed:
            whole = units[: max(0, self._at - self._passed)]
            return self._pass(whole)
        first = units[: self._at - self._passed]
        damaged = units[len(first) : len(first) + self._count]
        others = units[len(first) + self._count : len(first) + 2 * self._count]
        before = self._pass(first)
        self._data = self._data[len(b"".join(damaged + others)) :]
        changed = self._change(b"".join(damaged), b"".join(others))
        self._change = None
        rest, self._data = self._data, b""
        return before + changed + rest

    def _pass(self, units: list[bytes]) -> bytes:
        data = b"".join(units)
        self._data = self._data[len(data) :]
        self._passed += len(units)
        return data

    def _units(self) -> list[bytes]:
        if not self._is_of_frames:
            return [self._data[index : index + 1] for index in range(len(self._data))]
        units = []
        at = 0
        while len(self._data) - at >= _HEADER_BYTES:
            (length,) = _LENGTH.unpack_from(self._data, at)
            end = at + _HEADER_BYTES + length
            if end > len(self._data):
                break
            units.append(self._data[at:end])
            at = end
        return units


_CHANGES: dict[str, Callable[[bytes, bytes], bytes]] = {
    "drop": lambda _, second: second,
    "add": lambda first, second: first + b"\x00" * len(first) + second,
    "flip": lambda first, second: bytes(byte ^ 0x10 for byte in first) + second,
    "repeat": lambda first, second: first + first + second,
    "swap": lambda first, second: second + first,
}


if __name__ == "__main__":
    sys.exit(main())
