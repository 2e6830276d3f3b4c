"""A remote board as a machine: its Python, its files, and its return after a lost connection."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reusebench.measured.plan import Step, Streams, Video
from reusebench.measured.runtimes import find_runtime
from reusebench.measured.runtimes.base import InputData
from reusebench.samplers.observer import Observer
from reusebench.targets.boards import Board
from reusebench.targets.errors import TargetError
from reusebench.targets.far.machine import FarMachine
from reusebench.targets.far.target import far_target
from reusebench.targets.target import THIS_INTERPRETER
from tests.helpers.far_shell import shell_at
from tests.helpers.support import StubListener, known, make_plan, models_of, walk

pytestmark = pytest.mark.process


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[FarMachine]:
    """Return this machine as a remote board, with this Python."""
    (tmp_path / "home").mkdir()
    machine = _machine(tmp_path)
    yield machine
    machine.close()


def _machine(folder: Path) -> FarMachine:
    return FarMachine("here", Board(shell_at(folder / "home"), python=sys.executable), print)


def test_its_python(machine: FarMachine) -> None:
    """It is the interpreter named for the board; its modules are known without importing them."""
    python = known(machine.python())
    assert (python.path, python.version) == (sys.executable, sys.version.split()[0])
    assert python.architecture == machine.architecture
    assert machine.has_module(python, "json")
    assert not machine.has_module(python, "no_such_module")


@pytest.mark.parametrize("python", ["/bin/false", "/no/python", "sh"])
def test_a_board_without_python(tmp_path: Path, python: str) -> None:
    """An interpreter that cannot run the driver does not count."""
    machine = FarMachine("here", Board(shell_at(tmp_path), python=python), print)
    assert machine.python() is None
    with pytest.raises(TargetError, match=r"here has no Python from 3\.8 on\..* --python PATH$"):
        far_target(machine, None, find_runtime("onnxruntime"), None)
    machine.close()


def test_the_driver_is_there_once_and_compiled(machine: FarMachine) -> None:
    """Only the measured process's folder is pushed; a second session finds it."""
    start = machine.push_driver(known(machine.python()))
    folder = Path(start).parent
    assert [path.name for path in folder.parent.iterdir()] == ["measured"]
    assert len(list((folder / "__pycache__").glob("driver.*.pyc"))) == 1
    machine.close()
    assert machine.push_driver(known(machine.python())) == start


def test_the_files_of_a_plan(machine: FarMachine, tmp_path: Path) -> None:
    """Models with separate weights, inputs and video get other paths and keep their content."""
    for name in ("net.param", "net.bin", "small.param", "frame.npy", "clip.mp4"):
        (tmp_path / name).write_text(name)
    (model,) = models_of(tmp_path / "net.param")
    fed = InputData("x", "float32", (1,), file=str(tmp_path / "frame.npy"))
    model = replace(
        model, weightless=str(tmp_path / "small.param"), inputs=(fed, replace(fed, file=None))
    )
    video = Video("clip", str(tmp_path / "clip.mp4"), "digest", "h264", 8, 8, 30.0, 1)
    schedule = Streams(2, 30.0, 0, 0.1, 1.0, video)
    plan = replace(make_plan("no_reuse", "x", streams=2), models=(model,), schedule=schedule)
    there = machine.plan_there(plan)
    pushed = there.models[0]
    path = Path(pushed.path)
    assert path != tmp_path / "net.param"
    assert (path.read_text(), path.with_suffix(".bin").read_text()) == ("net.param", "net.bin")
    assert Path(known(pushed.weightless)).read_text() == "small.param"
    assert [tensor.file and Path(tensor.file).read_text() for tensor in pushed.inputs] == [
        "frame.npy",
        None,
    ]
    assert Path(known(known(there.schedule).video).path).read_text() == "clip.mp4"
    assert machine.plan_there(plan) == there


def test_a_walk_is_the_same_as_near(machine: FarMachine, tiny_model: Path) -> None:
    """Barriers and outputs equal the local ones."""
    plan = make_plan("no_reuse", tiny_model, runtime="onnxruntime")
    near = walk(plan, THIS_INTERPRETER)
    far = walk(plan, far_target(machine, None, find_runtime("onnxruntime"), None))
    assert far.failure is None, far.failure
    steps = [[(barrier.phase, barrier.context) for barrier in run.barriers] for run in (near, far)]
    assert steps[0] == steps[1]
    digests = [[barrier.data.digest for barrier in run.barriers] for run in (near, far)]
    assert digests[0] == digests[1]
    times = [barrier.at_ns for barrier in far.barriers]
    assert times == sorted(times)
    assert far.start_ns < times[0]


class _Cut(StubListener):
    """Kills the reader when a step begins."""

    def __init__(self, machine: FarMachine) -> None:
        self._machine = machine

    def step(self, step: Step) -> None:
        """Kill the reader at the first inference."""
        if step.phase == "first_inference":
            os.kill(self._machine.connection.reader_pid, signal.SIGKILL)


def test_it_comes_back(machine: FarMachine, tiny_model: Path) -> None:
    """A lost connection ends one run, which keeps its readings; the next run is complete."""
    target = far_target(machine, None, find_runtime("onnxruntime"), None)
    plan = make_plan("no_reuse", tiny_model, runtime="onnxruntime")
    broken = walk(plan, target, Observer(machine.host, 200), listener=_Cut(machine))
    assert known(broken.failure).kind == "connection_lost"
    assert known(broken.failure).phase == "first_inference"
    assert [barrier.phase for barrier in broken.barriers] == ["imported", "context", "context"]
    assert all(barrier.process.pss_bytes > 0 for barrier in broken.barriers)
    assert walk(plan, target, Observer(machine.host, 200)).failure is None


def test_what_a_session_has_left_is_removed_by_the_next(
    machine: FarMachine, tmp_path: Path
) -> None:
    """Models that were prepared on the board serve one session."""
    left = Path(machine.folder_there(Path("onnxruntime")))
    left.mkdir(parents=True)
    (left / "model.onnx").touch()
    machine.close()
    assert machine.connection  # the same session again
    assert left.exists()
    machine.close()
    later = _machine(tmp_path)
    assert later.connection
    assert not left.parent.exists()
    later.close()


def test_memory_of_the_reader(machine: FarMachine) -> None:
    """It is known, and a small part of a measured process's."""
    assert 0 < machine.reader_bytes() < 1 << 20
