"""What the user reads at the end of an applied program."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from reusebench.apply.elf import ElfFile
from reusebench.apply.executable import Executable
from reusebench.apply.outcome import Outcome
from reusebench.apply.reasons import REASONS, sentence_for
from reusebench.apply.report import ProcessReport
from reusebench.apply.settings import HOOKS
from reusebench.apply.summary import remarks, report_lines
from reusebench.system.package import NATIVE

_GLIBC = "/lib/ld-linux-aarch64.so.1"
_REPORT = ProcessReport(
    runtime="rknn",
    version="2.3.2",
    process=7,
    contexts=4,
    models=2,
    shared={"weights": 3, "internal": 3, "context": 0},
    saved_bytes={"weights": 2 << 20, "internal": 1 << 19},
    most_at_once=1,
    left_alone={"flags": 1},
    failures={"rknn_dup_context": 2},
    digests={},
)


def test_the_lines_of_a_process() -> None:
    """What is shared by how many, what that saves exactly, and why others were left alone."""
    assert list(report_lines([_REPORT])) == [
        "RKNN 2.3.2, process 7: 4 contexts of 2 models, at most 1 ran at once",
        "  shared: weights by 3 contexts, internal memory by 3 contexts",
        "  saved: 2.50 MiB of NPU memory (weights 2.00, internal memory 0.50)",
        f"  left alone, 1: {REASONS['flags']}",
        "  rknn_dup_context failed, 2: the program got its contexts as without apply",
    ]


def test_many_processes_of_a_runtime_are_one(  # as of a server with workers
) -> None:
    """Their contexts are summed; another runtime has lines of its own."""
    nothing = msgspec.structs.replace(
        _REPORT,
        runtime="openvino",
        version=None,
        contexts=1,
        models=1,
        shared={},
        saved_bytes={"weights": 0},
        most_at_once=0,
        left_alone={},
        failures={},
    )
    lines = list(report_lines([nothing, *[_REPORT] * 5]))
    assert lines[:2] == ["OpenVINO, process 7: 1 context of 1 model", "  shared: nothing"]
    assert lines[2].startswith("RKNN 2.3.2, 5 processes: 20 contexts of 2 models")


def _executable(
    words: str = "camera", loader: str | None = _GLIBC, has_rights: bool = False
) -> Executable:
    file = ElfFile("aarch64", loader, ())
    return Executable(Path("/usr/bin/camera"), tuple(words.split()), file, has_rights)


@pytest.mark.parametrize(
    ("executable", "part"),
    [
        (_executable(), "reached are programs that load Rockchip's library"),
        (_executable("python3 -E app.py"), "python3 was started with -E"),
        (_executable(loader=None), "camera is static"),
        (_executable(has_rights=True), "camera is setuid, setgid or has capabilities"),
        (_executable(loader="/lib/ld-musl-aarch64.so.1"), "camera has another C library"),
    ],
)
def test_why_nothing_was_shared(executable: Executable, part: str) -> None:
    """The program's file tells; a program with a report needs no reason."""
    nothing, reason = remarks([], executable, Outcome(0), {})
    assert nothing.startswith("nothing was shared: no process has reported")
    assert part in reason
    assert remarks([_REPORT], executable, Outcome(0), {}) == []


def test_a_process_that_is_killed_reports_nothing() -> None:
    """So it is not said that nothing was shared."""
    (remark,) = remarks([], _executable(), Outcome(None, 9), {})
    assert remark == "camera was ended by SIGKILL: a process that is killed reports nothing"


def test_every_code_has_a_sentence() -> None:
    """Those of the library and of the hooks; a code of another version is shown as its words."""
    native = "".join(path.read_text() for path in (NATIVE / "apply").glob("*.c"))
    hooks = "".join(path.read_text() for path in HOOKS.rglob("*.py"))
    codes = {
        *re.findall(r'(?:return|left_alone\(|leave_alone\() *"([a-z_]+)"', native),
        *re.findall(r'(?:LeftAlone|left_alone)\("([a-z_]+)"\)', hooks),
    }
    assert len(codes) > 5
    assert codes - REASONS.keys() == set()
    assert sentence_for("of_another_version") == "of another version"
