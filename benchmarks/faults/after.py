"""What must hold after a session, however it ended: nothing lost, nothing running, nothing left
behind.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from benchmarks.faults.samples import Samples, reusebench
from benchmarks.faults.sandbox import Sandbox, tracebacks, wait_until
from benchmarks.faults.trial import Kind, Trial, Wrong
from reusebench.models.built_files import is_intact
from reusebench.storage.run_file import BadFile, StoredRun, read_storage

__all__ = ["after_session", "announced", "keep_sandbox", "page_wrongs", "stored_names"]

#: The line of a configuration that has ended: runtime, scenario, and what came of it.
_ANNOUNCED = re.compile(r"^onnxruntime (\S+) {2,}(?!skipped)\S", re.MULTILINE)
#: Where a run is that the storage did not take.
_ELSEWHERE = re.compile(
    r"The run is in (\S+)\. When there is room, move it to (\S+), under a number that is free"
)
#: How long processes may live that have lost their harness, and how long a command that cleans may
#: take.
_ENDING_S = 10.0
_CLEANING_S = 60.0


def announced(output: str) -> set[str]:
    """Return the scenarios that the terminal says are finished."""
    return set(_ANNOUNCED.findall(output))


def stored_names(storage: Path) -> set[str]:
    """Return the scenarios and programs of a storage whose files can be read."""
    runs = [file for file in read_storage(storage) if isinstance(file, StoredRun)]
    scenarios = {result.info.scenario for run in runs for result in run.results}
    return scenarios | {program.name for run in runs for program in run.programs}


def after_session(
    sandbox: Sandbox, samples: Samples, may_lose: int = 0, before_fault_bytes: int = 0
) -> Iterator[Wrong]:
    """Yield what is wrong when the harness has ended; ends what is still running, and cleans as a
    user would.

    So many results may be missing of which the session has said, by its exit code, that they could
    not be written; none of those that it had shown before the fault, in the first
    `before_fault_bytes` of what it printed.
    """
    output = sandbox.output()
    yield from tracebacks(output)
    if not wait_until(lambda: not any(sandbox.processes()), _ENDING_S):
        lines = sorted({_command_line(pid) for pid in sandbox.processes()})
        yield Wrong(Kind.LEFTOVER, f"running: {', '.join(lines)}"[:200], "\n".join(lines))
        sandbox.kill()
    yield from _moved(output)
    yield from _of_storage(sandbox.storage, output, may_lose, before_fault_bytes)
    (sandbox.folder / "output").rename(sandbox.folder / "output-of-session")
    sandbox.run(reusebench("runs", "prune", "--cache"), _CLEANING_S)
    left = {
        path
        for path in sandbox.files() - samples.usual_files()
        if not _is_to_stay(sandbox.disk / path)
    }
    if left:
        yield Wrong(
            Kind.LEFTOVER,
            f"files: {_pattern(min(left))}",
            "\n".join([*sorted(left), sandbox.output()]),
        )


def _is_to_stay(path: Path) -> bool:
    """Whether it is the lock of a folder, or of a built-in network that a plan named: its whole
    model, or its size.
    """
    model = path.with_name(path.name[1:-5]) if path.suffix == ".size" else path
    return path.name == ".lock" or (path.parent.name == "models" and is_intact(model))


def _moved(output: str) -> Iterator[Wrong]:
    """Move a run that the storage did not take into it, as the session says; yield that it is not
    there.
    """
    for file, folder in _ELSEWHERE.findall(output):
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            Path(file).rename(Path(folder, "9999_moved.json"))
            shutil.rmtree(Path(file).parents[1])
        except FileNotFoundError:
            yield Wrong(Kind.LOST, "a run is not where the session says", output)


def _of_storage(
    storage: Path, output: str, may_lose: int, before_fault_bytes: int
) -> Iterator[Wrong]:
    bad_files = [file for file in read_storage(storage) if isinstance(file, BadFile)]
    if bad_files:
        yield Wrong(Kind.LOST, "a stored file cannot be read", "\n".join(map(str, bad_files)))
    lost = announced(output) - stored_names(storage)
    before = announced(output.encode()[:before_fault_bytes].decode(errors="replace"))
    if len(lost) > may_lose or lost & before:
        yield Wrong(
            Kind.LOST,
            "configurations that the terminal has shown are not stored",
            f"{sorted(lost)}\n{output}",
        )


def page_wrongs(page: Path, before: Path) -> Iterator[Wrong]:
    """Yield what of a report is neither its former page nor a whole new one."""
    for file in before.rglob("*"):
        now = page / file.relative_to(before)
        if file.is_file() and not now.exists():
            yield Wrong(Kind.LOST, f"report: {file.name} is gone", "")
        elif file.suffix == ".html" and not now.read_text(encoding="utf-8").rstrip().endswith(
            "</html>"
        ):
            yield Wrong(Kind.LOST, f"report: {file.name} is half a page", "")
        elif file.is_file() and file.stat().st_size and not now.stat().st_size:
            yield Wrong(Kind.LOST, f"report: {file.name} is empty", "")


def keep_sandbox(sandbox: Sandbox, trial: Trial, keep: Path) -> None:
    """Move the sandbox of a trial with something wrong to where it is kept; remove another one."""
    if trial.wrongs:
        folder = keep / str(trial.index)
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(sandbox.folder, folder, symlinks=True)
        (folder / "wrong.txt").write_text(
            trial.in_words(), encoding="utf-8", errors="backslashreplace"
        )
    shutil.rmtree(sandbox.folder, ignore_errors=True)


def _command_line(pid: int) -> str:
    try:
        return (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode(errors="replace")[:150]
        )
    except OSError:
        return "gone"


def _pattern(path: str) -> str:
    """Return the path without what is by chance."""
    return re.sub(r"tmp\w{8}|\d+", "*", path)
