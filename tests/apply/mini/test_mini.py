"""librknnmrt (RV1103, RV1106): contexts share weights and internal memory by a preload library."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reusebench.system.cache import cache_root
from reusebench.system.package import NATIVE
from reusebench.targets.compilers import compiler_for
from reusebench.targets.programs import APPLY
from reusebench.targets.rknn_library import architecture_of_this_python
from tests.apply.board_runs import as_is_and_applied
from tests.helpers.support import PROGRAM_LIMIT_S

pytestmark = pytest.mark.process

_FOLDER = Path(__file__).parent
_CACHE = cache_root()  # the user's, which tests do not have later
_OPTIONS = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", f"-I{NATIVE}")
_MODELS = ("10000 5000", "20000 9000", "30000 40000")


@dataclass(frozen=True)
class StandIn:
    """A program, with a stand-in for librknnmrt that punishes what is shared wrongly."""

    folder: Path

    def run(self, seed: int, *models: str, **variables: str) -> tuple[str, dict[str, Any]]:
        """Return the last line that the program printed, and the report."""
        report = self.folder / f"report-{os.urandom(4).hex()}"
        environment = {
            "LD_LIBRARY_PATH": str(self.folder),
            "LD_PRELOAD": str(self.folder / APPLY.main),
            "REUSEBENCH_APPLY_REPORT": str(report),
            **variables,
        }
        done = subprocess.run(
            [self.folder / "program", "6", "60", str(seed), *models],
            env=environment,
            capture_output=True,
            text=True,
            timeout=PROGRAM_LIMIT_S,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.rstrip(), json.loads(report.read_text())


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> StandIn:
    """The preload library, the program and the stand-in, compiled for this machine."""
    folder = tmp_path_factory.mktemp("mini")
    architecture = architecture_of_this_python()
    if architecture is None:
        pytest.skip("no compiler for this machine's architecture is known")
    compiler = compiler_for(architecture, lambda _: None)
    APPLY.compile(compiler, architecture, folder, "-Werror")
    library = folder / "librknnmrt.so"
    for name, output, options in (
        ("library", library, ("-shared", "-Wl,-soname,librknnmrt.so")),
        ("program", folder / "program", ()),
    ):
        source = str(_FOLDER / f"{name}.c")
        linked = (str(library),) if name == "program" else ()
        arguments = [*_OPTIONS, *options, "-o", str(output), source, *linked, "-lpthread"]
        compiler.compile(arguments)
    return StandIn(folder)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_threads_that_make_run_and_end_contexts(stand_in: StandIn, seed: int) -> None:
    """No two run in one memory, sizes are told as without us, and all memory is given back."""
    line, report = stand_in.run(seed, *_MODELS)
    assert line.endswith("left 0 pieces 0 buffers 0")
    assert report["models"] == len(_MODELS)
    assert report["shared"]["weights"] > report["contexts"] / 2
    assert report["shared"]["internal"] > report["contexts"] / 2
    assert report["left_alone"].keys() <= {"bound_tensors"}
    assert report["failures"] == {}


def test_what_cannot_be_shared_is_loaded_as_the_program_does(stand_in: StandIn) -> None:
    """A model without weights, which the library does not load without memory of its own."""
    line, report = stand_in.run(1, "0 5000")
    assert " outside 0 " in line
    assert line.endswith("left 0 pieces 0 buffers 0")
    assert report["left_alone"] == {"no_weights": report["contexts"]}


def test_memory_that_is_refused(stand_in: StandIn) -> None:
    """The contexts are loaded as the program does, and nothing of ours stays."""
    line, report = stand_in.run(1, "10000 5000", LIBRARY_REFUSES_BYTES="10000")
    assert line.endswith("left 0 pieces 0 buffers 0")
    contexts = report["contexts"]
    assert report["left_alone"] == {"call_failed": contexts}
    assert report["failures"] == {"rknn_create_mem": contexts}


def test_a_library_that_was_never_tried(stand_in: StandIn) -> None:
    """Releases before 1.6.0 are left alone."""
    line, report = stand_in.run(1, *_MODELS, LIBRARY_VERSION="1.5.2")
    assert " outside 0 " in line
    assert report["left_alone"] == {"library_too_old": report["contexts"]}


def _models() -> list[str]:
    models: list[str] = []
    for size in (64, 96):
        paths = sorted((_CACHE / "models").glob(f"tiny-{size}-seed1-rv1106-toolkit*.rknn"))
        models += map(str, paths[:1])
    if not models:
        pytest.skip("no models for rv1106 in the user's cache")
    return [*models, models[0]]


def test_rockchips_library_on_the_virtual_board(tmp_path: Path) -> None:
    """A program is told the same, saves what the report says, and no job reads wrong memory."""
    program = _FOLDER / "camera.py"
    as_is, applied = as_is_and_applied(tmp_path, "rv1106", "armhf", program, _models())
    assert applied.output == as_is.output
    assert (applied.ledger.wrong_reads(), applied.left_bytes) == ([], 0)
    assert applied.report is not None
    saved = applied.report.saved_bytes
    assert applied.used_bytes == as_is.used_bytes - saved["weights"] - saved["internal"]
    assert saved["weights"] > 0
    # The first model is the smaller one, and has its tensors before the other is loaded.
    assert applied.report.left_alone == {"bound_tensors": 1}
