"""Machines that lack something, in namespaces and under limits: reusebench works there, or names
what is missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

_CHECKOUT = Path(__file__).resolve().parents[2]
_OWN_MOUNTS = ("unshare", "--user", "--map-root-user", "--mount")
_CHECK = (
    "from reusebench.samplers.host import LOCAL_HOST; from reusebench.harness.settings import"
    " check_kernel; check_kernel(LOCAL_HOST)"
)


def _run(
    command: Sequence[str], folder: Path, before: Sequence[str] = (), **changes: str
) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(_CHECKOUT),
        "XDG_CACHE_HOME": str(folder / "cache"),
        **changes,
    }
    return subprocess.run(
        [*before, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def _without(folder: Path, mount: str, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run the command with this mounted, as the root of a user namespace; skip if there are no
    namespaces.
    """
    if subprocess.run([*_OWN_MOUNTS, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets its users make no namespaces")
    return _run(command, folder, (*_OWN_MOUNTS, "sh", "-c", f'{mount} && exec "$@"', "sh"))


@pytest.mark.parametrize(
    ("mount", "sentence"),
    [
        ("mount --bind /dev/null /proc/meminfo", "/proc/meminfo lacks MemTotal"),
        ("mount -t tmpfs none /proc", "/proc/self cannot be read (No such file or directory)"),
        ("mount -t tmpfs none /sys", ""),
        ("mount --bind /dev/null /proc/stat", ""),
        ("mount --bind /dev/null /proc/vmstat", ""),
    ],
)
def test_a_poor_proc_or_sys(tmp_path: Path, mount: str, sentence: str) -> None:
    """A needed file that is missing is named; other files may be missing."""
    done = _without(tmp_path, mount, (sys.executable, "-c", _CHECK))
    assert (done.returncode == 0) == (sentence == "")
    assert sentence in done.stderr


def test_an_empty_stat_leaves_no_process_behind(tmp_path: Path) -> None:
    """The start of processes, by which psutil knows them, is not told there; a process is ended all
    the same.
    """
    start = (
        "import sys; from pathlib import Path; from reusebench.targets.process import LocalProcess;"
        " process = LocalProcess(('sleep', '1000'), Path(), {}, False); process.close();"
        " print(process.ending())"
    )
    done = _without(tmp_path, "mount --bind /dev/null /proc/stat", (sys.executable, "-c", start))
    assert "exit_code=-9" in done.stdout, done.stderr
