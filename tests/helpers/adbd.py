"""The part of Android's debug bridge that is on the board, for a real `adb` to connect to: shells,
and nothing else.

    python -m tests.helpers.adbd FORM SHELL

prints its port and serves until it is interrupted, which pulls the cable. FORM is `new` (shell
protocol 2: clean pipes and exit codes), `old` (what Rockchip's SDKs have, adbd 4.2.2: every command
has a terminal with echo, standard error is merged and there is no exit code) or `unauthorized` (it
never accepts the host's key).

The messages are those that Android's own description has: protocol.txt, SERVICES.TXT and
shell_protocol.h of adb.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any, Callable

_LOOPBACK = "127.0.0.1"
#: Command, two arguments, number of bytes, checksum (ignored by the version below), the command's
#: complement.
_HEADER = struct.Struct("<6I")
_CNXN, _AUTH, _OPEN, _OKAY, _CLSE, _WRTE = (
    int.from_bytes(name, "little")
    for name in (b"CNXN", b"AUTH", b"OPEN", b"OKAY", b"CLSE", b"WRTE")
)
_VERSION = 0x01000001
_MAX_DATA_BYTES = 4096
_TOKEN = 1
_TOKEN_BYTES = 20

#: The shell protocol's packets: kind, number of bytes.
_PACKET = struct.Struct("<BI")
_STDIN, _STDOUT, _STDERR, _EXIT, _CLOSE_STDIN = range(5)


class _Connection:
    """A host that is connected, and the streams that it has opened."""

    def __init__(
        self, form: str, shell: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._form = form
        self._shell = shell
        self._reader = reader
        self._writer = writer
        self._streams: dict[int, _Stream] = {}
        self._opened = 0

    async def serve(self) -> None:
        """Answer until the host has gone; what it started loses its pipes or its terminal then."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                command, first, second, length, _, _ = _HEADER.unpack(
                    await self._reader.readexactly(_HEADER.size)
                )
                self._answer(command, first, second, await self._reader.readexactly(length))
        streams = [stream.task for stream in self._streams.values()]
        for task in streams:
            task.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
        self._writer.close()

    def pull(self) -> None:
        """Pull the cable: neither side can tell the other anything any more."""
        self._writer.transport.abort()

    def send(self, command: int, first: int, second: int, data: bytes = b"") -> None:
        """Send a message."""
        self._writer.write(
            _HEADER.pack(command, first, second, len(data), sum(data), command ^ 0xFFFFFFFF) + data
        )

    def _answer(self, command: int, first: int, second: int, data: bytes) -> None:
        if self._form == "unauthorized":
            # It asks for another signature until the host has no more keys; then a person would
            # have to accept one.
            if command == _CNXN or first != _TOKEN + 2:
                self.send(_AUTH, _TOKEN, 0, bytes(_TOKEN_BYTES))
        elif command == _CNXN:
            features = ";features=shell_v2" if self._form == "new" else ""
            self.send(
                _CNXN,
                _VERSION,
                _MAX_DATA_BYTES,
                f"device::ro.product.name=board{features}".encode(),
            )
        elif command == _OPEN:
            self._open(first, data.rstrip(b"\0").decode())
        elif second in self._streams:
            self._streams[second].take(command, data)

    def _open(self, host_id: int, service: str) -> None:
        name, _, command = service.partition(":")
        if name.partition(",")[0] != "shell":
            self.send(_CLSE, 0, host_id)
            return
        self._opened += 1
        own_id = self._opened
        kind = _PipedShell if "v2" in name.split(",") else _TerminalShell
        stream = kind(
            [self._shell, "-c", command],
            lambda message, data=b"": self.send(message, own_id, host_id, data),
        )
        self._streams[own_id] = stream
        stream.task.add_done_callback(lambda _: self._streams.pop(own_id))


class _Stream(ABC):
    """A command that the host has started, and what goes to and fro."""

    def __init__(self, command: list[str], send: Callable[..., None]) -> None:
        self._command = command
        self._send = send
        self._input: asyncio.Queue[bytes] = asyncio.Queue()
        self._taken = asyncio.Event()
        self._sending = asyncio.Lock()
        send(_OKAY)
        self.task = asyncio.create_task(self._whole())

    def take(self, message: int, data: bytes) -> None:
        """Take a message of the host."""
        if message == _OKAY:
            self._taken.set()
        elif message == _WRTE:
            self._input.put_nowait(data)
            self._send(_OKAY)
        elif message == _CLSE:
            self.task.cancel()

    async def _whole(self) -> None:
        try:
            await self._run()
        finally:
            self._send(_CLSE)

    @abstractmethod
    async def _run(self) -> None:
        """Run the command to its end."""

    async def _write(self, data: bytes) -> None:
        """Send output, once the host has taken what was sent before."""
        async with self._sending:
            for start in range(0, len(data), _MAX_DATA_BYTES):
                self._taken.clear()
                self._send(_WRTE, data[start : start + _MAX_DATA_BYTES])
                await self._taken.wait()


class _TerminalShell(_Stream):
    """A command on a terminal, which hangs up when the stream ends."""

    async def _run(self) -> None:
        ours, theirs = pty.openpty()
        os.set_blocking(ours, False)
        subprocess.Popen(
            self._command, stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=_take_terminal
        )
        os.close(theirs)
        feeding = asyncio.create_task(self._feed(ours))
        try:
            while data := await _read(ours):
                await self._write(data)
        finally:
            feeding.cancel()
            os.close(ours)

    async def _feed(self, terminal: int) -> None:
        while True:
            await _write_whole(terminal, await self._input.get())


class _PipedShell(_Stream):
    """A command with pipes of its own, whose exit code is told."""

    async def _run(self) -> None:
        process = subprocess.Popen(
            self._command, stdin=-1, stdout=-1, stderr=-1, start_new_session=True
        )
        pipes = [
            pipe for pipe in (process.stdin, process.stdout, process.stderr) if pipe is not None
        ]
        for pipe in pipes:
            os.set_blocking(pipe.fileno(), False)
        feeding = asyncio.create_task(self._feed(pipes[0]))
        try:
            await asyncio.gather(self._pass_on(pipes[1], _STDOUT), self._pass_on(pipes[2], _STDERR))
            code = await _end_of(process)
            # adbd gives the lowest byte of the shell's exit code.
            await self._write(_PACKET.pack(_EXIT, 1) + bytes([code % 256]))
        finally:
            feeding.cancel()
            if process.poll() is None:  # adbd tells it that its user has gone
                process.send_signal(signal.SIGHUP)
            for pipe in pipes:
                pipe.close()

    async def _pass_on(self, pipe: Any, kind: int) -> None:
        while data := await _read(pipe.fileno()):
            await self._write(_PACKET.pack(kind, len(data)) + data)

    async def _feed(self, pipe: Any) -> None:
        unread = b""
        while True:
            unread += await self._input.get()
            while len(unread) >= _PACKET.size:
                kind, length = _PACKET.unpack_from(unread)
                if len(unread) < _PACKET.size + length:
                    break
                data = unread[_PACKET.size : _PACKET.size + length]
                unread = unread[_PACKET.size + length :]
                if kind == _STDIN:
                    with suppress(BrokenPipeError):
                        await _write_whole(pipe.fileno(), data)
                elif kind == _CLOSE_STDIN:
                    pipe.close()
                    return


def _take_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


async def _read(file: int) -> bytes:
    """Return the next bytes, waiting for them; empty at the end."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            return os.read(file, _MAX_DATA_BYTES - _PACKET.size)
        except BlockingIOError:
            await _ready(file, loop.add_reader, loop.remove_reader)
        except OSError:  # the other end of a terminal is closed
            return b""


async def _write_whole(file: int, data: bytes) -> None:
    loop = asyncio.get_running_loop()
    while data:
        try:
            data = data[os.write(file, data) :]
        except BlockingIOError:
            await _ready(file, loop.add_writer, loop.remove_writer)


async def _ready(file: int, add: Callable[..., Any], remove: Callable[[int], Any]) -> None:
    ready = asyncio.Event()
    add(file, ready.set)
    try:
        await ready.wait()
    finally:
        remove(file)


async def _end_of(process: subprocess.Popen[bytes]) -> int:
    while process.poll() is None:
        await asyncio.sleep(0.005)
    return process.returncode


async def _serve(form: str, shell: str) -> None:
    connections: dict[asyncio.Task[Any] | None, _Connection] = {}

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = connections[asyncio.current_task()] = _Connection(form, shell, reader, writer)
        await connection.serve()

    pulled = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, pulled.set)
    server = await asyncio.start_server(connected, _LOOPBACK, 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await pulled.wait()
    server.close()
    for connection in connections.values():
        connection.pull()
    await asyncio.gather(*filter(None, connections))


if __name__ == "__main__":
    # Children inherit the handler, and tests may run under nohup.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    asyncio.run(_serve(*sys.argv[1:]))
