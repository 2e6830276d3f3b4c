"""The preload library with a real driver: the same ledger, from the driver's answers.

Two stand-ins replace the driver: a second copy of the library in virtual mode, and
fake_drm_driver.c for its DRM form.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.targets.compilers import Compiler
from tests.targets.preload_support import Ended, read_ledger, run_client

pytestmark = pytest.mark.process

#: Parts of an event that two copies of the library may see differently, since they run one after
#: the other.
_OWN = ("at_ns", "mode", "chip")


@pytest.fixture(scope="session")
def drm_driver(compiler: Compiler, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the fake driver."""
    library = tmp_path_factory.mktemp("drm") / "driver.so"
    source = Path(__file__).with_name("fake_drm_driver.c")
    compiler.compile(
        ["-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o", str(library), str(source), "-ldl"]
    )
    return library


def test_both_ledgers_agree(preload: Path, lower_preload: Path, tmp_path: Path) -> None:
    """Buffers, imports, addresses and jobs agree to the byte; a failed call changed nothing."""
    script = """
        npu, heap = Npu(), Heap()
        assert npu.action(18), "that it has an IOMMU is known by this"
        memories = [npu.create(size) for size in (1, 5000, 1 << 20)]
        alias = npu.create(0, handle=memories[1].handle)
        fd = heap.allocate(9000)
        imported = npu.create(9000, handle=fd)
        for memory in memories: npu.free(memory)
        npu.destroy(alias); npu.destroy(imported); os.close(fd)
        for bad in (lambda: npu.create(0), lambda: npu.create(1, handle=999)):
            try: bad()
            except OSError: pass
        data = npu.create(8192)
        job = Job(npu, [command(0x1070, data.address + 16)])
        for _ in range(3): job.run()
        npu.free(data)
        job.run()
    """
    lower = tmp_path / "lower.jsonl"
    variables = {"LOWER_BOARD": "rk3588", "LOWER_LEDGER": str(lower)}
    ended = run_client(script, f"{preload}:{lower_preload}", tmp_path / "ledger.jsonl", **variables)
    assert ended.code == 0, ended.errors
    assert ended.events[0]["mode"] == "pass-through"
    below = [event for event in read_ledger(lower) if event["event"] != "inode"]
    for event in (*ended.events, *ended.addresses, *below):
        for field in _OWN:
            event.pop(field, None)
    assert ended.addresses == [event for event in below if event["event"] in ("map", "unmap")]
    assert ended.events == [event for event in below if event not in ended.addresses]
    assert [event["bytes"] for event in ended.named("create")[:4]] == [4096, 8192, 1 << 20, 12288]
    assert [event["reads"][1]["state"] for event in ended.named("submit")] == ["live", "dead"]
    assert len(ended.named("destroy")) == 5


def test_both_ledgers_of_rocket_agree(preload: Path, lower_preload: Path, tmp_path: Path) -> None:
    """Buffers, duplicates, mappings and jobs of the mainline driver agree, and its errors."""
    script = """
        npu, other = Rocket(), Rocket()
        bos = [npu.create(size) for size in (1, 5000)]
        duplicate = os.dup(npu.fd)
        for bad in (lambda: npu.create(0), lambda: npu.close(9), lambda: npu.submit(b"x", size=1)):
            try: bad()
            except OSError as error: print(errno.errorcode[error.errno])
            else: raise AssertionError
        commands = other.commands(command(0x1070, other.create(8192).address + 16))
        for _ in range(3): other.submit(rocket_job([(commands.address, 1)], (1,), (2,)))
        npu.prepare(1); npu.finish(1)
        view = npu.view(bos[1])
        npu.close(bos[1].handle)
        npu.create(1, fd=duplicate)
        LIBC.munmap(view, 5000)
        os.close(npu.fd); os.dup2(other.fd, duplicate); os.close(other.fd)
    """
    lower = tmp_path / "lower.jsonl"
    variables = {"LOWER_BOARD": "rocket", "LOWER_LEDGER": str(lower)}
    ended = run_client(script, f"{preload}:{lower_preload}", tmp_path / "ledger.jsonl", **variables)
    assert ended.code == 0, ended.errors
    assert ended.output.split() == ["ENOSPC", "EINVAL", "EINVAL"]
    below = [event for event in read_ledger(lower) if event["event"] != "fault"]
    for event in (*ended.events, *ended.addresses, *below):
        for field in _OWN:
            event.pop(field, None)
    assert ended.addresses == [event for event in below if event["event"] in ("map", "unmap")]
    assert ended.events == [event for event in below if event not in ended.addresses]
    assert len(ended.named("submit")) == 1
    ends = [event["buffer"] for event in ended.named("destroy")]
    assert ends == [2, 1, 5]


def test_registers_are_those_of_the_chip_that_the_driver_tells(
    preload: Path, lower_preload: Path, tmp_path: Path
) -> None:
    """The runtime asks the driver for the hardware's version before anything else."""
    script = """
        npu = Npu()
        npu.action(0)
        data = npu.create(8192)
        Job(npu, [command(register, data.address) for register in (0x1070, 0x1088)]).run()
    """
    for chip, register in (("rk3588", "0x1070"), ("rk3576", "0x1088")):
        ledger = tmp_path / f"{chip}.jsonl"
        ended = run_client(script, f"{preload}:{lower_preload}", ledger, LOWER_BOARD=chip)
        (submit,) = ended.named("submit")
        assert [read["register"] for read in submit["reads"]] == ["0x0010", register]


#: Exports and imports a DRM buffer by a file descriptor.
_PRIME = """
def prime(number, handle=0, fd=0):
    return struct.unpack("IIi", call(npu.fd, "d", number, struct.pack("IIi", handle, 0, fd)))
"""


@pytest.mark.parametrize(
    ("script", "events"),
    [
        pytest.param(
            """
memories = [npu.create(size) for size in (1, 5000)]
npu.destroy(memories[0])
call(npu.fd, "d", 9, struct.pack("II", memories[1].handle, 0))
npu.create(1)
""",
            [("create", 1), ("create", 2), ("destroy", 1), ("destroy", 2), ("create", 3)],
            id="the same ledger",
        ),
        pytest.param(
            _PRIME
            + """
memory = npu.create(5000)
fd = prime(0x2d, handle=memory.handle)[2]
handle = prime(0x2e, fd=fd)[0]
assert handle == memory.handle
npu.create(5000, handle=handle)
npu.destroy(memory)
npu.create(1)
os.close(fd)
""",
            [("create", 1), ("import", 1), ("create", 2), ("destroy", 1)],
            id="a buffer lives while its handle or the exported file descriptor does",
        ),
        pytest.param(
            _PRIME
            + """
fd = os.memfd_create("foreign"); os.ftruncate(fd, 4096)
npu.destroy(npu.create(4096, handle=prime(0x2e, fd=fd)[0]))
""",
            [("import", 0)],
            id="a buffer from elsewhere",
        ),
        pytest.param(
            'Npu("/dev/dri/card0").create(1)',
            [],
            id="a display's driver, to which the numbers mean others",
        ),
        pytest.param(
            'Rocket("/dev/accel/accel0").create(1)',
            [],
            id="the driver of another NPU",
        ),
    ],
)
def test_buffers_of_the_drm_driver(
    preload: Path, drm_driver: Path, tmp_path: Path, script: str, events: list[tuple[str, int]]
) -> None:
    """The driver's DRM form has the same ledger."""
    assert _run_on_drm(script, preload, drm_driver, tmp_path).buffers() == events


def test_drm_jobs_are_read_where_the_device_maps_them(
    preload: Path, drm_driver: Path, tmp_path: Path
) -> None:
    """A DRM buffer is mapped from the device at its offset."""
    script = """
def view(memory):
    offset = struct.unpack("IIQ", npu.call(MAP, struct.pack("IIQ", memory.handle, 0, 0)))[2]
    return mapped(npu.fd, 4096, offset)
data, tasks, commands = (npu.create(4096) for _ in range(3))
write(view(commands), command(0x1070, data.address + 8) + bytes(32))
write(view(tasks), task(commands.address, 1))
npu.submit(tasks, 0, 1)
"""
    (submit,) = _run_on_drm(script, preload, drm_driver, tmp_path).named("submit")
    assert (submit["task_buffer"], submit["registers"]) == (2, [3])
    reads = [(read["register"], read["buffer"], read["lowest"]) for read in submit["reads"]]
    assert reads == [("0x0010", 3, 0), ("0x1070", 1, 8)]


def _run_on_drm(script: str, preload: Path, driver: Path, folder: Path) -> Ended:
    ended = run_client(
        'npu = Npu("/dev/dri/card1")\n' + script, f"{preload}:{driver}", folder / "ledger.jsonl"
    )
    assert ended.code == 0, ended.errors
    return ended
