"""The dma-bufs of one process: fixtures of boards, and buffers of this kernel if it allows them."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import shutil
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from reusebench.samplers.host import LOCAL_HOST, FileStatus, LocalHost
from reusebench.samplers.npu.process_dmabuf import UNKNOWN_EXPORTER, DmaBuf, process_dmabufs
from tests.samplers.child import Child
from tests.samplers.hosts import CountingHost

_FIXTURES = Path(__file__).with_name("npu_fixtures")
_MIB = 1 << 20

_LIBC = ctypes.CDLL(None)
_LIBC.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


def board(name: str, folder: Path) -> Path:
    """Copy a fixture, and make the links that its fd.txt lists."""
    root = Path(shutil.copytree(_FIXTURES / name, folder / name))
    for listing in root.glob("proc/*/fd.txt"):
        links = listing.with_name("fd")
        links.mkdir()
        for line in listing.read_text().splitlines():
            number, target = line.split(" -> ")
            (links / number).symlink_to(target)
    return root


@pytest.fixture
def rk3588(tmp_path: Path) -> Path:
    """Return the root of a board whose process 4321 holds dma-bufs."""
    return board("rk3588", tmp_path)


def test_each_buffer_counts_once(rk3588: Path) -> None:
    """Several descriptors and mappings of one buffer count once; other files do not count."""
    buffers = process_dmabufs(LocalHost(rk3588), 4321)
    assert buffers is not None
    assert sorted(buffers, key=lambda buffer: buffer.inode) == [
        DmaBuf(1188, 3133440, "system-uncached"),
        DmaBuf(1190, 0x140000, UNKNOWN_EXPORTER),
        DmaBuf(1201, 20480, "drm"),
        DmaBuf(1202, 7667712, "drm"),
    ]


def test_a_mapping_keeps_a_buffer(rk3588: Path) -> None:
    """A mapping alone keeps a buffer in memory, with its mapped size in any number of pieces."""
    shutil.rmtree(rk3588 / "proc/4321/fd")
    (rk3588 / "proc/4321/fd").mkdir()
    buffers = process_dmabufs(LocalHost(rk3588), 4321)
    assert buffers is not None
    assert {buffer.inode: buffer.size_bytes for buffer in buffers} == {
        1188: 0x2FD000,
        1190: 0x140000,
    }


def test_before_linux_5_14_the_link_has_the_inode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If fdinfo lacks the inode, the link's file has it."""
    root = board("rv1106", tmp_path)
    inodes = {"4": b"14", "5": b"15", "6": b"14"}

    def statuses(_: LocalHost, paths: Sequence[str]) -> list[FileStatus]:
        return [FileStatus(b"00:0b", inodes[Path(path).name], 0) for path in paths]

    monkeypatch.setattr(LocalHost, "statuses", statuses)
    assert process_dmabufs(LocalHost(root), 812) == [
        DmaBuf(14, 2621440, "rk-dma-heap-cma"),
        DmaBuf(15, 815104, "rk-dma-heap-cma"),
    ]


def test_round_trips_do_not_grow_with_descriptors(rk3588: Path) -> None:
    """A hundred buffers take as many round trips to a remote board as three."""
    process = rk3588 / "proc/4321"
    few = CountingHost(LocalHost(rk3588))
    many = CountingHost(LocalHost(rk3588))
    assert len(process_dmabufs(few, 4321) or ()) == 4
    for number in range(100, 200):
        (process / "fd" / str(number)).symlink_to("/dmabuf:")
        (process / "fdinfo" / str(number)).write_text(
            f"size:\t4096\nino:\t{number}\nexp_name:\tdrm\n"
        )
    assert len(process_dmabufs(many, 4321) or ()) == 104
    assert few.round_trips == many.round_trips == 4


def test_a_name_cannot_pose_as_a_size(rk3588: Path) -> None:
    """A buffer's name may hold anything, even line ends; a buffer closed meanwhile is left out."""
    info = rk3588 / "proc/4321/fdinfo/6"
    info.write_text(info.read_text().replace("camera0", "x\nsize:\t1\nino:\t1201"))
    info.with_name("4").unlink()
    buffers = process_dmabufs(LocalHost(rk3588), 4321)
    assert buffers is not None
    assert DmaBuf(1188, 3133440, "system-uncached") in buffers
    assert {buffer.inode for buffer in buffers} == {1188, 1190, 1202}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fdinfo/5", ""),
        ("fdinfo/5", "pos:\t0\nflags:\t02\nmnt_id:\t9\n"),  # kernels before 5.3
        ("fdinfo/5", "size:\tmany\nino:\t3\n"),
        ("fdinfo/5", "\0\xff"),
        ("fdinfo/5", "size\n"),
        ("maps", "zz-10 rw-s 0 00:0b 5 /dmabuf:\n"),
        ("maps", "00-10 rw-s 0 00:0b x /dmabuf:\n"),
    ],
)
def test_what_the_kernel_does_not_show_is_not_guessed(rk3588: Path, name: str, text: str) -> None:
    """An incomplete sum would pass for all buffers, so there is no figure."""
    (rk3588 / "proc/4321" / name).write_text(text)
    assert process_dmabufs(LocalHost(rk3588), 4321) is None


def test_kernels_before_5_3(rk3588: Path) -> None:
    """Their dma-bufs are anonymous inodes without a size."""
    link = rk3588 / "proc/4321/fd/8"
    link.unlink()
    link.symlink_to("anon_inode:dmabuf")
    assert process_dmabufs(LocalHost(rk3588), 4321) is None


@pytest.fixture
def nobody() -> Iterator[None]:
    """Run the test as an ordinary user; skip it if the first process is the user's own."""
    root = os.geteuid() == 0
    if not root and Path("/proc/1").stat().st_uid == os.geteuid():
        pytest.skip("process 1 is this user's own: nobody else's is known here")
    if root:
        os.seteuid(65534)
    yield
    if root:
        os.seteuid(0)


@pytest.mark.usefixtures("nobody")
def test_a_process_of_somebody_else() -> None:
    """Hidden descriptors give None, and no error."""
    assert process_dmabufs(LOCAL_HOST, 1) is None


@pytest.mark.process
def test_a_process_of_this_machine(child: Child) -> None:
    """Without buffers the list is empty, not None; for a gone process or a zombie it raises."""
    assert process_dmabufs(LOCAL_HOST, child.pid) == []
    for end in (child.kill, child.reap):
        end()
        with pytest.raises(ProcessLookupError, match=str(child.pid)):
            process_dmabufs(LOCAL_HOST, child.pid)


def _from_heap(size: int) -> int:
    """Return a dma-buf of the system heap (DMA_HEAP_IOCTL_ALLOC of linux/dma-heap.h)."""
    request = struct.pack("=QIIQ", size, 0, os.O_RDWR | os.O_CLOEXEC, 0)
    with Path("/dev/dma_heap/system").open("rb", buffering=0) as heap:
        return int(struct.unpack("=QIIQ", fcntl.ioctl(heap, 0xC0184800, request))[1])


def _from_memfd(size: int) -> int:
    """Return a dma-buf over a sealed memfd (UDMABUF_CREATE of linux/udmabuf.h)."""
    memory = os.memfd_create("pages", os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(memory, size)
        fcntl.fcntl(memory, 1033, 2)  # F_ADD_SEALS, F_SEAL_SHRINK
        with Path("/dev/udmabuf").open("rb+", buffering=0) as device:
            request = bytearray(struct.pack("=IIQQ", memory, 1, 0, size))
            return int(fcntl.ioctl(device, 0x40187542, request))
    finally:
        os.close(memory)


@pytest.fixture(params=[_from_heap, _from_memfd])
def real(request: pytest.FixtureRequest) -> int:
    """Return a dma-buf of 3 MiB that this kernel made, which the test closes."""
    try:
        return int(request.param(3 * _MIB))
    except OSError as error:
        pytest.skip(f"no dma-buf can be made here: {error}")


def test_a_buffer_of_this_kernel(real: int) -> None:
    """A real buffer has its size, with two descriptors or only a mapping, until it is freed."""
    inode = os.fstat(real).st_ino
    held = process_dmabufs(LOCAL_HOST, os.getpid()) or []
    (buffer,) = (buffer for buffer in held if buffer.inode == inode)
    assert buffer.size_bytes == 3 * _MIB
    assert buffer.exporter in {"system", "udmabuf"}
    twin = os.dup(real)
    assert process_dmabufs(LOCAL_HOST, os.getpid()) == held
    address = _map(real, 3 * _MIB)
    os.close(twin)
    os.close(real)
    assert DmaBuf(inode, 3 * _MIB, UNKNOWN_EXPORTER) in (
        process_dmabufs(LOCAL_HOST, os.getpid()) or []
    )
    _LIBC.munmap(address, 3 * _MIB)
    assert inode not in {buffer.inode for buffer in process_dmabufs(LOCAL_HOST, os.getpid()) or []}


def _map(descriptor: int, size: int) -> ctypes.c_void_p:
    """Map the buffer without a descriptor for it, which Python's own mmap would keep."""
    shared_read_write = (mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED)
    address = _LIBC.mmap(None, size, *shared_read_write, descriptor, 0)
    assert address != ctypes.c_void_p(-1).value
    return ctypes.c_void_p(address)
