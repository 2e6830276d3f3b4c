"""A user's program on the installed virtual board, recorded as the command does it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from reusebench.recorder.marks import Marks
from reusebench.recorder.program import Start
from reusebench.recorder.recorder import record
from reusebench.recorder.recording import Recording
from reusebench.recorder.virtual_site import VirtualSite
from reusebench.targets.errors import TargetError
from reusebench.targets.machine import Reach
from reusebench.targets.resolve import user_board
from reusebench.targets.sandbox import sandbox_problem
from reusebench.targets.vboard.user_program import UserBoard
from tests.helpers.support import CHECKOUT, known
from tests.recorder.alone import alone

pytestmark = pytest.mark.process

_TARGET = "vboard:rk3588"


def _board(words: list[str]) -> UserBoard:
    return user_board(_TARGET, None, words, Reach((str(CHECKOUT / "tests"),)))


def _fail(words: str) -> None:
    raise AssertionError(words)


def _record(words: list[str], output: Path) -> Recording:
    site = VirtualSite(_board(words), {})
    return record(
        site,
        lambda: site.start(words, Marks(), Start({"PYTHONPATH": str(output.parent)}, output)),
        Marks(),
        has_rknpu=False,
        notify=_fail,
        keep=lambda _: None,
    )


def _recorded(words: list[str], output: Path) -> Recording:
    try:
        _board(words)
    except TargetError as error:
        pytest.skip(str(error))
    recording: Recording = alone(_record, words, output)
    return recording


def test_a_script_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds the board's name and library, reads its own folder and no other, and the ledger has
    its buffers.
    """
    script = tmp_path / "script.py"
    hidden = CHECKOUT / "README.md"
    script.write_text(
        dedent(f"""
        import ctypes, os, sys
        sys.path.append("{CHECKOUT}")
        from tests.targets.npu_client import Heap
        print(open("/proc/device-tree/compatible").read().split("\\0")[1])
        ctypes.CDLL("librknnrt.so").rknn_init
        print(os.path.exists("{hidden}"), sys.argv[1:])
        Heap().allocate(1 << 20)
        sys.exit(3)
        """)
    )
    output = tmp_path / "output"
    monkeypatch.chdir(tmp_path)
    recording = _recorded(["python3", "script.py", "-x"], output)
    is_hidden = "False" if sandbox_problem() is None else "True"
    assert output.read_text().splitlines() == ["rockchip,rk3588", f"{is_hidden} ['-x']"]
    assert recording.ending.exit_code == 3
    assert known(recording.ledger).peak_bytes() == 1 << 20
    assert known(recording.ledger).wrong_reads() == []
    assert known(recording.cpu_ns) > 0
    assert recording.phases["run"].readings["npu_memory"].highest_bytes == 1 << 20


@pytest.mark.parametrize("word", ["/bin/sh", "no-such-program", __file__.replace(".py", ".sh")])
def test_what_the_board_does_not_run(word: str) -> None:
    """Programs for other processors and missing ones are refused in a sentence."""
    with pytest.raises(TargetError, match=r"made for the board|programs for aarch64 and armhf"):
        user_board(_TARGET, None, [word], Reach())


def test_a_program_for_another_chip(tmp_path: Path) -> None:
    """A chip with 32 bits runs no program for 64."""
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF".ljust(18, b"\0") + bytes([183, 0]))
    with pytest.raises(TargetError, match="for aarch64, and rv1106 runs programs for armhf alone"):
        user_board("vboard:rv1106", None, [str(program)], Reach())
