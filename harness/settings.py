"""The options of `pytest bench/`, and the settings that they give."""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import models
from harness.errors import (
    ModelFileEmpty,
    ModelFileMissing,
    ModelNotBuilt,
    NoRuntime,
    PssUnreadable,
    RuntimeNotInstalled,
)
from runtimes import RUNTIMES, UnknownRuntime, available, find_runtime
from samplers.process import pss_readable
from scenarios.catalogue import Parameters
from scenarios.plan import Model

if TYPE_CHECKING:
    import pytest

__all__ = [
    "Settings",
    "add_options",
    "check_kernel",
    "check_runtimes",
    "chosen_runtimes",
    "resolve_models",
    "resolve_settings",
]


@dataclass(frozen=True)
class Effort:
    """How much is measured where no option says otherwise."""

    #: Name and input size of the built-in network; each stream has a seed of its own.
    network: str
    size: int
    repeats: int
    rounds: int
    #: Idle time before each process in which the system's noise is measured.
    idle_s: float


#: Under 3 minutes on 2 cores.
_DEFAULT = Effort(network="yolov5s", size=320, repeats=3, rounds=12, idle_s=0.5)
#: A first look: under 45 seconds on 2 cores.
_QUICK = Effort(network="mobilenet_v2", size=224, repeats=2, rounds=5, idle_s=0.2)


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
    #: Usable CPUs: at most so many contexts infer at once.
    cores: int

    def parameters(self, runtime: str, files: Sequence[Model]) -> Parameters:
        """Return what a scenario makes its plan from."""
        return Parameters(runtime, tuple(files), self.streams, self.contexts, self.cores, self.rounds)


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
        f"{_DEFAULT.network} at {_DEFAULT.size}x{_DEFAULT.size}, with other weights for each stream.",
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
        help=f"A first look: {_QUICK.network} at {_QUICK.size}x{_QUICK.size}, {_QUICK.repeats} repeats, "
        f"{_QUICK.rounds} rounds. Options given beside it win.",
    )


def resolve_settings(config: pytest.Config) -> Settings:
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
        cores=len(os.sched_getaffinity(0)),
    )


def chosen_runtimes(config: pytest.Config) -> list[str]:
    """Return the names of the runtimes to measure: those given, or all that are installed."""
    given: list[str] = list(dict.fromkeys(config.option.runtime or ()))
    return given or [entry.name for entry in RUNTIMES if available(entry)]


def check_runtimes(config: pytest.Config) -> None:
    """Raise where a runtime to measure is not installed, or none is."""
    names = chosen_runtimes(config)
    if not names:
        raise NoRuntime
    for entry in map(find_runtime, names):
        if not available(entry):
            raise RuntimeNotInstalled(entry.name, entry.install)


def check_kernel() -> None:
    """Raise where this kernel does not give the figure that everything is about."""
    if not pss_readable(os.getpid()):
        raise PssUnreadable


def resolve_models(config: pytest.Config) -> tuple[Model, ...]:
    """Return the model files of this session; build those of the built-in set that are not in the cache yet."""
    given: list[Path] | None = config.option.model
    return tuple(_model(path) for path in given or _built_in_files(_effort(config), config.option.streams))


def _effort(config: pytest.Config) -> Effort:
    return _QUICK if config.option.quick else _DEFAULT


def _built_in_files(effort: Effort, streams: int) -> list[Path]:
    try:
        return [models.ensure(effort.network, effort.size, seed) for seed in range(1, streams + 1)]
    except models.ModelError as error:
        raise ModelNotBuilt(error) from None


def _model(path: Path) -> Model:
    path = path.resolve()
    if not path.is_file():
        raise ModelFileMissing(path)
    if path.stat().st_size == 0:
        raise ModelFileEmpty(path)
    return Model(path.stem, str(path), _digest(path))


def _digest(path: Path) -> str:
    """Return the SHA-256 of the file and of every file beside it that it names: ONNX keeps large weights there."""
    content = path.read_bytes()
    digest = hashlib.sha256(content)
    for sibling in sorted(path.parent.iterdir()):
        if sibling != path and sibling.is_file() and len(sibling.name) > 3 and sibling.name.encode() in content:
            digest.update(sibling.read_bytes())
    return digest.hexdigest()


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
