"""`reusebench record` as users run it: real programs, the real storage."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.recorder_accuracy import NOT_READ, WRONG, judge_memory, judge_peak, measure
from reusebench.recorder import recorder
from reusebench.storage.recorded_program import Program
from reusebench.storage.run_file import StoredRun, read_storage
from reusebench.storage.runs import run_of
from reusebench.storage.trace import ProgramTrace, read_trace
from tests.helpers.support import CHECKOUT, TIME_LIMIT_S, Reusebench, record_command

pytestmark = pytest.mark.process

_MIB = 2**20
_RECORD = record_command()

#: Marks its phases in the file.
_PHASES = """
import os, time
def mark(name):
    with open(os.environ["REUSEBENCH_PHASES"], "a") as file:
        print(name, file=file)
time.sleep(0.5)
mark("load")
time.sleep(0.3)
held = bytearray(24 << 20)
mark("steady")
time.sleep(0.6)
mark("load")
time.sleep(0.3)
del held
time.sleep(0.3)
mark("end")
time.sleep(0.6)
"""
#: Holds 24 MiB in a file that it does not map, 8 MiB of them mapped from the mark `mapped` on; its
#: child has the file too. It also opens pipes.
_HELD = """
import mmap, os
def mark(name):
    marker = int(os.environ["REUSEBENCH_MARKER"])
    os.write(marker, name.encode() + b"\\n")
    os.read(marker, 1)
mark("base")
frames = os.memfd_create("frames")
for _ in range(24):
    os.write(frames, bytes(1 << 20))
end, ending = os.pipe()
if not os.fork():
    os.close(ending)
    os.read(end, 1)
    os._exit(0)
mark("held")
mapped = mmap.mmap(frames, 8 << 20)
for position in range(0, len(mapped), 4096):
    mapped[position]
mark("mapped")
pipes = [os.pipe() for _ in range(40)]
mark("end")
os.close(ending)
os.wait()
"""
#: Leaves a process behind that has left the session, and ends before it.
_DAEMON = """
import os, time
if not os.fork():
    os.setsid()
    if not os.fork():
        held = bytearray(16 << 20)
        time.sleep(1.8)
    os._exit(0)
os.wait()
raise SystemExit(3)
"""
#: Both workers hold their memory from the mark `steady` to the mark `end`, however busy the machine
#: is. It marks them through the descriptor.
_WORKERS = r"""
import os, time
def mark(name):
    marker = int(os.environ["REUSEBENCH_MARKER"])
    os.write(marker, name.encode() + b"\n")
    os.read(marker, 1)
ready, filled = os.pipe()
end, ending = os.pipe()
for size in (8, 24):
    if not os.fork():
        os.close(ending)
        held = bytearray(size << 20)
        os.write(filled, b".")
        os.read(end, 1)
        os._exit(0)
os.read(ready, 1)
os.read(ready, 1)
mark("steady")
time.sleep(0.8)
mark("end")
os.close(ending)
os.wait()
os.wait()
"""
#: Shorter than anything that samples sees.
#: It lives on for long enough that a recorder on a busy machine reads it once more after the spike.
_SPIKE = "import time; time.sleep(0.4); held = bytearray(64 << 20); del held; time.sleep(1.5)"
_PASSED = "import sys; print(sys.stdin.read().upper()); print('warned', file=sys.stderr)"


@dataclass(frozen=True)
class Done:
    """One command, and what it stored."""

    code: int
    out: str
    err: str
    storage: Path

    @property
    def program(self) -> Program:
        """The recorded program of its one run."""
        (run,) = _runs(self.storage)
        (program,) = run.programs
        return program

    def values(self, figure: str) -> dict[str, int]:
        """Return the first repeat's figure of each phase."""
        return {
            phase.name: getattr(phase.memory, f"{figure}_bytes")[0] for phase in self.program.phases
        }

    def trace(self, repeat: int = 0) -> ProgramTrace:
        """Return the trace of a repeat."""
        trace = read_trace(self.storage, self.program.repeats[repeat].trace, ProgramTrace)
        assert trace is not None
        return trace


def _runs(storage: Path) -> list[StoredRun]:
    files = list(read_storage(storage))
    assert all(isinstance(file, StoredRun) for file in files), files
    return [file for file in files if isinstance(file, StoredRun)]


#: All are recorded once for all tests, some at the same time: all at once exceed the time limit on
#: a busy machine.
_AT_ONCE = 3
_COMMANDS: dict[str, Sequence[str]] = {
    "marks": ("--phases", "{folder}/marks", "--", sys.executable, "-c", _PHASES),
    "workers": ("--name", "two workers", "--marker", "4", "--", sys.executable, "-c", _WORKERS),
    "daemon": ("--", sys.executable, "-c", _DAEMON),
    "held": ("--marker", "3", "--", sys.executable, "-c", _HELD),
    "spike": ("--", sys.executable, "-c", _SPIKE),
    "passed": (
        "--name",
        "a/b c",
        "--project",
        "{folder}",
        "--repeats",
        "2",
        "--",
        sys.executable,
        "-c",
        _PASSED,
    ),
    "killed": ("--repeats", "3", "--", "sh", "-c", "sleep 0.2; kill -9 $$"),
    "short": ("--", "sh", "-c", ":"),
    "lost": ("--", "sh", "-c", 'rm -r "$0"; touch "$0"', "{folder}/storage"),
    "npu": ("--", "sh", "-c", 'sleep 0.5; exit "$2"', "sh", "--", "4"),
}
#: Records on a machine with an NPU.
_ON_NPU = record_command("task.has_rknpu = lambda _: True")


def record(folder: Path, *arguments: str, command: Sequence[str] = _RECORD) -> Done:
    """Record with a storage in the folder."""
    storage = folder / "storage"
    words = [word.replace("{folder}", str(folder)) for word in arguments]
    done = subprocess.run(
        [*command, "--storage", str(storage), *words],
        cwd=CHECKOUT,
        input="in",
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr, storage)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    """Return every recording of _COMMANDS by its name."""
    pending = {}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for name, words in _COMMANDS.items():
            command = _ON_NPU if name == "npu" else _RECORD
            pending[name] = pool.submit(
                record, tmp_path_factory.mktemp("record"), *words, command=command
            )
        return {name: future.result() for name, future in pending.items()}


#: Rights of root with which it reads every process.
_RIGHTS = "--bounding-set=-sys_ptrace,-perfmon,-sys_admin"
#: Protects itself from being read when it has run for a while, as a program with capabilities does.
_PROTECTED = """
import ctypes, time
time.sleep(0.5)
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
held = bytearray(24 << 20)
time.sleep(0.8)
"""


def test_a_program_that_cannot_be_read(tmp_path: Path) -> None:
    """Its memory from before it protected itself is no figure; a line says why there is none."""
    command = _RECORD
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("setpriv is not installed: root may read everything")
        command = ("setpriv", _RIGHTS, *_RECORD)
    done = record(tmp_path, "--", sys.executable, "-c", _PROTECTED, command=command)
    assert done.code == 0, done.err
    (phase,) = done.program.phases
    assert phase.memory.application_memory_bytes == (None,)
    assert phase.memory.application_uss_bytes == (None,)
    assert phase.medians.application_memory_bytes == (None,)
    assert done.values("application_peak_rss")["run"] > 24 * _MIB
    assert "application memory of run cannot be read" in done.err
    assert "application" not in done.err.splitlines()[1]


def test_marked_phases_have_figures_of_their_own(recorded: dict[str, Done]) -> None:
    """Memory held in a phase is in that phase; a repeated name is the same phase. The trace has
    readings of RSS and PSS with the phases, in time since the start.
    """
    done = recorded["marks"]
    assert done.code == 0, done.err
    assert [phase.name for phase in done.program.phases] == ["start", "load", "steady", "end"]
    own = done.values("application_uss")
    assert own["steady"] - own["end"] == pytest.approx(24 * _MIB, rel=0.1)
    assert own["steady"] - own["start"] >= 20 * _MIB
    # The program does not wait: its memory was read before the mark, and the bounds are known.
    for phase in done.program.phases[:3:2]:
        (age_ns,) = phase.reading_ages_ns
        assert age_ns is not None
        assert age_ns > 0
        assert phase.memory.application_memory_at_least_bytes != (None,)
    assert (
        done.values("application_peak_rss")["start"] < done.values("application_peak_rss")["steady"]
    )
    durations_ns = {phase.name: phase.durations_ns[0] or 0 for phase in done.program.phases}
    assert sum(durations_ns.values()) == done.program.repeats[0].duration_ns
    assert durations_ns["load"] >= 0.35e9
    trace = done.trace()
    assert [phase.name for phase in trace.phases] == ["start", "load", "steady", "load", "end"]
    for series in (trace.timeline, trace.pss, trace.system):
        assert series.times_ns == sorted(series.times_ns)
        assert 0 <= series.times_ns[0] <= series.times_ns[-1] <= trace.phases[-1].end_ns
    assert max(trace.timeline.rss_bytes) >= max(trace.pss.pss_bytes) >= 24 * _MIB


def test_a_run_is_in_the_storage_as_any_other(recorded: dict[str, Done]) -> None:
    """Each phase is a configuration for comparisons and histories, with values and the board."""
    (stored,) = _runs(recorded["marks"].storage)
    run = run_of(stored)
    assert (run.number, run.is_named) == (1, False)
    assert [measured.configuration.detail for measured in run.measured] == [
        "start",
        "load",
        "steady",
        "end",
    ]
    steady = run.measured[2]
    assert (steady.configuration.runtime, steady.configuration.name) == (
        "program",
        Path(sys.executable).name,
    )
    assert {
        "application_memory",
        "application_peak_rss",
        "process_peak_rss",
        "system_memory",
    } <= set(steady.values)
    assert stored.machine.reusebench.memory_sources
    assert stored.machine.python_version


def test_all_processes_count(recorded: dict[str, Done]) -> None:
    """The sum covers all processes, the largest process is one; each is named with its peak."""
    done = recorded["workers"]
    repeat = done.program.repeats[0]
    assert (done.program.name, repeat.process_count) == ("two workers", 3)
    assert done.values("application_memory")["steady"] >= 32 * _MIB
    largest = done.values("process_peak_rss")["steady"]
    peak = done.values("application_peak_rss")["steady"]
    assert 24 * _MIB <= largest <= peak - 8 * _MIB
    peaks = [process.peak_rss_bytes for process in repeat.processes]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[0] - peaks[1] == pytest.approx(16 * _MIB, rel=0.2)


def test_files_in_memory_are_a_figure_of_their_own(recorded: dict[str, Done]) -> None:
    """What is mapped of them is application memory. Many pipes are told of."""
    done = recorded["held"]
    assert done.code == 0, done.err
    held = done.values("held_memory")
    assert held["mapped"] == pytest.approx(16 * _MIB, rel=0.01)
    grown = done.values("application_memory")["mapped"] - done.values("application_memory")["start"]
    assert 8 * _MIB <= grown <= 12 * _MIB
    _, base, *_ = done.program.phases
    # On a busy machine a program that reads the answer late has not waited.
    if base.memory.application_memory_at_least_bytes == base.memory.application_memory_bytes:
        assert held["base"] == 24 * _MIB
    assert "files held" in done.err
    assert "it has 4" in done.err
    for phase in done.program.phases:
        memory = phase.memory
        (uss,) = memory.application_uss_bytes
        (pss,) = memory.application_memory_bytes
        (rss,) = memory.application_rss_bytes
        assert (uss or 0) <= (pss or 0) <= (rss or 0)


def test_a_daemon_is_still_of_the_program(recorded: dict[str, Done]) -> None:
    """A process that leaves the session and its parent is recorded to its end; the exit code is
    the program's.
    """
    done = recorded["daemon"]
    repeat = done.program.repeats[0]
    assert done.code == 3
    assert "left processes behind" in done.err
    assert repeat.duration_ns >= 1.8e9
    assert done.values("application_memory")["run"] >= 16 * _MIB
    assert (done.program.outcome, repeat.exit_code) == ("failed", 3)


def test_a_spike_between_readings_is_not_missed(recorded: dict[str, Done]) -> None:
    """The kernel's high-water mark has it, but for pages that it had not counted yet: 2 % have been
    seen.
    """
    spike = 0.9 * 64 * _MIB
    assert recorded["spike"].values("process_peak_rss")["run"] >= spike
    assert recorded["spike"].values("application_peak_rss")["run"] >= spike
    assert recorded["spike"].values("application_memory")["run"] < spike


def test_input_and_output_are_the_programs(recorded: dict[str, Done]) -> None:
    """Standard output has nothing of ours; the first of two repeats has read all of the input."""
    done = recorded["passed"]
    assert (done.code, done.out) == (0, "IN\n\n")
    assert done.err.startswith("warned\nwarned\na/b c: exit code 0, 2 repeats\nphase ")
    assert "The report: reusebench report --storage" in done.err
    assert (done.program.name, len(done.program.repeats)) == ("a/b c", 2)
    assert {len(phase.memory.application_rss_bytes) for phase in done.program.phases} == {2}
    assert done.trace(0) != done.trace(1)
    assert _runs(done.storage)[0].commit.id is None  # of --project, which is no checkout


def test_a_failure_is_a_result_and_ends_the_repeats(recorded: dict[str, Done]) -> None:
    """The readings until then are stored with the reason; the exit code is the shell's."""
    done = recorded["killed"]
    assert (done.code, done.program.outcome) == (128 + signal.SIGKILL, "crashed")
    assert [(repeat.exit_code, repeat.signal) for repeat in done.program.repeats] == [
        (None, "SIGKILL")
    ]
    assert "outcome crashed" in done.err


def test_a_program_that_is_over_at_once(recorded: dict[str, Done]) -> None:
    """It is stored, and what there was no time to read is not known."""
    done = recorded["short"]
    assert (done.code, done.program.outcome) == (0, "ok")
    (phase,) = done.program.phases
    assert (phase.name, phase.memory.npu_memory_bytes) == ("run", (None,))


def test_npu_memory_is_read_where_there_is_an_npu(recorded: dict[str, Done]) -> None:
    """A program without buffers has 0 bytes on such a kernel; elsewhere they are unknown. Only
    the first -- is ours.
    """
    done = recorded["npu"]
    assert done.values("npu_memory") == {"run": 0}
    assert (done.code, done.program.command[-2:]) == (4, ("--", "4"))


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("--", "no-such-command"), 127, "no-such-command: there is no such command"),
        (("--", "/etc/passwd"), 126, "/etc/passwd: it cannot be executed"),
        (("--pid", "4194304"), 2, "there is no process 4194304"),
        (
            ("--phases", "/proc/none", "--", "true"),
            2,
            "the file of phases /proc/none cannot be written",
        ),
        (
            ("--phases", "/dev/null", "--", "true"),
            2,
            "/dev/null cannot be written (it is a device; a regular file",
        ),
        (
            ("--phases", "/etc", "--", "true"),
            2,
            "/etc cannot be written (it is a folder; a regular file is needed)",
        ),
        (("--phases", "x" * 300, "--", "true"), 2, "cannot be written (File name too long)"),
        (
            ("--project", "/etc/passwd", "--", "true"),
            2,
            "/etc/passwd is not a folder. --project DIR",
        ),
        ((), 2, "there is no program: put it after --, or give --pid PID"),
        (("--",), 2, "there is no program: put it after --, or give --pid PID"),
        (("--pid", "1", "--", "true"), 2, "--pid records a program that runs already"),
        (("--pid", "1", "--marker", "3"), 2, "--marker needs a program that is started here"),
        (("--pid", "1", "--repeats", "2"), 2, "--repeats needs a program that is started here"),
        (("--pid", "0"), 2, "0 is not in the range x>=1"),
        (("--marker", "2", "--", "true"), 2, "2 is not in the range 3<=x<=255"),
        (
            ("--marker", "3", "--phases", "f", "--", "true"),
            2,
            "marks come by --phases FILE or by --marker FD",
        ),
        (("--repeats", "0", "--", "true"), 2, "0 is not in the range x>=1"),
        (("--name", " ", "--", "true"), 2, "' ' is not valid; valid: printable characters"),
    ],
)
def test_nothing_is_stored_of_a_mistake(
    arguments: Sequence[str],
    code: int,
    sentence: str,
    tmp_path: Path,
    reusebench: Reusebench,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One sentence has what was wrong and what to do; the exit codes of what cannot be started are
    the shell's.
    """
    monkeypatch.setattr(recorder, "_IDLE_S", 0.02)
    done = reusebench("record", "--storage", tmp_path / "storage", *arguments)
    assert (done.exit_code, done.out) == (code, "")
    (line,) = (line for line in done.err.splitlines() if line.startswith("Error: "))
    assert sentence in line
    assert not list(tmp_path.glob("storage/*/*.json"))


def test_a_storage_that_cannot_be_written(
    recorded: dict[str, Done], tmp_path: Path, reusebench: Reusebench
) -> None:
    """The program is not started, so nothing is measured in vain; if the storage is lost meanwhile,
    the run is stored elsewhere.
    """
    (tmp_path / "file").touch()
    started = tmp_path / "started"
    done = reusebench("record", "--storage", tmp_path / "file", "--", "touch", started)
    assert done.exit_code == 2
    assert "--storage DIR" in done.err
    assert not started.exists()
    assert recorded["lost"].code == 1
    assert "cannot be written" in recorded["lost"].err
    (stored,) = re.findall(r"The run is in (\S+\.json)\.", recorded["lost"].err)
    assert Path(stored).is_file()
    shutil.rmtree(Path(stored).parent.parent)


def _has_pending_interrupt(pid: int) -> bool:
    pending = Path(f"/proc/{pid}/status").read_text().partition("ShdPnd:")[2].split()[0]
    return bool(int(pending, 16) >> (signal.SIGINT - 1) & 1)


def _in_terminal(storage: Path, *arguments: str, presses: int) -> tuple[int, Program]:
    """Record in a terminal of its own, press Ctrl-C `times` there, and return the exit code and
    the stored program.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(CHECKOUT)
        os.execv(sys.executable, [*_RECORD, "--storage", str(storage), *arguments])
    printed = b""
    for count in range(1, presses + 1):
        # The program prints that it is there, and that it has noticed a press.
        while printed.count(b"program is there") < count:
            assert select.select([terminal], [], [], TIME_LIMIT_S)[0], printed
            printed += os.read(terminal, 1024)
        while _has_pending_interrupt(pid):  # the kernel makes one of two
            time.sleep(0.01)
        os.write(terminal, b"\x03")
    while select.select([terminal], [], [], TIME_LIMIT_S)[0]:
        try:
            if not os.read(terminal, 1024):
                break
        except OSError:  # nobody has the terminal open any more
            break
    else:
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    os.close(terminal)
    (run,) = _runs(storage)
    return os.WEXITSTATUS(status), run.programs[0]


#: A storage whose disk is full, while there is room for temporary files if `has_room`.
_FULL = (
    "import errno; from reusebench.storage import run_file, trace; claim = run_file._claim",
    "full = lambda path: {has_room} and 'storage' not in str(path) or (_ for _ in ()).throw("
    "OSError(errno.ENOSPC, 'No space left on device'))",
    "run_file._claim = lambda storage, path: full(storage) and claim(storage, path)",
    "replacing = trace.replacing",
    "trace.replacing = lambda path: full(path) and replacing(path)",
)


@pytest.mark.parametrize(("has_room", "code"), [(True, 1), (False, 2)])
def test_a_full_disk_does_not_lose_the_recording(
    has_room: bool, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is a storage among the temporary files, with its trace; no empty folder stays."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    command = record_command(*(line.replace("{has_room}", str(has_room)) for line in _FULL))
    done = record(tmp_path, "--", "sh", "-c", "sleep 0.3", command=command)
    assert done.code == code
    assert "sh: exit code 0" in done.err
    assert "cannot be written (No space left on device)" in done.err
    assert not list((tmp_path / "storage").rglob("*.gz"))
    assert not (tmp_path / "storage" / "traces").exists()
    found = list((tmp_path / "tmp").glob("reusebench-*/*/*.json"))
    if not has_room:
        assert "nor can temporary files (No space left on device)" in done.err
        assert not list((tmp_path / "tmp").glob("reusebench-*"))
        return
    (path,) = found
    assert f"The run is in {path}. When there is room, move it to" in done.err
    misplaced = Done(done.code, done.out, done.err, path.parent.parent)
    assert misplaced.program.outcome == "ok"
    assert misplaced.trace().timeline.times_ns


def test_ctrl_c_ends_the_program_and_not_the_recording(tmp_path: Path) -> None:
    """Programs that run until Ctrl-C are measured like others; how they take it is up to them."""
    script = "trap 'exit 7' INT; echo program is there; while :; do sleep 0.05; done"
    code, program = _in_terminal(tmp_path, "--repeats", "5", "--", "sh", "-c", script, presses=1)
    assert (code, program.outcome) == (7, "ok")
    assert [repeat.ended_by_user for repeat in program.repeats] == [True]


def test_a_second_ctrl_c_kills(tmp_path: Path) -> None:
    """A program that does not heed the first is ended, with its processes, and stored."""
    script = (
        "trap 'echo program is there' INT; (sleep 60)& echo program is there; while :; do sleep"
        " 0.05; done"
    )
    code, program = _in_terminal(tmp_path, "--", "sh", "-c", script, presses=2)
    assert (code, program.outcome) == (128 + signal.SIGKILL, "crashed")


def test_sigterm_is_passed_on(tmp_path: Path) -> None:
    """A signal to the recorder ends the program, and the readings are kept."""
    command = [*_RECORD, "--storage", str(tmp_path), "--", "sh", "-c", "echo; exec sleep 60"]
    with subprocess.Popen(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as recorder:
        assert recorder.stdout is not None
        recorder.stdout.readline()
        recorder.terminate()
        assert recorder.wait(TIME_LIMIT_S) == 128 + signal.SIGTERM
    (run,) = _runs(tmp_path)
    assert run.programs[0].outcome == "ok"


def _recorded_so_far(storage: Path) -> Program | None:
    programs = [program for run in _runs(storage) for program in run.programs]
    return programs[0] if programs else None


def _phases_so_far(storage: Path) -> list[str]:
    program = _recorded_so_far(storage)
    return [phase.name for phase in program.phases] if program else []


#: Ends a phase, and then notes in a file that it still runs.
_GOES_ON = """
import os, sys, time
held, recorder = bytearray(16 << 20), os.getppid()
marker = int(os.environ["REUSEBENCH_MARKER"])
os.write(marker, b"steady\\n")
os.read(marker, 1)
while os.getppid() == recorder:
    time.sleep(0.01)
try:
    os.write(marker, b"end\\n")
finally:
    open(sys.argv[1], "w").close()
"""


def test_a_killed_recorder_keeps_what_it_has_read(tmp_path: Path, reusebench: Reusebench) -> None:
    """Each phase that has ended is in the run, which is unfinished; the program goes on, also at
    its next mark.
    """
    storage = tmp_path / "storage"
    alive = tmp_path / "alive"
    command = [
        *_RECORD,
        "--storage",
        str(storage),
        "--marker",
        "3",
        "--",
        sys.executable,
        "-c",
        _GOES_ON,
        str(alive),
    ]
    with subprocess.Popen(command, cwd=CHECKOUT, stderr=subprocess.DEVNULL) as recorder:
        while _recorded_so_far(storage) is None:
            assert recorder.poll() is None
            time.sleep(0.01)
        recorder.kill()
    (run,) = _runs(storage)
    (kept,) = run.programs
    assert (run.is_finished, kept.outcome) == (False, "cut_off")
    assert [phase.name for phase in kept.phases] == ["start", "steady"]
    assert (kept.phases[0].memory.application_memory_bytes[0] or 0) >= 16 * _MIB
    until = time.monotonic() + TIME_LIMIT_S
    while not alive.exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    done = reusebench("report", "--storage", storage, "--output", tmp_path / "out")
    assert done.exit_code == 0
    assert "cut off" in " ".join(done.out.split())


def test_phases_of_a_known_program(tmp_path: Path) -> None:
    """Its memory is recorded within 1 % at the end of each phase, and other peaks are said to be
    seen ones.

    Peaks are within the pages that the kernel has not counted yet.
    """
    for phase in measure(tmp_path):
        assert phase.error_percent == pytest.approx(0, abs=1), phase
        # The marks of the kernel may lack some pages of each CPU.
        assert phase.recorded_largest_bytes <= phase.largest_bytes * 1.02, phase
        if phase.is_largest_exact:
            assert phase.recorded_largest_bytes == pytest.approx(phase.largest_bytes, rel=0.02), (
                phase
            )
        if phase.peak_at_most_bytes is not None:
            assert phase.peak_bytes <= phase.peak_at_most_bytes * 1.02, phase


def test_a_program_that_does_not_wait_is_right_or_bounded(tmp_path: Path) -> None:
    """What it frees, takes or has for a moment at its marks is in no figure without a word."""
    steps = "hold 80 hold 264 sleep 200 mark a free 0 sleep 200 mark b hold 100 sleep 100 spike 150"
    steps += (
        " mark c spike 90 sleep 100 mark d mark e free 0 huge 60 sleep 60 free 0 mark f sleep 9"
    )
    phases = measure(tmp_path, 0, steps=steps.split())
    assert [phase.name for phase in phases] == ["start", *"abcde"]
    judged = [(judge_memory(phase), judge_peak(phase)) for phase in phases]
    assert all(WRONG not in pair and NOT_READ not in pair for pair in judged), phases
    assert all(phase.at_most_bytes is not None for phase in phases), phases


def test_a_running_process_is_recorded_until_it_ends(tmp_path: Path) -> None:
    """Its peak from before is not taken for one of now, and a script may mark phases in the
    file.
    """
    held = "import time; held = bytearray(64 << 20); del held; print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", held], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        command = [*_RECORD, "--pid", str(process.pid), "--storage", str(tmp_path)]
        marks = tmp_path / "marks"
        with subprocess.Popen(
            [*command, "--phases", str(marks)], cwd=CHECKOUT, stderr=subprocess.DEVNULL
        ) as recorder:
            while not marks.exists():  # it is emptied when it is made
                assert recorder.poll() is None
                time.sleep(0.01)
            marks.write_text("waiting\n")
            while "waiting" not in _phases_so_far(tmp_path):
                assert recorder.poll() is None
                time.sleep(0.01)
            process.communicate(b"\n")
            assert recorder.wait(TIME_LIMIT_S) == 0
    (run,) = _runs(tmp_path)
    (program,) = run.programs
    assert (program.attached, program.outcome) == (True, "ok")
    assert program.command[1:] == ("-c", held)
    assert program.name == Path(sys.executable).name
    assert [phase.name for phase in program.phases][-1] == "waiting"
    for phase in program.phases:
        assert (phase.memory.process_peak_rss_bytes[0] or 0) < 64 * _MIB
