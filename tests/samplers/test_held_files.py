"""Memory of files that real processes hold and do not map."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from reusebench.samplers.held_files import Held, read_held
from reusebench.samplers.host import LOCAL_HOST
from reusebench.samplers.process_memory import read_process
from tests.samplers.child import SIZE, Child

pytestmark = pytest.mark.process

_MEMFD = (
    f"f = os.memfd_create('frames'); [os.write(f, bytes(1 << 20)) for _ in range({SIZE >> 20})]"
)
#: Maps a file without Python's mmap, which keeps a descriptor of its own.
_MAP = (
    "import ctypes; libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p;"
    f"address = libc.mmap(None, ctypes.c_size_t({SIZE}), 3, 1, f, ctypes.c_long(0))"
)


@pytest.fixture
def memory_folder() -> Iterator[Path]:
    """Return a folder on tmpfs."""
    folder = Path("/dev/shm") / f"reusebench-test-{os.getpid()}"
    if not os.access(folder.parent, os.W_OK):
        pytest.skip("no /dev/shm here")
    folder.mkdir()
    yield folder
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


def _held(*children: Child) -> Held:
    maps = {child.pid: LOCAL_HOST.read(f"/proc/{child.pid}/maps") for child in children}
    return read_held(LOCAL_HOST, maps)


@pytest.mark.parametrize(
    ("lines", "share"),
    [
        ([_MEMFD], 1),
        ([_MEMFD, "held += [os.dup(f) for _ in range(10)]"], 1),
        ([_MEMFD, f"m = mmap.mmap(f, {SIZE})"], 1),
        ([_MEMFD, f"m = mmap.mmap(f, {SIZE}); touch(m)"], 0),
        ([_MEMFD, f"m = mmap.mmap(f, {SIZE // 2}); touch(m)"], 0.5),
        # Two mappings of the same pages are one.
        ([_MEMFD, f"m = [touch(mmap.mmap(f, {SIZE // 2})) for _ in range(2)]"], 0.5),
        # Copies of pages are no pages of the file.
        ([_MEMFD, f"m = write(mmap.mmap(f, {SIZE}, flags=mmap.MAP_PRIVATE))"], 1),
        ([_MEMFD, f"m = touch(mmap.mmap(f, {SIZE})); m.close()"], 1),
        ([_MEMFD, "os.close(f)"], 0),
        # A hole takes nothing.
        ([f"f = os.memfd_create('hole'); os.ftruncate(f, {SIZE})"], 0),
        ([f"f = os.memfd_create('full'); os.posix_fallocate(f, 0, {SIZE})"], 1),
    ],
)
def test_a_memfd_counts_without_what_is_mapped_of_it(
    child: Child, lines: list[str], share: float
) -> None:
    """The memory of a file and its mapped pages together are its size."""
    for line in lines:
        child.run(line)
    held = _held(child)
    assert held.file_bytes is not None
    # The kernel maps pages around one that is touched.
    assert held.file_bytes / SIZE == pytest.approx(share, abs=0.005)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may follow /proc/PID/map_files")
def test_a_file_that_is_mapped_and_closed(child: Child) -> None:
    """What was written to it is held, and is in RSS once it is touched."""
    child.run(f"{_MEMFD}; {_MAP}; os.close(f)")
    assert _held(child).file_bytes == SIZE
    child.run(f"ctypes.memset(address, 1, {SIZE})")
    assert _held(child).file_bytes == 0


@pytest.mark.parametrize(
    ("line", "share"),
    [
        ("f = open(path, 'w+b', 0); f.write(bytes(size))", 1),
        ("f = open(path, 'w+b', 0); f.write(bytes(size)); os.unlink(path)", 1),
        ("f = open(path, 'wb', 0); f.write(bytes(size)); f = open(path, 'rb'); os.unlink(path)", 1),
        # Who wrote it is not known.
        ("f = open(path, 'wb', 0); f.write(bytes(size)); f = open(path, 'rb')", 0),
        ("f = open(path, 'wb', 0); f.write(bytes(size)); f.close()", 0),
        ("f = os.open(folder, os.O_TMPFILE | os.O_RDWR); os.write(f, bytes(size))", 1),
    ],
)
def test_a_file_on_tmpfs_counts_if_it_is_the_processs(
    child: Child, memory_folder: Path, line: str, share: int
) -> None:
    """A file without a name is, and one that is open for writing."""
    path = memory_folder / "file"
    child.run(f"path, folder, size = {str(path)!r}, {str(memory_folder)!r}, {SIZE}; {line}")
    assert _held(child).file_bytes == share * SIZE


def test_a_file_on_disk_is_no_memory(child: Child, tmp_path: Path) -> None:
    """Its pages are page cache, which the kernel gives up."""
    child.run(f"f = open({str(tmp_path / 'file')!r}, 'wb', 0); f.write(bytes(1 << 20))")
    child.run(f"os.unlink({str(tmp_path / 'file')!r})")
    assert _held(child).file_bytes == 0


def test_a_file_of_parent_and_child_counts_once(child: Child) -> None:
    """So do its pages that both have mapped."""
    child.run(_MEMFD)
    child.run(
        "ready, filled = os.pipe(); end, ending = os.pipe();"
        "pid = os.fork();"
        f"m = touch(mmap.mmap(f, {SIZE // 2}));"
        "pid or (os.close(ending), os.write(filled, b'.'), os.read(end, 1), os._exit(0));"
        "os.read(ready, 1)"
    )
    memory = read_process(LOCAL_HOST, child.pid)
    assert memory.child_count == 1
    assert memory.held_file_bytes is not None
    assert memory.held_file_bytes / SIZE == pytest.approx(0.5, abs=0.005)
    child.run("os.close(ending); os.wait()")
    assert _held(child).file_bytes == memory.held_file_bytes


def test_what_the_reader_has_open_is_not_theirs(child: Child) -> None:
    """A file of this process that another one has got is no memory of the other one."""
    own = os.memfd_create("own")
    os.write(own, bytes(SIZE))
    child.run(f"f = os.open('/proc/{os.getpid()}/fd/{own}', os.O_RDWR)")
    assert _held(child).file_bytes == 0
    os.close(own)
    assert _held(child).file_bytes == SIZE


@pytest.mark.parametrize("name", ["rknpu", "dma_heap", "rocket"])
def test_buffers_of_the_virtual_board_are_not_counted_again(child: Child, name: str) -> None:
    """The ledger has them; the library that makes them names them so (native/preload)."""
    child.run(f"f = os.memfd_create('{name}'); os.write(f, bytes({SIZE}))")
    child.run(f"m = mmap.mmap(f, {SIZE})")
    assert _held(child).file_bytes == 0


def test_pipes_and_sockets_are_uncounted(child: Child) -> None:
    """A pipe with both its ends is one; those to the reader are the reader's."""
    assert _held(child).uncounted == 0
    child.run("import socket; p = [os.pipe() for _ in range(20)]")
    child.run("s = [socket.socketpair() for _ in range(10)]")
    assert _held(child).uncounted == 40


def test_descriptors_beyond_the_limit_are_uncounted(child: Child) -> None:
    """The lowest 1024 are looked at."""
    child.run("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (1100, 1100))")
    child.run("fs = [os.memfd_create('x') for _ in range(1050)]")
    child.run("for f in fs: os.write(f, bytes(4096))")
    held = _held(child)
    assert held.uncounted == 3 + 1050 - 1024
    assert held.file_bytes == (1024 - 3) * 4096


def test_processes_that_have_gone_hold_nothing(child: Child) -> None:
    """Their maps may have been read while they lived."""
    child.run(_MEMFD)
    maps = {child.pid: LOCAL_HOST.read(f"/proc/{child.pid}/maps")}
    child.reap()
    assert read_held(LOCAL_HOST, maps) == Held(0, 0)
