"""The ledger of the virtual board: every requested byte, and when it was given back."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from reusebench.targets.chips import CHIPS
from tests.targets.preload_support import RunOnBoard, live_bytes, run_client

pytestmark = pytest.mark.process

_PAGE = 4096


def test_the_ledger_begins_with_the_mode_and_the_process(on_board: RunOnBoard) -> None:
    """The first line describes the rest; times are of Python's monotonic clock, as for barriers."""
    script = """
        import time
        npu = Npu()
        before = time.monotonic_ns(); npu.create(1); after = time.monotonic_ns()
        print(os.getpid(), os.sysconf("SC_PAGESIZE"), before, after)
    """
    ended = on_board(script)
    pid, page_bytes, before, after = map(int, ended.output.split())
    start, created = ended.events
    assert start.pop("at_ns") < before < created["at_ns"] < after
    assert start == {
        "event": "start",
        "mode": "virtual",
        "chip": "rk3588",
        "pid": pid,
        "page_bytes": page_bytes,
    }


def test_no_ledger_is_kept_without_the_variable(preload: Path) -> None:
    """Without REUSEBENCH_LEDGER the board works and writes nothing."""
    ended = run_client("Npu().create(1)", preload, None, REUSEBENCH_BOARD="rk3588")
    assert (ended.code, ended.output, ended.errors) == (0, "", "")


def test_sizes_are_rounded_up_to_pages(on_board: RunOnBoard) -> None:
    """The ledger has requested and allocated bytes, with the old structure and with the new one."""
    script = """
        npu = Npu()
        for whole in (True, False):
            for size in (1, 4096, 4097, 3 << 20):
                memory = npu.create(size, flags=11, whole=whole)
                assert os.fstat(memory.handle).st_size == memory.bytes
    """
    created = on_board(script).named("create")
    assert [event["asked_bytes"] for event in created] == [1, 4096, 4097, 3 << 20] * 2
    assert [event["bytes"] for event in created] == [_PAGE, _PAGE, 2 * _PAGE, 3 << 20] * 2
    assert [event["buffer"] for event in created] == list(range(1, 9))
    assert {(event["flags"], event["source"], event["sram_bytes"]) for event in created} == {
        (11, "rknpu", 0)
    }


def test_everything_given_back_leaves_nothing(on_board: RunOnBoard) -> None:
    """The live total is the sum of what was not given back; numbers are never reused."""
    script = """
        npu = Npu()
        memories = [npu.create(size) for size in (5000, 10000, 20000)]
        for index in (1, 0, 2): npu.free(memories[index])
        assert npu.create(1).handle
    """
    ended = on_board(script)
    assert [live_bytes(ended.events[:end]) // _PAGE for end in range(4, 9)] == [
        2 + 3 + 5,
        2 + 5,
        5,
        0,
        1,
    ]
    assert ended.buffers()[3:] == [("destroy", 2), ("destroy", 1), ("destroy", 3), ("create", 4)]


@pytest.mark.parametrize(
    ("script", "events"),
    [
        pytest.param(
            """
            first = npu.create(5000)
            second = npu.create(0, handle=first.handle)
            assert second.bytes == first.bytes
            assert second.address != first.address and second.object != first.object
            npu.free(first); npu.create(1); npu.destroy(second)
            """,
            [("create", 1), ("import", 1), ("create", 2), ("destroy", 1)],
            id="until the last of its objects has gone",
        ),
        pytest.param(
            "memory = npu.create(1); other = os.dup(memory.handle); npu.free(memory);"
            " npu.create(1); os.close(other)",
            [("create", 1), ("create", 2), ("destroy", 1)],
            id="as long as a file descriptor of it, also a duplicate",
        ),
        pytest.param(
            "memory, other = npu.create(1), os.open('/dev/null', 0); os.dup2(memory.handle, other);"
            " npu.free(memory); npu.create(1); os.dup2(0, other)",
            [("create", 1), ("create", 2), ("destroy", 1)],
            id="until another file takes the place of its last file descriptor",
        ),
        pytest.param(
            "memory = npu.create(1); view = mapped(memory.handle, 4096); npu.free(memory);"
            " npu.create(1); LIBC.munmap(view, 4096)",
            [("create", 1), ("create", 2), ("destroy", 1)],
            id="as long as a mapping of it",
        ),
        pytest.param(
            """
            for _ in range(2): os.close(npu.create(1).handle)
            os.close(npu.fd)
            """,
            [("create", 1), ("create", 2), ("destroy", 1), ("destroy", 2)],
            id="no longer than its device",
        ),
        pytest.param(
            """
            fd = Heap("cma-uncached").allocate(5000)
            npu.destroy(npu.create(5000, handle=fd))
            npu.destroy(npu.create(5000, handle=fd))
            os.close(fd)
            """,
            [("create", 1), ("import", 1), ("import", 1), ("destroy", 1)],
            id="of a dma-heap from its allocation to its close, however often it is imported",
        ),
        pytest.param(
            """
            fd = os.memfd_create("foreign"); os.ftruncate(fd, 12288)
            npu.destroy(npu.create(12288, handle=fd))
            """,
            [("import", 0)],
            id="never where it was made elsewhere",
        ),
        pytest.param(
            """
            memory = npu.create(1)
            npu.destroy(memory)
            child = os.fork()
            if not child:
                os.close(memory.handle)
                os._exit(0)
            os.waitpid(child, 0)
            """,
            [("create", 1)],
            id="whatever a forked process closes",
        ),
    ],
)
def test_a_buffer_lives(on_board: RunOnBoard, script: str, events: list[tuple[str, int]]) -> None:
    """An object, file descriptor or mapping of this process keeps its memory, as in the kernel."""
    ended = on_board("npu = Npu()\n" + dedent(script))
    assert ended.buffers() == events


def test_buffers_are_known_by_their_inodes(on_board: RunOnBoard) -> None:
    """Inodes match the kernel's account of file descriptors with the ledger."""
    script = """
        memory, fd = Npu().create(1), Heap().allocate(5000)
        foreign = os.memfd_create("foreign"); os.ftruncate(foreign, 12288)
        Npu().create(12288, handle=foreign)
        print(os.fstat(memory.handle).st_ino, os.fstat(fd).st_ino)
    """
    ended = on_board(script)
    assert list(ended.inodes.items()) == list(enumerate(map(int, ended.output.split()), start=1))
    _, of_heap = ended.named("create")
    assert (of_heap["source"], of_heap["asked_bytes"], of_heap["bytes"]) == (
        "dma_heap",
        5000,
        2 * _PAGE,
    )
    assert [event["bytes"] for event in ended.named("import")] == [12288]


def test_bad_handles_are_refused(on_board: RunOnBoard) -> None:
    """The driver also refuses numbers that are not descriptors, destroyed objects, and size 0."""
    script = """
        npu = Npu()
        memory = npu.create(1)
        npu.destroy(memory)
        unknown = lambda: npu.create(1, handle=999)
        for bad in (unknown, lambda: npu.destroy(memory), lambda: npu.create(0)):
            try: bad()
            except OSError as error: print(error.errno)
    """
    assert on_board(script).output.split() == ["9", "22", "22"]


def test_many_threads_write_whole_lines(on_board: RunOnBoard) -> None:
    """Events of several threads do not mix, and no line is torn."""
    script = """
        npu = Npu()
        def work():
            for size in range(1, 101): npu.free(npu.create(size * 100))
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    """
    ended = on_board(script)
    created = ended.named("create")
    assert len({event["buffer"] for event in created}) == len(created) == 800
    assert len({event["thread"] for event in created}) == 8
    assert live_bytes(ended.events) == 0


def test_programs(on_board: RunOnBoard) -> None:
    """A child loads the library and writes nothing; a program in its place starts again."""
    script = """
        import resource, subprocess
        # Runtimes crash in tests, many times.
        assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)
        Npu().create(1)
        script = "from tests.targets.npu_client import *; Npu().create(1); print('made')"
        child = [sys.executable, "-S", "-c", script]
        subprocess.run(child, check=True)
        os.execv(sys.executable, child)
    """
    ended = on_board(script)
    assert ended.output == "made\n" * 2
    assert [event["event"] for event in ended.events] == ["start", "create"] * 2
    assert ended.events[0]["pid"] == ended.events[2]["pid"]


@pytest.mark.parametrize("chip", CHIPS)
def test_a_chip_answers_as_the_table_has_it(on_board: RunOnBoard, chip: str) -> None:
    """Versions are those of targets/chips.py; without an IOMMU imports share an address."""
    script = """
        npu = Npu()
        memory = npu.create(5000)
        print(*map(npu.action, (0, 1, 18, 22, 23)))
        print(npu.create(5000, handle=memory.handle).address == memory.address)
    """
    answers, is_same = on_board(script, chip).output.splitlines()
    assert list(map(int, answers.split())) == [
        CHIPS[chip].hardware_version,
        908,
        int(CHIPS[chip].iommu),
        0,
        0,
    ]
    assert is_same == str(not CHIPS[chip].iommu)


def test_a_chip_that_cannot_be_played_ends_the_process(preload: Path) -> None:
    """It ends at once, before anything runs."""
    ended = run_client("print('ran')", preload, None, REUSEBENCH_BOARD="rk3399pro")
    assert (ended.code, ended.output) == (2, "")
    assert ended.errors == "reusebench preload: no chip rk3399pro can be played\n"


def test_a_process_without_file_descriptors_left(on_board: RunOnBoard) -> None:
    """Its ledger goes on with every buffer, and the process has no additional descriptor."""
    script = """
        import resource
        npu = Npu()
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, hard))
        memories = []
        try:
            while True: memories.append(npu.create(1))
        except OSError as error:
            is_unchanged = resource.getrlimit(resource.RLIMIT_NOFILE) == (32, hard)
            print(len(memories), errno.errorcode[error.errno], is_unchanged)
        for memory in memories: npu.free(memory)
    """
    ended = on_board(script)
    count, name, is_unchanged = ended.output.split()
    assert (name, is_unchanged, ended.errors) == ("EMFILE", "True", "")
    assert len(ended.named("create")) == len(ended.named("destroy")) == int(count) > 16
