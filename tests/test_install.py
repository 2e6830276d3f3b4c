"""tools/install.sh: which tool installs, what is said meanwhile, and how it fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.support import CHECKOUT

pytestmark = pytest.mark.process

_SCRIPT = CHECKOUT / "tools" / "install.sh"
#: Lines of pip 23 to 26, of which a line each is made.
_PIP = """
case "$*" in *"import pip"*) exit 0;; esac
cat <<END
Collecting numpy>=1.24 (from reusebench==0.2.0)
  Downloading numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl (16.9 MB)
Collecting click>=8.1 (from reusebench==0.2.0)
  Using cached click-8.5.1-py3-none-any.whl (126 kB)
Installing collected packages: numpy, click
END
exit {code}
"""


def _program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def _install(
    venv: Path, python: object = sys.executable, uv: object = "/no/uv"
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHON": str(python), "UV": str(uv)}
    command = [str(_SCRIPT), str(venv), "all"]
    return subprocess.run(
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
    )


def test_each_download_has_a_line(tmp_path: Path) -> None:
    """Each download has a line with number, name and size, after a line with the total."""
    _program(tmp_path / "bin" / "python", _PIP.format(code=0))
    done = _install(tmp_path)
    assert done.returncode == 0, done.stderr
    first, *lines, last = done.stdout.splitlines()
    assert "once: some 35 packages, 125 MB to download, 500 MB on disk" in first
    assert [line.split() for line in lines] == [
        ["1", "of", "some", "35", "numpy-2.4.6", "16.9", "MB"],
        ["2", "of", "some", "35", "click-8.5.1", "126", "kB"],
        ["unpacking", "them"],
    ]
    assert last.startswith("Installed in ")


def test_a_failure_of_pip_is_one(tmp_path: Path) -> None:
    """Its exit code is not lost in the lines, and nothing is said to be installed."""
    _program(tmp_path / "bin" / "python", _PIP.format(code=1))
    done = _install(tmp_path)
    assert done.returncode
    assert "Installed in" not in done.stdout


def test_uv_installs_if_it_is_there(tmp_path: Path) -> None:
    """It makes the environment too, with pip in it."""
    calls = tmp_path / "calls"
    uv = _program(tmp_path / "uv", f'echo "$1 $2" >> {calls}; mkdir -p {tmp_path / "venv"}')
    done = _install(tmp_path / "venv", uv=uv)
    assert done.returncode == 0, done.stderr
    assert calls.read_text().splitlines() == ["venv --quiet", "pip install"]


@pytest.mark.parametrize("script", ["exit 1", "exec false"])
def test_no_python_that_will_do(script: str, tmp_path: Path) -> None:
    """A sentence names it, and says what to install or to name; nothing is made."""
    python = _program(tmp_path / "python3.7", script)
    done = _install(tmp_path / "venv", python=python)
    assert done.returncode == 2
    assert f"make: {python} is no Python 3.9 or later with venv. Install one" in done.stderr
    assert not (tmp_path / "venv").exists()
