"""The models that the user asks for, by options of `pytest bench/` or of `reusebench fit`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reusebench.harness.effort import DEFAULT, QUICK, STREAMS
from reusebench.harness.errors import UserError
from reusebench.harness.measuring.models.model_files import AdapterFile, InputShape, ModelFile
from reusebench.harness.measuring.models.model_sets import BuiltIn, ModelSets
from reusebench.harness.measuring.models.user_models import UserModels
from reusebench.harness.plans.plan_file import AnyRecipe
from reusebench.harness.selection import chip_of
from reusebench.harness.settings import has_conversations, parse_sizes
from reusebench.measured.runtimes import find_runtime
from reusebench.scenarios.catalogue import Scenario
from reusebench.targets.target import Target

__all__ = [
    "TIME_LIMIT_S",
    "ModelRequest",
    "default_recipes",
    "parse_adapter",
    "parse_resolution",
    "parse_shape",
    "resolve_model_sets",
]

#: Default time limit of a step of a measured process.
TIME_LIMIT_S = 120.0


@dataclass(frozen=True)
class ModelRequest:
    """Model files with the data of their inputs, or the built-in models."""

    #: The value of each --model; empty: built-in models.
    files: tuple[ModelFile, ...] = ()
    #: The value of each --resolution; empty: built-in models.
    resolutions: tuple[ModelFile, ...] = ()
    #: The value of each --adapter; empty: built-in ones, unless there are files.
    adapters: tuple[AdapterFile, ...] = ()
    #: The value of each --shape.
    shapes: tuple[InputShape, ...] = ()
    #: File of --inputs.
    arrays: Path | None = None
    #: False with --float.
    quantised: bool = True
    #: Number of streams, each of which has a model.
    streams: int = STREAMS
    time_limit_s: float = TIME_LIMIT_S
    built_in: BuiltIn = DEFAULT.built_in

    @classmethod
    def of(cls, option: argparse.Namespace) -> ModelRequest:
        """Return the request of pytest's options."""
        return cls(
            files=tuple(ModelFile.of_path(path) for path in option.model or ()),
            resolutions=tuple(option.resolution or ()),
            adapters=tuple(option.adapter or ()),
            shapes=tuple(option.shape or ()),
            arrays=option.inputs,
            quantised=not option.float,
            streams=option.streams or STREAMS,
            time_limit_s=option.time_limit,
            built_in=QUICK.built_in if option.quick else DEFAULT.built_in,
        )


def resolve_model_sets(request: ModelRequest, targets: Mapping[str, Target]) -> ModelSets:
    """Return the models, which are read or built when they are needed; raise UserError."""
    has_own_models = request.files or request.resolutions
    if (request.shapes or request.arrays) and not has_own_models:
        option = "--shape" if request.shapes else "--inputs"
        raise UserError(
            f"{option} is for the user's own models: add --model FILE, or leave {option} out"
        )
    if not request.quantised and "rknn" not in targets:
        raise UserError(
            "--float is for the files that rknn-toolkit2 makes: add --runtime rknn, or leave"
            " --float out"
        )
    user = UserModels(
        targets, request.time_limit_s, request.shapes, request.arrays, request.quantised
    )
    user.check((*request.files, *request.resolutions))
    if request.adapters and not request.files:
        raise UserError("--adapter is for a model of yours: add --model FILE, or leave it out")
    for adapter in request.adapters:
        user.check(adapter.files)
    return ModelSets(
        built_in=request.built_in,
        streams=request.streams,
        user=user,
        files=request.files,
        resolutions=request.resolutions,
        adapters=request.adapters,
        chip=chip_of(targets),
    )


def default_recipes(scenario: Scenario, streams: int, runtime: str) -> Sequence[AnyRecipe]:
    """Return the recipes of a scenario's models that are used unless an option says otherwise."""
    if has_conversations(runtime):
        return DEFAULT.built_in.language_recipes(scenario.model_set)
    return DEFAULT.built_in.suiting(find_runtime(runtime)).recipes(scenario.model_set, streams)


def parse_resolution(text: str) -> ModelFile:
    """Return the value of --resolution: FILE[,WEIGHTLESS]."""
    file, _, weightless = text.partition(",")
    return ModelFile(Path(file), "--resolution", Path(weightless) if weightless else None)


def parse_adapter(text: str) -> AdapterFile:
    """Return the value of --adapter: FILE[,MERGED]."""
    file, _, merged = text.partition(",")
    return AdapterFile(
        ModelFile(Path(file), "--adapter"),
        ModelFile.of_path(Path(merged), "--adapter") if merged else None,
    )


def parse_shape(text: str) -> InputShape:
    """Return the value of --shape: [NAME=]SIZES; raise argparse.ArgumentTypeError."""
    name, _, sizes_text = text.rpartition("=")
    sizes = parse_sizes(sizes_text)
    if sizes is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not valid; valid: NAME=1x3x320x320, or the sizes alone if a model has"
            " one input"
        )
    return InputShape(name or None, sizes)
