"""The campaign `kills`: signals at any moment, to the harness and to the measured process."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.after import after_session, keep_sandbox, page_wrongs, stored_names
from benchmarks.faults.samples import Samples, record_command, reusebench, session_command
from benchmarks.faults.sandbox import Sandbox, signal_all, wait_until
from benchmarks.faults.trial import Answer, Kind, Trial, Wrong

__all__ = ["Kills"]

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
#: Killed commands with their relative frequency.
_SHARES = {"session": 5, "measured": 3, "record": 2, "report": 1}
#: Latest moment of the signal after the start.
_LENGTHS_S = {"session": 4.5, "measured": 4.5, "record": 4.5, "report": 4.0}
#: Time limit for a process that was told to end.
_ENDING_S = 30.0
#: Time limit for a session whose measured process was stopped.
_SESSION_S = 90.0
#: Time limit of a step of the measured process.
_TIME_LIMIT_S = 4
#: Time of the last readings that `record` may lose; it stores while it runs.
_UNRECORDED_S = 2.0


@dataclass(frozen=True)
class Kills:
    """The campaign; each input is a command and signals at random moments."""

    samples: Samples
    seed: int
    keep: Path
    time_limit_s: float = 300.0

    def try_input(self, index: int, folder: Path) -> Trial:
        """Start a command, send the signals, and check the results."""
        chance = random.Random(f"kills {self.seed} {index}")
        (kind,) = chance.choices(list(_SHARES), list(_SHARES.values()))
        sandbox = Sandbox(folder / str(index)).make()
        moment_s = chance.uniform(0.0, _LENGTHS_S[kind])
        if kind == "measured":
            trial = self._measured(index, sandbox, chance, moment_s)
        else:
            numbers = [chance.choice(_ENDING) for _ in range(chance.choice((1, 1, 2)))]
            trial = self._signalled(
                index, sandbox, kind, numbers, moment_s, chance.uniform(0.0, 0.5)
            )
        keep_sandbox(sandbox, trial, self.keep / "kills")
        return trial

    def _signalled(
        self,
        index: int,
        sandbox: Sandbox,
        kind: str,
        numbers: Sequence[int],
        moment_s: float,
        between_s: float,
    ) -> Trial:
        """Send signals to the command itself."""
        page = sandbox.disk / "page"
        shutil.copytree(self.samples.page, page)
        commands = {
            "session": self._session(sandbox),
            "record": record_command(sandbox),
            "report": reusebench(
                "report", "--storage", str(self.samples.storage), "--output", str(page)
            ),
        }
        process = sandbox.start(commands[kind])
        _sleep(process, moment_s)
        is_running = process.poll() is None
        for number in numbers:
            signal_all([process.pid] if process.poll() is None else [], number)
            _sleep(process, between_s)
        killed_s = time.time()
        wrongs = [*_end_wrongs(process, sandbox, _ENDING_S), *after_session(sandbox, self.samples)]
        if kind == "record":
            wrongs += _record_wrongs(sandbox, killed_s)
        if kind == "report":
            wrongs += page_wrongs(page, self.samples.page)
        names = " and ".join(signal.Signals(number).name for number in numbers)
        answer = Answer.REFUSED if is_running else Answer.SURVIVED
        return Trial(index, f"{names} to {kind} after {moment_s:.2f} s", answer, tuple(wrongs))

    def _measured(
        self, index: int, sandbox: Sandbox, chance: random.Random, moment_s: float
    ) -> Trial:
        """Stop or kill the measured process, and then perhaps the harness."""
        number = chance.choice((signal.SIGKILL, signal.SIGSTOP, signal.SIGSTOP))
        after = None
        if number == signal.SIGSTOP:
            after = chance.choice((None, signal.SIGKILL, signal.SIGTERM))
        process = sandbox.start(self._session(sandbox))
        _sleep(process, moment_s)
        pid = None
        while process.poll() is None and pid is None:
            pid = sandbox.measured_process()
        signal_all([pid] if pid else [], number)
        if after is not None and process.poll() is None:
            _sleep(process, chance.uniform(0.0, 0.3))
            signal_all([process.pid], after)
        limit_s = _SESSION_S if after is None else _ENDING_S
        wrongs = [*_end_wrongs(process, sandbox, limit_s), *after_session(sandbox, self.samples)]
        names = number.name + (f", then {after.name} to the session" if after else "")
        about = f"{names} to the measured process after {moment_s:.2f} s"
        return Trial(index, about, Answer.REFUSED, tuple(wrongs))

    def _session(self, sandbox: Sandbox) -> list[str]:
        chosen = ("-k", "partial_dup] or full_dup_internal_reuse]", f"--time-limit={_TIME_LIMIT_S}")
        return session_command(self.samples.model, sandbox.storage, *chosen)


def _sleep(process: subprocess.Popen[bytes], seconds: float) -> None:
    wait_until(lambda: process.poll() is not None, seconds)


def _end_wrongs(
    process: subprocess.Popen[bytes], sandbox: Sandbox, time_limit_s: float
) -> Iterator[Wrong]:
    try:
        process.wait(time_limit_s)
    except subprocess.TimeoutExpired:
        yield Wrong(Kind.HANG, "it does not end", sandbox.output())
        sandbox.kill()
        process.wait()


def _record_wrongs(sandbox: Sandbox, killed_s: float) -> Iterator[Wrong]:
    started = sandbox.folder / "started"
    if not started.exists() or killed_s - started.stat().st_mtime <= _UNRECORDED_S:
        return
    if not stored_names(sandbox.storage):
        yield Wrong(Kind.LOST, "the recorded program is not stored", sandbox.output())
