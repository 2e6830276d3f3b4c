"""`reusebench bench`: which questions it asks."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reusebench.harness.bench_options import declare_options
from reusebench.system.option_names import FORMER_NAMES
from reusebench.system.package import python_command
from tests.helpers.support import Ended, Reusebench

pytestmark = pytest.mark.process


@pytest.mark.parametrize("name", ["test_leaks.py", "bench/test_leaks.py"])
def test_a_question_that_is_named_is_asked_under_quick(tmp_path: Path, name: str) -> None:
    """The name of its file chooses a question that --quick leaves out, in any folder."""
    options = ("--quick", "--runtime", "onnxruntime", "--collect-only", "-q")
    command = python_command("reusebench", "bench", name, *options)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "bench/test_leaks.py::test_leaks[onnxruntime-cycles_contexts]" in done.stdout
    assert "test_dup.py" not in done.stdout


def test_the_help_has_our_options_alone(reusebench: Reusebench) -> None:
    """They stand in groups of what a user wants, on two screens of 80 columns."""
    done = reusebench("bench", "--help")
    lines = done.out.splitlines()
    assert (done.exit_code, done.err) == (0, "")
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 82
    titles = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert titles[-6:] == [
        "what to measure:",
        "which model:",
        "language models:",
        "where:",
        "how often, how long:",
        "results:",
    ]
    declared: list[str] = []
    declare_options(lambda _: lambda name, **_attributes: declared.append(name))
    former = {row.former for row in FORMER_NAMES}
    assert {line.split()[0] for line in lines if line.startswith("  --")} == {*declared} - former
    assert "--benchmark-columns" not in done.out
    assert "`pytest --help` lists them" in done.out


def test_a_wrong_question_gets_the_nearest(reusebench: Reusebench) -> None:
    """Before pytest begins."""
    done = reusebench("bench", "tset_leaks.py::test_leaks", "--collect-only")
    assert done == Ended(
        2, "", "Error: there is no file tset_leaks.py; the nearest question is test_leaks.py\n"
    )


def test_a_wrong_option_gets_the_nearest(tmp_path: Path) -> None:
    """pytest's message has its name; options of pytest are passed on."""
    command = python_command("reusebench", "bench", "--repeat=3")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "unrecognized arguments: --repeat=3" in done.stderr
    assert "the nearest to --repeat is --repeats" in done.stderr
