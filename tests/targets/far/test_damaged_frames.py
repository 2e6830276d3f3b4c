"""Damage on the way between harness and reader: it ends the connection, and enters no figure."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shlex
import struct
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from reusebench.system.package import NATIVE
from reusebench.targets.errors import ConnectionLost, TargetError
from reusebench.targets.far import frames as far_frames
from reusebench.targets.far.connection import Connection, Request
from reusebench.targets.far.frames import DamagedFrame, Frame, FrameReader, FrameWriter
from reusebench.targets.far.host import FarHost
from reusebench.targets.far.process import FarProcess
from reusebench.targets.far.pushed_files import FarFiles
from tests.helpers import damaging_pipe
from tests.helpers.far_shell import connected, wait_until_gone
from tests.helpers.support import TIME_LIMIT_S

_PING_S = 0.05
_SILENCE_S = 2.0
#: Most bytes and frames that are damaged at once.
_MOST_BYTES = 40
_MOST_FRAMES = 3
_BYTE_KINDS = ("drop", "add", "flip", "repeat", "swap")
_FRAME_KINDS = ("drop_frames", "repeat_frames", "swap_frames")
_LIMIT_OF_WORK_S = 60.0


@pytest.fixture(autouse=True)
def _own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr("reusebench.targets.far.connection._PING_S", _PING_S)
    monkeypatch.setattr("reusebench.targets.far.connection._SILENCE_S", _SILENCE_S)
    monkeypatch.setattr("reusebench.targets.far.channel._END_S", 1.0)


def _damaged(direction: str, kind: str, at: int, count: int) -> str:
    """Return the prefix of a shell command whose connection is damaged once."""
    words = [sys.executable, damaging_pipe.__file__, direction, kind, str(at), str(count)]
    return shlex.join(words) + " "


class _Work:
    """The requests of a session to a board, whose results are known."""

    def __init__(self, folder: Path, connection: Connection) -> None:
        self._connection = connection
        self._host = FarHost(lambda: connection)
        self._file = folder / "file"
        self._content = random.Random(0).randbytes(50_000)
        self._file.write_bytes(self._content)
        self._process = FarProcess(connection, ["cat"], "/", {}, False)
        self._sampler = self._host.sampler(self._process.pid, 0.005)
        self.pid = self._process.pid

    def do(self, number: int) -> None:
        """Do all of it once; each result is right."""
        assert self._host.read(str(self._file)) == self._content
        line = b"line %d\n" % number
        assert self._process.send(line) > 0
        received = b""
        while len(received) < len(line):
            received += self._process.receive(TIME_LIMIT_S) or b""
        assert received == line
        paths = [f"/proc/{self.pid}/{name}" for name in ("statm", "none", "comm")]
        statm, missing, comm = self._host.read_all(paths)
        assert isinstance(statm, bytes)
        assert isinstance(missing, FileNotFoundError)
        assert comm == b"cat\n"
        for sample in self._sampler.take():
            assert sample.rss_bytes % self._connection.page_bytes == 0
            assert 0 < sample.rss_bytes < 1 << 30

    def push(self) -> None:
        """Push the file; what is there is what was pushed."""
        pushed = self._file.with_name("pushed")
        pushed.write_bytes(os.urandom(16) + self._content)
        there = FarFiles(self._connection).push(pushed)
        assert self._host.read(there) == pushed.read_bytes()


def _work_until_lost(folder: Path, before: str) -> str:
    """Work with a connection until it is lost; return the sentence."""
    pid = 0
    end_s = time.monotonic() + _LIMIT_OF_WORK_S
    try:
        with connected(folder, before) as connection:
            work = _Work(folder, connection)
            pid = work.pid
            for number in range(1000):
                work.do(number)
                if number % 4 == 0:
                    work.push()
                assert time.monotonic() < end_s, "it goes on for ever"
    except TargetError as error:
        if pid:
            wait_until_gone(pid)
        return str(error)
    raise AssertionError("the damage was not seen")


@pytest.mark.process
def test_nothing_is_damaged(tmp_path: Path) -> None:
    """The pipe of these tests passes everything on if it is told so."""
    with connected(tmp_path, _damaged("to", "none", 0, 0)) as connection:
        work = _Work(tmp_path, connection)
        for number in range(20):
            work.do(number)
        work.push()


def _cases(seeds: range) -> Iterator[tuple[str, str, int]]:
    for direction in ("from", "to"):
        for kind in (*_BYTE_KINDS, *_FRAME_KINDS):
            for seed in seeds:
                yield direction, kind, seed


def _check_case(folder: Path, direction: str, kind: str, seed: int) -> None:
    source = random.Random(f"{direction} {kind} {seed}")
    is_of_frames = kind in _FRAME_KINDS
    # The first frames are the greeting and the first requests; later ones are of readings.
    at = source.randrange(60 if is_of_frames else 30_000)
    count = source.randint(1, _MOST_FRAMES if is_of_frames else _MOST_BYTES)
    if seed % 3 == 0:
        at //= 100
    sentence = _work_until_lost(folder, _damaged(direction, kind, at, count))
    assert re.search("damaged on the way|no sign of life|sent nothing within", sentence), sentence


@pytest.mark.process
@pytest.mark.parametrize(("direction", "kind", "seed"), list(_cases(range(2))))
def test_damage_ends_the_connection(tmp_path: Path, direction: str, kind: str, seed: int) -> None:
    """Whatever is lost, added, changed, repeated or out of order: it is said, and no result is
    wrong.
    """
    _check_case(tmp_path, direction, kind, seed)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(("direction", "kind", "seed"), list(_cases(range(2, 12))))
def test_damage_anywhere_ends_the_connection(
    tmp_path: Path, direction: str, kind: str, seed: int
) -> None:
    """The same at more places."""
    _check_case(tmp_path, direction, kind, seed)


# The form of frames

_FRAMES = [Frame(ord("r"), 7, b"content"), Frame(ord(".")), Frame(ord("w"), 8, bytes(range(100)))]
_SEALED = FrameWriter().sealed(_FRAMES)


def _taken(data: bytes) -> list[Frame]:
    """Return the frames up to the damage."""
    taken = []
    with contextlib.suppress(DamagedFrame):
        for frame in FrameReader().frames(data):
            taken.append(frame)
    return taken


def _damages() -> Iterator[bytes]:
    """Yield the bytes of the frames with one byte changed, lost or added at each place."""
    for at, byte in enumerate(_SEALED):
        for bit in range(8):
            yield _SEALED[:at] + bytes([byte ^ 1 << bit]) + _SEALED[at + 1 :]
        yield _SEALED[:at] + _SEALED[at + 1 :]
        for other in (0, byte, 255):
            yield _SEALED[:at] + bytes([other]) + _SEALED[at:]


def test_frames_pass_in_pieces() -> None:
    """Frames are the same however their bytes come."""
    for size in (1, 2, 20, 21, 22, 1000):
        reader = FrameReader()
        taken: list[Frame] = []
        for at in range(0, len(_SEALED), size):
            taken += reader.frames(_SEALED[at : at + size])
        assert taken == _FRAMES
        assert reader.incomplete_s == 0


def test_no_damaged_frame_is_taken() -> None:
    """Frames before the damage are taken, and none after it."""
    for damaged in _damages():
        taken = _taken(damaged)
        assert taken == _FRAMES[: len(taken)]
        # A byte that is added behind the last frame begins another one.
        assert len(taken) < len(_FRAMES) or damaged.startswith(_SEALED)


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ([_SEALED[:28], _SEALED[:28]], "frame 0 came in place of frame 1"),
        ([_SEALED[28:]], "frame 1 came in place of frame 0"),
        ([FrameWriter().sealed([Frame(1, 1, bytes(20_000))])], "a frame of 20000 bytes; at most"),
        ([bytes(21)], "the header of a frame has another checksum"),
        ([_SEALED[:27] + b"?"], "the content of a frame has another checksum"),
    ],
)
def test_what_is_wrong_is_said(frames: list[bytes], words: str) -> None:
    """The sentence names the damage."""
    with pytest.raises(DamagedFrame, match=words):
        list(FrameReader().frames(b"".join(frames)))


def test_a_frame_of_gigabytes_is_not_collected() -> None:
    """A length that no frame has is refused when its header has come."""
    fields = struct.pack("<IIIIB", 0xFFFFFFFF, 1, 0, 0, ord("="))
    with pytest.raises(DamagedFrame, match="a frame of 4294967295 bytes"):
        list(FrameReader().frames(fields + struct.pack("<I", zlib.crc32(fields))))


def test_both_sides_have_one_form() -> None:
    """Version and limits of the reader are those of the harness."""
    header = (NATIVE / "reader" / "reader.h").read_text(encoding="utf-8")
    constants = dict(re.findall(r"(\w+) = (\d+)", header))
    assert int(constants["PROTOCOL_VERSION"]) == far_frames.PROTOCOL_VERSION
    assert int(constants["MOST_DATA_BYTES"]) == far_frames.MOST_REPLY_BYTES
    assert int(constants["MOST_REQUEST_BYTES"]) == far_frames.MOST_REQUEST_BYTES


@pytest.mark.process
def test_a_request_that_is_too_long(tmp_path: Path) -> None:
    """It is refused here, and the connection stays."""
    with connected(tmp_path) as connection:
        with pytest.raises(OSError, match="Argument list too long"):
            connection.request(Request("r", bytes(1 << 17)))
        with pytest.raises(TargetError, match="its arguments are too long"):
            FarProcess(connection, ["echo", "x" * (1 << 17)], "/", {}, False)
        assert FarHost(lambda: connection).read("/proc/version")


@pytest.mark.process
@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (Frame(ord("="), 77, b""), "a reply to a request that was not made"),
        (Frame(ord("?"), 0, b""), "a frame of an unknown kind"),
        (Frame(ord("!"), 1, b""), "a number of 0 bytes"),
        (Frame(ord("w"), 0, struct.pack("<I", 4)), "data to the board was damaged on the way"),
    ],
)
def test_a_frame_that_no_reader_sends(tmp_path: Path, frame: Frame, words: str) -> None:
    """It ends the connection with a sentence."""
    writer = FrameWriter()
    with connected(tmp_path) as connection:
        connection._incoming = FrameReader()
        connection._paths[1] = None
        with pytest.raises(ConnectionLost, match=words):
            connection._take(writer.sealed([frame]))
