"""The campaign `memory`: allocations of a measured process fail, at any of its steps."""

from __future__ import annotations

import contextlib
import functools
import random
import re
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.after import after_session, announced, keep_sandbox
from benchmarks.faults.samples import Samples, session_command
from benchmarks.faults.sandbox import Sandbox
from benchmarks.faults.trial import Answer, Kind, Trial, Wrong
from reusebench.storage.run_file import StoredRun, read_storage

__all__ = ["Memory"]

_SCENARIOS = ("no_reuse", "partial_dup", "full_dup_internal_reuse")
#: Shares of the address space that a measured process needs at most. With less it does not start;
#: with more nothing fails.
_LEAST_SHARE = 0.1
_MOST_SHARE = 1.0
#: Number of shares between these, and the step between two inputs, which makes them differ much.
_SHARES = 50
_STRIDE = 17
_SESSION_LIMIT_S = 120.0
_INTERVAL_S = 0.002
#: Time limit of a step of the measured process.
_TIME_LIMIT_S = 20
#: Exit codes of pytest: success; a failure; a mistake of the user, such as an unreadable model.
_CODES = (0, 1, 4)
_PEAK = re.compile(r"^VmPeak:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True)
class Memory:
    """The campaign; each input limits the address space of one measured process of a session."""

    samples: Samples
    seed: int
    keep: Path
    time_limit_s: float = 400.0

    def try_input(self, index: int, folder: Path) -> Trial:
        """Run a session of three configurations, with one measured process limited."""
        chance = random.Random(f"memory {self.seed} {index}")
        peak_bytes, processes = _without_limit(self, folder)
        step = (_MOST_SHARE - _LEAST_SHARE) / _SHARES
        share = _LEAST_SHARE + step * (index * _STRIDE % _SHARES + chance.random())
        limit_bytes = int(share * peak_bytes)
        number = chance.randrange(processes)
        sandbox = Sandbox(folder / str(index)).make()
        process = self._start(sandbox)
        for place, pid in enumerate(_measured(process, sandbox)):
            if place == number:
                with contextlib.suppress(ProcessLookupError):
                    resource.prlimit(pid, resource.RLIMIT_AS, (limit_bytes, limit_bytes))
        wrongs = [*_session_wrongs(sandbox, process), *after_session(sandbox, self.samples)]
        about = (
            f"{limit_bytes >> 20} MiB of {peak_bytes >> 20} MiB for measured process {number + 1}"
            f" of {processes}"
        )
        failed = set(_outcomes(sandbox).values()) != {"ok"}
        trial = Trial(index, about, Answer.REFUSED if failed else Answer.SURVIVED, tuple(wrongs))
        keep_sandbox(sandbox, trial, self.keep / "memory")
        return trial

    def _start(self, sandbox: Sandbox) -> subprocess.Popen[bytes]:
        scenarios = " or ".join(f"{name}]" for name in _SCENARIOS)
        chosen = ("-k", scenarios, f"--time-limit={_TIME_LIMIT_S}")
        return sandbox.start(session_command(self.samples.model, sandbox.storage, *chosen))


def _measured(process: subprocess.Popen[bytes], sandbox: Sandbox) -> Iterator[int]:
    """Yield each measured process when it appears, until the session ends or takes too long."""
    end_s = time.monotonic() + _SESSION_LIMIT_S
    known = set[int]()
    while process.poll() is None and time.monotonic() < end_s:
        pid = sandbox.measured_process()
        if pid is not None and pid not in known:
            known.add(pid)
            yield pid
        time.sleep(_INTERVAL_S)


def _session_wrongs(sandbox: Sandbox, process: subprocess.Popen[bytes]) -> Iterator[Wrong]:
    """Yield the faults of a session in which one measured process had too little memory."""
    output = sandbox.output()
    code = process.poll()
    if code is None:
        yield Wrong(Kind.HANG, "the session does not end", output)
        sandbox.kill()
        process.wait()
        return
    if code not in _CODES:
        yield Wrong(Kind.FALSE, f"the session ends with {code}", output)
    if code == 4:  # the process that reads the model failed: nothing was measured
        return
    outcomes = _outcomes(sandbox)
    missing = set(_SCENARIOS) - outcomes.keys()
    if missing and announced(output):
        yield Wrong(
            Kind.LOST, "later configurations were not measured", f"{sorted(missing)}\n{output}"
        )
    if "hung" in outcomes.values():
        yield Wrong(Kind.HANG, "a measured process without memory does not end", output)
    if outcomes and "ok" not in outcomes.values():
        yield Wrong(
            Kind.LOST,
            "one process without memory took all configurations with it",
            f"{outcomes}\n{output}",
        )


def _outcomes(sandbox: Sandbox) -> dict[str, str]:
    outcomes = {}
    for run in read_storage(sandbox.storage):
        if isinstance(run, StoredRun):
            outcomes.update({result.info.scenario: result.info.outcome for result in run.results})
    return outcomes


@functools.cache
def _without_limit(campaign: Memory, folder: Path) -> tuple[int, int]:
    """Return the largest address space of a measured process in bytes, and the number of processes
    in a session.
    """
    sandbox = Sandbox(folder / "without-limit").make()
    process = campaign._start(sandbox)
    peaks: dict[int, int] = {}
    for pid in _measured(process, sandbox):
        with contextlib.suppress(OSError):
            while True:  # until it has gone
                match = _PEAK.search(Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
                if match is None:
                    break
                peaks[pid] = int(match[1]) * 1024
                time.sleep(_INTERVAL_S)
    if set(_outcomes(sandbox)) != set(_SCENARIOS):
        raise RuntimeError(f"the session does not work without a limit:\n{sandbox.output()}")
    shutil.rmtree(sandbox.folder)
    return max(peaks.values()), len(peaks)
