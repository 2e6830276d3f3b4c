"""What must pass before a change lands, as named jobs: `bash .ci/run [JOB...]`, all by default;
--list names them.

Each job can run alone: it makes what it needs (the environment, a browser), which is made once for
all. Jobs run side by side as far as there are CPUs for them. What one prints is shown when it has
ended, after its name and its time. Exit code 1 if one has failed. Needs git, make and a Python with
venv.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

_CHECKOUT = Path(__file__).resolve().parents[1]
_LOOKING_S = 0.1
_OLDEST = 9
_NEWEST = 14
#: What makes the model files of ncnn and LiteRT; tests of these skip without.
_CONVERTERS = "pnnx onnx2tf"

_BROWSER = """
command -v chromedriver >/dev/null && exit 0
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null &&
  { apt-get update -qq && apt-get install -y -qq chromium chromium-driver; } >/dev/null 2>&1 ||
  echo "Chromium could not be installed: the browser tests will be skipped"
"""
_ENVIRONMENT = f"""
make --no-print-directory .venv/installed-ci
for converter in {_CONVERTERS}; do
  .venv/bin/reusebench models install $converter || echo "could not be installed: tests will be skipped"
done
"""
_MEGENGINE = """
command -v python3.10 python3.9 python3.8 >/dev/null || exit 0
.venv/bin/reusebench models install megengine || echo "could not be installed: its tests will be skipped"
"""
# -k chooses every question; --quick alone asks the first.
_BENCH = """
rm -rf out/ci
make --no-print-directory bench ARGS="--quick --runtime onnxruntime -k test_ --repeats 2" STORAGE=out/ci/storage
.venv/bin/python .ci/check_report.py out/report
"""
# Neither what a browser shows nor the C library hangs on the Python.
_TESTS_OF_PYTHON = """
make --no-print-directory test-all PYTHON={python} VENV=.venv-{python} \\
  ARGS="--ignore=tests/reports/page/test_browser.py --ignore=tests/reports/compare/test_perfetto.py \\
    --ignore-glob=tests/targets/test_preload_*"
make --no-print-directory wheel PYTHON={python} ARGS="{options}"
"""


@dataclass(frozen=True)
class Job:
    """A script of the shell, and what has to be made before it."""

    name: str
    script: str
    needs: tuple[str, ...] = ()
    #: CPUs that it keeps busy; None: all.
    cpus: int | None = 1


#: What jobs need; each may need others.
_SETUPS = (
    Job("browser", _BROWSER),
    Job("environment", _ENVIRONMENT),
    Job("megengine", _MEGENGINE, needs=("environment",)),
)
_JOBS = (
    Job("bench", _BENCH, needs=("environment",)),
    Job("wheel", "make --no-print-directory wheel"),
    Job("lint", "make --no-print-directory lint", needs=("environment",)),
    # Among them are the first inputs of three campaigns of made-up faults (docs/reliability.md).
    Job("benchmarks", "make --no-print-directory benchmarks", needs=("environment",), cpus=None),
    Job(
        "tests",
        "make --no-print-directory test-all",
        needs=("environment", "browser", "megengine"),
        cpus=None,
    ),
)


@dataclass
class _Running:
    job: Job
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    begin_s: float = field(default_factory=time.monotonic)

    @classmethod
    def start(cls, job: Job) -> _Running:
        """Start it in a session of its own, so that all that it starts can be ended."""
        print(f"-- {job.name} begins", flush=True)
        output = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the job has ended)
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", job.script],
            cwd=_CHECKOUT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return cls(job, process, output)

    def show(self) -> None:
        """Print what it has printed."""
        end = (
            ""
            if self.process.returncode == 0
            else f", FAILED with exit code {self.process.returncode}"
        )
        self.output.seek(0)
        text = self.output.read().decode(errors="replace").rstrip()
        print(
            f"\n== {self.job.name}: {time.monotonic() - self.begin_s:.0f} s{end}\n{text}\n",
            flush=True,
        )
        self.output.close()

    def kill(self) -> None:
        """End it, and what it has started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.process.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the jobs, and return 1 if one has failed."""
    every = {job.name: job for job in (*_JOBS, *_jobs_of_other_pythons())}
    parser = argparse.ArgumentParser("bash .ci/run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="JOB", help=f"default: all: {' '.join(every)}")
    parser.add_argument("--list", action="store_true", help="name the jobs, and run none")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in every]
    if unknown:
        parser.error(f"no job {unknown[0]!r}; valid: {', '.join(every)}")
    if options.list:
        print("\n".join(every))
        return 0
    begin_s = time.monotonic()
    failed = _run([every[name] for name in options.names or every])
    words = f"failed: {' '.join(failed)}" if failed else "all have passed"
    print(f"-- {time.monotonic() - begin_s:.0f} s in all; {words}", flush=True)
    return 1 if failed else 0


def _run(jobs: Sequence[Job]) -> list[str]:
    """Run jobs and what they need; return the names of those that have failed."""
    waiting = deque([*_needed(jobs), *jobs])
    running: list[_Running] = []
    passed: set[str] = set()
    failed: list[str] = []
    try:
        while waiting or running:
            for one in [one for one in running if one.process.poll() is not None]:
                running.remove(one)
                one.show()
                if one.process.returncode == 0:
                    passed.add(one.job.name)
                else:
                    failed.append(one.job.name)
            for job in list(waiting):
                if any(name in failed for name in job.needs):
                    waiting.remove(job)
                    failed.append(job.name)
                elif passed.issuperset(job.needs) and _has_room(job, running):
                    waiting.remove(job)
                    running.append(_Running.start(job))
            time.sleep(_LOOKING_S)
    finally:
        for one in running:
            one.kill()
    return failed


def _needed(jobs: Sequence[Job]) -> list[Job]:
    """Return the set-ups that the jobs need, in order."""
    names = {name for job in jobs for name in job.needs}
    names |= {name for setup in _SETUPS if setup.name in names for name in setup.needs}
    return [setup for setup in _SETUPS if setup.name in names]


def _has_room(job: Job, running: Sequence[_Running]) -> bool:
    """Whether there are CPUs for one more job; one that takes all begins when the others have
    ended.
    """
    cpus = len(os.sched_getaffinity(0))
    busy = sum(one.job.cpus or cpus for one in running)
    return not running or busy + min(job.cpus or cpus, cpus) <= cpus


def _jobs_of_other_pythons() -> list[Job]:
    """Return a job for the oldest and for the newest Python that is here, beside the one that all
    else runs on.
    """
    others = [
        f"python3.{minor}"
        for minor in range(_OLDEST, _NEWEST + 1)
        if _can_make_environments(f"python3.{minor}")
    ]
    own = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    jobs = []
    for python in dict.fromkeys(others[:1] + others[-1:]):
        if python != own:
            # The lower bounds of what is required are those of the oldest Python.
            options = "--lowest" if python == f"python3.{_OLDEST}" else ""
            jobs.append(
                Job(python, _TESTS_OF_PYTHON.format(python=python, options=options), cpus=None)
            )
    return jobs


def _can_make_environments(python: str) -> bool:
    if shutil.which(python) is None:
        return False
    return (
        subprocess.run(
            [python, "-c", "import venv, ensurepip"], stderr=subprocess.DEVNULL, check=False
        ).returncode
        == 0
    )


if __name__ == "__main__":
    sys.exit(main())
