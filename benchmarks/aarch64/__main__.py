"""The whole of reusebench on aarch64, the architecture of most boards.

`python -m benchmarks.aarch64` runs `record` on the Python of Debian 12 and 13, and for every
runtime the contract and the tests of its adapter, a small bench and `fit`, and prints a line for
each. On a PC programs run under qemu, on this machine's kernel: what works is shown, never how
fast, and memory of the process has the emulator in it. An aarch64 machine needs no emulator.

The first run fetches 0.7 GB for each release, from Debian and PyPI, into --folder.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.aarch64.machine import Machine
from benchmarks.aarch64.parts import RELEASES, ensure_emulator, ensure_machine
from benchmarks.quick import parse, skip
from reusebench.system.cache import cache_root
from reusebench.targets.errors import TargetError

_CHECKOUT = Path(__file__).resolve().parents[2]
_LIMIT_S = 3600.0
#: Number of output lines to show if a check fails.
_LINES = 15
#: The suffix of the built-in network's file for each runtime.
_SUFFIXES = {
    "onnxruntime": ".onnx",
    "openvino": ".xml",
    "mnn": ".mnn",
    "ncnn": ".param",
    "litert": ".tflite",
}
_TESTS = "tests/measured/runtimes"
_REUSEBENCH = ("python3", "-m", "reusebench")
_PYTEST = ("python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow")
_SMALL = ("--streams=2", "--contexts=2", "--repeats=1", "--rounds=2", "--time-limit=600")
_FITTED = ("--limit=2GiB", "--streams=2", "--contexts=2")
#: A folder of the machine.
_STORAGE = "/home/results"
_KEPT = f"--benchmark-storage=file://{_STORAGE}"
#: Prints the path of the smallest built-in network.
_MAKE_MODEL = """\
import sys
from reusebench.models import Recipe, ensure_all
(model,) = ensure_all(sys.argv[1], [Recipe("tiny", 64, 1)])
print(model)
"""
#: Allocates 32 MiB between two marks.
_RECORDED = """\
import os

def mark(phase):
    os.write(3, phase + b"\\n")
    os.read(3, 1)

mark(b"begin")
data = b"x" * 2**25
mark(b"filled")
"""


@dataclass(frozen=True)
class _Check:
    """A command of the machine; it works if its exit code is 0."""

    title: str
    command: tuple[str, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all checks, and print a line for each."""
    parser = argparse.ArgumentParser("python -m benchmarks.aarch64", description=__doc__)
    parser.add_argument("--debian", choices=RELEASES, action="append", help="default: all")
    parser.add_argument("--runtime", choices=_SUFFIXES, action="append", help="default: all")
    parser.add_argument(
        "--folder",
        type=Path,
        default=cache_root() / "aarch64",
        help="where the machines are made (default: %(default)s)",
    )
    options = parse(parser, arguments, ["--debian=12", "--runtime=onnxruntime"])
    runtimes = options.runtime or list(_SUFFIXES)
    has_failed = False
    for number in options.debian or list(RELEASES):
        machine = _machine(number, options.folder, may_fetch=not options.quick)
        for check in _checks(machine, runtimes):
            has_failed = not _passes(machine, check) or has_failed
            if options.quick:
                break
    return 1 if has_failed else 0


def _machine(number: str, folder: Path, may_fetch: bool) -> Machine:
    """Return the machine of a release of Debian; skip the script if there is none."""
    release = RELEASES[number]
    if not may_fetch and not (folder / release.name).is_dir():
        skip("no machine was made yet: run `python -m benchmarks.aarch64`")
    try:
        root = ensure_machine(release, folder)
        machine = Machine(root, ensure_emulator(folder), _CHECKOUT)
    except TargetError as error:
        skip(str(error))
    print(f"Debian {number}, Python {release.python}", flush=True)
    return machine


def _checks(machine: Machine, runtimes: Sequence[str]) -> Iterator[_Check]:
    options = ("--storage", _STORAGE, "--marker", "3")
    program = ("python3", "-c", _RECORDED)
    yield _Check("record", (*_REUSEBENCH, "record", *options, "--", *program))
    for runtime in runtimes:
        model = f"--model={_model(machine, runtime)}"
        chosen = (f"--runtime={runtime}", model)
        tests = f"{_TESTS}/test_contract.py"
        yield _Check(f"{runtime}: contract", (*_PYTEST, tests, "-k", f"[{runtime}"))
        yield _Check(f"{runtime}: adapter", (*_PYTEST, f"{_TESTS}/test_{runtime}_adapter.py"))
        yield _Check(f"{runtime}: bench", (*_PYTEST, "bench/", "--quick", _KEPT, *chosen, *_SMALL))
        yield _Check(
            f"{runtime}: fit",
            (*_REUSEBENCH, "fit", "--storage", _STORAGE, *chosen, *_FITTED),
        )


def _model(machine: Machine, runtime: str) -> str:
    """Return the path of the smallest built-in network in the machine, made by the machine."""
    made = machine.run(("python3", "-c", _MAKE_MODEL, _SUFFIXES[runtime]), _LIMIT_S)
    return made.stdout.strip().rpartition("\n")[2]


def _passes(machine: Machine, check: _Check) -> bool:
    """Run a check, and print its line."""
    begin_s = time.monotonic()
    try:
        done = machine.run(check.command, _LIMIT_S)
    except subprocess.TimeoutExpired:
        print(f"    {check.title:24}FAILED: no end within {_LIMIT_S:g} s", flush=True)
        return False
    lines = [line for line in done.stdout.splitlines() if line.strip()] or ["it printed nothing"]
    seconds = time.monotonic() - begin_s
    if done.returncode:
        shown = "\n".join(f"        {line}" for line in lines[-_LINES:])
        print(f"    {check.title:24}FAILED, exit code {done.returncode}\n{shown}", flush=True)
        return False
    print(f"    {check.title:24}{seconds:6.0f} s  {lines[-1]}", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
