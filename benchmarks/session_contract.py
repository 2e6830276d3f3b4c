"""Proof that `reusebench fit --sessions` predicts what is needed, as in docs/evidence/fit.md.

    python -m benchmarks.session_contract --model SmolLM2-135M-Instruct.Q4_1.gguf --sessions 8 \\
        --tokens 4096

For each model it asks fit for the peak of every layout, and runs some layouts in a control group:

- without a limit, where the peak is measured;
- with the predicted peak and the margin as its limit, where it must run;
- with 2 % less than the predicted peak, where it must not.

All pages of the process are locked once they are in memory (mlockall with MCL_ONFAULT): the kernel
cannot drop weights or code and read them again, as it would on a board whose memory is full, where
the process would run on, many times slower. So "does not run" means that the kernel kills it. The
last column has what a process whose pages are not locked does with that limit.

Pages of libraries that other processes had read before are charged to those. The run without a
limit tells how many they are, and limits are lower by as much. The model is a copy that nobody else
has read. A limit is set when the runtime has been imported.

The margin is what a process has no page of: page tables and the kernel's own objects. It is stated
and measured. The script needs the right to make control groups, which root has.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional

from tabulate import tabulate

from benchmarks.quick import own_folder, parse, skip
from reusebench.fit.sessions.layouts import SessionDemand, SessionLayout, plan_of
from reusebench.measured.plan import Conversation, Plan
from reusebench.measured.runtimes import available, find_runtime
from reusebench.models.language import LanguageRecipe, ensure_language
from reusebench.samplers.control_groups import control_groups
from reusebench.samplers.host import LOCAL_HOST
from reusebench.system.package import START, python_command
from reusebench.targets.protocol.base import PYTHON_PROTOCOL

_MIB = 2**20
_RUNTIME = "llama_cpp"
#: The built-in models, which fit was not calibrated on either: it has no figure of any model.
_BUILT_IN = ("decoder", "tiny_decoder")
#: Below the predicted peak it must not run.
_LESS = 0.02
#: Memory of the kernel for a process of one runtime: page tables have 8 bytes for a page of 4096,
#: and stacks, descriptors and counters of CPUs are some MiB.
_PAGE_BYTES = 4096
_PAGE_TABLES = 8 / _PAGE_BYTES
_KERNEL_BYTES = 2 * _MIB
#: The driver, in a process whose pages are locked once they are there if the flags say so.
_DRIVER = """
import ctypes, os, runpy, sys
flags = int(sys.argv.pop(1))
if flags and ctypes.CDLL(None, use_errno=True).mlockall(flags):
    sys.exit("mlockall: " + os.strerror(ctypes.get_errno()))
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
#: MCL_CURRENT, MCL_FUTURE and MCL_ONFAULT of mlockall(2).
_LOCKED = 1 | 2 | 4
_HEADS = (
    "model",
    "layout",
    "predicted, MiB",
    "measured",
    "error",
    "kernel",
    "with the margin",
    "2 % below",
    "the same, not locked",
)


@dataclass(frozen=True)
class Outcome:
    """The end of a plan in a control group."""

    has_run: bool
    #: Highest resident memory of the process.
    peak_bytes: int
    #: Memory of the kernel that was charged to the group at the end.
    kernel_bytes: int
    #: What ended it.
    end: str
    #: Pages of files that the kernel dropped and read again.
    refaulted_bytes: int = 0
    #: Resident pages of files that are charged to others, at the end.
    elsewhere_bytes: int = 0


@dataclass(frozen=True)
class Files:
    """The names of a control group's files, by version."""

    limit: str
    charged: str
    kernel: Optional[str]
    mapped: str


_FILES = {
    1: Files(
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "memory.kmem.usage_in_bytes",
        "mapped_file",
    ),
    2: Files("memory.max", "memory.current", None, "file_mapped"),
}


class Group:
    """A control group of its own."""

    def __init__(self, folder: Path, version: int) -> None:
        self._folder = folder
        self._files = _FILES[version]

    def take(self, pid: int) -> None:
        """Move a process into the group."""
        (self._folder / "cgroup.procs").write_text(str(pid))

    def limit_to(self, size_bytes: int) -> None:
        """Set the limit."""
        (self._folder / self._files.limit).write_text(str(size_bytes))

    def mapped_bytes(self) -> int:
        """Return the mapped pages of files that are charged to the group."""
        return self._stat()[self._files.mapped]

    def kernel_bytes(self) -> int:
        """Return the memory of the kernel that is charged to the group."""
        if self._files.kernel is not None:
            return int((self._folder / self._files.kernel).read_text())
        return self._stat().get("kernel", 0)

    def refaulted_bytes(self) -> int:
        """Return the pages of files that were dropped and read again."""
        return self._stat().get("workingset_refault_file", 0) * _PAGE_BYTES

    def _stat(self) -> dict[str, int]:
        lines = (self._folder / "memory.stat").read_text().splitlines()
        return {name: int(value) for name, value in (line.split() for line in lines)}


@contextmanager
def control_group() -> Iterator[Group]:
    """Yield a control group below that of this process; skip the script if none can be made."""
    own = next((group for group in control_groups(LOCAL_HOST) if group.is_own), None)
    if own is None:
        skip("no control group with a memory controller is mounted")
    folder = Path(own.file(f"reusebench-contract-{os.getpid()}"))
    try:
        folder.mkdir()
    except OSError as error:
        skip(f"no control group can be made in {own.folder}: {error.strerror}")
    try:
        if not (folder / _FILES[own.version].limit).exists():
            skip(f"{own.folder} gives the groups below it no memory controller")
        yield Group(folder, own.version)
    finally:
        folder.rmdir()


def run_in_group(plan: Plan, limit_bytes: int | None, is_locked: bool = True) -> Outcome:
    """Run a plan in a control group with this limit for its process, and return the end."""
    with control_group() as group:
        process = subprocess.Popen(
            [sys.executable, "-c", _DRIVER, str(_LOCKED * is_locked), str(START)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        group.take(process.pid)
        try:
            return _walked(process, group, plan, limit_bytes)
        finally:
            process.kill()
            process.communicate()


def _walked(
    process: subprocess.Popen[bytes], group: Group, plan: Plan, limit_bytes: int | None
) -> Outcome:
    assert process.stdin is not None
    assert process.stdout is not None
    peak_bytes = kernel_bytes = 0
    process.stdin.write(PYTHON_PROTOCOL.begin(plan))
    process.stdin.flush()
    for line in process.stdout:
        message = json.loads(line)
        if message["event"] != "barrier":
            return Outcome(False, peak_bytes, kernel_bytes, str(message["message"]["code"]))
        status = _status(process.pid)
        if message["phase"] == "imported" and limit_bytes is not None:
            group.limit_to(limit_bytes)
        peak_bytes = max(peak_bytes, status["VmHWM"])
        kernel_bytes = max(kernel_bytes, group.kernel_bytes())
        if message["phase"] == "steady":
            elsewhere_bytes = max(0, status["RssFile"] - group.mapped_bytes())
            return Outcome(
                True, peak_bytes, kernel_bytes, "ran", group.refaulted_bytes(), elsewhere_bytes
            )
        process.stdin.write(b"go\n")
        process.stdin.flush()
    code = process.wait()
    if code == -signal.SIGKILL:
        return Outcome(False, peak_bytes, kernel_bytes, "killed")
    words = process.stderr.read().decode(errors="replace") if process.stderr else ""
    sys.exit(f"the process ended with {code}: {words[-2000:]}")


def _status(pid: int) -> dict[str, int]:
    """Return the sizes of a process in bytes, by their names in /proc/PID/status."""
    sizes = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if value.endswith(" kB"):
            sizes[name] = int(value.split()[0]) * 1024
    return sizes


def answer_of(model: Path, options: Sequence[str], storage: Path) -> dict[str, Any]:
    """Return the answer of fit."""
    wished = ["--runtime", _RUNTIME, "--model", str(model), "--storage", str(storage), *options]
    command = python_command("reusebench", "fit", "--json", *wished)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    reply = json.loads(done.stdout)
    if reply["errors"]:
        sys.exit(f"fit: {reply['errors'][0]}")
    answer: dict[str, Any] = reply["result"]
    return answer


def margin_of(point: dict[str, Any]) -> float:
    """Return the stated margin: the uncertainty of the prediction, and memory of the kernel."""
    uncertain = point["limited_bytes"] - point["peak_bytes"]
    return float(uncertain + _PAGE_TABLES * point["peak_bytes"] + _KERNEL_BYTES)


def layouts_to_run(answer: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Return the recommended layout, the default, and others evenly by memory."""
    points = [answer["best"], answer["today"]]
    others = [point for point in answer["candidates"] if point not in points]
    wanted = max(0, count - len(points))
    points += others[:: max(1, len(others) // max(1, wanted))][:wanted]
    distinct = []
    for point in points[:count]:
        if point not in distinct:
            distinct.append(point)
    return distinct


def rows_of(model: Path, options: argparse.Namespace, storage: Path) -> Iterator[tuple[Any, ...]]:
    """Yield a row of the table for each layout that was run."""
    copy = own_folder() / model.name
    shutil.copyfile(model, copy)
    wished = ["--sessions", str(options.sessions), "--tokens", str(options.tokens)]
    wished += ["--prompt", str(options.prompt), "--generated", str(options.generated)]
    wished += ["--common", str(options.common)]
    answer = answer_of(model, wished, storage)
    conversation = Conversation(**answer["conversation"])
    for point in layouts_to_run(answer, options.layouts):
        layout = SessionLayout(point["kind"], tuple(point["options"]))
        plan = _plan(answer, layout, conversation, copy)
        peak = point["peak_bytes"]
        free = _run(plan, copy, None)
        less_bytes = round(peak * (1 - _LESS)) - free.elsewhere_bytes
        enough_bytes = round(peak + margin_of(point)) - free.elsewhere_bytes
        enough = _run(plan, copy, enough_bytes)
        less = _run(plan, copy, less_bytes)
        evicted = _run(plan, copy, less_bytes, is_locked=False)
        yield (
            model.stem,
            " ".join((layout.kind, *layout.options)),
            f"{peak / _MIB:.1f}",
            f"{free.peak_bytes / _MIB:.1f}",
            f"{100 * (peak / free.peak_bytes - 1):+.2f} %",
            f"{free.kernel_bytes / _MIB:.1f}",
            f"+{margin_of(point) / _MIB:.1f}: {enough.end}",
            less.end,
            f"{evicted.end}, {evicted.refaulted_bytes / _MIB:.1f} MiB read again",
        )


def _plan(
    answer: dict[str, Any], layout: SessionLayout, conversation: Conversation, file: Path
) -> Plan:
    recommended = Plan.from_json(answer["recommended"])
    model = replace(recommended.models[0], path=str(file))
    demand = SessionDemand(_RUNTIME, model, answer["sessions"], conversation)
    return plan_of(layout, demand, demand.sessions, conversation, "contract")


def _run(plan: Plan, model: Path, limit_bytes: int | None, is_locked: bool = True) -> Outcome:
    """Run a plan, whose process is the first to read the model."""
    _forget(model)
    return run_in_group(plan, limit_bytes, is_locked)


def _forget(file: Path) -> None:
    """Have the kernel drop the pages of a file, so that its next reader is charged for them."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, and return 1 if a layout broke the contract."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", type=Path, action="append", help="default: the built-in ones")
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--prompt", type=int, default=1000)
    parser.add_argument("--generated", type=int, default=8)
    parser.add_argument("--common", type=int, default=0)
    parser.add_argument("--layouts", type=int, default=3, help="number of layouts to run")
    quick = ["--sessions", "2", "--tokens", "128", "--prompt", "100", "--layouts", "1"]
    options = parse(parser, arguments, quick)
    if not available(find_runtime(_RUNTIME)):
        skip(f"no llama.cpp: {find_runtime(_RUNTIME).install}")
    with control_group():
        pass
    models = options.model
    if not models:
        names = _BUILT_IN[1:] if options.quick else _BUILT_IN
        models = ensure_language(".gguf", [LanguageRecipe(name) for name in names])
    storage = own_folder()
    rows: list[tuple[Any, ...]] = []
    for model in models:
        for row in rows_of(model, options, storage):
            rows.append(row)
            print(tabulate(rows, _HEADS, tablefmt="pipe", disable_numparse=True), flush=True)
    if options.quick:
        return 0
    broken = [row for row in rows if not row[6].endswith("ran") or row[7] != "killed"]
    for row in broken:
        print(f"not as promised: {row[0]}, {row[1]}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
