"""The options of `pytest bench/`: their declaration, and the settings that they give."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from reusebench.harness.effort import CONTEXTS, DEFAULT, QUICK, SOAK_S, STREAMS, Effort
from reusebench.harness.errors import UserError
from reusebench.harness.measuring.videos import Videos
from reusebench.harness.memory_gate import add_gate_options
from reusebench.harness.model_request import TIME_LIMIT_S, parse_resolution, parse_shape
from reusebench.harness.plans.plan_file import PlanFile
from reusebench.harness.plans.reading import read_plan_files
from reusebench.harness.selection import add_selection_options, chip_of, host_of
from reusebench.harness.settings import (
    MOST_CONTEXTS,
    MOST_FPS,
    MOST_INFERENCES,
    MOST_QUEUED,
    Settings,
    StreamPace,
    excess,
    parse_duration,
)
from reusebench.measured.plan import MOST_CYCLES
from reusebench.scenarios.catalogue import Parameters
from reusebench.system.user_files import Pins
from reusebench.targets.chips import CHIPS
from reusebench.targets.target import Target

if TYPE_CHECKING:
    import pytest

__all__ = ["add_options", "resolve_plan_files", "resolve_settings", "resolve_videos"]

#: Each repeat is a process of its own.
_MOST_REPEATS = 1000
#: The counters that are read change with the scheduler's ticks, up to 1000 times a second.
_MOST_HZ = 10_000
#: A day: no step of a process takes longer.
_LONGEST_STEP_S = 86_400
#: Number of characters of a wrong value that an error repeats.
_LONGEST_SHOWN = 40


def _number(kind: Callable[[str], float], least: float, most: float) -> Callable[[str], float]:
    """Return the parser of an option whose value is a number from `least` to `most`."""

    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = least - 1
        if least <= value <= most:
            return value
        shown = text if len(text) < _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
        name = "a whole number" if kind is int else "a number"
        raise argparse.ArgumentTypeError(
            f"{shown!r} is not valid; valid: {name} from {least:g} to {most:,}"
        )

    return parse


_count = _number(int, 1, MOST_CONTEXTS)


def _network(effort: Effort) -> str:
    name, size = effort.built_in.stream
    return f"{name} at {size}x{size}"


def add_options(parser: pytest.Parser) -> None:
    """Declare the options."""
    add = parser.getgroup(
        "reusebench", "reusebench: what reuse between contexts saves (pytest bench/)"
    ).addoption
    add_selection_options(add)
    _add_model_options(add)
    _add_layout_options(add)
    _add_effort_options(add)
    _add_stream_options(add)
    _add_process_options(add)
    add_gate_options(add)


def _add_model_options(add: Callable[..., None]) -> None:
    add(
        "--model",
        action="append",
        metavar="FILE",
        type=Path,
        help=(
            "Model file; repeatable, one per stream. Fewer files than streams are used in turn."
            f" Default: the built-in {_network(DEFAULT)}, with other weights for each stream."
        ),
    )
    add(
        "--resolution",
        action="append",
        metavar="FILE[,WEIGHTLESS]",
        type=parse_resolution,
        help=(
            "One resolution of a network for shared weights; repeatable, the one with the weights"
            " first. WEIGHTLESS is the same model without its weights (rknn-toolkit2:"
            " remove_weight). Default: built-in ones."
        ),
    )
    add(
        "--shape",
        action="append",
        metavar="[NAME=]SIZES",
        type=parse_shape,
        help=(
            "Shape of an input whose sizes the file leaves free: images=1x3x320x320; repeatable."
            " Without a name: that of the only input. Default: usual sizes that run, which are"
            " shown."
        ),
    )
    add(
        "--inputs",
        metavar="FILE",
        type=Path,
        help="Real data for the inputs: arrays by the inputs' names (numpy.savez). Default: noise.",
    )
    add(
        "--float",
        action="store_true",
        help="Have rknn-toolkit2 make .rknn files with floating point (FP16). Default: INT8.",
    )


def _add_layout_options(add: Callable[..., None]) -> None:
    add(
        "--plan",
        action="append",
        metavar="FILE",
        type=Path,
        help=(
            "Measure this plan, and nothing else: models, streams and contexts of your own, in"
            " TOML or JSON (docs/reference/plans.md); repeatable. `reusebench plan NAME` prints"
            " a scenario as such a file."
        ),
    )
    add("--streams", metavar="N", type=_count, help=f"Number of streams. Default: {STREAMS}.")
    add(
        "--contexts",
        metavar="N",
        type=_count,
        help=f"Contexts of each stream. Default: {CONTEXTS}.",
    )
    add(
        "--limit-contexts",
        metavar="N",
        type=_count,
        default=Parameters.limit_contexts,
        help=(
            "bench/test_limit.py stops adding contexts after N if none has failed. Default:"
            f" {Parameters.limit_contexts}."
        ),
    )


def _add_effort_options(add: Callable[..., None]) -> None:
    add(
        "--repeats",
        metavar="N",
        type=_number(int, 1, _MOST_REPEATS),
        help=(
            "Fresh processes per configuration, exactly N; the spread is over them. Default:"
            f" {DEFAULT.repeats}, and up to {DEFAULT.most_repeats} if their memory differs."
        ),
    )
    add(
        "--rounds",
        metavar="N",
        type=_number(int, 1, MOST_INFERENCES),
        help=f"Timed inferences of each context in each process. Default: {DEFAULT.rounds}.",
    )
    add(
        "--cycles",
        metavar="N",
        type=_number(int, 1, MOST_CYCLES),
        help=(
            "Number of cycles of bench/test_leaks.py; more cycles find smaller leaks. Default:"
            f" {DEFAULT.cycles}."
        ),
    )
    add(
        "--cycle-inferences",
        metavar="N",
        type=_number(int, 1, MOST_INFERENCES),
        help=(
            "Inferences in a cycle of cycles_inferences; fewer for a model that is slow. Default:"
            f" {DEFAULT.cycle_inferences}."
        ),
    )
    add(
        "--quick",
        action="store_true",
        help=(
            "A first look: no reuse, dup, internal reuse, all mechanisms together, and streams"
            f" with and without dup (others by -k or file); {_network(QUICK)}, {QUICK.repeats}"
            f" repeats, {QUICK.rounds} rounds, {QUICK.cycles} cycles, {QUICK.pace.duration_s:g}"
            " s of streams. Options that are also given win."
        ),
    )


def _add_stream_options(add: Callable[..., None]) -> None:
    add(
        "--video",
        metavar="FILE",
        type=Path,
        help=(
            "Video that the streams of bench/test_published.py play: any file that FFmpeg reads."
            " Default: a clip of 10 s, 1920x1080 at 30 frames/s in H.264, made once."
        ),
    )
    add(
        "--fps",
        metavar="F",
        type=_number(float, 0, MOST_FPS),
        default=StreamPace.fps,
        help="Frames per second of each stream; 0: as fast as possible. Default: 30.",
    )
    add(
        "--queue",
        metavar="N",
        type=_number(int, 0, MOST_QUEUED),
        default=StreamPace.queue,
        help=(
            "Frames of each stream that may wait for a context before new ones are dropped."
            " Default: 0."
        ),
    )
    add(
        "--duration",
        metavar="TIME",
        type=parse_duration,
        help=(
            "How long streams are measured: 90, 90s, 2m, 1h. From 10 minutes on once, unless"
            f" --repeats is given. Default: {DEFAULT.pace.duration_s:g}s."
        ),
    )


def _add_process_options(add: Callable[..., None]) -> None:
    add(
        "--sample-hz",
        metavar="HZ",
        type=_number(float, 0.001, _MOST_HZ),
        default=200.0,
        help=(
            "Readings per second for the timeline. Figures in tables do not depend on it. Default:"
            " 200."
        ),
    )
    add(
        "--time-limit",
        metavar="SECONDS",
        type=_number(float, 0.001, _LONGEST_STEP_S),
        default=TIME_LIMIT_S,
        help=(
            "A step of a measured process (one load, one first inference) that takes longer counts"
            " as hung; the timed rounds have more time, as their number needs. Default:"
            f" {TIME_LIMIT_S:g}."
        ),
    )


def resolve_settings(option: argparse.Namespace, targets: Mapping[str, Target]) -> Settings:
    """Return the settings of this session; raise UserError if they exceed what it can hold."""
    effort = _effort(option)
    duration_s = option.duration or effort.pace.duration_s
    repeats = option.repeats
    if repeats is None and duration_s >= SOAK_S:
        repeats = 1
    streams = option.streams or STREAMS
    contexts = option.contexts or CONTEXTS
    rounds = option.rounds or effort.rounds
    problem = excess(streams * contexts, rounds, streams, option.fps)
    if problem:
        raise UserError(f"{problem}. Lower --streams, --contexts, --rounds or --fps")
    chip = chip_of(targets)
    return Settings(
        streams=streams,
        contexts=contexts,
        repeats=repeats or effort.repeats,
        most_repeats=repeats or effort.most_repeats,
        rounds=rounds,
        sample_hz=option.sample_hz,
        time_limit_s=option.time_limit,
        process_s=effort.process_s,
        cpus=host_of(targets).usable_cpus(),
        npu_cores=CHIPS[chip].npu_cores if chip else 1,
        pace=StreamPace(effort.pace.warm_up_s, duration_s, option.fps, option.queue),
        cycles=option.cycles or effort.cycles,
        cycle_inferences=option.cycle_inferences or effort.cycle_inferences,
        limit_contexts=option.limit_contexts,
    )


def resolve_videos(option: argparse.Namespace, targets: Mapping[str, Target], pins: Pins) -> Videos:
    """Return the videos of this session's streams, which are read or made when they are needed."""
    return Videos(targets, option.video, pins, _effort(option).clip)


def resolve_plan_files(option: argparse.Namespace) -> tuple[PlanFile, ...]:
    """Return the user's plans; raise UserError if a file is wrong, or an option contradicts it."""
    for name in ("model", "resolution", "shape", "inputs", "streams", "contexts"):
        if option.plan and getattr(option, name):
            raise UserError(
                f"--plan says itself what --{name} says: leave --{name} out, or change the file"
            )
    return read_plan_files(option.plan or ())


def _effort(option: argparse.Namespace) -> Effort:
    return QUICK if option.quick else DEFAULT
