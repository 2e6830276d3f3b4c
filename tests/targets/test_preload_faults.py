"""Faults of the virtual board on demand, and its memory limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.targets.preload_support import RunOnBoard, live_bytes, run_client

pytestmark = pytest.mark.process

_ATTEMPTS = """
def attempt(call):
    try: return call() and "ok"
    except OSError as error: return errno.errorcode[error.errno]
npu = Npu()
"""


def test_no_device(on_board: RunOnBoard) -> None:
    """The NPU's device cannot be opened; other devices of the board can."""
    script = """
        Heap().allocate(1)
        try: Npu()
        except FileNotFoundError as error: print(error.filename)
    """
    assert on_board(script, faults="no-device").output == "/dev/rknpu\n"


def test_no_permission(on_board: RunOnBoard) -> None:
    """The NPU's device exists, but not for this user."""
    script = """
        try: Npu()
        except PermissionError as error: print(error.filename)
    """
    assert on_board(script, faults="no-permission").output == "/dev/rknpu\n"


def test_memory_runs_out(on_board: RunOnBoard) -> None:
    """A buffer over the limit is not made; there is room again after others have gone."""
    script = """
first = npu.create(8192)
made = [attempt(lambda: npu.create(size)) for size in (4097, 4096)]
print(*made, attempt(lambda: Heap().allocate(1)))
npu.free(first)
print(attempt(lambda: npu.create(8192)))
"""
    ended = on_board(_ATTEMPTS + script, memory="12288")
    assert ended.output.split() == ["ENOMEM", "ok", "ENOMEM", "ok"]
    assert [event["fault"] for event in ended.named("fault")] == ["enomem", "enomem"]
    assert live_bytes(ended.events) == 12288


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("submit-error=EIO", ["EIO", "EIO", "EIO"]),
        ("submit-error=ETIMEDOUT@3", ["ok", "ok", "ETIMEDOUT"]),
        ("submit-error=12@2", ["ok", "ENOMEM", "ENOMEM"]),
    ],
)
def test_jobs_fail(on_board: RunOnBoard, fault: str, expected: list[str]) -> None:
    """The error is named or numbered, and begins with the Nth submit."""
    script = (
        "tasks = npu.create(4096)\nprint(*(attempt(lambda: npu.submit(tasks, 0, 0)) for _ in"
        " '123'))"
    )
    ended = on_board(_ATTEMPTS + script, faults=fault)
    assert ended.output.split() == expected
    assert len(ended.named("fault")) == 3 - expected.count("ok")


def test_sram_of_an_old_driver(on_board: RunOnBoard) -> None:
    """Commas combine faults; buffers that request SRAM get its free part and give it back."""
    script = """
        npu = Npu()
        free = lambda: npu.action(23)
        print(npu.action(1), npu.action(22), free())
        first = npu.create(8192, flags=1 << 8)
        second = npu.create(1 << 20, flags=1 << 8)
        print(first.sram_bytes, second.sram_bytes, npu.create(8192).sram_bytes, free())
        npu.free(second)
        print(free(), npu.create(8192, flags=1 << 8, sram=4096).sram_bytes)
    """
    ended = on_board(script, faults="driver=0.7.2,sram=65536")
    assert ended.output.split() == [
        "702",
        "65536",
        "65536",
        "8192",
        "57344",
        "0",
        "0",
        "57344",
        "4096",
    ]
    assert [event["sram_bytes"] for event in ended.named("create")] == [8192, 57344, 0, 4096]


_BAD = (
    "fire",
    "no-device=1",
    "no-permission=1",
    "driver=new",
    "driver=1.2",
    "sram=-1",
    "submit-error=ENOFUN",
    "submit-error=",
)


@pytest.mark.parametrize("fault", [*_BAD, "sram"])
def test_an_unknown_fault_ends_the_process(preload: Path, fault: str) -> None:
    """Otherwise a test that needs a fault might pass without it."""
    ended = run_client(
        "print('ran')",
        preload,
        None,
        REUSEBENCH_BOARD="rk3588",
        REUSEBENCH_FAULTS=f"sram=1,{fault}",
    )
    assert (ended.code, ended.output) == (2, "")
    assert ended.errors.startswith(f"reusebench preload: unknown fault {fault}; valid: no-device, ")


@pytest.mark.parametrize("limit", ["512MiB", "-1"])
def test_a_limit_that_is_no_number_ends_the_process(preload: Path, limit: str) -> None:
    """It is in bytes."""
    ended = run_client(
        "print('ran')", preload, None, REUSEBENCH_BOARD="rk3588", REUSEBENCH_NPU_MEMORY=limit
    )
    assert (ended.code, ended.output) == (2, "")
    assert f"REUSEBENCH_NPU_MEMORY={limit} is no number of bytes" in ended.errors


@pytest.mark.parametrize(
    ("name", "value"), [("REUSEBENCH_FAULTS", "no-device"), ("REUSEBENCH_NPU_MEMORY", "4096")]
)
def test_faults_and_limits_need_a_virtual_board(preload: Path, name: str, value: str) -> None:
    """A real driver cannot be made to fail."""
    ended = run_client("print('ran')", preload, None, **{name: value})
    assert (ended.code, ended.output) == (2, "")
    assert f"{name} needs a virtual board" in ended.errors
