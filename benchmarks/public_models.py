"""Reuse in public models made by others: the table of docs/evidence/models.md.

`python -m benchmarks.public_models --storage DIR FILE...` measures each file by pytest bench/ (ONNX
Runtime, 4 streams x 3 contexts, no reuse, full dup, and dup with one internal memory), and prints a
row of Markdown; a file takes some minutes. The row of a file that does not run has the reason.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.quick import own_folder, parse, tiny_model
from reusebench.reports.material import read_material
from reusebench.reports.page.exported_tables import find_table

_CHECKOUT = Path(__file__).resolve().parent.parent
_NO_REUSE = "no_reuse_one_model"
_DUP = "full_dup"
_DUP_AND_ARENA = "full_dup_internal_reuse"
_HEADS = (
    "file",
    "fed with",
    "no reuse, MiB",
    "dup saves",
    "dup and one internal memory save",
    "latency, ms",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every file, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--storage", type=Path, required=True)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument(
        "--repeats", type=int, default=5, metavar="N", help="processes per layout; default: 5"
    )
    options = parse(
        parser, arguments, lambda: ["--repeats=1", f"--storage={own_folder()}", tiny_model()]
    )
    print(f"| {' | '.join(_HEADS)} |\n|{'---|' * len(_HEADS)}")
    for file in options.files:
        storage = options.storage / file.parent.name / file.stem
        print(f"| {' | '.join(_row(file, storage, options.repeats))} |", flush=True)


def _row(file: Path, storage: Path, repeats: int) -> Iterator[str]:
    scenarios = " or ".join(f"{name}]" for name in (_NO_REUSE, _DUP, _DUP_AND_ARENA))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "bench/test_dup.py",
        "--runtime",
        "onnxruntime",
        "-k",
        scenarios,
    ]
    command += [
        "--model",
        str(file),
        "--rounds",
        "3",
        "--repeats",
        str(repeats),
        f"--benchmark-storage=file://{storage.absolute()}",
    ]
    done = subprocess.run(command, cwd=_CHECKOUT, capture_output=True, text=True, check=False)
    yield file.name
    if done.returncode == 4:
        lines = done.stdout.splitlines() + done.stderr.splitlines()
        yield " ".join(line for line in lines if line.startswith("ERROR"))
        return
    material = read_material([storage], None)
    run = material.results.read(0, None)
    (model,) = run.results[0].info.plan.models
    shapes = [
        f"{tensor.name} {'x'.join(map(str, tensor.shape)) or 'scalar'}" for tensor in model.inputs
    ]
    yield ", ".join(shapes)
    records = find_table("comparison").records(material)
    rows = {row["scenario"]: row for row in records if row.get("run_number")}
    base = rows[_NO_REUSE]
    yield _mib(base.get("application_memory_over_baseline_bytes"))
    for name in (_DUP, _DUP_AND_ARENA):
        saved = rows[name].get("saved_over_baseline_percent")
        yield rows[name]["outcome"] if saved is None else f"{saved:.0f} %"
    yield "" if base.get("latency_ns") is None else f"{base['latency_ns'] / 1e6:.1f}"


def _mib(size: float | None) -> str:
    return "" if size is None else f"{size / 2**20:.1f}"


if __name__ == "__main__":
    main()
