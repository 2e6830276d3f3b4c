"""`pytest bench/` in a process of its own, as small as possible, and the results that it stored."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from reusebench.storage.result import Result
from reusebench.storage.run_file import BadFile, StoredRun, read_storage
from tests.helpers.support import CHECKOUT, TIME_LIMIT_S, user_environment

#: The time limit of a whole bench: far longer than one takes on a busy machine.
BENCH_LIMIT_S = 5 * TIME_LIMIT_S

#: Options for as little work as possible.
_SMALL = ("--quick", "--repeats=1", "--rounds=2", "--duration=1")
#: The plugins that users have, by name. If pytest finds plugins by itself, as in
#: test_working_folder.py, it also loads those of the development environment, which takes longer
#: than a small session.
_PLUGINS = ("-p", "pytest_benchmark.plugin", "-p", "no:cacheprovider")
#: The layout of scenarios; a plan has its own.
_SMALL_LAYOUT = ("--streams=2", "--contexts=2")
#: Arguments that select something to measure; the plugin `hidden` hides every runtime.
_SELECTIONS = ("--runtime", "--target", "--rknn-library", "hidden")
#: Parts of arguments that select streams.
_STREAMS = ("published", "streams_")

#: The code of a plugin: a session does not watch the idle machine before each process, and streams
#: hardly warm up. Sessions of test_working_folder.py do both.
_WAITS_LESS = """
from dataclasses import replace

def pytest_configure():
    from reusebench.harness import session

    resolve = session.resolve_settings

    def resolve_without_waits(*arguments):
        settings = resolve(*arguments)
        return replace(settings, idle_s=0.0, pace=replace(settings.pace, warm_up_s=0.1))

    session.resolve_settings = resolve_without_waits
"""

_Value = TypeVar("_Value")


def repeated(option: str, values: Iterable[object]) -> list[str]:
    """Return the words that give the option once for each value."""
    words: list[str] = []
    for value in values:
        words += [option, str(value)]
    return words


def wait_for(look: Callable[[], _Value | None]) -> _Value:
    """Return the first value of `look` that is true."""
    end_s = time.monotonic() + BENCH_LIMIT_S
    while time.monotonic() < end_s:
        value = look()
        if value:
            return value
        time.sleep(0.005)
    raise TimeoutError(f"nothing for {BENCH_LIMIT_S} s")


def stored_runs(storage: Path) -> list[StoredRun]:
    """Return the runs of a storage in which every file is sound."""
    files = list(read_storage(storage))
    assert not [file for file in files if isinstance(file, BadFile)]
    return [file for file in files if isinstance(file, StoredRun)]


def start_pytest(
    *arguments: str, environment: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[bytes]:
    """Start pytest in the checkout with the plugins that users have; `environment` is added to the
    tests' own.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *_PLUGINS, *arguments],
        cwd=CHECKOUT,
        env={**user_environment(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **(environment or {})},
        stdin=subprocess.DEVNULL,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **options},
    )


@dataclass
class Done:
    """A `pytest bench/` that has ended."""

    code: int
    words: str
    storage: Path

    def runs(self) -> list[StoredRun]:
        """Return the runs of its storage."""
        return stored_runs(self.storage)

    def results(self) -> dict[str, Result]:
        """Return the results of its one run, by scenario."""
        (run,) = self.runs()
        return {stored.info.scenario: stored.info for stored in run.results}

    def outcomes(self) -> dict[str, str]:
        """Return the outcomes of its one run, by scenario."""
        return {name: info.outcome for name, info in self.results().items()}


class Bench:
    """Runs of `pytest bench/` on one storage."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder = folder
        self._cache = cache
        self.storage = folder / "storage"

    def plugin(self, name: str, code: str) -> tuple[str, str]:
        """Return the option of a pytest plugin with this code."""
        (self.folder / f"{name}.py").write_text(code)
        return "-p", name

    def start(
        self, *arguments: object, cache: Path | None = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start a run; the arguments come after those that make it small.

        `cache` replaces the cache of the tests. ONNX Runtime alone is measured unless the arguments
        select something. Streams, which take seconds, and the limit, which a CPU does not have, are
        measured only if the arguments name them.
        """
        words = list(map(str, arguments))
        has_layout = any(word.startswith(("--plan", "--sessions")) for word in words)
        layout = () if has_layout else _SMALL_LAYOUT
        folder = () if any(word.startswith("bench/") for word in words) else ("bench/",)
        command = [*folder, *self.plugin("waits_less", _WAITS_LESS), *_SMALL, *layout]
        command += [f"--benchmark-storage=file://{self.storage}", *words]
        if not any(word.startswith(_SELECTIONS) for word in words):
            command.append("--runtime=onnxruntime")
        all_words = " ".join(words)
        if not any(name in all_words for name in _STREAMS):
            command.append("--ignore=bench/test_published.py")
        if not any("limit_" in word for word in words):
            command.append("--ignore=bench/test_limit.py")
        environment = {"XDG_CACHE_HOME": str(cache or self._cache), "PYTHONPATH": str(self.folder)}
        return start_pytest(*command, environment=environment, **options)

    def finish(self, process: subprocess.Popen[bytes], words: bytes = b"") -> Done:
        """Wait for the run; `words` is the output that was read before."""
        try:
            rest, _ = process.communicate(timeout=BENCH_LIMIT_S)
        finally:
            process.kill()
        return Done(process.returncode, (words + (rest or b"")).decode(), self.storage)

    def run(self, *arguments: object, cache: Path | None = None) -> Done:
        """Start a run and wait for it."""
        return self.finish(self.start(*arguments, cache=cache))
