"""The whole of reusebench on aarch64, the architecture of most boards.

`python -m benchmarks.aarch64` runs `record` on the Python of Debian 12 and 13, and for every
runtime the contract and the tests of its adapter, a small bench and `fit`, and prints a line for
each. On a PC programs run under qemu, on this machine's kernel: what works is shown, never how
fast, and memory of the process has the emulator in it. An aarch64 machine needs no emulator.

The first run fetches 0.7 GB for each release, from Debian and PyPI, into --folder.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.aarch64.machine import Machine
from benchmarks.aarch64.parts import RELEASES, ensure_emulator, ensure_machine
from benchmarks.quick import parse, skip
from reusebench.models import Recipe, ensure_all
from reusebench.models.errors import ModelError
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
_CHECKS = ("record", "contract", "adapter", "bench", "fit")
#: Pytest's last line.
_SUMMARY = re.compile(r"^\d+ passed")
_TESTS = "tests/measured/runtimes"
_REUSEBENCH = ("python3", "-m", "reusebench")
_PYTEST = ("python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow")
_SMALL = ("--streams=2", "--contexts=2", "--repeats=1", "--rounds=2", "--time-limit=600")
_FITTED = ("--limit=2GiB", "--streams=2", "--contexts=2")
#: Folders of the machine.
_STORAGE = "/home/results"
_MODELS = "/home/models"
_KEPT = f"--benchmark-storage=file://{_STORAGE}"
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

    runtime: str
    kind: str
    command: tuple[str, ...]

    @property
    def title(self) -> str:
        """Return its name in the printed line."""
        return f"{self.runtime}: {self.kind}" if self.runtime else self.kind


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all checks, and print a line for each."""
    parser = argparse.ArgumentParser("python -m benchmarks.aarch64", description=__doc__)
    parser.add_argument("--debian", choices=RELEASES, action="append", help="default: all")
    parser.add_argument("--runtime", choices=_SUFFIXES, action="append", help="default: all")
    parser.add_argument("--check", choices=_CHECKS, action="append", help="default: all")
    parser.add_argument(
        "--folder",
        type=Path,
        default=cache_root() / "aarch64",
        help="where the machines are made (default: %(default)s)",
    )
    options = parse(parser, arguments, ["--debian=12", "--check=record"])
    runtimes = options.runtime or list(_SUFFIXES)
    wanted = options.check or list(_CHECKS)
    has_failed = False
    for number in options.debian or list(RELEASES):
        machine = _machine(number, options.folder, may_fetch=not options.quick)
        if "bench" in wanted or "fit" in wanted:
            for runtime in runtimes:
                _put_model(machine, _SUFFIXES[runtime])
        for check in _checks(runtimes):
            if check.kind in wanted:
                has_failed = not _passes(machine, check) or has_failed
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


def _checks(runtimes: Sequence[str]) -> Iterator[_Check]:
    options = ("--storage", _STORAGE, "--marker", "3")
    program = ("python3", "-c", _RECORDED)
    yield _Check("", "record", (*_REUSEBENCH, "record", *options, "--", *program))
    for runtime in runtimes:
        yield _Check(runtime, "contract", (*_PYTEST, f"{_TESTS}/test_contract.py", f"-k[{runtime}"))
        yield _Check(runtime, "adapter", (*_PYTEST, f"{_TESTS}/test_{runtime}_adapter.py"))
        chosen = (f"--runtime={runtime}", f"--model={_MODELS}/tiny{_SUFFIXES[runtime]}")
        bench = (*_PYTEST, "bench/", "--quick", _KEPT, *chosen, *_SMALL)
        yield _Check(runtime, "bench", bench)
        fit = (*_REUSEBENCH, "fit", "--storage", _STORAGE, *chosen, *_FITTED)
        yield _Check(runtime, "fit", fit)


def _put_model(machine: Machine, suffix: str) -> None:
    """Put the smallest built-in network into the machine; converters run here, on the PC."""
    try:
        (model,) = ensure_all(suffix, [Recipe("tiny", 64, 1)])
    except ModelError as error:
        skip(str(error))
    folder = machine.path(_MODELS)
    folder.mkdir(exist_ok=True)
    for file in model.parent.glob(f"{model.stem}.*"):
        shutil.copy(file, folder / f"tiny{file.suffix}")


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
    # Some libraries print when the process ends.
    summary = next(filter(_SUMMARY.search, reversed(lines)), lines[-1])
    print(f"    {check.title:24}{seconds:6.0f} s  {summary}", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
