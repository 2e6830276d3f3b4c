"""The options of `pytest bench/`: their declaration, and the settings and models that they give."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reusebench.harness.errors import UserError
from reusebench.harness.measuring.model_sets import BuiltIn, ModelSets
from reusebench.harness.measuring.user_models import InputShape, ModelFile, UserModels
from reusebench.harness.measuring.videos import Videos
from reusebench.harness.memory_gate import add_gate_options
from reusebench.harness.plans.plan_file import PlanFile
from reusebench.harness.plans.reading import read_plan_files
from reusebench.harness.selection import add_selection_options, chip_of, host_of
from reusebench.harness.settings import (
    MOST_CONTEXTS,
    MOST_CYCLES,
    MOST_FPS,
    MOST_INFERENCES,
    MOST_QUEUED,
    Settings,
    StreamPace,
    excess,
    parse_duration,
    parse_sizes,
)
from reusebench.models import Recipe
from reusebench.scenarios.catalogue import Parameters, Scenario
from reusebench.system.user_files import Pins
from reusebench.targets.chips import CHIPS
from reusebench.targets.target import Target
from reusebench.video.clip import Clip

if TYPE_CHECKING:
    import pytest

__all__ = [
    "add_options",
    "default_recipes",
    "parse_resolution",
    "parse_shape",
    "resolve_model_sets",
    "resolve_plan_files",
    "resolve_settings",
    "resolve_videos",
]


@dataclass(frozen=True)
class Effort:
    """How much is measured where no option says otherwise."""

    built_in: BuiltIn
    repeats: int
    #: Where memory differs between the repeats.
    most_repeats: int
    rounds: int
    #: What a process without streams takes on 2 cores.
    process_s: float
    #: Of streams.
    pace: StreamPace
    #: What they play. Making it takes a processor 0.7 s for each second of it.
    clip: Clip
    #: Of the question of leaks.
    cycles: int


#: On 2 cores under 6 minutes of ONNX Runtime. There are 144 timed inferences of most configurations
#: at least; more rounds would narrow no figure of memory. docs/measure.md has the reasons for the
#: numbers of repeats.
_DEFAULT = Effort(
    BuiltIn(
        stream=("yolov5s", 320),
        in_turn=(("yolov5s", 640), ("resnet50", 224), ("mobilenet_v2", 224)),
        resolutions=(
            ("yolov5s", 320),
            ("yolov5s", 416),
            ("yolov5s", 640),
            ("yolov5s", 256),
            ("yolov5s", 512),
        ),
    ),
    repeats=2,
    most_repeats=3,
    rounds=6,
    process_s=3.5,
    pace=StreamPace(),
    clip=Clip(),
    cycles=20,
)
#: A first look: docs/measure.md says where its time goes.
_QUICK = Effort(
    BuiltIn(
        stream=("mobilenet_v2", 224),
        in_turn=(("mobilenet_v2", 224), ("mobilenet_v2", 160)),
        resolutions=(("mobilenet_v2", 224), ("mobilenet_v2", 160), ("mobilenet_v2", 96)),
    ),
    repeats=2,
    most_repeats=3,
    rounds=5,
    process_s=1.5,
    pace=StreamPace(warm_up_s=0.5, duration_s=2.0),
    clip=Clip(seconds=3),
    cycles=15,
)
_STREAMS = 4
_CONTEXTS = 3
#: Streams that are to run so long run once, unless --repeats says otherwise.
_SOAK_S = 600.0


#: Each is a process of its own.
_MOST_REPEATS = 1000
#: The counters that are read do not change more often than the scheduler's ticks, some 1000 times a
#: second.
_MOST_HZ = 10_000
#: A day: no step of a process takes longer.
_LONGEST_STEP_S = 86_400


def _number(kind: Callable[[str], float], least: float, most: float) -> Callable[[str], float]:
    """Return the parser of an option whose value is a number from `least` to `most`."""

    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            name = "a whole number" if kind is int else "a number"
            shown = text if len(text) < _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
            raise argparse.ArgumentTypeError(
                f"{shown!r} is not valid; valid: {name} from {least:g} to {most:,}"
            )
        return value

    return parse


#: Characters of a wrong value that an error repeats.
_LONGEST_SHOWN = 40
_count = _number(int, 1, MOST_CONTEXTS)


def parse_resolution(text: str) -> ModelFile:
    """Return what --resolution gives."""
    file, _, weightless = text.partition(",")
    return ModelFile(Path(file), "--resolution", Path(weightless) if weightless else None)


def parse_shape(text: str) -> InputShape:
    """Return what --shape gives; raise argparse.ArgumentTypeError."""
    name, _, sizes_text = text.rpartition("=")
    sizes = parse_sizes(sizes_text)
    if sizes is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not valid; valid: NAME=1x3x320x320, or the sizes alone where a model has"
            " one input"
        )
    return InputShape(name or None, sizes)


def _network(effort: Effort) -> str:
    name, size = effort.built_in.stream
    return f"{name} at {size}x{size}"


def add_options(parser: pytest.Parser) -> None:
    """Declare the options."""
    add = parser.getgroup(
        "reusebench", "reusebench: what reuse between contexts saves (pytest bench/)"
    ).addoption
    add_selection_options(add)
    add(
        "--model",
        action="append",
        metavar="FILE",
        type=Path,
        help=(
            "Model file; repeatable, one per stream. Fewer files than streams are used in turn."
            f" Default: the built-in {_network(_DEFAULT)}, with other weights for each stream."
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
            " Without a name: of the only input. Default: usual sizes that run, which are shown."
        ),
    )
    add(
        "--inputs",
        metavar="FILE",
        type=Path,
        help="Real data for the inputs: arrays by the inputs' names (numpy.savez). Default: noise.",
    )
    add(
        "--plan",
        action="append",
        metavar="FILE",
        type=Path,
        help=(
            "Measure this plan, and it alone: models, streams and contexts of your own, in TOML or"
            " JSON (docs/plans.md); repeatable. `reusebench plan NAME` prints a scenario as such a"
            " file."
        ),
    )
    add(
        "--float",
        action="store_true",
        help="Have rknn-toolkit2 make .rknn files with floating point (FP16). Default: INT8.",
    )
    add(
        "--streams", metavar="N", type=_count, help=f"Streams that are served. Default: {_STREAMS}."
    )
    add(
        "--contexts",
        metavar="N",
        type=_count,
        help=f"Contexts of each stream. Default: {_CONTEXTS}.",
    )
    add(
        "--limit-contexts",
        metavar="N",
        type=_count,
        default=Parameters.limit_contexts,
        help=(
            "Contexts that bench/test_limit.py makes at most, where none fails before. "
            f"Default: {Parameters.limit_contexts}."
        ),
    )
    add(
        "--repeats",
        metavar="N",
        type=_number(int, 1, _MOST_REPEATS),
        help=(
            "Fresh processes per configuration, exactly so many; the spread is over them. Default:"
            f" {_DEFAULT.repeats}, and up to {_DEFAULT.most_repeats} where their memory differs."
        ),
    )
    add(
        "--rounds",
        metavar="N",
        type=_number(int, 1, MOST_INFERENCES),
        help=f"Timed inferences of each context in each process. Default: {_DEFAULT.rounds}.",
    )
    add(
        "--cycles",
        metavar="N",
        type=_number(int, 1, MOST_CYCLES),
        help=(
            "How often bench/test_leaks.py does the same again; more find smaller leaks. Default:"
            f" {_DEFAULT.cycles}."
        ),
    )
    add(
        "--video",
        metavar="FILE",
        type=Path,
        help=(
            "What the streams of bench/test_published.py play: any file that FFmpeg reads. Default:"
            " a clip of 10 s, 1920x1080 at 30 frames/s in H.264, made once."
        ),
    )
    add(
        "--fps",
        metavar="F",
        type=_number(float, 0, MOST_FPS),
        default=30.0,
        help="Frames per second of each stream; 0: as fast as possible. Default: 30.",
    )
    add(
        "--queue",
        metavar="N",
        type=_number(int, 0, MOST_QUEUED),
        default=0,
        help=(
            "Frames of each stream that may wait for a context; a further one is dropped."
            " Default: 0."
        ),
    )
    add(
        "--duration",
        metavar="TIME",
        type=parse_duration,
        help=(
            "How long streams are measured: 90, 90s, 2m, 1h. From 10 minutes on once, unless"
            f" --repeats is given. Default: {_DEFAULT.pace.duration_s:g}s."
        ),
    )
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
        default=120.0,
        help=(
            "A step of a measured process (one load, one first inference) that takes longer counts"
            " as hung; the timed rounds have as much more as their number needs. Default: 120."
        ),
    )
    add(
        "--quick",
        action="store_true",
        help=(
            "A first look: no reuse, dup, internal reuse, all mechanisms together, and streams"
            f" with and without dup (others by -k or file); {_network(_QUICK)}, {_QUICK.repeats}"
            f" repeats, {_QUICK.rounds} rounds, {_QUICK.cycles} cycles, {_QUICK.pace.duration_s:g}"
            " s of streams. Options given beside it win."
        ),
    )
    add_gate_options(add)


def resolve_settings(option: argparse.Namespace, targets: Mapping[str, Target]) -> Settings:
    """Return the settings of this session; raise UserError if there would be more than it can
    hold.
    """
    chip = chip_of(targets)
    effort = _QUICK if option.quick else _DEFAULT
    duration_s = option.duration or effort.pace.duration_s
    repeats = option.repeats or (1 if duration_s >= _SOAK_S else None)
    streams = option.streams or _STREAMS
    contexts = option.contexts or _CONTEXTS
    rounds = option.rounds or effort.rounds
    problem = excess(streams * contexts, rounds, streams, option.fps)
    if problem:
        raise UserError(f"{problem}. Lower --streams, --contexts, --rounds or --fps")
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
        limit_contexts=option.limit_contexts,
    )


def resolve_model_sets(option: argparse.Namespace, targets: Mapping[str, Target]) -> ModelSets:
    """Return the models of this session, which are read or built when they are needed; raise
    UserError.
    """
    if (option.shape or option.inputs) and not (option.model or option.resolution):
        given = "--shape" if option.shape else "--inputs"
        raise UserError(
            f"{given} is for the user's own models: add --model FILE, or leave {given} out"
        )
    if option.float and "rknn" not in targets:
        raise UserError(
            "--float is for the files that rknn-toolkit2 makes: add --runtime rknn, or leave"
            " --float out"
        )
    user = UserModels(
        targets, option.time_limit, tuple(option.shape or ()), option.inputs, not option.float
    )
    files = tuple(map(ModelFile, option.model or ()))
    resolutions = tuple(option.resolution or ())
    user.check((*files, *resolutions))
    return ModelSets(
        built_in=(_QUICK if option.quick else _DEFAULT).built_in,
        streams=option.streams or _STREAMS,
        user=user,
        files=files,
        resolutions=resolutions,
        chip=chip_of(targets),
    )


def resolve_videos(option: argparse.Namespace, targets: Mapping[str, Target], pins: Pins) -> Videos:
    """Return what the streams of this session play; it is read or made when it is needed."""
    return Videos(targets, option.video, pins, (_QUICK if option.quick else _DEFAULT).clip)


def resolve_plan_files(option: argparse.Namespace) -> tuple[PlanFile, ...]:
    """Return the user's plans; raise UserError if a file is wrong, or an option says what the
    files say.
    """
    for name in ("model", "resolution", "shape", "inputs", "streams", "contexts"):
        if option.plan and getattr(option, name):
            raise UserError(
                f"--plan says itself what --{name} says: leave --{name} out, or change the file"
            )
    return read_plan_files(option.plan or ())


def default_recipes(scenario: Scenario, streams: int) -> list[Recipe]:
    """Return the recipes of a scenario's models that are used unless an option says otherwise."""
    return _DEFAULT.built_in.recipes(scenario.model_set, streams)
