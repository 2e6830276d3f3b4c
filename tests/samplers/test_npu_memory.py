"""NPU memory of the system and of the driver: the sources, and the choice of one."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reusebench.samplers.host import LOCAL_HOST, LocalHost
from reusebench.samplers.npu import find_npu_sources, has_npu, rknpu_driver_version
from reusebench.samplers.npu.file_source import FileSource
from reusebench.samplers.npu.rknpu import SRAM, Sram
from reusebench.samplers.npu.system_dmabuf import RK_DMA_HEAP, SYSTEM_DMABUF
from reusebench.samplers.readings import NpuMemory
from reusebench.samplers.sources import memory_sources
from tests.samplers.hosts import link_process

_FIXTURES = Path(__file__).with_name("npu_fixtures")
_RK_DMABUF, _BUFFERS, _BUFINFO = SYSTEM_DMABUF
(_HEAP,) = RK_DMA_HEAP
_SRAM_OF_PROC, _SRAM_OF_DEBUGFS = SRAM

_RK3588_BYTES = 25644 * 1024
_MAINLINE_BYTES = 2 * 8294400 + 1048576
_RV1106_HEAP_BYTES = 7472 * 1024

Board = Callable[[str], Path]


@pytest.fixture
def board(tmp_path: Path) -> Board:
    """Return a function that copies a fixture, which a test may change.

    Each copy has this process, without buffers.
    """

    def copy(name: str) -> Path:
        root = Path(shutil.copytree(_FIXTURES / name, tmp_path / name))
        here = root / "proc" / str(os.getpid())
        for folder in ("fd", "fdinfo"):
            (here / folder).mkdir(parents=True)
        (here / "maps").write_text("00010000-00011000 r-xp 00000000 b3:07 12 /usr/bin/python3\n")
        return root

    return copy


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("rk3588", _SRAM_OF_DEBUGFS, Sram(956 * 1024, 21 * 4096)),
        ("rk3588", _RK_DMABUF, _RK3588_BYTES),
        ("rk3588", _BUFINFO, _RK3588_BYTES),
        ("mainline", _BUFFERS, _MAINLINE_BYTES),
        ("mainline", _BUFINFO, _MAINLINE_BYTES),
        ("rv1106", _HEAP, _RV1106_HEAP_BYTES),
        ("mainline", _RK_DMABUF, None),
        ("rk3588", _BUFFERS, None),
        ("rk3588", _HEAP, None),
    ],
)
def test_each_source_in_bytes(name: str, source: FileSource[object], expected: object) -> None:
    """Each file gives the total that its kernel writes; a missing file gives None, not 0."""
    assert source.read(LocalHost(_FIXTURES / name)) == expected


@pytest.mark.parametrize("source", [_RK_DMABUF, _BUFINFO, _HEAP, _SRAM_OF_PROC])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "Total: many KiB\n",
        "Total: 12 MiB\n",
        pytest.param("Total: " + 5000 * "9" + " KiB\n", id="5000 digits"),
        "Total 3 devices attached\n",
        "Total 3 objects, 12 KiB\n",
        "Total 3 objects, 12 bytes\nand more\n",
        "Total : 12 (1 KiB)\n",
        "SRAM total size: -1, used: 0, free: 0\n",
        "\0\xff\n",
    ],
)
def test_what_the_kernel_does_not_write_is_not_read(
    tmp_path: Path, source: FileSource[object], text: str
) -> None:
    """Text in another format gives None, never an error or another number."""
    path = tmp_path / source.path.lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert source.read(LocalHost(tmp_path)) is None


def test_buffers_that_the_kernel_lists(board: Board) -> None:
    """A buffer without a size makes the sum unknown; one freed meanwhile counts as 0 bytes."""
    root = board("mainline")
    size = root / "sys/kernel/dmabuf/buffers/117/size"
    for text in ("", "many\n"):
        size.write_text(text)
        assert _BUFFERS.read(LocalHost(root)) is None
    size.unlink()
    assert _BUFFERS.read(LocalHost(root)) == 2 * 8294400
    size.mkdir()  # present but unreadable
    assert _BUFFERS.read(LocalHost(root)) is None
    shutil.rmtree(size.parents[1])
    size.parents[1].mkdir()
    assert _BUFFERS.read(LocalHost(root)) == 0


def _read(root: Path, pid: int = os.getpid()) -> NpuMemory:
    return find_npu_sources(LocalHost(root)).read(pid)


def test_a_reading_of_a_board_with_an_iommu(board: Board) -> None:
    """Process, system and SRAM have figures; such a board has none of Rockchip's heaps."""
    assert _read(board("rk3588")) == NpuMemory(
        process_dmabuf_bytes=0,
        process_dmabuf_count=0,
        process_dmabuf_bytes_by_exporter={},
        system_dmabuf_bytes=_RK3588_BYTES,
        system_dmabuf_source="/proc/rk_dmabuf/size",
        rk_dma_heap_bytes=None,
        sram_used_bytes=21 * 4096,
        sram_total_bytes=956 * 1024,
    )


def test_a_reading_of_a_process(board: Board) -> None:
    """Buffers are counted by exporter; if the process has gone, the reading raises."""
    root = board("rk3588")
    links = root / "proc/4321/fd"
    links.mkdir()
    for number in "4567":
        (links / number).symlink_to("/dmabuf:")
    memory = _read(root, 4321)
    assert memory.process_dmabuf_count == 4
    assert memory.process_dmabuf_bytes == 20480 + 7667712 + 3133440 + 0x140000
    assert memory.process_dmabuf_bytes_by_exporter == {
        "drm": 20480 + 7667712,
        "system-uncached": 3133440,
        "unknown": 0x140000,
    }
    with pytest.raises(ProcessLookupError, match="2147483647"):
        _read(root, 2147483647)


def test_a_reading_of_a_board_without_an_iommu(board: Board) -> None:
    """The heap's total is known; buffers of other kinds are unknown."""
    memory = _read(board("rv1106"))
    assert memory.rk_dma_heap_bytes == _RV1106_HEAP_BYTES
    assert (memory.system_dmabuf_bytes, memory.system_dmabuf_source, memory.sram_total_bytes) == (
        None,
        None,
        None,
    )


def test_the_cheapest_source_is_used(board: Board) -> None:
    """The first readable of several equivalent sources is read; the reading has its path."""
    root = board("rk3588")
    shutil.copytree(_FIXTURES / "mainline/sys/kernel/dmabuf", root / "sys/kernel/dmabuf")
    used = []
    for gone in ("proc/rk_dmabuf", "sys/kernel/dmabuf", "sys/kernel/debug"):
        used.append(_read(root).system_dmabuf_source)
        shutil.rmtree(root / gone)
    assert [*used, _read(root).system_dmabuf_source] == [
        "/proc/rk_dmabuf/size",
        "/sys/kernel/dmabuf/buffers",
        "/sys/kernel/debug/dma_buf/bufinfo",
        None,
    ]


def test_sources_are_found_once(board: Board) -> None:
    """Later readings use the same files; if one vanishes, its figure and source are None."""
    root = board("rk3588")
    sources = find_npu_sources(LocalHost(root))
    (root / "proc/rk_dmabuf/size").write_text("Total: 4 KiB\n")
    assert sources.read(os.getpid()).system_dmabuf_bytes == 4096
    shutil.rmtree(root / "proc/rk_dmabuf")
    shutil.rmtree(root / "sys/kernel/debug/rknpu")
    later = sources.read(os.getpid())
    assert (later.system_dmabuf_bytes, later.system_dmabuf_source, later.sram_used_bytes) == (
        None,
        None,
        None,
    )


def test_a_process_that_may_not_be_seen(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures of the system stay."""
    monkeypatch.setattr("reusebench.samplers.npu.memory.process_dmabufs", lambda *_: None)
    memory = _read(board("rk3588"))
    assert (memory.process_dmabuf_bytes, memory.process_dmabuf_count) == (None, None)
    assert memory.process_dmabuf_bytes_by_exporter is None
    assert memory.system_dmabuf_bytes == _RK3588_BYTES


def test_this_machine() -> None:
    """A reading never fails on any kernel, and the process's buffers are among the system's."""
    memory = _read(Path("/"))
    assert memory.process_dmabuf_bytes is not None
    if memory.system_dmabuf_bytes is not None:
        assert memory.system_dmabuf_bytes >= memory.process_dmabuf_bytes


@pytest.mark.parametrize(
    ("name", "version", "is_rockchips"),
    [("rk3588", "0.9.8", True), ("rv1106", "0.9.2", True), ("mainline", None, False)],
)
def test_the_driver(name: str, version: str | None, is_rockchips: bool) -> None:
    """The version is read from any of its nodes; a laptop has no node of Rockchip's kernels."""
    assert rknpu_driver_version(LocalHost(_FIXTURES / name)) == version
    assert has_npu(LocalHost(_FIXTURES / name)) is is_rockchips


@pytest.mark.parametrize("text", ["DRIVER_MAJOR.DRIVER_MINOR.DRIVER_PATCHLEVEL\n", "", "v1\n"])
def test_a_module_without_its_version(board: Board, text: str) -> None:
    """The driver's own node is read instead; without it the version is unknown."""
    root = board("rk3588")
    (root / "sys/module/rknpu/version").write_text(text)
    assert rknpu_driver_version(LocalHost(root)) == "0.9.8"
    shutil.rmtree(root / "sys/kernel/debug")
    assert rknpu_driver_version(LocalHost(root)) is None


def test_the_npu_is_not_powered_on() -> None:
    """The code names only the driver's nodes version, mm and load: freq powers the NPU on."""
    folder = Path(find_npu_sources.__code__.co_filename).parent
    nodes = {
        node
        for path in folder.glob("*.py")
        for node in re.findall(r'/rknpu/(\w+)"', path.read_text())
    }
    assert nodes == {"version", "mm", "load"}


def _npu_rows(root: Path, user_id: int = 0) -> list[tuple[str, bool, str]]:
    pid = os.getpid()
    link_process(root, pid)
    host = LocalHost(root)
    host.user_id = user_id
    of_npu = list(memory_sources(host, pid))[len(list(memory_sources(LOCAL_HOST, pid))) :]
    return [(row.name, row.readable, str(row.remark)) for row in of_npu]


def test_the_sources_of_a_board(board: Board) -> None:
    """Each kind has the source in use, or what the kernel lacks; without an NPU no rows."""
    assert _npu_rows(board("rk3588")) == [
        ("/proc/PID/fdinfo", True, "dma-bufs of the process"),
        ("/proc/rk_dmabuf/size", True, "dma-bufs of the system"),
        (
            "/proc/rk_dma_heap/dma_heap_info",
            False,
            "Rockchip's DMA heaps: the kernel lacks CONFIG_DMABUF_HEAPS_ROCKCHIP",
        ),
        ("/sys/kernel/debug/rknpu/mm", True, "SRAM of the NPU"),
    ]
    assert _npu_rows(board("mainline")) == []


def test_what_needs_root(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused file is named rather than one that the kernel lacks: the user can change that."""
    root = board("rv1106")
    reads = LocalHost.read

    def refuse(host: LocalHost, path: str) -> bytes:
        if "/debug/" in path:
            raise PermissionError
        return reads(host, path)

    monkeypatch.setattr(LocalHost, "read", refuse)
    assert _npu_rows(root, user_id=1000)[1:] == [
        ("/sys/kernel/debug/dma_buf/bufinfo", False, "dma-bufs of the system: needs root"),
        ("/proc/rk_dma_heap/dma_heap_info", True, "Rockchip's DMA heaps"),
        ("/sys/kernel/debug/rknpu/mm", False, "SRAM of the NPU: needs root"),
    ]
    assert "refused to root too" in _npu_rows(root)[1][2]


def test_a_process_that_is_not_shown(board: Board) -> None:
    """The remark says what is missing."""
    root = board("rk3588")
    (root / "proc" / str(os.getpid()) / "maps").write_text("x-y rw-s 0 0 0 /dmabuf:\n")
    _, readable, remark = _npu_rows(root)[0]
    assert not readable
    assert "not shown to this user" in remark
