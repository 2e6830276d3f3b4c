"""Checks after a session, however it ended: nothing lost, running or left behind."""

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

__all__ = [
    "after_session",
    "announced",
    "is_whole_page",
    "keep_sandbox",
    "page_wrongs",
    "stored_names",
]

#: Line of a finished configuration: runtime, scenario and outcome.
_ANNOUNCED = re.compile(r"^onnxruntime (\S+) {2,}(?!skipped)\S", re.MULTILINE)
#: Message with the place of a run that could not be stored.
_ELSEWHERE = re.compile(
    r"The run is in (\S+)\. When there is room, move it to (\S+), under a number that is free"
)
#: Time limit for processes that have lost their harness, and for a command that cleans up.
_ENDING_S = 10.0
_CLEANING_S = 60.0


def announced(output: str) -> set[str]:
    """Return the scenarios that the terminal shows as finished."""
    return set(_ANNOUNCED.findall(output))


def stored_names(storage: Path) -> set[str]:
    """Return the scenarios and programs in the readable files of a storage."""
    runs = [file for file in read_storage(storage) if isinstance(file, StoredRun)]
    scenarios = {result.info.scenario for run in runs for result in run.results}
    return scenarios | {program.name for run in runs for program in run.programs}


def after_session(
    sandbox: Sandbox, samples: Samples, may_lose: int = 0, before_fault_bytes: int = 0
) -> Iterator[Wrong]:
    """Yield the faults after the harness has ended; kill its processes, and clean as a user would.

    Up to `may_lose` results may be missing if the exit code said that they could not be written.
    Results shown before the fault, in the first `before_fault_bytes` of the output, must be there.
    """
    output = sandbox.output()
    yield from tracebacks(output)
    if not wait_until(lambda: not any(sandbox.processes()), _ENDING_S):
        lines = sorted({_command_line(pid) for pid in sandbox.processes()})
        yield Wrong(Kind.LEFTOVER, f"running: {', '.join(lines)}"[:200], "\n".join(lines))
        sandbox.kill()
    yield from _move_run(output)
    yield from _storage_wrongs(sandbox.storage, output, may_lose, before_fault_bytes)
    (sandbox.folder / "output").rename(sandbox.folder / "output-of-session")
    sandbox.run(reusebench("runs", "prune", "--cache"), _CLEANING_S)
    unusual = sorted(sandbox.files() - samples.usual_files())
    left = [path for path in unusual if not _may_stay(sandbox.disk / path)]
    if left:
        # Characters that differ by chance are left out, so that equal faults count as one.
        pattern = re.sub(r"tmp\w{8}|\d+", "*", left[0])
        yield Wrong(Kind.LEFTOVER, f"files: {pattern}", "\n".join([*left, sandbox.output()]))


def _may_stay(path: Path) -> bool:
    """Whether the file is a folder's lock, or the model or size of a network that a plan names."""
    if path.name == ".lock":
        return True
    model = path.with_name(path.name[1:-5]) if path.suffix == ".size" else path
    return path.parent.name == "models" and is_intact(model)


def _move_run(output: str) -> Iterator[Wrong]:
    """Move a run that could not be stored into the storage, as the session advises."""
    for file, folder in _ELSEWHERE.findall(output):
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            Path(file).rename(Path(folder, "9999_moved.json"))
            shutil.rmtree(Path(file).parents[1])
        except FileNotFoundError:
            yield Wrong(Kind.LOST, "a run is not where the session says", output)


def _storage_wrongs(
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
    """Yield the files of a report that are neither the former nor complete new ones."""
    for file in before.rglob("*"):
        if not file.is_file():
            continue
        new_file = page / file.relative_to(before)
        if not new_file.exists():
            yield Wrong(Kind.LOST, f"report: {file.name} is gone", "")
        elif file.suffix == ".html" and not is_whole_page(new_file):
            yield Wrong(Kind.LOST, f"report: {file.name} is half a page", "")
        elif file.stat().st_size and not new_file.stat().st_size:
            yield Wrong(Kind.LOST, f"report: {file.name} is empty", "")


def is_whole_page(page: Path) -> bool:
    """Whether an HTML file has its end."""
    return page.read_text(encoding="utf-8").rstrip().endswith("</html>")


def keep_sandbox(sandbox: Sandbox, trial: Trial, keep: Path) -> None:
    """Remove the sandbox of a trial; keep a copy first if the trial has faults."""
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
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return "gone"
    return words.replace(b"\0", b" ").decode(errors="replace")[:150]
