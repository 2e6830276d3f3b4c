"""`reusebench apply` as users run it: real programs, unchanged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reusebench.apply.reasons import REASONS
from reusebench.targets.compilers import find_compiler
from reusebench.targets.programs import APPLY
from reusebench.targets.rknn_library import architecture_of_this_python
from tests.commands.replies import reply_in, result_of
from tests.helpers.support import Ended, Reusebench, user_environment

pytestmark = pytest.mark.process

_APPLY = (sys.executable, "-m", "reusebench", "apply")
#: Makes two equal sessions and runs them; the exit code is its own.
_PROGRAM = """
import os, sys
import numpy, onnxruntime
sessions = [onnxruntime.InferenceSession(sys.argv[1]) for _ in range(2)]
for session in sessions:
    (image,) = session.get_inputs()
    print(len(session.run(None, {image.name: numpy.zeros(image.shape, "float32")})))
print(os.environ.get("REUSEBENCH_APPLY_AT_ONCE"), file=sys.stderr)
sys.exit(5)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return the program's file."""
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    return program


def _run(*words: object, **variables: str) -> Ended:
    command = [*_APPLY, *map(str, words)]
    environment = {**user_environment(), **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return Ended(done.returncode, done.stdout, done.stderr)


def test_a_program_is_run_as_it_is(tiny_model: Path, program: Path) -> None:
    """Output and exit code are its own; at its end standard error tells what was shared."""
    done = _run("--at-once", 3, "--", sys.executable, program, tiny_model)
    assert (done.exit_code, done.out) == (5, "1\n1\n")
    at_once, first, *lines = done.err.splitlines()
    assert at_once == "3"
    assert first.startswith("reusebench: ONNX Runtime ")
    assert ": 2 contexts of 1 model, at most 1 ran at once" in first
    assert lines[0].startswith("reusebench:   shared: one instance per model by 2 contexts")
    assert lines[-1].startswith("reusebench: to measure what it saves: reusebench apply --compare")


def test_json_has_standard_output_for_itself(
    tiny_model: Path, program: Path, tmp_path: Path
) -> None:
    """The program's goes to standard error. A report that the user asked for has the same lines."""
    asked = tmp_path / "report"
    words = ("--json", "--", sys.executable, program, tiny_model)
    done = _run(*words, REUSEBENCH_APPLY_REPORT=str(asked))
    result = result_of(done)
    assert done.exit_code == result["exit_code"] == 5
    assert "1\n1\n" in done.err
    (process,) = result["processes"]
    assert process["contexts"] == 2
    assert result["shared"] == process["shared"]
    assert result["shared"]["context"] == 2
    assert result["left_alone"] == {}
    assert len(asked.read_text().splitlines()) == 1


def test_nothing_to_share_has_its_reasons() -> None:
    """Python's own option keeps the hooks out; another program has no runtime that is known."""
    isolated = _run("--", sys.executable, "-I", "-c", "print('own')")
    assert (isolated.exit_code, isolated.out) == (0, "own\n")
    assert "nothing was shared: no process has reported" in isolated.err
    assert "was started with -I" in isolated.err
    killed = _run("--", "sh", "-c", "kill -9 $$")
    assert killed.exit_code == 128 + 9
    assert killed.err.splitlines() == [
        "reusebench: sh was ended by SIGKILL: a process that is killed reports nothing"
    ]
    off = _run("--", "true", REUSEBENCH_APPLY_OFF="1")
    assert off.err == "reusebench: REUSEBENCH_APPLY_OFF is set; unset it to share memory\n"


def test_a_program_that_cannot_be_started(reusebench: Reusebench) -> None:
    """The exit codes are those of shells; without a program there is nothing to do."""
    missing = reusebench("apply", "--", "none-such")
    assert (missing.exit_code, missing.err) == (
        127,
        "Error: none-such: there is no such command. Give its path, or a name that is in PATH\n",
    )
    assert reusebench("apply", "--", "/tmp").exit_code == 126
    assert "there is no program: put it after --" in reusebench("apply").err


def test_a_kernel_that_refuses_the_program(tmp_path: Path) -> None:
    """A text without #! is no program; the reply in JSON has the sentence."""
    text = tmp_path / "text"
    text.write_text("echo")
    text.chmod(0o755)
    done = _run("--", text)
    assert done.exit_code == 126
    assert f"Error: {text}: it cannot be executed (Exec format error)" in done.err


def test_what_cannot_be_applied_is_told_and_the_program_runs(tmp_path: Path) -> None:
    """The library for RKNN cannot be compiled into such a cache."""
    (tmp_path / "librknnrt.so").touch()
    variables = {"XDG_CACHE_HOME": "/proc/none", "LD_LIBRARY_PATH": str(tmp_path)}
    done = _run("--json", "--", "sh", "-c", "exit 3", **variables)
    assert done.exit_code == 3
    (warning,) = reply_in(done)["warnings"]
    assert warning.startswith("RKNN is left alone: cannot write /proc/none/reusebench/apply")


def test_a_plan_decides_what_is_shared(tiny_model: Path, program: Path, tmp_path: Path) -> None:
    """Each session is loaded by itself, and the end tells what became of the plan."""
    plan = tmp_path / "mine.toml"
    plan.write_text(
        f"""
        cores = 1
        [models]
        tiny = "{tiny_model}"
        [contexts]
        one = {{ model = "tiny" }}
        two = {{ model = "tiny", zero_copy = ["input"] }}
        three = {{ dup = "one" }}
        """,
        encoding="utf-8",
    )
    done = _run("--plan", plan, "--", sys.executable, program, tiny_model)
    assert (done.exit_code, done.out) == (5, "1\n1\n")
    lines = done.err.splitlines()
    assert lines[0] == "1"  # the plan's cores
    assert "reusebench:   shared: nothing" in lines
    assert lines[-3:-1] == [
        "reusebench: plan: tiny: 2 of 3 contexts as planned; no more were made",
        (
            "reusebench: plan, not applied to 1 context: tensors in place; the program's own calls"
            " decide where its input and output are"
        ),
    ]
    result = result_of(_run("--json", "--plan", plan, "--", sys.executable, program, tiny_model))
    assert [f"reusebench: {line}" for line in result["plan"]] == lines[-3:-1]


def test_a_wrong_plan_starts_nothing(tmp_path: Path) -> None:
    """There is one sentence, and exit code 2."""
    done = _run("--plan", tmp_path / "none.toml", "--", "sh", "-c", "echo started")
    assert (done.exit_code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert "none.toml" in line


#: Stands in for the library of apply: at its end it reports what the environment has.
_LIBRARY = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((destructor)) static void report(void)
{
    FILE *file = fopen(getenv("REUSEBENCH_APPLY_REPORT"), "a");
    fprintf(file,
            "{\"runtime\": \"rknn\", \"version\": \"2.3.2\", \"process\": %d, \"contexts\": 3,"
            " \"models\": 1, \"shared\": {\"weights\": 3}, \"saved_bytes\": {\"weights\": 1048576},"
            " \"most_at_once\": %s, \"left_alone\": {\"flags\": 1}, \"failures\": {},"
            " \"digests\": {}, \"plan\": null}\n",
            getpid(), getenv("REUSEBENCH_APPLY_AT_ONCE"));
    fclose(file);
}
"""


def test_the_library_is_preloaded_into_all_that_the_program_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process reports; sums and sentences are in the result."""
    own = architecture_of_this_python() or ""
    compiler = find_compiler(own)
    if compiler is None:
        pytest.skip("no C compiler (Debian: apt install gcc)")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "library.c").write_text(_LIBRARY)
    APPLY.path(own).parent.mkdir(parents=True)
    source = str(tmp_path / "library.c")
    compiler.compile(["-shared", "-fPIC", "-o", str(APPLY.path(own)), source])
    (tmp_path / "librknnrt.so").touch()

    words = ("--json", "--at-once", 2, "--", "sh", "-c", "env true; env true; exit 0")
    result = result_of(_run(*words, LD_LIBRARY_PATH=str(tmp_path)))
    first, second = result["processes"]
    assert first["process"] != second["process"]
    assert first["most_at_once"] == 2
    assert result["shared"] == {"weights": 6}
    assert result["saved_bytes"] == {"weights": 2 << 20}
    assert result["left_alone"] == {"flags": 2}
    assert result["reasons"] == {"flags": REASONS["flags"]}
    assert result["remarks"] == []
