"""`reusebench bench`: which questions it asks."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reusebench.system.package import python_command

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
