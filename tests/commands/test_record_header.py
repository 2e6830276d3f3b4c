"""`reusebench record --header`: the helpers that mark phases, in real programs."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from reusebench.recorder.marker import HEADERS
from tests.commands.test_record import record
from tests.helpers.support import Ended, Reusebench

pytestmark = pytest.mark.process

_MIB = 2**20
_HELD_MIB = 24
#: Holds memory from the mark `load` on, and gives it back before `end`. errno stays as it was.
_PROGRAM_IN_C = r"""
#include "reusebench_phase.h"
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *held;

    errno = 7;
    reusebench_phase("load\nit");
    held = (char *)malloc(24 << 20);
    if (held == NULL)
        return 2;
    memset(held, 1, 24 << 20);
    reusebench_phase("steady");
    free(held);
    reusebench_phase("end");
    return errno == 7 ? 0 : 1;
}
"""
_PROGRAM_IN_PYTHON = """
from reusebench_phase import reusebench_phase
reusebench_phase("load\\nit")
held = bytearray(24 << 20)
reusebench_phase("steady")
del held
reusebench_phase("end")
"""
_COMPILERS = {
    "c99": ("gcc", "-std=c99", "program.c"),
    "c++98": ("g++", "-std=c++98", "program.cpp"),
}
_STRICT = ("-Wall", "-Wextra", "-pedantic", "-Werror")


def _printed(reusebench: Reusebench, language: str) -> str:
    done = reusebench("record", "--header", language)
    assert (done.exit_code, done.err) == (0, "")
    assert done.out == HEADERS[language].read_text(encoding="utf-8")
    return done.out


@pytest.fixture(params=[*_COMPILERS, "python"])
def program(
    request: pytest.FixtureRequest, tmp_path: Path, reusebench: Reusebench
) -> Sequence[str]:
    """Return the command line of a program with the printed helper, in each language."""
    if request.param == "python":
        (tmp_path / "reusebench_phase.py").write_text(_printed(reusebench, "python"))
        (tmp_path / "program.py").write_text(_PROGRAM_IN_PYTHON)
        return (sys.executable, str(tmp_path / "program.py"))
    compiler, standard, name = _COMPILERS[request.param]
    if not shutil.which(compiler):
        pytest.skip(f"needs {compiler}")
    (tmp_path / "reusebench_phase.h").write_text(_printed(reusebench, "c"))
    (tmp_path / name).write_text(_PROGRAM_IN_C)
    command = [compiler, standard, *_STRICT, name, "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True)
    return (str(tmp_path / "program"),)


def test_phases_of_a_program_with_the_helper(program: Sequence[str], tmp_path: Path) -> None:
    """It waits at each mark, so that figures are exact; a name is one line."""
    done = record(tmp_path, "--marker", "5", "--", *program)
    assert done.code == 0, done.err
    memory = done.values("application_memory")
    assert list(memory) == ["start", "load it", "steady", "end"]
    # `load it` ends with the memory, `steady` without it.
    assert (memory["load it"] - memory["start"]) / _MIB == pytest.approx(_HELD_MIB, abs=1)
    assert (memory["steady"] - memory["start"]) / _MIB == pytest.approx(0, abs=1)
    assert done.program.repeats[0].exit_code == 0


def test_marks_in_a_file(program: Sequence[str], tmp_path: Path) -> None:
    """--phases gets the same names."""
    marks = tmp_path / "marks"
    done = record(tmp_path, "--phases", str(marks), "--", *program)
    assert done.code == 0, done.err
    assert marks.read_text() == "load it\nsteady\nend\n"


def test_a_program_that_is_not_recorded(program: Sequence[str], tmp_path: Path) -> None:
    """Nothing is written: without the variables, and with those of a recording that is over."""
    other = tmp_path / "other"
    for variables in (
        {},
        {"REUSEBENCH_MARKER": "77"},
        {"REUSEBENCH_MARKER": "1"},
        {"REUSEBENCH_PHASES": str(tmp_path / "gone" / "marks")},
    ):
        with other.open("w") as output:
            done = subprocess.run(
                program, env={**os.environ, **variables}, stdout=output, timeout=60, check=False
            )
        assert (done.returncode, other.read_text()) == (0, "")


def test_the_helper_in_the_oldest_python() -> None:
    """It has no syntax that Python 3.8 lacks."""
    ast.parse(HEADERS["python"].read_text(encoding="utf-8"), feature_version=(3, 8))


@pytest.mark.parametrize("target", [(), ("--target", "pipe:sh")], ids=["here", "far"])
def test_exit_codes_that_are_a_success(target: Sequence[str], tmp_path: Path) -> None:
    """With --ok-exit all repeats run, the outcome is ok and ours is 0; other codes, and signals,
    are failures as without it.
    """
    ok = (*target, "--repeats", "2", "--ok-exit", "3", "--ok-exit", "137")
    cases = {
        "exit 3": (0, "ok", 2),
        "exit 4": (4, "failed", 1),
        "kill -9 $$": (137, "crashed", 1),
        "exit 0": (0, "ok", 2),
    }
    for number, (script, (code, outcome, repeats)) in enumerate(cases.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        done = record(folder, *ok, "--", "sh", "-c", script)
        assert done.code == code, done.err
        assert (done.program.outcome, len(done.program.repeats)) == (outcome, repeats)


def test_mistakes(reusebench: Reusebench) -> None:
    """An unknown language and a process whose exit code is unknown are refused."""
    done = reusebench("record", "--header", "rust")
    assert (done.exit_code, "'rust' is not one of 'c', 'python'" in done.err) == (2, True)
    ended: Ended = reusebench("record", "--pid", 1, "--ok-exit", 3)
    assert (ended.exit_code, "--ok-exit needs a program" in ended.err) == (2, True)
