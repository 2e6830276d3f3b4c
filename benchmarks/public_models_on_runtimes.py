"""Reuse in public models made by others, on several runtimes: a table of docs/evidence/models.md.

`python -m benchmarks.public_models_on_runtimes --storage DIR --runtime NAME ... FILE...` measures
three contexts of each file on each runtime, without reuse and with full dup, one process each. It
prints a row of Markdown for each file: the memory of the contexts above the import, without reuse
and with dup, or the reason why there is none. Outputs that differ from the first runtime's by more
than 1e-3 are marked with the relative difference.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.quick import own_folder, parse, tiny_model
from reusebench.measured.runtimes import RUNTIMES, available, find_runtime
from reusebench.reports.material import read_material
from reusebench.reports.page.exported_tables import find_table
from reusebench.reports.results.agreement import TOLERANCE

_CHECKOUT = Path(__file__).resolve().parent.parent
_NO_REUSE = "no_reuse_one_model"
_DUP = "full_dup"
_CONTEXTS = 3
#: Characters in a cell of the reason why a runtime does not run a file.
_REASON_CHARACTERS = 160
#: Pattern for the reason in pytest's output.
_REASON = re.compile(r"(?:ERROR: |Not all was measured\. |Nothing was measured\. )(.*)")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every file on every runtime, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--storage", type=Path, required=True)
    parser.add_argument(
        "--runtime", action="append", required=True, type=lambda name: find_runtime(name).name
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    options = parse(parser, arguments, _quick_options)
    titles = [find_runtime(name).title for name in options.runtime]
    print(f"| file | {' | '.join(titles)} |\n|---{'|---' * len(titles)}|")
    for file in options.files:
        storage = options.storage / file.parent.name / file.stem
        reasons = {runtime: _measure(file, runtime, storage) for runtime in options.runtime}
        rows = _rows(storage)
        cells = [_cell(rows.get(runtime, {}), reasons[runtime]) for runtime in options.runtime]
        print(f"| {file.name} | {' | '.join(cells)} |", flush=True)


def _quick_options() -> list[str]:
    """Return options for the tiny network and the installed runtimes that read ONNX files."""
    readers = [entry for entry in RUNTIMES if ".onnx" in entry.suffixes and available(entry)]
    return [
        *(f"--runtime={entry.name}" for entry in readers),
        f"--storage={own_folder()}",
        tiny_model(),
    ]


def _measure(file: Path, runtime: str, storage: Path) -> str:
    """Measure a file on a runtime; return the reason if nothing was measured, otherwise ""."""
    command = [sys.executable, "-m", "pytest", "bench/test_dup.py", "-k", f"{_NO_REUSE} or {_DUP}]"]
    command += [
        "--runtime",
        runtime,
        "--model",
        str(file),
        "--streams",
        "1",
        "--contexts",
        str(_CONTEXTS),
    ]
    command += [
        "--rounds",
        "3",
        "--repeats",
        "1",
        f"--benchmark-storage=file://{storage.absolute()}",
    ]
    done = subprocess.run(command, cwd=_CHECKOUT, capture_output=True, text=True, check=False)
    reasons = _REASON.findall(done.stdout + done.stderr)
    if not reasons:
        return ""
    # Runtime, file and tried shapes come before the reason, advice comes after it.
    reason = reasons[0].split(": ", 2)[-1]
    return re.split(r"\. (?:Change|Give|Convert) ", reason)[0]


def _rows(storage: Path) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return the stored results by runtime and scenario."""
    rows: dict[str, dict[str, Mapping[str, Any]]] = {}
    if not storage.exists():
        return rows
    for row in find_table("comparison").records(read_material([storage], None)):
        if row.get("run_number"):
            rows.setdefault(row["runtime"], {})[row["scenario"]] = row
    return rows


def _cell(rows: Mapping[str, Mapping[str, Any]], reason: str) -> str:
    base = rows.get(_NO_REUSE)
    dup = rows.get(_DUP)
    if base is None or base["application_memory_over_baseline_bytes"] is None:
        text = base["outcome"] if base else reason
        return text if len(text) <= _REASON_CHARACTERS else f"{text[:_REASON_CHARACTERS]}..."
    if dup is None:
        text = f"{_mib(base)}, dup not measured"
    elif dup["outcome"] == "ok":
        text = f"{_mib(base)} → {_mib(dup)}"
    else:
        text = f"{_mib(base)}, dup {dup['outcome']}"
    difference = base["reference_difference"]
    if difference is not None and difference > TOLERANCE:
        text += f" (outputs {difference:.0e})"
    return text


def _mib(row: Mapping[str, Any]) -> str:
    return f"{row['application_memory_over_baseline_bytes'] / 2**20:.1f}"


if __name__ == "__main__":
    main()
