"""The jobs that must pass before a change lands: `bash .ci/run [JOB...]`, by default all but llama.

--list prints their names. Each job can run alone: the set-ups that it needs (the environment, a
browser) run first, once for all jobs. Jobs run side by side, one more than there are CPUs. The
output of a job is shown at its end, after its name and its time. Exit code 1 if a job has failed.
Needs git, make and a Python with venv.
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
#: A variable that jobs lack: each process would compile the package anew.
_LEFT_OUT = {"PYTHONDONTWRITEBYTECODE"}
_OLDEST = 9
_NEWEST = 14
#: Converters to model files of ncnn and LiteRT; tests are skipped without them.
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
  .venv/bin/reusebench models install $converter ||
    echo "could not be installed: tests will be skipped"
done
"""
_MEGENGINE = """
command -v python3.10 python3.9 python3.8 >/dev/null || exit 0
.venv/bin/reusebench models install megengine ||
  echo "could not be installed: its tests will be skipped"
"""
# -k selects every question; --quick alone asks the first.
_BENCH = """
rm -rf out/ci
make --no-print-directory bench STORAGE=out/ci/storage \\
  ARGS="--quick --runtime onnxruntime -k test_ --repeats 2 --streams 2 --contexts 2"
.venv/bin/python .ci/check_report.py out/report
"""
# What only runs with llama.cpp, which is built once, into the user's cache.
_LLAMA = """
tools/llama.sh .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[llama]"
.venv/bin/python -m pytest -n 2 --dist loadfile tests/measured/runtimes/test_conversations.py \\
  tests/measured/runtimes/test_llama_cpp_*.py tests/snippets/test_llama_cpp_snippets.py \\
  tests/models/language tests/bench/test_sessions*.py
"""
# The page in a browser, the tutorial and the preload library do not depend on the Python.
_TESTS_OF_PYTHON = """
make --no-print-directory test-all PYTHON={python} VENV=.venv-{python} \\
  ARGS="--ignore=tests/reports/page/test_browser.py --ignore=tests/test_tutorial.py \\
    --ignore=tests/reports/compare/test_perfetto.py \\
    --ignore-glob=tests/targets/test_preload_*"
make --no-print-directory wheel PYTHON={python} ARGS="{options}"
"""


@dataclass(frozen=True)
class Job:
    """A shell script, and the set-ups that it needs."""

    name: str
    script: str
    needs: tuple[str, ...] = ()
    #: Whether the script keeps all CPUs busy by itself.
    is_large: bool = False


#: Set-ups that jobs need; each may need others.
_SETUPS = (
    Job("browser", _BROWSER),
    Job("environment", _ENVIRONMENT),
    Job("megengine", _MEGENGINE, needs=("environment",)),
)
_JOBS = (
    Job("bench", _BENCH, needs=("environment",)),
    Job("wheel", "make --no-print-directory wheel"),
    Job("docs", "make --no-print-directory docs", needs=("environment",)),
    Job("lint", "make --no-print-directory lint", needs=("environment",)),
    # They include the first inputs of three campaigns of made-up faults
    # (docs/explanation/reliability.md).
    Job("benchmarks", "make --no-print-directory benchmarks", needs=("environment",)),
    Job(
        "tests",
        "make --no-print-directory test-all",
        needs=("environment", "browser", "megengine"),
        is_large=True,
    ),
)
#: Jobs that run only if they are named.
_ON_REQUEST = (Job("llama", _LLAMA, needs=("environment",), is_large=True),)


@dataclass
class _Running:
    job: Job
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    begin_s: float = field(default_factory=time.monotonic)

    @classmethod
    def start(cls, job: Job) -> _Running:
        """Start the job in a session of its own, so that all its processes can be ended."""
        print(f"-- {job.name} begins", flush=True)
        output = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the job has ended)
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", job.script],
            cwd=_CHECKOUT,
            env={name: value for name, value in os.environ.items() if name not in _LEFT_OUT},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return cls(job, process, output)

    def show(self) -> None:
        """Print the job's name, time, end and output."""
        seconds = time.monotonic() - self.begin_s
        code = self.process.returncode
        end = f", FAILED with exit code {code}" if code else ""
        self.output.seek(0)
        text = self.output.read().decode(errors="replace").rstrip()
        print(f"\n== {self.job.name}: {seconds:.0f} s{end}\n{text}\n", flush=True)
        self.output.close()

    def kill(self) -> None:
        """End the job with all its processes."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.process.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the jobs, and return 1 if one has failed."""
    default = [job.name for job in (*_JOBS, *_jobs_of_other_pythons())]
    every = {job.name: job for job in (*_JOBS, *_jobs_of_other_pythons(), *_ON_REQUEST)}
    parser = argparse.ArgumentParser("bash .ci/run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="JOB", help=f"default: {' '.join(default)}")
    parser.add_argument("--list", action="store_true", help="name the jobs, and run none")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in every]
    if unknown:
        parser.error(f"no job {unknown[0]!r}; valid: {', '.join(every)}")
    if options.list:
        print("\n".join(every))
        return 0
    begin_s = time.monotonic()
    failed = _run([every[name] for name in options.names or default])
    words = f"failed: {' '.join(failed)}" if failed else "all have passed"
    print(f"-- {time.monotonic() - begin_s:.0f} s in all; {words}", flush=True)
    return 1 if failed else 0


def _run(jobs: Sequence[Job]) -> list[str]:
    """Run the jobs after their set-ups; return the names of failed ones."""
    waiting = deque([*_needed(jobs), *jobs])
    running: list[_Running] = []
    passed: set[str] = set()
    failed: list[str] = []
    try:
        while waiting or running:
            for ended in [item for item in running if item.process.poll() is not None]:
                running.remove(ended)
                ended.show()
                if ended.process.returncode == 0:
                    passed.add(ended.job.name)
                else:
                    failed.append(ended.job.name)
            for job in list(waiting):
                if any(name in failed for name in job.needs):
                    waiting.remove(job)
                    failed.append(job.name)
                elif passed.issuperset(job.needs) and _has_room(job, running):
                    waiting.remove(job)
                    running.append(_Running.start(job))
            time.sleep(_LOOKING_S)
    finally:
        for left in running:
            left.kill()
    return failed


def _needed(jobs: Sequence[Job]) -> list[Job]:
    """Return the set-ups that the jobs need, in order."""
    names = {name for job in jobs for name in job.needs}
    names |= {name for setup in _SETUPS if setup.name in names for name in setup.needs}
    return [setup for setup in _SETUPS if setup.name in names]


def _has_room(job: Job, running: Sequence[_Running]) -> bool:
    """Whether one more job may run: one more than there are CPUs, since jobs also wait.

    A large job runs alone.
    """
    if job.is_large or any(item.job.is_large for item in running):
        return not running
    return len(running) <= len(os.sched_getaffinity(0))


def _jobs_of_other_pythons() -> list[Job]:
    """Return a job each for the oldest and the newest Python in the path, apart from this one."""
    names = [f"python3.{minor}" for minor in range(_OLDEST, _NEWEST + 1)]
    others = [name for name in names if _can_make_environments(name)]
    own = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    jobs = []
    for python in dict.fromkeys(others[:1] + others[-1:]):
        if python != own:
            # The lower bounds of the requirements are for the oldest Python.
            options = "--lowest" if python == f"python3.{_OLDEST}" else ""
            script = _TESTS_OF_PYTHON.format(python=python, options=options)
            jobs.append(Job(python, script, is_large=True))
    return jobs


def _can_make_environments(python: str) -> bool:
    if shutil.which(python) is None:
        return False
    command = [python, "-c", "import venv, ensurepip"]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
