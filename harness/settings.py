"""The options of `pytest bench/`, and the settings that they give."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import (
    NoRuntime,
    PssUnreadable,
    ResolutionsMissing,
    RuntimeNotInstalled,
    RuntimeNotOnTarget,
    TargetInvalid,
)
from harness.model_sets import BuiltIn, ModelSets, Resolution
from runtimes import RUNTIMES, RuntimeEntry, UnknownRuntime, available, find_runtime
from samplers.process import pss_readable
from scenarios.catalogue import Parameters
from scenarios.plan import Model
from targets.base import Target
from targets.chips import CHIPS
from targets.choose import parse_target
from targets.errors import TargetError

if TYPE_CHECKING:
    import pytest

__all__ = [
    "Settings",
    "add_options",
    "check_kernel",
    "check_runtimes",
    "chosen_runtimes",
    "question_of",
    "resolve_model_sets",
    "resolve_settings",
    "resolve_target",
    "what_is_lacking",
]


#: The runtime that --rknn-library and the virtual board are for.
_RKNN = "rknn"
#: The question that is about several resolutions of one network.
_ABOUT_RESOLUTIONS = "shared_weights"


@dataclass(frozen=True)
class Effort:
    """How much is measured where no option says otherwise."""

    built_in: BuiltIn
    repeats: int
    rounds: int
    #: Idle time before each process in which the system's noise is measured.
    idle_s: float


#: Under 3 minutes on 2 cores.
_DEFAULT = Effort(
    BuiltIn(
        stream=("yolov5s", 320),
        in_turn=(("yolov5s", 320), ("resnet50", 224), ("mobilenet_v2", 224)),
        resolutions=(("yolov5s", 320), ("yolov5s", 416), ("yolov5s", 640)),
    ),
    repeats=3,
    rounds=12,
    idle_s=0.5,
)
#: A first look: under 45 seconds on 2 cores.
_QUICK = Effort(
    BuiltIn(
        stream=("mobilenet_v2", 224),
        in_turn=(("mobilenet_v2", 224), ("mobilenet_v2", 160)),
        resolutions=(("mobilenet_v2", 224), ("mobilenet_v2", 160)),
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
    add(
        "--runtime",
        action="append",
        metavar="NAME",
        type=_runtime_name,
        help="Runtime to measure; repeatable. Default: all that are installed. `python -m runtimes` lists them.",
    )
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
    add(
        "--target",
        metavar="TARGET",
        default="python",
        help="Where the measured process runs: python (this one), python:PATH, board (this board, with a ledger of NPU "
        "buffers), vboard:CHIP (Rockchip's runtime on a virtual board). `python -m targets` lists them. "
        "Default: python.",
    )
    add(
        "--rknn-library",
        metavar="FILE",
        type=Path,
        help="Rockchip's librknnrt.so or librknnmrt.so. Default: $REUSEBENCH_RKNN_LIBRARY, or the usual places.",
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


def resolve_target(config: pytest.Config) -> Target:
    """Return where the measured process runs; raise where that is not possible."""
    try:
        return parse_target(config.option.target, config.option.rknn_library)
    except TargetError as error:
        raise TargetInvalid(str(error)) from None


def resolve_settings(config: pytest.Config, target: Target) -> Settings:
    """Return the settings of this session."""
    option, effort = config.option, _effort(config)
    return Settings(
        streams=option.streams,
        contexts=option.contexts,
        repeats=option.repeats or effort.repeats,
        rounds=option.rounds or effort.rounds,
        sample_hz=option.sample_hz,
        time_limit_s=option.time_limit,
        idle_s=effort.idle_s,
        cpus=len(os.sched_getaffinity(0)),
        npu_cores=CHIPS[target.chip].npu_cores if target.chip else 1,
    )


def chosen_runtimes(config: pytest.Config) -> list[str]:
    """Return the names of the runtimes to measure: those given, or all that are here."""
    given: list[str] = list(dict.fromkeys(config.option.runtime or ()))
    if given:
        return given
    if _is_virtual(config):
        return [_RKNN]
    return [entry.name for entry in RUNTIMES if _is_here(entry, config)]


def question_of(path: Path) -> str:
    """Return the question that a file of bench/ asks, by its name."""
    return path.stem.replace("test_", "")


def what_is_lacking(config: pytest.Config, question: str) -> str | None:
    """Return what the user must give besides before a question can be asked of his own models; None where nothing."""
    own_models = config.option.model and not config.option.resolution
    return str(ResolutionsMissing()) if question == _ABOUT_RESOLUTIONS and own_models else None


def check_runtimes(config: pytest.Config) -> None:
    """Raise where a runtime to measure is not installed, or none is."""
    names = chosen_runtimes(config)
    if not names:
        raise NoRuntime
    for entry in map(find_runtime, names):
        if _is_virtual(config):
            if entry.name != _RKNN:
                raise RuntimeNotOnTarget(entry.name, config.option.target)
        elif not _is_here(entry, config):
            raise RuntimeNotInstalled(entry.name, entry.install)


def check_kernel() -> None:
    """Raise where this kernel does not give the figure that everything is about."""
    if not pss_readable(os.getpid()):
        raise PssUnreadable


def resolve_model_sets(config: pytest.Config, target: Target) -> ModelSets:
    """Return the models of this session, which are read or built when they are asked for."""
    option = config.option
    return ModelSets(
        built_in=_effort(config).built_in,
        streams=option.streams,
        files=tuple(option.model or ()),
        resolutions=tuple(option.resolution or ()),
        chip=target.chip,
    )


def _effort(config: pytest.Config) -> Effort:
    return _QUICK if config.option.quick else _DEFAULT


def _network(effort: Effort) -> str:
    name, size = effort.built_in.stream
    return f"{name} at {size}x{size}"


def _is_virtual(config: pytest.Config) -> bool:
    return str(config.option.target).startswith("vboard:")


def _is_here(entry: RuntimeEntry, config: pytest.Config) -> bool:
    return (entry.name == _RKNN and config.option.rknn_library is not None) or available(entry)


def _resolution(text: str) -> Resolution:
    file, _, weightless = text.partition(",")
    return Resolution(Path(file), Path(weightless) if weightless else None)


def _runtime_name(text: str) -> str:
    try:
        return find_runtime(text).name
    except UnknownRuntime as error:
        raise argparse.ArgumentTypeError(str(error)) from None


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
