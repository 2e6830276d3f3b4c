"""The options of `pytest bench/`, and the settings that they give."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.choice import add_choice_options
from harness.errors import PssUnreadable
from harness.gate import add_gate_options
from harness.model_sets import BuiltIn, ModelSets, Resolution
from runtimes import find_runtime
from samplers.process import pss_readable
from scenarios.catalogue import Parameters
from scenarios.plan import Model
from targets.chips import CHIPS

if TYPE_CHECKING:
    import pytest

__all__ = [
    "Settings",
    "add_options",
    "check_kernel",
    "npu_cores_of",
    "resolve_model_sets",
    "resolve_settings",
    "usable_cpus",
]


@dataclass(frozen=True)
class Effort:
    """How much is measured where no option says otherwise."""

    built_in: BuiltIn
    repeats: int
    rounds: int
    #: Idle time before each process in which the system's noise is measured.
    idle_s: float


#: On 2 cores 7 minutes of ONNX Runtime, 11 of MegEngine Lite. There are 216 timed inferences of most configurations;
#: more rounds would narrow no figure of memory.
_DEFAULT = Effort(
    BuiltIn(
        stream=("yolov5s", 320),
        in_turn=(("yolov5s", 640), ("resnet50", 224), ("mobilenet_v2", 224)),
        resolutions=(("yolov5s", 320), ("yolov5s", 416), ("yolov5s", 640), ("yolov5s", 256), ("yolov5s", 512)),
    ),
    repeats=3,
    rounds=6,
    idle_s=0.5,
)
#: A first look: 1 to 2 minutes on 2 cores.
_QUICK = Effort(
    BuiltIn(
        stream=("mobilenet_v2", 224),
        in_turn=(("mobilenet_v2", 224), ("mobilenet_v2", 160)),
        resolutions=(("mobilenet_v2", 224), ("mobilenet_v2", 160), ("mobilenet_v2", 96)),
    ),
    repeats=2,
    rounds=5,
    idle_s=0.2,
)


@dataclass(frozen=True)
class Settings:
    """What the user chose."""

    streams: int
    contexts: int
    repeats: int
    rounds: int
    sample_hz: float
    time_limit_s: float
    idle_s: float
    #: Usable CPUs: at most so many contexts infer at once on a CPU.
    cpus: int
    #: Cores of the NPU: at most so many contexts infer at once on it. Where the chip is not known, 1.
    npu_cores: int

    def parameters(self, runtime: str, files: Sequence[Model]) -> Parameters:
        """Return what a scenario makes its plan from."""
        cores = self.npu_cores if find_runtime(runtime).device == "npu" else self.cpus
        return Parameters(runtime, tuple(files), self.streams, self.contexts, cores, self.rounds)


def add_options(parser: pytest.Parser) -> None:
    """Declare the options."""
    add = parser.getgroup("reusebench", "reusebench: what reuse between contexts saves (pytest bench/)").addoption
    add_choice_options(add)
    add(
        "--model",
        action="append",
        metavar="FILE",
        type=Path,
        help="Model file; repeatable, one per stream. Fewer files than streams are used in turn. Default: the built-in "
        f"{_network(_DEFAULT)}, with other weights for each stream.",
    )
    add(
        "--resolution",
        action="append",
        metavar="FILE[,WEIGHTLESS]",
        type=_resolution,
        help="One resolution of a network for shared weights; repeatable, the one with the weights first. WEIGHTLESS "
        "is the same model without its weights (rknn-toolkit2: remove_weight). Default: built-in ones.",
    )
    add("--streams", metavar="N", type=_count, default=4, help="Streams that are served. Default: 4.")
    add("--contexts", metavar="N", type=_count, default=3, help="Contexts of each stream. Default: 3.")
    add(
        "--repeats",
        metavar="N",
        type=_count,
        help=f"Fresh processes per configuration; the spread is over them. Default: {_DEFAULT.repeats}.",
    )
    add(
        "--rounds",
        metavar="N",
        type=_count,
        help=f"Timed inferences of each context in each process. Default: {_DEFAULT.rounds}.",
    )
    add(
        "--sample-hz",
        metavar="HZ",
        type=_rate,
        default=200.0,
        help="Readings per second for the timeline. Figures in tables do not depend on it. Default: 200.",
    )
    add(
        "--time-limit",
        metavar="SECONDS",
        type=_rate,
        default=120.0,
        help="A step of a measured process (one load, one first inference) that takes longer counts as hung; the timed "
        "rounds have as much more as their number needs. Default: 120.",
    )
    add(
        "--quick",
        action="store_true",
        help=f"A first look: {_network(_QUICK)}, {_QUICK.repeats} repeats, "
        f"{_QUICK.rounds} rounds. Options given beside it win.",
    )
    add_gate_options(add)


def resolve_settings(option: argparse.Namespace, chip: str | None) -> Settings:
    """Return the settings of this session."""
    effort = _effort(option)
    return Settings(
        streams=option.streams,
        contexts=option.contexts,
        repeats=option.repeats or effort.repeats,
        rounds=option.rounds or effort.rounds,
        sample_hz=option.sample_hz,
        time_limit_s=option.time_limit,
        idle_s=effort.idle_s,
        cpus=usable_cpus(),
        npu_cores=npu_cores_of(chip),
    )


def usable_cpus() -> int:
    """Return how many CPUs this process may use."""
    return len(os.sched_getaffinity(0))


def npu_cores_of(chip: str | None) -> int:
    """Return how many cores the chip's NPU has; where it is not known, 1."""
    return CHIPS[chip].npu_cores if chip else 1


def check_kernel() -> None:
    """Raise where this kernel does not give the figure that everything is about."""
    if not pss_readable(os.getpid()):
        raise PssUnreadable


def resolve_model_sets(option: argparse.Namespace, chip: str | None) -> ModelSets:
    """Return the models of this session, which are read or built when they are asked for."""
    return ModelSets(
        built_in=_effort(option).built_in,
        streams=option.streams,
        files=tuple(option.model or ()),
        resolutions=tuple(option.resolution or ()),
        chip=chip,
    )


def _effort(option: argparse.Namespace) -> Effort:
    return _QUICK if option.quick else _DEFAULT


def _network(effort: Effort) -> str:
    name, size = effort.built_in.stream
    return f"{name} at {size}x{size}"


def _resolution(text: str) -> Resolution:
    file, _, weightless = text.partition(",")
    return Resolution(Path(file), Path(weightless) if weightless else None)


def _number(kind: Callable[[str], float], minimum: float, valid: str) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = minimum - 1
        if not minimum <= value < float("inf"):
            raise argparse.ArgumentTypeError(f"{text!r} is not valid; valid: {valid}")
        return value

    return parse


_count = _number(int, 1, "a whole number from 1")
_rate = _number(float, 0.001, "a number above 0")
