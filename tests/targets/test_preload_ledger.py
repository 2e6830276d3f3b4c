"""The ledger of the preload library on its virtual board: every byte that was asked for, and when it was given back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from targets.chips import CHIPS, playable_chips
from tests.targets.preload_support import live_bytes, run_client, run_on_board

_PAGE = 4096


def test_the_ledger_begins_with_the_mode_and_the_process(preload: Path, tmp_path: Path) -> None:
    """The first line says what the rest is of."""
    ended = run_on_board("print(os.getpid(), os.sysconf('SC_PAGESIZE'))", preload, tmp_path)
    pid, page_bytes = map(int, ended.output.split())
    assert len(ended.events) == 1
    start = ended.events[0]
    assert start.pop("at_ns") > 0
    assert start == {"event": "start", "mode": "virtual", "chip": "rk3588", "pid": pid, "page_bytes": page_bytes}


def test_no_ledger_is_kept_where_none_was_asked_for(preload: Path) -> None:
    """Without REUSEBENCH_LEDGER the board works and writes nothing."""
    ended = run_client("Npu().create(1)", preload, None, REUSEBENCH_BOARD="rk3588")
    assert (ended.code, ended.output, ended.errors) == (0, "", "")


def test_times_are_of_the_clock_that_python_calls_monotonic(preload: Path, tmp_path: Path) -> None:
    """Events can be put between the harness's barriers."""
    script = """
        import time
        npu = Npu()
        before = time.monotonic_ns(); npu.create(1); after = time.monotonic_ns()
        print(before, after)
    """
    ended = run_on_board(script, preload, tmp_path)
    before, after = map(int, ended.output.split())
    assert before < ended.named("create")[0]["at_ns"] < after


@pytest.mark.parametrize("whole", [True, False])
def test_sizes_are_rounded_up_to_pages(preload: Path, tmp_path: Path, whole: bool) -> None:
    """The ledger has what was asked for and what it takes, with the old structure and with the new one."""
    script = f"""
        npu = Npu()
        for size in (1, 4096, 4097, 3 << 20):
            memory = npu.create(size, flags=11, whole={whole})
            assert os.fstat(memory.handle).st_size == memory.bytes
    """
    created = run_on_board(script, preload, tmp_path).named("create")
    assert [event["asked_bytes"] for event in created] == [1, 4096, 4097, 3 << 20]
    assert [event["bytes"] for event in created] == [_PAGE, _PAGE, 2 * _PAGE, 3 << 20]
    assert [event["buffer"] for event in created] == [1, 2, 3, 4]
    assert {(event["flags"], event["source"], event["sram_bytes"]) for event in created} == {(11, "rknpu", 0)}


def test_everything_given_back_leaves_nothing(preload: Path, tmp_path: Path) -> None:
    """The live total is the sum of what was not given back, and zero in the end."""
    script = """
        npu = Npu()
        memories = [npu.create(size) for size in (5000, 10000, 20000)]
        npu.free(memories[1])
        for memory in (memories[0], memories[2]): npu.free(memory)
        assert npu.create(1).handle  # numbers are not given out again
    """
    events = run_on_board(script, preload, tmp_path).events
    destroyed = [index for index, event in enumerate(events) if event["event"] == "destroy"]
    assert live_bytes(events[: destroyed[0]]) == (2 + 3 + 5) * _PAGE
    assert live_bytes(events[: destroyed[0] + 1]) == (2 + 5) * _PAGE
    assert live_bytes(events[: destroyed[2] + 1]) == 0
    assert events[-1]["buffer"] == 4


def test_an_import_adds_no_bytes_and_keeps_the_buffer_alive(preload: Path, tmp_path: Path) -> None:
    """A buffer lives until the last of its objects has gone, and each object has addresses of its own."""
    script = """
        npu = Npu()
        first = npu.create(5000)
        second = npu.create(0, handle=first.handle)
        assert second.bytes == first.bytes and second.address != first.address and second.object != first.object
        npu.free(first)
        npu.create(1)
        npu.destroy(second)
    """
    ended = run_on_board(script, preload, tmp_path)
    assert [event["event"] for event in ended.events] == ["start", "create", "import", "create", "destroy"]
    assert [event["buffer"] for event in ended.events[1:]] == [1, 1, 2, 1]
    assert live_bytes(ended.events) == _PAGE


def test_a_buffer_lives_as_long_as_a_file_descriptor_of_it(preload: Path, tmp_path: Path) -> None:
    """As in the kernel: memory does not go while somebody holds it, also by a duplicate."""
    script = """
        npu = Npu()
        memory = npu.create(1)
        other = os.dup(memory.handle)
        npu.free(memory)
        npu.create(1)
        os.close(other)
    """
    names = [event["event"] for event in run_on_board(script, preload, tmp_path).events]
    assert names == ["start", "create", "create", "destroy"]


def test_closing_the_device_gives_its_objects_back(preload: Path, tmp_path: Path) -> None:
    """What a runtime leaves behind goes with its device."""
    script = """
        npu = Npu()
        for _ in range(3): os.close(npu.create(1).handle)
        os.close(npu.fd)
    """
    assert live_bytes(run_on_board(script, preload, tmp_path).events) == 0


def test_buffers_are_known_by_their_inodes(preload: Path, tmp_path: Path) -> None:
    """So that what the kernel tells of a process's file descriptors can be put together with the ledger."""
    script = """
        memory, fd = Npu().create(1), Heap().allocate(1)
        print(os.fstat(memory.handle).st_ino, os.fstat(fd).st_ino)
    """
    ended = run_on_board(script, preload, tmp_path)
    assert list(ended.inodes.items()) == list(enumerate(map(int, ended.output.split()), start=1))


def test_dma_heap_buffers_are_counted_once(preload: Path, tmp_path: Path) -> None:
    """A buffer of a dma-heap counts from its allocation to its close, however often the NPU imports it."""
    script = """
        npu, fd = Npu(), Heap("cma-uncached").allocate(5000)
        memory = npu.create(5000, handle=fd)
        npu.destroy(memory)
        npu.destroy(npu.create(5000, handle=fd))
        os.close(fd)
    """
    ended = run_on_board(script, preload, tmp_path)
    assert [event["event"] for event in ended.events] == ["start", "create", "import", "import", "destroy"]
    assert {event["buffer"] for event in ended.events[1:]} == {1}
    created = ended.events[1]
    assert (created["source"], created["asked_bytes"], created["bytes"]) == ("dma_heap", 5000, 2 * _PAGE)


def test_what_nobody_made_is_imported_as_such(preload: Path, tmp_path: Path) -> None:
    """A file descriptor from elsewhere is buffer 0, with its size, and counts nothing."""
    script = """
        fd = os.memfd_create("foreign"); os.ftruncate(fd, 12288)
        npu = Npu()
        npu.destroy(npu.create(12288, handle=fd))
    """
    ended = run_on_board(script, preload, tmp_path)
    assert [(event["event"], event.get("buffer"), event.get("bytes")) for event in ended.events[1:]] == [
        ("import", 0, 12288)
    ]


def test_a_handle_that_is_no_file_descriptor_is_refused(preload: Path, tmp_path: Path) -> None:
    """So are objects that were given back before, as by the driver."""
    script = """
        npu = Npu()
        memory = npu.create(1)
        npu.destroy(memory)
        for bad in (lambda: npu.create(1, handle=999), lambda: npu.destroy(memory), lambda: npu.create(0)):
            try: bad()
            except OSError as error: print(error.errno)
    """
    output = run_on_board(script, preload, tmp_path).output.split()
    assert output == ["9", "22", "22"]


def test_many_threads_write_whole_lines(preload: Path, tmp_path: Path) -> None:
    """Buffers of several threads are told apart, and no line is torn."""
    script = """
        npu = Npu()
        def work():
            for size in range(1, 101): npu.free(npu.create(size * 100))
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    """
    ended = run_on_board(script, preload, tmp_path)
    created = ended.named("create")
    assert len(created) == 800
    assert len({event["buffer"] for event in created}) == 800
    assert len({event["thread"] for event in created}) == 8
    assert live_bytes(ended.events) == 0


def test_a_child_process_is_not_accounted_for(preload: Path, tmp_path: Path) -> None:
    """What a forked process closes is still open here."""
    script = """
        npu = Npu()
        memory = npu.create(1)
        npu.destroy(memory)
        child = os.fork()
        if not child:
            os.close(memory.handle)
            os._exit(0)
        os.waitpid(child, 0)
    """
    assert [event["event"] for event in run_on_board(script, preload, tmp_path).events] == ["start", "create"]


def test_a_started_program_is_not_accounted_for(preload: Path, tmp_path: Path) -> None:
    """It loads the library too, with the same board, and writes nothing into this ledger."""
    script = """
        import subprocess
        Npu().create(1)
        child = "from tests.targets.npu_client import *; Npu().create(1); print('made')"
        subprocess.run([sys.executable, "-S", "-c", child], check=True)
    """
    ended = run_on_board(script, preload, tmp_path)
    assert ended.output == "made\n"
    assert [event["event"] for event in ended.events] == ["start", "create"]


def test_a_program_that_a_wrapper_becomes_is_accounted_for(preload: Path, tmp_path: Path) -> None:
    """The same process goes on, with a ledger that begins anew."""
    script = """
        child = "from tests.targets.npu_client import *; Npu().create(1)"
        os.execv(sys.executable, [sys.executable, "-S", "-c", child])
    """
    events = run_on_board(script, preload, tmp_path).events
    assert [event["event"] for event in events] == ["start", "start", "create"]
    assert events[0]["pid"] == events[1]["pid"]


def test_a_crash_leaves_no_core(preload: Path, tmp_path: Path) -> None:
    """Runtimes crash on the virtual board in tests, many times."""
    script = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))"
    assert run_on_board(script, preload, tmp_path).output == "(0, 0)\n"


@pytest.mark.parametrize("chip", playable_chips())
def test_each_chip_answers_as_the_table_says(preload: Path, tmp_path: Path, chip: str) -> None:
    """The C source and targets/chips.py agree on hardware versions and IOMMUs."""
    ended = run_on_board("npu = Npu(); print(*map(npu.action, (0, 1, 18, 22, 23)))", preload, tmp_path, chip)
    expected = [CHIPS[chip].hardware_version, 908, int(CHIPS[chip].iommu), 0, 0]
    assert list(map(int, ended.output.split())) == expected


def test_without_an_iommu_a_buffer_has_one_address(preload: Path, tmp_path: Path) -> None:
    """On RV1106 addresses are physical: an import is at the same place."""
    script = """
        npu = Npu()
        memory = npu.create(5000)
        print(npu.create(5000, handle=memory.handle).address == memory.address)
    """
    assert run_on_board(script, preload, tmp_path, "rv1106").output == "True\n"


def test_a_chip_that_cannot_be_played_ends_the_process(preload: Path) -> None:
    """It is said at once, before anything runs."""
    ended = run_client("print('ran')", preload, None, REUSEBENCH_BOARD="rk3576")
    assert (ended.code, ended.output) == (2, "")
    assert re.fullmatch(r"reusebench preload: no chip rk3576 can be played\n", ended.errors)
