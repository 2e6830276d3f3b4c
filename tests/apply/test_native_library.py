"""The preload library of apply, on a double of librknnrt that punishes wrong sharing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from reusebench.apply.reasons import REASONS
from reusebench.apply.report import ProcessReport, read_reports
from reusebench.system.package import NATIVE
from reusebench.targets.compilers import ARCHITECTURES, find_compiler
from reusebench.targets.programs import APPLY
from reusebench.targets.rknn_library import architecture_of_this_python

pytestmark = pytest.mark.process

_SOURCES = Path(__file__).parent
#: Bytes of weights and of internal memory of the models, which are such texts for the double.
_MODELS = ("10000 500", "20000 9000", "300 40000")
_CALLS = (
    "rknn_init",
    "rknn_dup_context",
    "rknn_create_mem",
    "rknn_create_mem_from_fd",
    "rknn_set_internal_mem",
)


class Built(NamedTuple):
    """The compiled double and programs, in one folder."""

    folder: Path
    library: Path

    def run(
        self, *command: str, settings: Mapping[str, str] = {}
    ) -> tuple[str, tuple[ProcessReport, ...]]:
        """Run a program of the folder with the library; return its output and report."""
        report = self.folder / "report"
        report.unlink(missing_ok=True)
        environment = {
            **os.environ,
            "LD_PRELOAD": str(self.library),
            "LD_LIBRARY_PATH": str(self.folder),
            "REUSEBENCH_BOARD": "rk3588",
            "REUSEBENCH_APPLY_REPORT": str(report),
            **settings,
        }
        done = subprocess.run(
            [self.folder / command[0], *command[1:]],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, (command, settings, done.stdout, done.stderr)
        return done.stdout, read_reports(report)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Compile the library, its double and the programs."""
    architecture = architecture_of_this_python()
    compiler = find_compiler(architecture) if architecture in ARCHITECTURES else None
    if architecture is None or compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("apply")
    APPLY.compile(compiler, architecture, folder, "-Werror")
    shared = ["-I", str(NATIVE), "-O1", "-g", "-Wall", "-Wextra", "-fPIC"]
    library, double = folder / "librknnrt.so", str(_SOURCES / "library.c")
    for path in (library, folder / "other.so"):
        names = ["-shared", f"-Wl,-soname,{path.name}", "-o", str(path)]
        compiler.compile([*shared, *names, double, "-lpthread"])
    for source, output, options in (
        ("program.c", "program", [str(library), "-lpthread"]),
        ("loader.c", "loader", ["-ldl", "-lpthread"]),
        ("plugin.c", "plugin.so", ["-shared", str(library)]),
    ):
        compiler.compile([*shared, "-o", str(folder / output), str(_SOURCES / source), *options])
    return Built(folder, folder / APPLY.main)


def _stress(built: Built, seed: int, threads: int = 6, **settings: str) -> ProcessReport:
    """Run the program with threads; nothing may be left, and nothing be punished."""
    command = ("program", str(threads), "60", str(seed), *_MODELS)
    output, reports = built.run(*command, settings=settings)
    assert "left 0 pieces 0 bytes 0" in output
    (report,) = reports
    return report


@pytest.mark.parametrize("seed", range(4))
def test_contexts_of_threads_never_run_in_one_memory_at_once(built: Built, seed: int) -> None:
    """Threads make, move, run and destroy contexts in any order, and none harms another."""
    report = _stress(built, seed)
    assert report.shared["weights"] > 0
    assert report.shared["internal"] > 0
    assert report.failures == {}
    assert set(report.left_alone) <= {"non_blocking", "bound"}


@pytest.mark.parametrize("call", _CALLS)
@pytest.mark.parametrize("number", [1, 3, 9])
def test_a_call_that_fails_does_not_reach_the_program(built: Built, call: str, number: int) -> None:
    """The program goes on as without the library if one of the library's own calls fails."""
    report = _stress(built, 5, LIBRARY_FAILS=f"{call} {number} 0")
    if call != "rknn_init":
        assert report.failures == {call: 1}


@pytest.mark.parametrize("call", _CALLS)
def test_a_library_in_which_a_call_always_fails_is_left_alone(built: Built, call: str) -> None:
    """Contexts that cannot share are made by the program's own calls."""
    report = _stress(built, 6, LIBRARY_FAILS=f"{call} 1 1")
    assert report.contexts > 0
    if call in ("rknn_init", "rknn_create_mem", "rknn_set_internal_mem"):
        assert report.shared == {"weights": 0, "internal": 0}
        assert set(report.left_alone) == {"call_failed"}


def test_as_much_memory_as_the_program_alone_needs_is_enough(built: Built) -> None:
    """A program that just fits without the library fits with it."""
    alone, _ = built.run("program", "1", "200", "3", *_MODELS, settings={"LD_PRELOAD": ""})
    peak = alone.split("peak ")[1].split()[0]
    command = ("program", "1", "200", "3", *_MODELS)
    output, (report,) = built.run(*command, settings={"LIBRARY_BYTES": peak})
    assert int(output.split("peak ")[1]) <= int(peak)
    assert report.failures == {}


def test_at_once_limits_the_runs_and_so_the_memories(built: Built) -> None:
    """With one run at once, threads without core masks have one internal memory."""
    few, many = (
        built.run("loader", "threads", str(built.folder / "librknnrt.so"), settings=settings)
        for settings in ({"REUSEBENCH_APPLY_AT_ONCE": "1"}, {"REUSEBENCH_APPLY_AT_ONCE": "3"})
    )
    assert [reports[0].most_at_once for _, reports in (few, many)] == [1, 3]


@pytest.mark.parametrize(
    ("way", "files"),
    [
        ("reload", ("librknnrt.so",)),
        ("two", ("librknnrt.so", "other.so")),
        ("plugin", ("plugin.so",)),
        ("whole", ("librknnrt.so",)),
        ("fork", ("librknnrt.so",)),
        ("signal", ("librknnrt.so",)),
        ("cancel", ("librknnrt.so",)),
    ],
)
def test_each_way_to_the_library_is_followed(
    built: Built, way: str, files: tuple[str, ...]
) -> None:
    """Libraries that are loaded later, twice or by others are found, and forks start anew."""
    paths = [str(built.folder / file) for file in files]
    output, reports = built.run("loader", way, *paths)
    assert "well\n" in output
    assert len(reports) == (2 if way == "fork" else 1)
    if way != "signal":
        assert all(report.shared["weights"] > 0 for report in reports)


def test_a_program_without_the_library_is_not_told_of_one(built: Built) -> None:
    """A program that looks for librknnrt and has none finds none, and reports nothing."""
    output, reports = built.run("loader", "absent")
    assert output == "well\n"
    assert reports == ()


def test_off_leaves_every_context_alone(built: Built) -> None:
    """With REUSEBENCH_APPLY_OFF the calls are the program's own; its contexts are counted."""
    settings = {"REUSEBENCH_APPLY_OFF": "1"}
    output, (report,) = built.run("program", "2", "60", "1", *_MODELS, settings=settings)
    assert "dups 0" in output
    assert report.left_alone == {"off": report.contexts}


def test_each_reason_of_the_library_has_a_sentence() -> None:
    """The codes that the C sources give as reasons are in the list of reasons."""
    texts = "".join(file.read_text() for file in (NATIVE / "apply").glob("*.c"))
    for code in ("non_blocking", "dynamic_shapes", "call_failed", "batch", "flags"):
        assert f'"{code}"' in texts
        assert code in REASONS
