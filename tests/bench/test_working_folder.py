"""A working folder full of traps: modules with names of ours and of others, which no process
imports.

`python -m` and `python -c` search the working folder first, and users measure in folders of their
own.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from reusebench.system.package import PACKAGE, python_command
from tests.bench.bench_process import BENCH_LIMIT_S
from tests.helpers.support import CHECKOUT

pytestmark = pytest.mark.process

#: Names that a user's modules or folders may have: ours, those that Python imports by itself, the
#: standard library's, those of packages.
_TRAPS = (
    *(
        "commands",
        "conftest",
        "harness",
        "models",
        "reusebench",
        "runtimes",
        "scenarios",
        "storage",
        "system",
    ),
    *("codeop", "linecache", "pkgutil", "runpy", "sitecustomize", "usercustomize"),
    *("ctypes", "dataclasses", "json", "random", "subprocess", "typing"),
    *(
        "av",
        "click",
        "msgspec",
        "numpy",
        "onnx",
        "onnxruntime",
        "pip",
        "psutil",
        "pytest",
        "ziglang",
    ),
)
_PACKAGES = ("commands", "models", "numpy")
_TRAP = "with open({marker!r}, 'a') as marker:\n    marker.write({name!r} + '\\n')\n"

_SMALL = (
    "--quick",
    "--repeats=1",
    "--rounds=2",
    "--runtime=onnxruntime",
    "-p",
    "no:cacheprovider",
    "-q",
)
_LAYOUT = ("--streams=2", "--contexts=2")
_CHOSEN = ("-k", "full_dup and not internal", *_LAYOUT)
_LIMIT = "application_memory:50%+64MiB"

#: Words with -m or -c that do not belong to Python: pytest's settings, a shell, compilers.
_NO_PYTHON = (
    "commands/bench.py",
    "system/processes.py",
    "targets/labgrid.py",
    "targets/programs.py",
    "targets/sandbox.py",
)


class _Folder:
    """The working folder."""

    def __init__(self, path: Path, cache: Path) -> None:
        self.path = path
        self._cache = cache
        self._marker = path.with_name("imported")
        path.mkdir()
        for name in _TRAPS:
            file = path / name / "__init__.py" if name in _PACKAGES else path / f"{name}.py"
            file.parent.mkdir(exist_ok=True)
            file.write_text(_TRAP.format(marker=str(self._marker), name=name))

    def imported(self) -> list[str]:
        """Return the traps that were imported."""
        return self._marker.read_text().splitlines() if self._marker.exists() else []

    def start(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Run a command there."""
        # Variables of pytest-xdist are for the worker that runs the test; the last one makes
        # `python -m` safe.
        left_out = ("PYTEST_", "PYTHONSAFEPATH")
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(left_out)
        }
        return subprocess.run(
            command,
            cwd=self.path,
            env={**environment, "XDG_CACHE_HOME": str(self._cache)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BENCH_LIMIT_S,
            check=False,
        )

    def run(self, module: str, *arguments: object) -> str:
        """Run a module there, which has to succeed and import no trap; return its output."""
        done = self.start(python_command(module, *map(str, arguments)))
        assert done.returncode == 0, done.stdout
        assert self.imported() == [], done.stdout
        return done.stdout


@pytest.fixture
def folder(tmp_path: Path, cache: Path) -> _Folder:
    """Return the folder."""
    return _Folder(tmp_path / "working", cache)


def test_a_session_and_another_with_a_gate(folder: _Folder, tiny_model: Path) -> None:
    """Sessions of pytest and of the command, which compares with a baseline, import no trap.

    An import from the working folder does not depend on the module's name, so one comparison is
    enough.
    """
    session = (*_SMALL, *_CHOSEN, "--model", tiny_model)
    folder.run("pytest", CHECKOUT / "bench" / "test_dup.py", *session, "--benchmark-save=base")
    gate = ("--baseline=base", f"--fail={_LIMIT}")
    words = folder.run("reusebench", "bench", "test_dup.py", *session, *gate)
    assert f"passed {_LIMIT}: 1 compared" in words


def test_commands(folder: _Folder) -> None:
    """Commands build and show a model, look at the machine, record a program and list runs."""
    folder.run("reusebench", "models", "build", "tiny", "--height", 96, "--output", "tiny.onnx")
    folder.run("reusebench", "models", "inspect", "tiny.onnx")
    folder.run("reusebench", "doctor")
    folder.run("reusebench", "record", "--", "true")
    folder.run("reusebench", "runs", "list")


def test_streams_of_a_clip(folder: _Folder, tiny_model: Path) -> None:
    """The clip is made, described and decoded."""
    pytest.importorskip("av")
    size = ("--size", "64x48", "--fps", 30, "--duration", 1)
    folder.run("reusebench", "models", "clip", *size, "--output", "clip.mp4")
    chosen = (
        "-k",
        "streams_full_dup]",
        *_LAYOUT,
        "--duration=1",
        "--video",
        "clip.mp4",
        "--model",
        tiny_model,
    )
    # pytest itself loads the conftest.py beside a file that an option names; the command has it
    # load none.
    words = folder.run("reusebench", "bench", "test_published.py", *_SMALL, *chosen)
    assert "1 passed" in words


def test_a_trap_is_one(folder: _Folder) -> None:
    """`python -m` imports the module itself, or modules that Python needs before (up to 3.10)."""
    folder.start([sys.executable, "-m", "reusebench", "--help"])
    assert {"reusebench", "runpy"} & set(folder.imported())


def test_no_command_has_python_search_the_working_folder() -> None:
    """Commands with -m and -c but without -I run on boards, in a folder of ours there, and in "/":
    to try interpreters, and to compile modules for a virtual board.
    """
    found: Counter[str] = Counter()
    for root in (PACKAGE, *(CHECKOUT / name for name in ("bench", "reports", "scenarios"))):
        for path in root.rglob("*.py"):
            found[str(path.relative_to(root))] += len(
                list(_unsafe_options(path.read_text("utf-8")))
            )
    unsafe = {name: count for name, count in found.items() if count and name not in _NO_PYTHON}
    assert unsafe == {
        "targets/far/machine.py": 4,
        "targets/interpreters.py": 1,
        "targets/vboard/bytecode.py": 1,
        "targets/vboard/install.py": 1,
    }


def _unsafe_options(source: str) -> Iterator[str]:
    """Yield -m and -c in commands: in a list, a tuple, or the arguments of a call."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            parts = node.args
        elif isinstance(node, (ast.List, ast.Tuple)):
            parts = node.elts
        else:
            continue
        words = [
            part.value
            for part in parts
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
        ]
        if "-I" not in words:
            yield from (word for word in words if word in ("-m", "-c"))
