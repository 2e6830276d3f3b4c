"""Helpers for the tests of several packages: plans, readings, targets and observers."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional, TypeVar

import msgspec

from reusebench.measured.plan import Conversation, Model, Plan, Step, Streams
from reusebench.measured.runtimes import RuntimeEntry
from reusebench.samplers.readings import NpuMemory, ProcessMemory, Reading, SystemMemory
from reusebench.scenarios.catalogue import Parameters, find_scenario
from reusebench.targets.barriers import BarrierReading, Frames, StepData
from reusebench.targets.conversation import MemoryObserver
from reusebench.targets.measured_process import Listener, MeasuredRun, prepare_models, run_plan
from reusebench.targets.outcome import Failure
from reusebench.targets.target import Target

_Value = TypeVar("_Value")

CHECKOUT = Path(__file__).resolve().parents[2]

#: The driver in a real process, with a runtime that does what a model's path says
#: (tests/helpers/scripted_driver.py).
SCRIPTED = Target("scripted", (sys.executable, "-m", "tests.helpers.scripted_driver"), CHECKOUT)

#: Far longer than anything takes; a test fails, and does not hang.
TIME_LIMIT_S = 60.0
#: Time limit of a whole program, which ends by itself also on a busy machine.
PROGRAM_LIMIT_S = 120.0

#: A reading in which every figure is 0; on an NPU none is known.
_PROCESS = ProcessMemory(**dict.fromkeys(ProcessMemory.__struct_fields__, 0))
SYSTEM = SystemMemory(**dict.fromkeys(SystemMemory.__struct_fields__, 0))
_NO_DATA = StepData()
NPU = NpuMemory(**dict.fromkeys(NpuMemory.__struct_fields__))


def reading(npu_bytes: int | None = None, **process: int | None) -> Reading:
    """Return a reading with these figures of the process, and with an NPU if dma-bufs are given.

    No other process shares its pages: the distinct ones are PSS, unless they are given.
    """
    process.setdefault("distinct_bytes", process.get("pss_bytes", 0))
    npu = (
        None if npu_bytes is None else msgspec.structs.replace(NPU, process_dmabuf_bytes=npu_bytes)
    )
    return Reading(msgspec.structs.replace(_PROCESS, **process), SYSTEM, npu)


def barrier(
    phase: str,
    context: int | None = None,
    at_ns: int = 0,
    data: StepData = _NO_DATA,
    trimmed: bool = False,
    **process: int | None,
) -> BarrierReading:
    """Return a barrier with these figures of the process, `pss_bytes` above all; the others are
    0.
    """
    read = reading(**process)
    return BarrierReading(phase, context, at_ns, data, trimmed, read.process, read.system)


def known(value: Optional[_Value]) -> _Value:
    """Return the value, which must not be None."""
    assert value is not None
    return value


def user_environment() -> dict[str, str]:
    """Return the environment without variables of pytest: a worker's would change a pytest that a
    test starts.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}


def own_environment(
    runtime: str, python: Path, is_installed: bool = True
) -> Callable[[RuntimeEntry], Any]:
    """Return a double of targets.interpreters._own_environment; one runtime has an environment."""
    machines = (platform.machine(),)
    environment = SimpleNamespace(
        installed=lambda: is_installed, python=lambda: python, machines=machines
    )
    return lambda entry: environment if entry.name == runtime else None


def made_once(path: Path, make: Callable[[Path], object]) -> Path:
    """Return the file or folder, which is made if it is not there; two workers that do so at once
    make the same one.
    """
    if not path.exists():
        unfinished = path.with_name(f"{os.getpid()}-{path.name}")
        make(unfinished)
        try:
            unfinished.rename(path)
        except OSError:  # a folder that another worker has made meanwhile
            if not path.exists():
                raise
    return path


def models_of(*paths: object) -> tuple[Model, ...]:
    """Return models of these paths, with the path's digest instead of the file's."""
    digests = [hashlib.sha256(str(path).encode()).hexdigest() for path in paths]
    return tuple(
        Model(f"model-{index}", str(path), digests[index]) for index, path in enumerate(paths)
    )


def make_plan(
    scenario: str,
    *paths: object,
    streams: int = 1,
    contexts: int = 2,
    runtime: str = "scripted",
    cores: int = 2,
    schedule: Streams | None = None,
    choice: int = 0,
    conversation: Conversation | None = None,
) -> Plan:
    """Return a plan of a scenario over models of these paths, the best by default, small enough to
    walk in no time.
    """
    parameters = Parameters(
        runtime,
        models_of(*paths),
        *(streams, contexts, cores),
        rounds=3,
        schedule=schedule,
        conversation=conversation,
    )
    return find_scenario(scenario).plans(parameters)[choice]


def prepared_plan(plan: Plan, target: Target, folder: Path) -> Plan | Failure:
    """Return the plan with its models prepared if needed; a Failure if they could not be."""
    models = plan.models_to_prepare()
    made = prepare_models(target, plan.runtime, models, folder, TIME_LIMIT_S) if models else {}
    if isinstance(made, Failure):
        return made
    return plan.with_prepared(
        {digest: known(preparation).path for digest, preparation in made.items()}
    )


@dataclass(frozen=True)
class Ended:
    """The exit code and the output of a command."""

    exit_code: int
    out: str
    err: str


#: Runs `reusebench` with these arguments, in the process of the tests.
Reusebench = Callable[..., Ended]


class StubObserver:
    """An observer that reads no memory: at each barrier it calls `look` with the process's id and
    keeps the answer.
    """

    interval_s = 0.01

    def __init__(self, look: Callable[[int], Any] = lambda _: None) -> None:
        self._look = look
        self.answers: list[Any] = []
        self.pid = 0
        self.samples = 0
        self.attached = False

    def attach(self, pid: int) -> None:
        """Begin."""
        self.pid = pid
        self.attached = True

    def detach(self) -> None:
        """End."""
        self.attached = False

    def sample(self) -> None:
        """Count."""
        self.samples += 1

    def snapshot(self) -> Reading:
        """Look."""
        self.answers.append(self._look(self.pid))
        return reading()


class StubListener:
    """A listener that keeps nothing."""

    def step(self, step: Step) -> None:
        """Take no note of a step."""

    def frames(self, message: Frames, run: MeasuredRun) -> None:
        """Take no note of frames."""


def record_command(*changes: str) -> tuple[str, ...]:
    """Return `reusebench record` with statements that change it; it watches the idle machine for a
    moment alone.
    """
    modules = "from reusebench import commands; from reusebench.recorder import recorder, task"
    code = "; ".join([modules, "recorder._IDLE_S = 0.02", *changes, "commands.main()"])
    return sys.executable, "-c", code, "record"


def walk(
    plan: Plan,
    target: Target = SCRIPTED,
    observer: MemoryObserver | None = None,
    time_limit_s: float = TIME_LIMIT_S,
    listener: Listener | None = None,
) -> MeasuredRun:
    """Walk the plan in a process on the target."""
    return run_plan(
        target, plan, observer or StubObserver(), time_limit_s, listener or StubListener()
    )
