"""The installed virtual board of the mainline driver, with a program of the user's and without.

The tests need `reusebench board install --target vboard:rocket`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

import pytest

from reusebench.targets.errors import TargetError
from reusebench.targets.machine import Reach
from reusebench.targets.resolve import user_board
from reusebench.targets.sandbox import sandbox_problem
from reusebench.targets.vboard.catalogue import rocket_board
from tests.helpers.support import CHECKOUT
from tests.targets.preload_support import Ended, read_ledger

pytestmark = [pytest.mark.process, pytest.mark.slow]

_TARGET = "vboard:rocket"
#: The import of LiteRT takes seconds of an emulated processor.
_TIME_LIMIT_S = 180


@pytest.fixture(autouse=True)
def _board() -> None:
    missing = rocket_board().missing_parts()
    if missing:
        pytest.skip(
            f"{_TARGET} is not installed ({', '.join(missing)} missing):"
            f" reusebench board install --target {_TARGET}"
        )


def _run(command: Sequence[str], environment: dict[str, str], folder: Path, ledger: Path) -> Ended:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment, "REUSEBENCH_LEDGER": str(ledger)},
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIME_LIMIT_S,
    )
    return Ended(done.returncode, done.stdout, done.stderr, read_ledger(ledger), {})


def test_a_script_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has LiteRT, Mesa's library at Debian's place, the NPU, the chip's name and processors, and
    no file but its own.
    """
    script = tmp_path / "script.py"
    hidden = CHECKOUT / "README.md"
    script.write_text(
        dedent(f"""
        import os
        from ai_edge_litert.interpreter import load_delegate
        load_delegate("/usr/lib/teflon/libteflon.so")
        print(open("/proc/device-tree/compatible").read().split("\\0")[1])
        print(open("/proc/cpuinfo").read().count("processor"), os.path.exists("{hidden}"))
        """)
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)  # its folders would be shown
    ledger = tmp_path / "ledger.jsonl"
    words = ["python3", "script.py"]
    command, environment = user_board(_TARGET, None, words, Reach()).confine(
        words, {}, Reach(writable=(str(tmp_path),))
    )
    ended = _run(command, environment, tmp_path, ledger)
    is_hidden = sandbox_problem() is None
    assert ended.output.splitlines() == ["rockchip,rk3588", f"8 {not is_hidden}"], ended.errors
    assert ended.events[0]["mode"] == "virtual"


def test_mesa_without_the_npu(tmp_path: Path) -> None:
    """The trial of the installation fails if the library finds no NPU that it knows."""
    board = rocket_board()
    python = board.guest()
    command, environment = board.machine().confine(
        (*python.command, "-c", board.trial or ""), python.environment, Reach()
    )
    faults = {**environment, "REUSEBENCH_FAULTS": "no-device"}
    ended = _run(command, faults, tmp_path, tmp_path / "ledger.jsonl")
    assert ended.code == 1
    assert "Failed to load delegate" in ended.errors


def test_a_program_for_another_processor(tmp_path: Path) -> None:
    """The chip has 64 bits, and its system too."""
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF".ljust(18, b"\0") + bytes([40, 0]))
    with pytest.raises(TargetError, match="for armhf, and rocket runs programs for aarch64 alone"):
        user_board(_TARGET, None, [str(program)], Reach())
