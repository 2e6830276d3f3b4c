"""The options of `pytest bench/`: their declaration, and the settings that they give."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from reusebench.harness.benchmark_plugin import add_storage_option
from reusebench.harness.conversations import MOST_TOKENS, ConversationRequest
from reusebench.harness.effort import (
    CONTEXTS,
    DEFAULT,
    QUICK,
    SESSIONS,
    SOAK_S,
    STREAMS,
    Effort,
)
from reusebench.harness.errors import UserError
from reusebench.harness.former_names import Add, with_former_names
from reusebench.harness.measuring.videos import Videos
from reusebench.harness.memory_gate import add_gate_options
from reusebench.harness.model_request import (
    TIME_LIMIT_S,
    parse_adapter,
    parse_resolution,
    parse_shape,
)
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
    has_conversations,
    parse_duration,
)
from reusebench.measured.plan import MOST_CYCLES
from reusebench.scenarios.catalogue import Parameters
from reusebench.system.user_files import Pins
from reusebench.targets.chips import CHIPS
from reusebench.targets.target import Target

if TYPE_CHECKING:
    import pytest

__all__ = [
    "add_options",
    "check_kinds",
    "conversation_remark",
    "declare_options",
    "resolve_plan_files",
    "resolve_settings",
    "resolve_videos",
]

#: Each repeat is a process of its own.
_MOST_REPEATS = 1000
#: The counters that are read change with the scheduler's ticks, up to 1000 times a second.
_MOST_HZ = 10_000
_SAMPLE_HZ = 200.0
#: A day: no step of a process takes longer.
_LONGEST_STEP_S = 86_400
#: Number of characters of a wrong value that an error repeats.
_LONGEST_SHOWN = 40
#: Options for language models alone, and for all others alone.
_OF_LANGUAGE_MODELS = (
    "sessions",
    "tokens",
    "prompt",
    "generated",
    "common",
    "adapter",
    "session_option",
)
_OF_OTHER_MODELS = ("streams", "contexts", "shape", "inputs", "resolution", "video")
#: Options whose values a plan has.
_NAMES_IN_PLANS = (
    "model",
    "resolution",
    "shape",
    "inputs",
    "streams",
    "contexts",
    "sessions",
    "adapter",
    "session_option",
)


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
    """Declare the options in groups of pytest's help."""

    def group(title: str) -> Add:
        add: Add = parser.getgroup(f"reusebench: {title}").addoption
        return add

    declare_options(group)


def declare_options(group: Callable[[str], Add]) -> None:
    """Declare the options; `group` returns the function that adds one to the group of a title."""
    _add_layout_options(with_former_names(group("what to measure")))
    _add_model_options(with_former_names(group("which model")))
    _add_conversation_options(with_former_names(group("language models")))
    add_selection_options(with_former_names(group("where")))
    _add_effort_options(with_former_names(group("how often, how long")))
    results = with_former_names(group("results"))
    add_storage_option(results)
    add_gate_options(results)


def _add_layout_options(add: Add) -> None:
    add(
        "--quick",
        action="store_true",
        help="A first look: a small model, few scenarios and repeats.",
    )
    add(
        "--streams",
        metavar="N",
        type=_count,
        help=f"Streams, such as cameras. Default: {STREAMS}.",
    )
    add(
        "--contexts",
        metavar="N",
        type=_count,
        help=f"Contexts of each stream. Default: {CONTEXTS}.",
    )
    add(
        "--plan",
        action="append",
        metavar="FILE",
        type=Path,
        help="A layout of your own, alone: `reusebench plan --help`.",
    )
    add(
        "--most-contexts",
        metavar="N",
        type=_count,
        default=Parameters.most_contexts,
        help=f"Contexts that test_limit.py makes at most. Default: {Parameters.most_contexts}.",
    )
    add(
        "--video",
        metavar="FILE",
        type=Path,
        help="What test_published.py plays. Default: a clip of ours.",
    )


def _add_model_options(add: Add) -> None:
    add(
        "--model",
        action="append",
        metavar="FILE",
        type=Path,
        help=(
            "Model file; repeatable, for the streams in turn. Default:"
            f" {_network(DEFAULT)}, built in."
        ),
    )
    add(
        "--shape",
        action="append",
        metavar="[NAME=]SIZES",
        type=parse_shape,
        help="Of an input with free sizes: images=1x3x320x320.",
    )
    add(
        "--inputs",
        metavar="FILE",
        type=Path,
        help="Input data by name (numpy.savez). Default: noise.",
    )
    add(
        "--resolution",
        action="append",
        metavar="FILE[,WEIGHTLESS]",
        type=parse_resolution,
        help=(
            "Resolutions of one network, for shared weights; repeatable, the one with the weights"
            " first. Default: built in."
        ),
    )
    add(
        "--float",
        action="store_true",
        help="Have rknn-toolkit2 convert to FP16. Default: INT8.",
    )


def _add_conversation_options(add: Add) -> None:
    conversation = DEFAULT.conversation
    add(
        "--sessions",
        metavar="N",
        type=_count,
        help=f"Conversations at once. Default: {SESSIONS}.",
    )
    for name, least, meaning in (
        ("tokens", 2, "Tokens that each has room for"),
        ("prompt", 1, "Tokens of its prompt"),
        ("generated", 1, "Tokens that it generates"),
        ("common", 0, "Tokens that all prompts begin with"),
    ):
        add(
            f"--{name}",
            metavar="N",
            type=_number(int, least, MOST_TOKENS),
            help=f"{meaning}. Default: {getattr(conversation, name)}.",
        )
    add(
        "--adapter",
        action="append",
        metavar="FILE[,MERGED]",
        type=parse_adapter,
        help=(
            "Adapter (LoRA) over --model, and the model that it is merged into; repeatable."
            " Default: built in."
        ),
    )
    add(
        "--session-option",
        action="append",
        metavar="NAME=VALUE",
        type=_option,
        help="The runtime's own, of every context: cache_type=q8_0. Repeatable.",
    )


def _option(text: str) -> str:
    """Return an option of a runtime; raise argparse.ArgumentTypeError unless it has a value."""
    if not all(text.partition("=")):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not valid; valid: NAME=VALUE, such as cache_type=q8_0"
        )
    return text


def _add_effort_options(add: Add) -> None:
    add(
        "--repeats",
        metavar="N",
        type=_number(int, 1, _MOST_REPEATS),
        help=(
            f"Processes of a configuration. Default: {DEFAULT.repeats} to {DEFAULT.most_repeats}."
        ),
    )
    add(
        "--rounds",
        metavar="N",
        type=_number(int, 1, MOST_INFERENCES),
        help=(
            f"Timed inferences of each context. Default: {DEFAULT.rounds}; language models:"
            f" {DEFAULT.turns}."
        ),
    )
    add(
        "--cycles",
        metavar="N",
        type=_number(int, 1, MOST_CYCLES),
        help=f"Cycles of test_leaks.py. Default: {DEFAULT.cycles}.",
    )
    add(
        "--cycle-inferences",
        metavar="N",
        type=_number(int, 1, MOST_INFERENCES),
        help=f"Inferences of one cycle. Default: {DEFAULT.cycle_inferences}.",
    )
    add(
        "--duration",
        metavar="TIME",
        type=parse_duration,
        help=(f"How long streams run: 90s, 2m, 1h. Default: {DEFAULT.pace.duration_s:g}s."),
    )
    add(
        "--fps",
        metavar="F",
        type=_number(float, 0, MOST_FPS),
        default=StreamPace.fps,
        help=(f"Frames per second; 0: as fast as possible. Default: {StreamPace.fps:g}."),
    )
    add(
        "--queue",
        metavar="N",
        type=_number(int, 0, MOST_QUEUED),
        default=StreamPace.queue,
        help=f"Frames that may wait for a context. Default: {StreamPace.queue}.",
    )
    add(
        "--time-limit",
        metavar="SECONDS",
        type=_number(float, 0.001, _LONGEST_STEP_S),
        default=TIME_LIMIT_S,
        help=f"A step that takes longer has hung. Default: {TIME_LIMIT_S:g}.",
    )
    add(
        "--sample-hz",
        metavar="HZ",
        type=_number(float, 0.001, _MOST_HZ),
        default=_SAMPLE_HZ,
        help=f"Readings per second, for the timeline. Default: {_SAMPLE_HZ:g}.",
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
    sessions = option.sessions or SESSIONS
    turns = option.rounds or effort.turns
    problem = excess(sessions, turns)
    if problem:
        raise UserError(f"{problem}. Lower --sessions or --rounds")
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
        most_contexts=option.most_contexts,
        sessions=sessions,
        conversation=_conversation_request(option).conversation(effort.conversation),
        turns=turns,
        cycle_turns=option.cycle_inferences or effort.cycle_turns,
        session_options=tuple(dict.fromkeys(option.session_option or ())),
    )


def check_kinds(option: argparse.Namespace, runtimes: Iterable[str]) -> None:
    """Raise UserError for an option that is for models of a kind that none of the runtimes has."""
    names = list(dict.fromkeys(runtimes))
    kinds = set(map(has_conversations, names))
    if len(kinds) != 1:
        return
    for name in _OF_OTHER_MODELS if kinds == {True} else _OF_LANGUAGE_MODELS:
        if getattr(option, name) is None:
            continue
        words = name.replace("_", "-")
        if kinds == {True}:
            raise UserError(
                f"--{words} is not for language models, and {' and '.join(names)} measured here run"
                " no others: leave it out. Theirs are --sessions, --tokens, --prompt, --generated,"
                " --common, --adapter and --session-option"
            )
        raise UserError(
            f"--{words} is for language models, and {' and '.join(names)} measured here run none:"
            " leave it out, or measure bench/test_sessions.py"
        )


def conversation_remark(option: argparse.Namespace) -> str:
    """Return a remark on numbers of the conversation that the user did not give; may be empty."""
    return _conversation_request(option).remark(_effort(option).conversation)


def _conversation_request(option: argparse.Namespace) -> ConversationRequest:
    return ConversationRequest(option.tokens, option.prompt, option.generated, option.common)


def resolve_videos(option: argparse.Namespace, targets: Mapping[str, Target], pins: Pins) -> Videos:
    """Return the videos of this session's streams, which are read or made when they are needed."""
    return Videos(targets, option.video, pins, _effort(option).clip)


def resolve_plan_files(option: argparse.Namespace) -> tuple[PlanFile, ...]:
    """Return the user's plans; raise UserError if a file is wrong, or an option contradicts it."""
    for name in _NAMES_IN_PLANS:
        if option.plan and getattr(option, name):
            words = name.replace("_", "-")
            raise UserError(
                f"--plan says itself what --{words} says: leave --{words} out, or change the file"
            )
    return read_plan_files(option.plan or ())


def _effort(option: argparse.Namespace) -> Effort:
    return QUICK if option.quick else DEFAULT
