"""NPUs with drivers of mainline Linux: what sysfs shows of them, and memory by their fdinfo."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reusebench.samplers.host import LOCAL_HOST, LocalHost
from reusebench.samplers.npu import find_npu_sources, has_npu, has_rknpu
from reusebench.samplers.npu.drm_clients import DrmMemory, drm_client, drm_memory
from reusebench.samplers.npu.mainline import MainlineNpu, mainline_npus, no_rocket
from reusebench.samplers.sources import memory_sources
from tests.samplers.hosts import link_process

_KIB = 1 << 10
_MIB = 1 << 20
_NODE = "/dev/dri/renderD128"
#: What every file has (fs/proc/fd.c); a file of rocket's device has nothing else.
_PLAIN = "pos:\t0\nflags:\t02100002\nmnt_id:\t28\nino:\t301\n"


def _write(root: Path, tree: dict[str, str]) -> LocalHost:
    for path, text in tree.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return LocalHost(root)


def _hold(root: Path, pid: int, files: dict[int, tuple[str, str]]) -> None:
    """Give a process these descriptors: target of the link, and text of fdinfo."""
    for number, (target, text) in files.items():
        _write(root, {f"proc/{pid}/fdinfo/{number}": text})
        (root / f"proc/{pid}/fd").mkdir(exist_ok=True)
        (root / f"proc/{pid}/fd/{number}").symlink_to(target)


def _etnaviv(client: int, *sizes: str) -> str:
    lines = ("drm-driver:\tetnaviv", f"drm-client-id:\t{client}", *sizes)
    return _PLAIN + "".join(f"{line}\n" for line in lines)


_ROCKET = {"sys/class/accel/accel0/device/uevent": "MODALIAS=platform:rknn\n"}
_ETNAVIV = {
    "sys/bus/platform/drivers/etnaviv-gpu/38500000.npu/uevent": "DRIVER=etnaviv-gpu\n",
    "sys/class/drm/renderD128/device/uevent": "DRIVER=etnaviv\nMODALIAS=platform:etnaviv\n",
    "sys/class/drm/renderD129/device/uevent": "DRIVER=panfrost\n",
}


def test_rocket(tmp_path: Path) -> None:
    """It is known although its device has no driver in sysfs, and it is not Rockchip's driver."""
    host = _write(tmp_path, _ROCKET)
    assert mainline_npus(host) == [MainlineNpu("rocket", "/dev/accel/accel0")]
    assert (has_npu(host), has_rknpu(host)) == (True, False)


def test_ethosu_beside_another_accelerator(tmp_path: Path) -> None:
    """A driver that Teflon does not know, such as that of a PC's NPU, is left out."""
    tree = {
        "sys/class/accel/accel0/device/uevent": "DRIVER=intel_vpu\nPCI_CLASS=120000\n",
        "sys/class/accel/accel1/device/uevent": "DRIVER=ethosu\nOF_NAME=npu\n",
    }
    host = _write(tmp_path, tree)
    assert mainline_npus(host) == [MainlineNpu("ethosu", "/dev/accel/accel1")]


def test_etnaviv(tmp_path: Path) -> None:
    """It has an NPU if one of its cores is one; a board with its GPU alone has none."""
    host = _write(tmp_path, _ETNAVIV)
    assert mainline_npus(host) == [MainlineNpu("etnaviv", _NODE)]
    core = tmp_path / "sys/bus/platform/drivers/etnaviv-gpu/38500000.npu"
    core.rename(core.with_name("38000000.gpu"))
    assert mainline_npus(host) == []


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (_ROCKET, None),
        ({"proc/sys/kernel/osrelease": "6.12.43\n"}, "from 6.18 on, and this is 6.12.43"),
        ({"proc/sys/kernel/osrelease": "6.18.1\n"}, "device tree has no NPU"),
        (
            {
                "proc/sys/kernel/osrelease": "6.1.75\n",
                "proc/device-tree/npu@fdab0000/compatible": "rockchip,rk3588-rknpu\0",
            },
            None,
        ),
        (
            {
                "proc/sys/kernel/osrelease": "6.18.1\n",
                "proc/device-tree/npu@fdab0000/compatible": "rockchip,rk3588-rknn-core\0",
                "proc/device-tree/npu@fdab0000/status": "disabled\0",
            },
            "has the cores of the NPU disabled",
        ),
        (
            {
                "proc/sys/kernel/osrelease": "6.18.1\n",
                "proc/device-tree/npu@fdab0000/compatible": "rockchip,rk3588-rknn-core\0",
                "proc/device-tree/npu@fdab0000/status": "okay\0",
            },
            "sudo modprobe rocket",
        ),
    ],
)
def test_the_reason_that_there_is_no_rocket(
    tmp_path: Path, tree: dict[str, str], words: str | None
) -> None:
    """An old kernel, disabled cores, a driver that is not loaded; Rockchip's kernel is no case."""
    reason = no_rocket(_write(tmp_path, tree))
    assert reason is None if words is None else words in str(reason)


def test_sizes_are_sums_over_regions() -> None:
    """Units, no unit and an earlier name of the key; cycles of an engine are no size."""
    text = _etnaviv(
        7,
        "drm-total-memory:\t712 KiB",
        "drm-shared-memory:\t0",
        "drm-total-vram0:\t2 MiB",
        "drm-shared-vram0:\t4 KiB",
        "drm-resident-memory:\t700 KiB",
        "drm-resident-vram0:\t1000",
        "drm-total-cycles-npu:\t123456",
        "drm-engine-npu:\t5000 ns",
    )
    client = drm_client(text)
    assert client is not None
    assert client.identity == ("etnaviv", "", "7")
    assert client.total_bytes == 712 * _KIB + 2 * _MIB
    assert client.resident_bytes == 700 * _KIB + 1000
    assert client.shared_bytes == 4 * _KIB
    client = drm_client(_etnaviv(8, "drm-memory-vram:\t12 KiB"))
    assert client is not None
    assert (client.total_bytes, client.resident_bytes) == (12 * _KIB, 12 * _KIB)


@pytest.mark.parametrize(
    "text", [_PLAIN, "", "drm-driver:\tetnaviv\n", "drm-total-memory:\t1 MiB\n"]
)
def test_a_driver_that_does_not_identify_the_client(text: str) -> None:
    """Rocket's files have no line of DRM, and a client without a number may be another's double."""
    assert drm_client(text) is None


def test_a_client_counts_once(tmp_path: Path) -> None:
    """Duplicates of a descriptor, in other processes too, are one client; other nodes are none."""
    first = _etnaviv(7, "drm-total-memory:\t1 MiB", "drm-resident-memory:\t512 KiB")
    second = _etnaviv(9, "drm-total-memory:\t3 MiB", "drm-resident-memory:\t8 KiB")
    _hold(tmp_path, 11, {3: (_NODE, first), 4: (_NODE, first), 5: ("/dev/dri/card1", second)})
    _hold(tmp_path, 12, {3: (_NODE, first), 4: (_NODE, second), 5: ("/dev/null", _PLAIN)})
    host = LocalHost(tmp_path)
    assert drm_memory(host, [11], [_NODE]) == DrmMemory(_MIB, 512 * _KIB, None)
    assert drm_memory(host, [11, 12, 13], [_NODE]) == DrmMemory(4 * _MIB, 520 * _KIB, None)
    assert drm_memory(host, [11], ["/dev/accel/accel0"]) == DrmMemory(0, 0, 0)
    with pytest.raises(ProcessLookupError):
        drm_memory(host, [13], [_NODE])


def test_rocket_tells_nothing(tmp_path: Path) -> None:
    """A process that has its device open has unknown NPU memory, not none; one without has none."""
    host = _write(tmp_path, _ROCKET)
    _hold(tmp_path, 11, {3: ("/dev/accel/accel0", _PLAIN)})
    _hold(tmp_path, 12, {3: ("/dev/null", _PLAIN)})
    sources = find_npu_sources(host)
    assert (sources.read(11).process_bytes, sources.read(12).process_bytes) == (None, 0)


def test_a_reading_with_etnaviv(tmp_path: Path) -> None:
    """NPU memory is what the driver shows; dma-bufs, which are a camera's, are no part."""
    host = _write(tmp_path, _ETNAVIV)
    text = _etnaviv(7, "drm-total-memory:\t1 MiB", "drm-resident-memory:\t512 KiB")
    _hold(tmp_path, 11, {3: (_NODE, text), 4: ("/dmabuf:", "size:\t4096\nino:\t5\n")})
    memory = find_npu_sources(host).read(11)
    assert memory.process_dmabuf_bytes is None
    assert (memory.process_drm_bytes, memory.process_drm_resident_bytes) == (_MIB, 512 * _KIB)
    assert memory.process_bytes == _MIB


def test_a_process_that_may_not_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory is unknown; if no process of several may be seen, the reading is refused."""
    host = _write(tmp_path, _ETNAVIV)
    _hold(tmp_path, 11, {3: (_NODE, _etnaviv(7, "drm-total-memory:\t1 MiB"))})

    def refuse(_host: LocalHost, _folder: str) -> list[str]:
        raise PermissionError

    sources = find_npu_sources(host)
    monkeypatch.setattr(LocalHost, "names", refuse)
    assert sources.read(11).process_bytes is None
    with pytest.raises(PermissionError):
        drm_memory(host, [11, 12], [_NODE])


@pytest.mark.parametrize(
    ("tree", "node", "is_readable"),
    [(_ROCKET, "/dev/accel/accel0", False), (_ETNAVIV, _NODE, True)],
)
def test_the_sources(tmp_path: Path, tree: dict[str, str], node: str, is_readable: bool) -> None:
    """The row of the memory of a process says which driver does not show it, and what does."""
    pid = os.getpid()
    host = _write(tmp_path, tree)
    link_process(tmp_path, pid)
    *_, last = memory_sources(host, pid)
    assert (last.name, last.readable) == (f"/proc/PID/fdinfo of {node}", is_readable)
    assert is_readable or "the driver rocket does not show them" in str(last.remark)


def test_this_machine() -> None:
    """Looking for NPUs, and reading without nodes, never fails."""
    mainline_npus(LOCAL_HOST)
    assert drm_memory(LOCAL_HOST, [os.getpid()], []) == DrmMemory(0, 0, 0)
