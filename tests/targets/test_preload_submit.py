"""What the preload library finds in a submitted job: whose memory its register commands read and write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.targets.preload_support import Ended, run_on_board

#: A job that reads the buffer `data` 16 bytes from its beginning; buffers: 1 data, 2 task list, 3 commands.
_JOB = """
    npu = Npu()
    data = npu.create(8192)
    job = Job(npu, [command(0x1070, data.address + 16), command(0x1010, data.address), command(0x5038, 0)])
"""


def _submits(ended: Ended) -> list[dict[str, Any]]:
    return ended.named("submit")


def _reads(submit: dict[str, Any]) -> list[tuple[str, int, str, int, int, int]]:
    """Return what was read but for the command lists themselves."""
    return [
        (each["register"], each["buffer"], each["state"], each["count"], each["lowest"], each["highest"])
        for each in submit["reads"]
        if each["register"] != "0x0010"
    ]


def test_addresses_are_attributed_to_live_buffers(preload: Path, tmp_path: Path) -> None:
    """Registers that hold addresses are followed; settings that look like one, and unused units, are not."""
    submits = _submits(run_on_board(_JOB + "    job.run(mask=2)", preload, tmp_path))
    assert len(submits) == 1
    submit = submits[0]
    assert (submit["task_buffer"], submit["tasks"], submit["core_mask"], submit["registers"]) == (2, 1, 2, [3])
    assert "walked" not in submit
    assert _reads(submit) == [("0x1070", 1, "live", 1, 16, 16)]
    assert submit["reads"][0] == {
        "register": "0x0010",
        "buffer": 3,
        "state": "live",
        "count": 1,
        "lowest": 0,
        "highest": 0,
    }


def test_the_extent_of_several_addresses_is_kept(preload: Path, tmp_path: Path) -> None:
    """Addresses of one register in one buffer are one entry: how many, the lowest and the highest."""
    script = """
        npu = Npu()
        data = npu.create(8192)
        job = Job(npu, [command(0x4020, data.address + at) for at in (64, 4096, 128)])
        job.run()
    """
    assert _reads(_submits(run_on_board(script, preload, tmp_path))[0]) == [("0x4020", 1, "live", 3, 64, 4096)]


def test_an_address_past_an_end_names_the_buffer_before_it(preload: Path, tmp_path: Path) -> None:
    """Of addresses where no buffer ever was, the last buffer before the lowest is named, and how far its end is."""
    script = """
        npu = Npu()
        data = npu.create(8192)
        job = Job(npu, [command(0x1070, data.address + 0x4000000 + at) for at in (128, 64)])
        job.run()
    """
    (unknown,) = [each for each in _submits(run_on_board(script, preload, tmp_path))[0]["reads"] if not each["buffer"]]
    assert (unknown["state"], unknown["count"]) == ("unknown", 2)
    # The task list and the commands are made after the data, with a page between buffers.
    assert unknown["after"] == 3
    assert 0 < unknown["past_end"] < 0x4000000


def test_freed_memory_is_dead(preload: Path, tmp_path: Path) -> None:
    """A job that reads what was given back says so: its addresses are not given out again."""
    script = _JOB + "    npu.free(data); other = npu.create(8192); job.run()"
    assert _reads(_submits(run_on_board(script, preload, tmp_path))[0]) == [("0x1070", 1, "dead", 1, 16, 16)]


def test_an_import_that_is_left_keeps_the_buffer_but_not_the_old_address(preload: Path, tmp_path: Path) -> None:
    """The NPU reads by the object's address, which goes with the object."""
    script = _JOB + "    other = npu.create(8192, handle=data.handle); npu.destroy(data); job.run()"
    assert _reads(_submits(run_on_board(script, preload, tmp_path))[0]) == [("0x1070", 1, "dead", 1, 16, 16)]


def test_addresses_of_nothing_are_unknown(preload: Path, tmp_path: Path) -> None:
    """With the address itself in place of an offset."""
    script = "npu = Npu(); Job(npu, [command(0x1110, 0xf0000000)]).run()"
    submit = _submits(run_on_board(script, preload, tmp_path))[0]
    assert _reads(submit) == [("0x1110", 0, "unknown", 1, 0xF0000000, 0xF0000000)]


def test_imported_foreign_memory_is_live_and_nobodys(preload: Path, tmp_path: Path) -> None:
    """What others gave may be read."""
    script = """
        npu = Npu()
        fd = os.memfd_create("foreign"); os.ftruncate(fd, 4096)
        data = npu.create(4096, handle=fd)
        Job(npu, [command(0x1070, data.address)]).run()
    """
    assert _reads(_submits(run_on_board(script, preload, tmp_path))[0]) == [("0x1070", 0, "live", 1, 0, 0)]


def test_addresses_may_be_relative(preload: Path, tmp_path: Path) -> None:
    """On RV1106 registers hold distances from the job's base address, which may go backwards."""
    script = """
        npu = Npu()
        below, data, above = npu.create(4096), npu.create(4096), npu.create(4096)
        distances = (below.address - data.address, 8, above.address - data.address)
        Job(npu, [command(0x1070, distance & 0xffffffff) for distance in distances]).run(base=data.address)
    """
    reads = _reads(_submits(run_on_board(script, preload, tmp_path, "rv1106"))[0])
    assert reads == [("0x1070", number, "live", 1, offset, offset) for number, offset in ((1, 0), (2, 8), (3, 0))]


def test_a_job_is_written_again_only_when_it_differs(preload: Path, tmp_path: Path) -> None:
    """A thousand runs cost a line; other commands, and memory that has gone, another one each."""
    script = (
        _JOB
        + """
    for _ in range(1000): job.run()
    spare = npu.create(1); job.run()
    job.write([command(0x1070, data.address + 32)])
    for _ in range(10): job.run()
    npu.free(data)
    for _ in range(10): job.run()
    """
    )
    submits = _submits(run_on_board(script, preload, tmp_path))
    assert [_reads(each)[0][2:] for each in submits] == [
        ("live", 1, 16, 16),
        ("live", 1, 32, 32),
        ("dead", 1, 32, 32),
    ]


def test_parts_of_a_task_list_are_jobs_of_their_own(preload: Path, tmp_path: Path) -> None:
    """A runtime that runs a list in two parts, over and over, writes two lines."""
    script = (
        _JOB
        + """
    second = npu.create(4096)
    write(job.command_map + 2048, command(0x4020, second.address) + bytes(32))
    write(job.task_map + TASK_BYTES, task(job.commands.address + 2048, 1))
    for _ in range(5):
        npu.submit(job.tasks, 0, 1)
        npu.submit(job.tasks, 1, 1)
    """
    )
    submits = _submits(run_on_board(script, preload, tmp_path))
    assert [_reads(each)[0][:2] for each in submits] == [("0x1070", 1), ("0x4020", 4)]


def test_cores_take_their_own_tasks(preload: Path, tmp_path: Path) -> None:
    """One core or two take the entries of their own number, three the last three; any core may be any of them."""
    script = """
        npu = Npu()
        data = npu.create(4096)
        job = Job(npu, [])
        for index in range(6):
            write(job.command_map + 256 * index, command(0x1070, data.address + index) + bytes(32))
            write(job.task_map + TASK_BYTES * index, task(job.commands.address + 256 * index, 1))
        cores = ((0, 1), (1, 1), (2, 1), (3, 1), (4, 2))
        for mask in (2, 3, 7, 0): npu.submit(job.tasks, 0, 6, mask=mask, cores=cores)
    """
    submits = _submits(run_on_board(script, preload, tmp_path))
    assert [(each["tasks"], *_reads(each)[0][4:]) for each in submits] == [(1, 1, 1), (2, 0, 1), (4, 2, 5), (3, 0, 2)]


def test_what_cannot_be_read_is_not_guessed(preload: Path, tmp_path: Path) -> None:
    """Where the process has not mapped the task list or the commands, the event says that it is not whole."""
    script = _JOB + "    LIBC.munmap(job.{map}, 4096); job.run()"
    for unmapped in ("task_map", "command_map"):
        submit = _submits(run_on_board(script.format(map=unmapped), preload, tmp_path))[-1]
        assert submit["walked"] is False
        assert (submit["registers"], _reads(submit)) == ([], [])


def test_a_job_is_done_at_once(preload: Path, tmp_path: Path) -> None:
    """The driver's counter says that all tasks were run."""
    script = _JOB + "    print(npu.submit(job.tasks, 0, 1)[4])"
    assert run_on_board(script, preload, tmp_path).output == "1\n"
