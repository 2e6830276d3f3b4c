"""Standard output that cannot be written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

_CHECKOUT = Path(__file__).resolve().parents[2]
_SCRIPT = """
import sys
from pathlib import Path
from reusebench.harness.standard_output import StandardOutput
output = StandardOutput()
print("a line", flush=True)
print("another", flush=True)
if output.error:
    output.tell(Path("the-storage"))
"""


@pytest.mark.parametrize(
    ("redirection", "reason"),
    [("> /dev/full", "No space left on device"), (">&-", "it is closed"), ("> /dev/null", "")],
)
def test_the_first_error_is_told_and_ends_nothing(redirection: str, reason: str) -> None:
    """The program runs to its end, and Python does not fail when it flushes the rest."""
    command = f"exec {sys.executable} -c '{_SCRIPT}' {redirection}"
    done = subprocess.run(
        command, shell=True, cwd=_CHECKOUT, stderr=subprocess.PIPE, text=True, check=False
    )
    told = (
        f"Standard output cannot be written ({reason}). Results are in the-storage\n"
        if reason
        else ""
    )
    assert (done.returncode, done.stderr) == (0, told)


def test_what_is_written_is_passed_on() -> None:
    """Without an error nothing is changed."""
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], cwd=_CHECKOUT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "a line\nanother\n"


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ("tests/harness/test_clock.py --collect-only", 0, ""),
        ("bench/ --target nowhere", 4, "ERROR: --target nowhere: no such target"),
    ],
)
def test_pytest_ends_without_a_traceback_where_it_is_closed(
    arguments: str, code: int, told: str
) -> None:
    """pytest restores the closed output and flushes it; its exit code is still its own."""
    command = f"exec {sys.executable} -m pytest -p no:cacheprovider {arguments} >&-"
    done = subprocess.run(
        command, shell=True, cwd=_CHECKOUT, stderr=subprocess.PIPE, text=True, check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)
    assert told in done.stderr
