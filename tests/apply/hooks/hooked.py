"""Programs that know nothing of reuse, run as they are and with the hooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import reusebench

HOOKS = Path(reusebench.__file__).parent / "apply" / "hooks"


@dataclass(frozen=True)
class Ended:
    """What a program printed as its last line, in JSON, and its report lines."""

    answer: Any
    error: str
    reports: list[dict[str, Any]]


def run(
    folder: Path,
    program: str,
    *,
    hooks: str | None = str(HOOKS),
    option: str = "-c",
    **variables: str,
) -> Ended:
    """Run a program, or a module with option -m, in the folder; without hooks if they are None."""
    report = folder / "report.jsonl"
    report.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": hooks or "",
        "REUSEBENCH_APPLY_REPORT": str(report),
        "REUSEBENCH_APPLY_CACHE": str(folder / "cache"),
        **variables,
    }
    ended = subprocess.run(
        [sys.executable, option, textwrap.dedent(program)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    lines = report.read_text(encoding="utf-8").splitlines() if report.exists() else []
    last = ended.stdout.splitlines()[-1] if ended.stdout.strip() else "null"
    return Ended(json.loads(last), ended.stderr, [json.loads(line) for line in lines])
