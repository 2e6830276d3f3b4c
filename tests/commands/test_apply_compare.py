"""`reusebench apply --compare` as users run it: real programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reusebench.storage.run_file import StoredRun, read_storage
from tests.commands.replies import result_of
from tests.helpers.far_shell import shell_at
from tests.helpers.support import CHECKOUT, Ended, user_environment

pytestmark = pytest.mark.process

#: Runs only if it is applied, and not for the digests as it is.
_IF_APPLIED = '[ -n "$REUSEBENCH_APPLY_REPORT" ] && [ -z "$REUSEBENCH_APPLY_OFF" ]'
#: Makes two equal sessions and prints what they give.
_PROGRAM = """
import sys, numpy, onnxruntime
sessions = [onnxruntime.InferenceSession(sys.argv[1]) for _ in range(2)]
for session in sessions:
    (image,) = session.get_inputs()
    print(session.run(None, {image.name: numpy.ones(image.shape, "float32")})[0].sum())
"""


def _compare(storage: Path, *words: object, **variables: str) -> Ended:
    command = [sys.executable, "-m", "reusebench", "apply", "--compare", "--repeats", "1"]
    command += ["--storage", str(storage), *map(str, words)]
    environment = {**user_environment(), **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return Ended(done.returncode, done.stdout, done.stderr)


def test_a_program_of_onnxruntime(tiny_model: Path, tmp_path: Path) -> None:
    """Outputs are bit-equal, and both sides are stored as programs of one run."""
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    done = _compare(tmp_path, "--json", "--name", "mine", "--", sys.executable, program, tiny_model)
    result: dict[str, Any] = result_of(done)
    assert (done.exit_code, result["verdict"]) == (0, "ok"), done.err
    assert result["output_equal"] is True
    assert result["shared"]["context"] == 2
    assert result["application_memory_bytes"]["as_is"] > 0
    assert result["time_ns"]["applied"] > 0
    (run,) = [run for run in read_storage(tmp_path) if isinstance(run, StoredRun)]
    assert [program.name for program in run.programs] == ["mine as it is", "mine applied"]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (f"{_IF_APPLIED} && kill -SEGV $$; true", "as it is: exit code 0; applied: signal 11"),
        (f"{_IF_APPLIED} && exit 4; true", "as it is: exit code 0; applied: exit code 4"),
        (
            f"{_IF_APPLIED} && sleep 1000; true",
            "as it is: exit code 0; applied: it did not end in time",
        ),
        (f"echo one; {_IF_APPLIED} && echo two; true", "'' as it is, 'two' applied"),
    ],
)
def test_a_program_that_is_other_when_applied(script: str, words: str, tmp_path: Path) -> None:
    """Another ending, a hang, and other words of standard output are failures."""
    done = _compare(tmp_path, "--timeout", 3, "--", "sh", "-c", script)
    assert done.exit_code == 1, done.err
    assert f"WORSE: {words}" in done.out.replace("standard output differs in 1 line: ", "")


def test_a_program_on_a_remote_board(tmp_path: Path) -> None:
    """Library, hooks and report are the board's own; there the program is applied in turns."""
    home = tmp_path / "home"
    home.mkdir()
    script = """
        [ -z "$LD_PRELOAD" ] || [ -n "$REUSEBENCH_APPLY_OFF" ] && echo plain && exit
        [ -r "$LD_PRELOAD" ] && [ -r "${PYTHONPATH%%:*}/sitecustomize.py" ] || exit
        echo "${LD_PRELOAD##*/}"
    """
    done = _compare(tmp_path, "--target", shell_at(home), "--", "sh", "-c", script)
    if "is in memory" in done.err:
        pytest.skip(done.err)
    assert done.exit_code == 1, done.err
    assert "'plain' as it is, 'reusebench_apply.so' applied" in done.out


def test_what_is_no_comparison(tmp_path: Path) -> None:
    """A program that fails without us, and options for something else, get sentences."""
    done = _compare(tmp_path, "--", "sh", "-c", "kill -9 $$")
    assert (done.exit_code, "as it is: signal 9" in done.out) == (2, True)
    both = _compare(tmp_path, "--duration", 1, "--timeout", 1, "--", "true")
    assert (both.exit_code, "leave one out" in both.err) == (2, True)
    hooks = tmp_path / "hooks"
    (hooks / "reusebench_hooks").mkdir(parents=True)
    deployed = _compare(tmp_path, "--", "true", PYTHONPATH=f"{CHECKOUT}/src:{hooks}")
    assert "PYTHONPATH in the environment applies every program" in deployed.err
    alone = subprocess.run(
        [sys.executable, "-m", "reusebench", "apply", "--strict", "--", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "are for --compare" in alone.stderr


def test_a_program_that_never_ends(tmp_path: Path) -> None:
    """After --duration it gets SIGTERM, which is no failure."""
    done = _compare(tmp_path, "--duration", 0.3, "--", "sh", "-c", "echo on; sleep 1000")
    assert done.exit_code == 0, done.err
    assert "standard output equal" in done.out


def test_a_comparison_that_the_user_ends(tmp_path: Path) -> None:
    """The program is ended, nothing is compared, and the exit code is that of the signal."""
    done = _compare(tmp_path, "--", "sh", "-c", "kill -TERM $PPID; exec sleep 1000")
    assert (done.exit_code, done.out) == (128 + 15, "")
    assert "you have ended a run" in done.err


def test_large_standard_output_is_compared_by_its_digest(tmp_path: Path) -> None:
    """Only its size and digest are kept, and shown if they differ."""
    script = f"head -c 17000000 /dev/zero; {_IF_APPLIED} && echo more; true"
    done = _compare(tmp_path, "--", "sh", "-c", script)
    assert done.exit_code == 1
    assert "'17000000 bytes, SHA-256 " in done.out
    assert "'17000005 bytes, SHA-256 " in done.out
