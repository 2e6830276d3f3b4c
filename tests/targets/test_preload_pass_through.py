"""The preload library on a real driver: the same ledger, kept from what the driver answers.

The driver is played: /dev/rknpu by a second copy of the library in virtual mode, its DRM form by fake_drm_driver.c.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from targets.preload.compilers import Compiler
from tests.targets.preload_support import Ended, live_bytes, read_ledger, run_client

#: The parts of an event that two copies of the library may see differently: they run one after the other.
_OWN = ("at_ns", "mode", "chip")


def _essence(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in event.items() if key not in _OWN} for event in events]


@pytest.fixture(scope="session")
def drm_driver(compiler: Compiler, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the fake driver."""
    library = tmp_path_factory.mktemp("drm") / "driver.so"
    source = Path(__file__).with_name("fake_drm_driver.c")
    compiler.compile(["-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o", str(library), str(source), "-ldl"])
    return library


@pytest.fixture
def run(preload: Path, lower_preload: Path, tmp_path: Path) -> Any:
    """Run a script in pass-through mode above a virtual board, and compare the two ledgers."""

    def run(script: str) -> Ended:
        lower = tmp_path / "lower.jsonl"
        ended = run_client(
            script,
            f"{preload}:{lower_preload}",
            tmp_path / "ledger.jsonl",
            LOWER_BOARD="rk3588",
            LOWER_LEDGER=str(lower),
        )
        assert ended.code == 0, ended.errors
        assert {event["mode"] for event in ended.named("start")} == {"pass-through"}
        below = [event for event in read_ledger(lower) if event["event"] != "inode"]
        assert _essence(ended.events) == _essence(below)
        return ended

    return run


def test_buffers_and_imports(run: Any) -> None:
    """Both ledgers agree on every buffer, to the byte."""
    script = """
        npu, heap = Npu(), Heap()
        memories = [npu.create(size) for size in (1, 5000, 1 << 20)]
        alias = npu.create(0, handle=memories[1].handle)
        fd = heap.allocate(9000)
        imported = npu.create(9000, handle=fd)
        for memory in memories: npu.free(memory)
        npu.destroy(alias); npu.destroy(imported); os.close(fd)
    """
    ended = run(script)
    assert [event["bytes"] for event in ended.named("create")] == [4096, 8192, 1 << 20, 12288]
    assert len(ended.named("destroy")) == 4
    assert live_bytes(ended.events) == 0


def test_submitted_jobs(run: Any) -> None:
    """Both read the same commands, from the process's own mappings."""
    script = """
        npu = Npu()
        data = npu.create(8192)
        job = Job(npu, [command(0x1070, data.address + 16)])
        for _ in range(3): job.run()
        npu.free(data)
        job.run()
    """
    assert [event["reads"][1]["state"] for event in run(script).named("submit")] == ["live", "dead"]


def test_what_the_driver_refuses_is_not_in_the_ledger(run: Any) -> None:
    """A call that failed has changed nothing."""
    script = """
        npu = Npu()
        for bad in (lambda: npu.create(0), lambda: npu.create(1, handle=999)):
            try: bad()
            except OSError: pass
    """
    assert [event["event"] for event in run(script).events] == ["start"]


def _run_on_drm(script: str, preload: Path, driver: Path, folder: Path) -> Ended:
    ended = run_client(script, f"{preload}:{driver}", folder / "ledger.jsonl")
    assert ended.code == 0, ended.errors
    return ended


_EXPORT = """
    def prime(number, handle=0, fd=0):
        return struct.unpack("IIi", call(npu.fd, "d", number, struct.pack("IIi", handle, 0, fd)))
    npu = Npu("/dev/dri/card1")
"""


def test_drm_buffers(preload: Path, drm_driver: Path, tmp_path: Path) -> None:
    """The driver's DRM form is the same ledger."""
    script = """
        npu = Npu("/dev/dri/card1")
        memories = [npu.create(size) for size in (1, 5000)]
        npu.destroy(memories[0])
        call(npu.fd, "d", 9, struct.pack("II", memories[1].handle, 0))
        npu.create(1)
    """
    ended = _run_on_drm(script, preload, drm_driver, tmp_path)
    assert [event["event"] for event in ended.events[1:]] == ["create", "create", "destroy", "destroy", "create"]
    assert live_bytes(ended.events) == 4096


def test_a_drm_buffer_that_is_exported_and_imported_counts_once(
    preload: Path, drm_driver: Path, tmp_path: Path
) -> None:
    """The buffer lives while the handle or the exported file descriptor does."""
    script = (
        _EXPORT
        + """
    memory = npu.create(5000)
    fd = prime(0x2d, handle=memory.handle)[2]
    handle = prime(0x2e, fd=fd)[0]
    assert handle == memory.handle
    npu.create(5000, handle=handle)
    npu.destroy(memory)
    npu.create(1)
    os.close(fd)
    """
    )
    ended = _run_on_drm(script, preload, drm_driver, tmp_path)
    assert [(event["event"], event["buffer"]) for event in ended.events[1:]] == [
        ("create", 1),
        ("import", 1),
        ("create", 2),
        ("destroy", 1),
    ]


def test_a_foreign_buffer_is_imported_into_drm(preload: Path, drm_driver: Path, tmp_path: Path) -> None:
    """It is nobody's, and what it holds may be read."""
    script = (
        _EXPORT
        + """
    fd = os.memfd_create("foreign"); os.ftruncate(fd, 4096)
    data = npu.create(4096, handle=prime(0x2e, fd=fd)[0])
    print(data.address)
    npu.destroy(data)
    """
    )
    ended = _run_on_drm(script, preload, drm_driver, tmp_path)
    assert [(event["event"], event["buffer"]) for event in ended.events[1:]] == [("import", 0)]


def test_drm_jobs_are_read_where_the_device_maps_them(preload: Path, drm_driver: Path, tmp_path: Path) -> None:
    """A DRM buffer is mapped from the device, at the offset that it was given."""
    script = """
        npu = Npu("/dev/dri/card1")
        def view(memory):
            offset = struct.unpack("IIQ", npu.call(MAP, struct.pack("IIQ", memory.handle, 0, 0)))[2]
            return mapped(npu.fd, 4096, offset)
        data, tasks, commands = (npu.create(4096) for _ in range(3))
        write(view(commands), command(0x1070, data.address + 8) + bytes(32))
        write(view(tasks), task(commands.address, 1))
        npu.submit(tasks, 0, 1)
    """
    ended = _run_on_drm(script, preload, drm_driver, tmp_path)
    submit = ended.named("submit")[0]
    assert (submit["task_buffer"], submit["registers"]) == (2, [3])
    assert [(each["register"], each["buffer"], each["lowest"]) for each in submit["reads"]] == [
        ("0x0010", 3, 0),
        ("0x1070", 1, 8),
    ]


def test_other_drivers_are_none_of_its_business(preload: Path, drm_driver: Path, tmp_path: Path) -> None:
    """The same numbers mean other things to a display's driver."""
    ended = _run_on_drm('Npu("/dev/dri/card0").create(1)', preload, drm_driver, tmp_path)
    assert [event["event"] for event in ended.events] == ["start"]
