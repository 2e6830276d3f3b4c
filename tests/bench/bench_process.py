"""`pytest bench/` in a process of its own, as small as it can be, and what it stored."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage.files import BadFile, StoredFile, read_storage

from tests.support import CHECKOUT, TIME_LIMIT_S

#: As little work as there is; --quick shortens the idle time before each process.
_SMALL = ("--quick", "--streams=2", "--contexts=2", "--repeats=1", "--rounds=2", "--duration=1")


#: Arguments that decide what is measured; the plugin `hidden` hides every runtime.
_CHOOSE = ("--runtime", "--target", "--rknn-library", "hidden")
#: Words that only choose streams.
_STREAMS = ("published", "streams_")

#: A pytest plugin that leaves behind which modules the harness's process has imported.
_PROBE = """
import json, os, sys

def pytest_unconfigure():
    with open(os.environ["PROBE_OUTPUT"], "w") as file:
        json.dump(sorted(sys.modules), file)
"""


@dataclass
class Done:
    """One `pytest bench/` that has ended."""

    code: int
    words: str
    storage: Path

    def files(self) -> list[StoredFile]:
        """Return the runs that it stored."""
        found = list(read_storage(self.storage))
        assert not [file for file in found if isinstance(file, BadFile)]
        return [file for file in found if isinstance(file, StoredFile)]

    def results(self) -> dict[str, dict[str, Any]]:
        """Return the results of its one run, by scenario."""
        (file,) = self.files()
        return {result.info["scenario"]: result.info for result in file.results}


class Bench:
    """Runs `pytest bench/` on one storage."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder = folder
        self.storage = folder / "storage"
        (folder / "probe.py").write_text(_PROBE)
        self._environment = {
            **os.environ,
            "XDG_CACHE_HOME": str(cache),
            "PYTHONPATH": str(folder),
            "PROBE_OUTPUT": str(folder / "modules.json"),
        }

    def start(self, *arguments: object, cache: Path | None = None, **options: Any) -> subprocess.Popen[bytes]:
        """Start it; the arguments stand after those that make it small. `cache` is another one than the tests'.

        It measures ONNX Runtime, whatever else the machine has, unless the arguments choose; and streams, which take
        seconds each, only where the arguments name them.
        """
        command = [sys.executable, "-m", "pytest", "bench/", "-p", "no:cacheprovider", *_SMALL]
        command += [f"--benchmark-storage=file://{self.storage}", *map(str, arguments)]
        if not any(str(each).startswith(_CHOOSE) for each in arguments):
            command.append("--runtime=onnxruntime")
        if not any(word in str(each) for word in _STREAMS for each in arguments):
            command.append("--ignore=bench/test_published.py")
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **options}
        environment = {**self._environment, **({"XDG_CACHE_HOME": str(cache)} if cache else {})}
        return subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdin=subprocess.DEVNULL, **streams)

    def finish(self, process: subprocess.Popen[bytes], words: bytes = b"") -> Done:
        """Wait for it."""
        rest, _ = process.communicate(timeout=TIME_LIMIT_S)
        return Done(process.returncode, (words + (rest or b"")).decode(), self.storage)

    def run(self, *arguments: object, cache: Path | None = None) -> Done:
        """Start it and wait for it."""
        return self.finish(self.start(*arguments, cache=cache))
