"""Submitted jobs: the memory that their register commands read and write."""

from __future__ import annotations

from typing import Any

import pytest

from tests.targets.preload_support import RunOnBoard

pytestmark = pytest.mark.process

#: A job that reads the buffer `data` 16 bytes from its beginning; buffers: 1 data, 2 task list, 3
#: commands.
_JOB = """
npu = Npu()
data = npu.create(8192)
reads = command(0x1070, data.address + 16)
job = Job(npu, [reads, command(0x1010, data.address), command(0x5038, 0)])
"""
_Read = tuple[str, int, str, int, int, int]


def _submits(on_board: RunOnBoard, script: str, chip: str = "rk3588") -> list[dict[str, Any]]:
    return on_board("npu = Npu(); data = npu.create(8192)\n" + script, chip).named("submit")


def _reads(submit: dict[str, Any]) -> list[_Read]:
    """Return register, buffer, state, count, lowest and highest of all reads of data."""
    fields = ("register", "buffer", "state", "count", "lowest", "highest")
    reads = [tuple(read[field] for field in fields) for read in submit["reads"]]
    return [read for read in reads if read[0] != "0x0010"]


def test_addresses_are_attributed_to_live_buffers(on_board: RunOnBoard) -> None:
    """Registers with addresses are followed, but not settings that look alike or unused units."""
    ended = on_board(_JOB + "job.run(mask=2); print(npu.submit(job.tasks, 0, 1, mask=2)[4])")
    # The driver's counter: all tasks are done at once.
    assert ended.output == "1\n"
    (submit,) = ended.named("submit")
    assert (submit["task_buffer"], submit["tasks"], submit["core_mask"], submit["registers"]) == (
        2,
        1,
        2,
        [3],
    )
    assert "walked" not in submit
    assert _reads(submit) == [("0x1070", 1, "live", 1, 16, 16)]
    commands = {
        "register": "0x0010",
        "buffer": 3,
        "state": "live",
        "count": 1,
        "lowest": 0,
        "highest": 0,
    }
    assert submit["reads"][0] == commands


@pytest.mark.parametrize(
    ("chip", "registers"),
    [("rk3588", "0x1070"), ("rk3576", "0x1088 0x4018"), ("rv1126b", "0x1088 0x4018")],
)
def test_chips_have_other_registers_for_addresses(
    on_board: RunOnBoard, chip: str, registers: str
) -> None:
    """A register with an address on one chip is a setting on another."""
    script = (
        "Job(npu, [command(register, data.address) for register in (0x1070, 0x1088, 0x4018)]).run()"
    )
    (submit,) = _submits(on_board, script, chip)
    assert [register for register, *_ in _reads(submit)] == registers.split()


@pytest.mark.parametrize(
    ("script", "read"),
    [
        pytest.param(
            "Job(npu, [command(0x4020, data.address + at) for at in (64, 4096, 128)]).run()",
            ("0x4020", 1, "live", 3, 64, 4096),
            id="several addresses of one buffer are one entry",
        ),
        pytest.param(
            _JOB + "npu.free(data); other = npu.create(8192); job.run()",
            ("0x1070", 2, "dead", 1, 16, 16),
            id="addresses of freed memory are not given out again",
        ),
        pytest.param(
            _JOB + "other = npu.create(8192, handle=data.handle); npu.destroy(data); job.run()",
            ("0x1070", 2, "dead", 1, 16, 16),
            id="an import keeps the buffer but not the address of another object",
        ),
        pytest.param(
            "Job(npu, [command(0x1110, 0xf0000000)]).run()",
            ("0x1110", 0, "unknown", 1, 0xF0000000, 0xF0000000),
            id="of nothing: the address itself in place of an offset",
        ),
        pytest.param(
            """fd = os.memfd_create("foreign"); os.ftruncate(fd, 4096)
Job(npu, [command(0x1070, npu.create(4096, handle=fd).address)]).run()""",
            ("0x1070", 0, "live", 1, 0, 0),
            id="memory from elsewhere is live",
        ),
    ],
)
def test_the_state_of_what_is_read(on_board: RunOnBoard, script: str, read: _Read) -> None:
    """Live; dead if it was given back before; unknown if no buffer was ever there."""
    (submit,) = _submits(on_board, script)
    assert _reads(submit) == [read]


@pytest.mark.parametrize(
    ("offset", "after", "past_end"),
    # The task list and the commands are made after the data, which has two pages; there is a page
    # between buffers.
    [(8192, 1, 0), (8192 + 64, 1, 64), (0x4000000, 3, 0x4000000 - 6 * 4096)],
)
def test_an_address_past_an_end_names_the_buffer_before_it(
    on_board: RunOnBoard, offset: int, after: int, past_end: int
) -> None:
    """Addresses outside all buffers name the last buffer before, and the distance to its end."""
    script = f"Job(npu, [command(0x1070, data.address + {offset} + at) for at in (128, 0)]).run()"
    (submit,) = _submits(on_board, script)
    (unknown,) = (read for read in submit["reads"] if not read["buffer"])
    assert (unknown["state"], unknown["count"]) == ("unknown", 2)
    assert (unknown["after"], unknown["past_end"]) == (after, past_end)


def test_addresses_may_be_relative(on_board: RunOnBoard) -> None:
    """On RV1106 registers hold distances from the job's base address, which may be negative."""
    script = """
middle, above = npu.create(4096), npu.create(4096)
distances = (data.address - middle.address, 8, above.address - middle.address)
commands = [command(0x1070, distance & 0xffffffff) for distance in distances]
Job(npu, commands).run(base=middle.address)
"""
    (submit,) = _submits(on_board, script, "rv1106")
    assert _reads(submit) == [
        ("0x1070", number, "live", 1, at, at) for number, at in ((1, 0), (2, 8), (3, 0))
    ]


def test_a_job_is_written_again_only_when_it_differs(on_board: RunOnBoard) -> None:
    """A thousand equal runs cost one line; other commands, or freed memory, one line more."""
    script = """
for _ in range(1000): job.run()
spare = npu.create(1); job.run()
job.write([command(0x1070, data.address + 32)])
for _ in range(10): job.run()
npu.free(data)
for _ in range(10): job.run()
"""
    reads = [_reads(submit)[0][2:] for submit in _submits(on_board, _JOB + script)]
    assert reads == [("live", 1, 16, 16), ("live", 1, 32, 32), ("dead", 1, 32, 32)]


def test_parts_of_a_task_list_are_jobs_of_their_own(on_board: RunOnBoard) -> None:
    """A runtime that runs a list in two parts, over and over, writes two lines."""
    script = """
second = npu.create(4096)
write(job.command_map + 2048, command(0x4020, second.address) + bytes(32))
write(job.task_map + TASK_BYTES, task(job.commands.address + 2048, 1))
for _ in range(5):
    npu.submit(job.tasks, 0, 1)
    npu.submit(job.tasks, 1, 1)
"""
    assert [_reads(submit)[0][:2] for submit in _submits(on_board, _JOB + script)] == [
        ("0x1070", 2),
        ("0x4020", 5),
    ]


def test_cores_take_their_own_tasks(on_board: RunOnBoard) -> None:
    """One or two cores take the entries of their numbers, three the last three."""
    script = """
job = Job(npu, [])
for index in range(6):
    write(job.command_map + 256 * index, command(0x1070, data.address + index) + bytes(32))
    write(job.task_map + TASK_BYTES * index, task(job.commands.address + 256 * index, 1))
cores = ((0, 1), (1, 1), (2, 1), (3, 1), (4, 2))
for mask in (2, 3, 7, 0): npu.submit(job.tasks, 0, 6, mask=mask, cores=cores)
"""
    rows = [(submit["tasks"], *_reads(submit)[0][4:]) for submit in _submits(on_board, script)]
    assert rows == [(1, 1, 1), (2, 0, 1), (4, 2, 5), (3, 0, 2)]


def test_a_core_that_is_not_there_has_no_tasks(on_board: RunOnBoard) -> None:
    """librknnrt writes that its tasks start nowhere, for example for the third core of RK3576."""
    script = "npu.submit(job.tasks, 0, 1, cores=((0, 1), (0, 1), (0xffffffff, 1)))"
    (submit,) = on_board(_JOB + script, chip="rk3576").named("submit")
    assert (submit["tasks"], "walked" in submit) == (1, False)


def test_what_cannot_be_read_is_not_guessed(on_board: RunOnBoard) -> None:
    """If task list or commands are not mapped, the event says that the walk is incomplete."""
    for unmapped in ("task_map", "command_map"):
        (submit,) = on_board(_JOB + f"LIBC.munmap(job.{unmapped}, 4096); job.run()").named("submit")
        assert submit["walked"] is False
        assert (submit["registers"], _reads(submit)) == ([], [])
