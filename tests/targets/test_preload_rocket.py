"""The virtual board with the mainline driver, rocket: its answers, its limits, and the ledger."""

from __future__ import annotations

import pytest

from tests.targets.preload_support import Ended, RunOnBoard

pytestmark = pytest.mark.process

_ATTEMPT = """
def attempt(call):
    try: return call() or "ok"
    except OSError as error: return errno.errorcode[error.errno]
"""


def _run(on_board: RunOnBoard, script: str, faults: str = "", memory: str = "") -> Ended:
    """Run a script with `npu`, an open file, on the board."""
    return on_board(_ATTEMPT + "npu = Rocket()\n" + script, "rocket", faults, memory)


def test_the_driver_tells_its_name(on_board: RunOnBoard) -> None:
    """VERSION copies as much of each text as there is space for, and tells its whole length."""
    script = """
def version(space):
    name = ctypes.create_string_buffer(16)
    data = struct.pack("iiiQQQQQQ", 9, 9, 9, space, ctypes.addressof(name), 0, 0, 0, 0)
    values = struct.unpack("iiiQQQQQQ", npu.call(0, data))
    return (*values[:3], values[3], name.raw.rstrip(bytes(1)), values[7])
print(version(16), version(3), sep=";")
"""
    whole, part = _run(on_board, script).output.strip().split(";")
    assert whole == "(0, 0, 0, 6, b'rocket', 10)"
    assert part == "(0, 0, 0, 6, b'roc', 10)"
    assert _run(on_board, script, faults="driver=1.2.3").output.startswith("(1, 2, 3,")


def test_buffers_are_made_and_given_back(on_board: RunOnBoard) -> None:
    """Sizes are whole pages; addresses and handles are the lowest free ones, offsets all new."""
    script = """
bos = [npu.create(1), npu.create(5000), npu.create(4096)]
npu.close(1); npu.close(2)
bos += [npu.create(100), npu.create(9000)]
for bo in bos: print(bo.bytes, bo.handle, bo.address // 4096, (bo.offset - bos[0].offset) // 4096)
"""
    ended = _run(on_board, script)
    rows = [tuple(int(value) for value in line.split()) for line in ended.output.splitlines()]
    assert rows == [(1, 1, 0, 0), (5000, 2, 1, 1), (4096, 3, 3, 3), (100, 1, 0, 4), (9000, 2, 4, 5)]
    created = ended.named("create")
    assert [event["asked_bytes"] for event in created] == [1, 5000, 4096, 100, 9000]
    assert [event["bytes"] for event in created] == [4096, 8192, 4096, 4096, 12288]
    assert {(event["source"], event["flags"]) for event in created} == {("rocket", 0)}
    assert [event["buffer"] for event in ended.named("destroy")] == [1, 2]


def test_each_buffer_has_memory_of_its_own(on_board: RunOnBoard) -> None:
    """All mappings of a buffer show the same bytes, which are 0 at first."""
    script = """
bos = [npu.create(size) for size in (1, 5000, 4096)]
for number, bo in enumerate(bos):
    assert ctypes.string_at(npu.view(bo), bo.bytes) == bytes(bo.bytes)
    write(npu.view(bo), bytes([number + 1]) * bo.bytes)
for number, bo in enumerate(bos):
    assert ctypes.string_at(npu.view(bo), bo.bytes) == bytes([number + 1]) * bo.bytes
"""
    assert len(_run(on_board, script).named("create")) == 3


def test_the_smallest_free_range_is_taken(on_board: RunOnBoard) -> None:
    """A buffer goes into the smallest free range of addresses that it fits into."""
    script = """
bos = [npu.create(pages * 4096) for pages in (4, 1, 2, 1)]
npu.close(bos[0].handle); npu.close(bos[2].handle)
print([npu.create(pages * 4096).address // 4096 for pages in (1, 2, 3, 1)])
"""
    assert _run(on_board, script).output == "[5, 0, 8, 6]\n"


def test_what_the_driver_refuses(on_board: RunOnBoard) -> None:
    """Each wrong call has the kernel's error, and changes nothing."""
    script = """
bo = npu.create(4096)
job = rocket_job([(0, 1)])
calls = {
    "size 0": lambda: npu.create(0),
    "2 GiB": lambda: npu.create(1 << 31),
    "close": lambda: npu.close(7),
    "prepare": lambda: npu.prepare(7),
    "prepare reserved": lambda: npu.prepare(bo.handle, 1),
    "finish": lambda: npu.finish(0),
    "finish reserved": lambda: npu.finish(bo.handle, 1),
    "job size": lambda: npu.submit(job, size=32),
    "submit reserved": lambda: npu.submit(job, tail=1),
    "other": lambda: npu.call(0x44, bytes(8)),
    "beyond the end": lambda: mapped(npu.fd, 8192, bo.offset),
    "inside": lambda: mapped(npu.fd, 4096, bo.offset + 4096),
    "start": lambda: mapped(npu.fd, 4096, 0),
    "fine": lambda: (npu.prepare(bo.handle), npu.finish(bo.handle), npu.submit()) and None,
}
for name, one in calls.items(): print(name, attempt(one), sep="=")
"""
    ended = _run(on_board, script)
    answers = dict(line.split("=") for line in ended.output.splitlines())
    assert answers == {
        "size 0": "ENOSPC",
        "2 GiB": "ENOMEM",
        "close": "EINVAL",
        "prepare": "ENOENT",
        "prepare reserved": "EINVAL",
        "finish": "ENOENT",
        "finish reserved": "EINVAL",
        "job size": "EINVAL",
        "submit reserved": "EINVAL",
        "other": "EINVAL",
        "beyond the end": "EINVAL",
        "inside": "EINVAL",
        "start": "EINVAL",
        "fine": "ok",
    }
    assert ended.buffers() == [("create", 1), ("failed", 1)]


def test_each_open_file_has_addresses_of_its_own(on_board: RunOnBoard) -> None:
    """An open file has 4 GiB of addresses, handles of its own, and a number in the ledger."""
    script = """
def fill(file):
    count = 0
    while attempt(lambda: file.create(1 << 30).handle) != "ENOSPC": count += 1
    return count
other = Rocket()
print(fill(npu), fill(other), attempt(lambda: npu.create(1)))
npu.close(2)
print(npu.create(1 << 30))
os.close(npu.fd)
third = Rocket()
print(third.create(1)[:3])
"""
    ended = _run(on_board, script)
    lines = ended.output.splitlines()
    assert lines[0] == "4 4 ENOSPC"
    assert f"handle=2, address={2**30}," in lines[1]
    assert lines[2] == "(1, 1, 0)"
    full = [event["domain"] for event in ended.named("fault")]
    assert full == [0, 1, 0]
    domains = {event["domain"] for event in ended.addresses}
    assert domains == {0, 1, 2}
    assert len(ended.named("destroy")) == 5


def test_a_limit_of_all_buffers(on_board: RunOnBoard) -> None:
    """The limit is one of all open files together; what is given back can be had again."""
    script = """
other = Rocket()
first = npu.create(4096 * 2)
print(attempt(lambda: other.create(4096 * 2)), attempt(lambda: other.create(4096).handle))
npu.close(first.handle)
print(attempt(lambda: other.create(4096 * 2).handle))
"""
    ended = _run(on_board, script, memory=str(3 * 4096))
    assert ended.output.split() == ["ENOMEM", "1", "2"]
    assert [event["fault"] for event in ended.named("fault")] == ["enomem"]


@pytest.mark.parametrize(
    ("faults", "error"), [("no-device", "ENOENT"), ("no-permission", "EACCES")]
)
def test_a_device_that_does_not_open(on_board: RunOnBoard, faults: str, error: str) -> None:
    """The device is missing, or the user may not open it."""
    ended = on_board(_ATTEMPT + "print(attempt(Rocket))", "rocket", faults)
    assert ended.output.split() == [error]


def test_submits_that_fail(on_board: RunOnBoard) -> None:
    """From the requested submit on, all fail."""
    script = "print(*(attempt(lambda: npu.submit(rocket_job([(0, 1)]))) for _ in range(3)))"
    ended = _run(on_board, script, faults="submit-error=EIO@2")
    assert ended.output.split() == ["ok", "EIO", "EIO"]


def test_no_sram_on_this_driver(on_board: RunOnBoard) -> None:
    """A fault that the driver cannot have is refused."""
    with pytest.raises(AssertionError, match="unknown fault sram=4096; valid: no-device"):
        _run(on_board, "", faults="sram=4096")


@pytest.mark.parametrize(
    ("chip", "path"),
    [
        ("rocket", "/dev/rknpu"),
        ("rocket", "/dev/dri/renderD128"),
        ("rocket", "/dev/dma_heap/system"),
        ("rocket", "/dev/accel/accel1"),
        ("rk3588", "/dev/accel/accel0"),
    ],
)
def test_devices_of_the_other_driver(on_board: RunOnBoard, chip: str, path: str) -> None:
    """A board has its own driver's devices, and no others."""
    script = f"""
print(attempt(lambda: os.open({path!r}, os.O_RDWR)), attempt(lambda: os.listdir("/dev/accel")))
"""
    ended = on_board(_ATTEMPT + script, chip)
    assert ended.output.split() == ["ENOENT", "ENOENT"]
    # Teflon tries hundreds of them.
    assert len(ended.named("refused")) == (0 if chip == "rocket" else 2)


_DUPLICATES = {
    "dup": "os.dup(npu.fd)",
    "dup2": "os.dup2(npu.fd, 200)",
    "dup2 of another device": "os.dup2(npu.fd, Rocket().fd)",
    "dup3": "os.dup2(npu.fd, 201, inheritable=False)",
    "F_DUPFD": "fcntl.fcntl(npu.fd, fcntl.F_DUPFD, 100)",
    "F_DUPFD_CLOEXEC": "fcntl.fcntl(npu.fd, fcntl.F_DUPFD_CLOEXEC, 100)",
    "of a duplicate": "os.dup(os.dup2(npu.fd, 200)); os.close(200)",
}


@pytest.mark.parametrize("duplicate", _DUPLICATES.values(), ids=_DUPLICATES)
@pytest.mark.parametrize("first", ["original", "duplicate"])
def test_a_file_is_open_until_its_last_descriptor_is_closed(
    on_board: RunOnBoard, duplicate: str, first: str
) -> None:
    """All descriptors of an open file have the same buffers, in whatever order they are closed."""
    script = f"""
import fcntl
original = npu.fd
bo = npu.create(4096)
duplicate = {duplicate}
assert npu.create(4096, fd=duplicate).handle == 2
os.close({first}); npu.fd = {"duplicate" if first == "original" else "original"}
assert npu.create(4096).handle == 3
npu.close(1)
assert npu.create(4096).handle == 1
os.close(npu.fd)
npu = Rocket()
npu.create(4096)
"""
    ended = _run(on_board, script)
    assert ended.buffers() == [
        *[("create", number) for number in (1, 2, 3)],
        ("destroy", 1),
        ("create", 4),
        *[("destroy", number) for number in (2, 3, 4)],
        ("create", 5),
    ]
    domains = [event["domain"] for event in ended.addresses]
    assert set(domains[:-1]) == {0}
    assert domains[-1] > 0


def test_a_mapping_keeps_a_buffer(on_board: RunOnBoard) -> None:
    """As in the kernel: its memory and its addresses, and with them the open file."""
    script = """
first, second = npu.create(4096), npu.create(4096)
view = npu.view(first)
write(view, b"kept")
npu.close(first.handle)
assert npu.create(4096)[1:3] == (1, 8192), "the handle is free, but not the address"
assert ctypes.string_at(view, 4) == b"kept"
LIBC.munmap(view, 4096)
assert npu.create(4096).address == 0
view = npu.view(second)
os.close(npu.fd)
print("closed", flush=True)
LIBC.munmap(view, 4096)
"""
    ended = _run(on_board, script)
    assert ended.buffers() == [
        ("create", 1),
        ("create", 2),
        ("create", 3),
        ("destroy", 1),
        ("create", 4),
        ("destroy", 2),
        ("destroy", 3),
        ("destroy", 4),
    ]


def test_freed_memory_goes_back_to_the_host(on_board: RunOnBoard) -> None:
    """All buffers of an open file are in one memfd, which has no pages of dead ones."""
    script = """
blocks = []
for _ in range(3):
    bo = npu.create(1 << 20)
    view = npu.view(bo)
    write(view, bytes(1 << 20))
    LIBC.munmap(view, 1 << 20)
    blocks.append(os.fstat(npu.fd).st_blocks)
    npu.close(bo.handle)
print(*blocks, os.fstat(npu.fd).st_blocks)
"""
    *held, rest = _run(on_board, script).output.split()
    assert len(set(held)) == 1
    assert (int(held[0]), int(rest)) == (2048, 0)


def test_children_change_nothing(on_board: RunOnBoard) -> None:
    """A fork has the descriptors, but only the process that loaded the library is accounted for."""
    script = """
bo = npu.create(4096)
if not os.fork():
    os.dup(npu.fd); os.dup2(npu.fd, 200); os.close(npu.fd)
    os._exit(0)
assert os.wait()[1] == 0
assert npu.create(4096).handle == 2
"""
    assert _run(on_board, script).buffers() == [("create", 1), ("create", 2)]


def test_threads_make_buffers_at_once(on_board: RunOnBoard) -> None:
    """Threads that make, duplicate, map and close at the same time leave a whole ledger."""
    script = """
def work():
    for _ in range(20):
        own = Rocket()
        other = os.dup(own.fd)
        bos = [own.create(4096), npu.create(8192)]
        view = own.view(bos[0])
        write(view, b"x" * 4096)
        LIBC.munmap(view, 4096)
        npu.close(bos[1].handle)
        os.close(own.fd); os.close(other)
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    ended = _run(on_board, script)
    assert len(ended.named("create")) == len(ended.named("destroy")) == 320
    assert len({event["thread"] for event in ended.named("create")}) == 8
    taken = sum(1 if event["event"] == "map" else -1 for event in ended.addresses)
    assert taken == 0


#: Weights at address 0, input and output, and the commands of one convolution.
_JOB = """
weights, biases, data, result = (npu.create(4096) for _ in range(4))
def convolution(weights_at=weights.address):
    return npu.commands(
        command(0x1070, data.address + 64), command(0x1110, weights_at),
        command(0x4020, result.address), command(0x5018, 0), command(0x5020, biases.address),
        command(0x1010, data.address))
commands = convolution()
def job(address=commands.address, count=6, inputs=(data.handle,), outputs=(result.handle,), **more):
    return rocket_job([(address, count)], inputs, outputs, **more)
"""


def test_jobs_name_what_they_read_and_write(on_board: RunOnBoard) -> None:
    """Commands are followed though the process maps them no more; 0 may be the first address."""
    (submit,) = _run(on_board, _JOB + "for _ in range(3): npu.submit(job())").named("submit")
    assert {key: value for key, value in submit.items() if key not in ("at_ns", "thread")} == {
        "event": "submit",
        "task_buffer": 0,
        "tasks": 1,
        "core_mask": 0,
        "registers": [5],
        "inputs": [3],
        "outputs": [4],
        "reads": [
            {
                "register": register,
                "buffer": buffer,
                "state": "live",
                "count": 1,
                "lowest": at,
                "highest": at,
            }
            for register, buffer, at in (
                ("0x0010", 5, 0),
                ("0x1070", 3, 64),
                ("0x1110", 1, 0),
                ("0x4020", 4, 0),
                ("0x5020", 2, 0),
            )
        ],
    }


def test_a_submit_is_written_again_only_when_it_differs(on_board: RunOnBoard) -> None:
    """Other commands, other handles, or freed memory make another line."""
    script = """
def run(*jobs):
    for _ in range(5): npu.submit(*jobs)
run(job())
run(job(inputs=(data.handle, weights.handle)))
other = convolution(biases.address)
run(job(other.address), job())
npu.close(weights.handle)
run(job())
"""
    submits = _run(on_board, _JOB + script).named("submit")
    rows = [(submit["tasks"], submit["inputs"], submit["registers"]) for submit in submits]
    assert rows == [(1, [3], [5]), (1, [3, 1], [5]), (2, [3], [6, 5]), (1, [3], [5])]
    assert submits[-1]["reads"][2]["state"] == "dead"


def test_jobs_with_errors_are_left_out(on_board: RunOnBoard) -> None:
    """The driver does not run them, runs the others, and reports no error; the ledger tells once
    for each buffer of commands.
    """
    script = """
wrong = [
    job(count=0), job(task_size=4), job(inputs=(99,)), job(outputs=(data.handle, 99)),
    rocket_job([], (weights.handle,))]
for _ in range(3): npu.submit(*wrong, job())
"""
    ended = _run(on_board, _JOB + script)
    (submit,) = ended.named("submit")
    assert (submit["tasks"], submit["inputs"], submit["outputs"]) == (1, [3], [4])
    failed = [(event["buffer"], event["jobs"], event["error"]) for event in ended.named("failed")]
    assert failed == [(5, 1, 0), (0, 1, 0)]


def test_a_submit_that_fails_is_told_once(on_board: RunOnBoard) -> None:
    """With the number of its jobs and the error; Teflon itself goes on as if it had run."""
    script = """
for _ in range(3):
    try: npu.submit(job(), job())
    except OSError: pass
"""
    ended = _run(on_board, _JOB + script, faults="submit-error=EIO")
    (failed,) = ended.named("failed")
    assert (failed["buffer"], failed["jobs"], failed["error"]) == (5, 2, 5)


def test_jobs_of_an_open_file_mean_its_own_addresses(on_board: RunOnBoard) -> None:
    """The same address is another buffer in each open file."""
    script = (
        """
npu.submit(job())
first, npu = npu, Rocket()
"""
        + _JOB
        + "npu.submit(job())"
    )
    one, other = _run(on_board, _JOB + script).named("submit")
    assert [read["buffer"] for read in one["reads"]] == [5, 3, 1, 4, 2]
    assert [read["buffer"] for read in other["reads"]] == [10, 8, 6, 9, 7]
