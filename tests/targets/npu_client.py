"""A client of the NPU driver's ioctls, for the tests of the preload library.

Every call goes through ctypes to the C library's symbol of that name, and so to the preload library
if it has that symbol.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import NamedTuple

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
LIBC.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p]

ACTION, SUBMIT, CREATE, MAP, DESTROY, SYNC = range(6)
TASK_BYTES = 40


class Memory(NamedTuple):
    """Memory as the driver gave it."""

    handle: int
    bytes: int
    object: int
    address: int
    sram_bytes: int


def call(fd: int, kind: str, number: int, data: bytes) -> bytes:
    """Make an ioctl with a structure, and return the structure; raise OSError if it fails."""
    buffer = ctypes.create_string_buffer(data, len(data))
    request = 3 << 30 | len(data) << 16 | ord(kind) << 8 | number
    if LIBC.ioctl(fd, request, buffer) == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return buffer.raw


class Npu:
    """An open device: /dev/rknpu, or the same driver as a DRM device."""

    def __init__(self, path: str = "/dev/rknpu") -> None:
        self.fd = os.open(path, os.O_RDWR)
        self._kind, self._first = ("d", 0x40) if path.startswith("/dev/dri/") else ("r", 0)

    def call(self, number: int, data: bytes) -> bytes:
        """Make one of the driver's own calls."""
        return call(self.fd, self._kind, self._first + number, data)

    def action(self, number: int, value: int = 0) -> int:
        """Get or set a value."""
        answer: int = struct.unpack("Ii", self.call(ACTION, struct.pack("Ii", number, value)))[1]
        return answer

    def create(
        self,
        size: int,
        flags: int = 0,
        handle: int = 0,
        sram: int = 0,
        whole: bool = True,
        domain: int = 0,
    ) -> Memory:
        """Make a buffer, or an object of the buffer with this handle.

        `whole`: use today's structure of 48 bytes.
        """
        data = (
            struct.pack("IIQQQQ", handle, flags, size, 0, 0, sram)
            + struct.pack("iI", domain, 0) * whole
        )
        handle, _, *rest = struct.unpack_from("IIQQQQ", self.call(CREATE, data))
        return Memory(handle, *rest)

    def destroy(self, memory: Memory) -> None:
        """Destroy an object."""
        self.call(DESTROY, struct.pack("IIQ", memory.handle, 0, memory.object))

    def free(self, memory: Memory) -> None:
        """Destroy an object and close the buffer's file descriptor, as the runtime does."""
        self.destroy(memory)
        os.close(memory.handle)

    def submit(
        self,
        tasks: Memory,
        start: int,
        count: int,
        base: int = 0,
        mask: int = 0,
        cores: tuple[tuple[int, int], ...] = (),
        domain: int = 0,
    ) -> tuple[int, ...]:
        """Submit tasks of a task list."""
        ranges = [*cores, *[(0, 0)] * (5 - len(cores))]
        data = struct.pack(
            "IIIIIiQiIQqIi", 1, 6000, start, count, 0, 0, tasks.object, domain, 0, base, 0, mask, -1
        )
        data += b"".join(struct.pack("II", *tasks) for tasks in ranges)
        return struct.unpack_from("IIIIIiQQQqIi", self.call(SUBMIT, data))


class Bo(NamedTuple):
    """A buffer of rocket."""

    bytes: int
    handle: int
    address: int
    offset: int


class Rocket:
    """An open file of the mainline driver."""

    def __init__(self, path: str = "/dev/accel/accel0") -> None:
        self.fd = os.open(path, os.O_RDWR)

    def call(self, number: int, data: bytes, fd: int | None = None) -> bytes:
        """Make a call, on another descriptor of the file if one is named."""
        return call(self.fd if fd is None else fd, "d", number, data)

    def create(self, size: int, fd: int | None = None) -> Bo:
        """Make a buffer."""
        return Bo(*struct.unpack("IIQQ", self.call(0x40, struct.pack("IIQQ", size, 0, 0, 0), fd)))

    def close(self, handle: int) -> None:
        """Give the handle of a buffer back."""
        self.call(0x09, struct.pack("II", handle, 0))

    def prepare(self, handle: int, reserved: int = 0) -> None:
        """Wait for the jobs that write a buffer."""
        self.call(0x42, struct.pack("IIq", handle, reserved, 2**63 - 1))

    def finish(self, handle: int, reserved: int = 0) -> None:
        """Tell that the process has written to a buffer."""
        self.call(0x43, struct.pack("II", handle, reserved))

    def view(self, bo: Bo) -> int:
        """Map a buffer."""
        return mapped(self.fd, bo.bytes, bo.offset)

    def commands(self, *words: bytes) -> Bo:
        """Return a new buffer with these commands, which is not mapped any more."""
        bo = self.create(8 * len(words))
        address = self.view(bo)
        write(address, b"".join(words))
        LIBC.munmap(address, bo.bytes)
        return bo

    def submit(self, *jobs: bytes, count: int | None = None, size: int = 40, tail: int = 0) -> None:
        """Submit jobs of rocket_job()."""
        array = ctypes.create_string_buffer(b"".join(jobs) or b"\0")
        count = len(jobs) if count is None else count
        self.call(0x41, struct.pack("QIIQ", ctypes.addressof(array), count, size, tail))


#: The arrays that jobs name by their addresses.
_KEPT: list[object] = []


def _address_of(data: bytes) -> int:
    array = ctypes.create_string_buffer(data or b"\0")
    _KEPT.append(array)
    return ctypes.addressof(array)


def rocket_job(
    tasks: list[tuple[int, int]],
    inputs: tuple[int, ...] = (),
    outputs: tuple[int, ...] = (),
    task_size: int = 8,
) -> bytes:
    """Return a job of tasks, each an address and a number of commands, with these handles."""
    lists = [
        _address_of(b"".join(struct.pack("II", *task) for task in tasks)),
        *(_address_of(struct.pack(f"{len(handles)}I", *handles)) for handles in (inputs, outputs)),
    ]
    return struct.pack("QQQIIII", *lists, len(tasks), task_size, len(inputs), len(outputs))


class Heap:
    """An open dma-heap."""

    def __init__(self, name: str = "system") -> None:
        self.fd = os.open(f"/dev/dma_heap/{name}", os.O_RDWR)

    def allocate(self, size: int) -> int:
        """Return the file descriptor of a new buffer."""
        fd: int = struct.unpack(
            "QIIQ", call(self.fd, "H", 0, struct.pack("QIIQ", size, 0, os.O_RDWR, 0))
        )[1]
        return fd


def mapped(fd: int, size: int, offset: int = 0) -> int:
    """Map a buffer as the runtime does, by the C library's mmap, and return the address."""
    address: int = LIBC.mmap(None, size, 3, 1, fd, offset)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return address


def write(address: int, data: bytes) -> None:
    """Write to mapped memory."""
    ctypes.memmove(address, data, len(data))


def command(register: int, value: int, target: int = 0x0201) -> bytes:
    """Return one register command."""
    return struct.pack("<Q", target << 48 | value << 16 | register)


def task(address: int, count: int) -> bytes:
    """Return one entry of a task list."""
    return struct.pack("<IIIIIIIIQ", 0, 1, 0x1D, 0x300, 0x1FFFF, 0, count, 0, address)


class Job:
    """A task list with one task, its commands in a buffer of their own, both mapped."""

    def __init__(self, npu: Npu, commands: list[bytes]) -> None:
        self.npu = npu
        self.tasks = npu.create(10 * TASK_BYTES)
        self.commands = npu.create(4096)
        self.task_map = mapped(self.tasks.handle, 10 * TASK_BYTES)
        self.command_map = mapped(self.commands.handle, 4096)
        self.write(commands)

    def write(self, commands: list[bytes]) -> None:
        """Replace the commands."""
        write(self.command_map, b"".join(commands) + bytes(32))
        write(self.task_map, task(self.commands.address, len(commands)))

    def run(self, **options: object) -> None:
        """Submit the one task."""
        self.npu.submit(self.tasks, 0, 1, **options)  # type: ignore[arg-type]
