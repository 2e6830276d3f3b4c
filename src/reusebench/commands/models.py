"""`reusebench models`: model files and clips made from code, and the converters for other kinds."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from reusebench.commands.groups import CommandGroup
from reusebench.commands.inspection import inspect_model
from reusebench.commands.language_models import (
    LANGUAGE_MODELS,
    build_language_model,
    language_rows,
)
from reusebench.commands.options import PATH, Parsed
from reusebench.commands.reply import give, json_option
from reusebench.commands.results import NetworkRow, PathResult
from reusebench.harness.extras import check_extra
from reusebench.harness.settings import parse_duration
from reusebench.measured.runtimes import RUNTIMES, find_runtime
from reusebench.models import Converter, converter_of, converters
from reusebench.models.built_files import fill
from reusebench.models.conversion.environments import PythonPackage
from reusebench.models.errors import ModelError
from reusebench.models.language.recipe import (
    ADAPTER,
    FILE_TYPES,
    MERGED,
    MODEL,
    LanguageRecipe,
)
from reusebench.models.networks import NETWORKS, find_network
from reusebench.models.platforms import RKNN_PLATFORMS
from reusebench.models.recipe import Recipe
from reusebench.models.rknn.toolkit import install_toolkit
from reusebench.system.cache import written_whole
from reusebench.video.clip import Clip, ensure_clip

__all__ = ["models"]

_CHIPS = [platform.name for platform in RKNN_PLATFORMS]


@click.group(cls=CommandGroup)
def models() -> None:
    """Build and inspect model files; make clips; install converters."""


models.add_command(inspect_model)


@models.command("list")
@json_option
def list_models() -> None:
    """List the networks and language models with their parameters and sizes."""
    rows = []
    for entry in NETWORKS:
        network = entry.make(entry.default_size)
        rows.append(
            NetworkRow(
                name=entry.name,
                parameters=network.parameter_count(),
                weight_bytes=network.weight_bytes(),
                default_size=entry.default_size,
                source=entry.source,
            )
        )
    languages = list(language_rows())
    lines = (*_network_lines(rows), "", *_language_lines(languages))
    give([*rows, *languages], lines)


def _network_lines(rows: Sequence[NetworkRow]) -> Iterator[str]:
    """Yield the table."""
    cells = []
    for row in rows:
        mib = f"{row.weight_bytes / 2**20:.1f}"
        cells.append((row.name, f"{row.parameters:,}", mib, row.default_size, row.source))
    heads = ("name", "parameters", "weights, MiB", "default size", "source")
    alignment = ("left", "right", "right", "right", "left")
    yield tabulate(cells, heads, tablefmt="plain", disable_numparse=True, colalign=alignment)


def _language_lines(rows: Sequence[NetworkRow]) -> Iterator[str]:
    """Yield the table of language models, whose sizes are in float16."""
    cells = [
        (
            row.name,
            f"{row.parameters:,}",
            f"{row.weight_bytes / 2**20:.1f}",
            f"{row.context_tokens:,}",
            f"{row.kv_bytes_per_token:,}",
            row.source,
        )
        for row in rows
    ]
    heads = (
        "language model",
        "parameters",
        "weights, MiB",
        "context",
        "KV bytes a token",
        "source",
    )
    alignment = ("left", "right", "right", "right", "right", "left")
    yield tabulate(cells, heads, tablefmt="plain", disable_numparse=True, colalign=alignment)


@models.command()
@click.argument(
    "name",
    type=click.Choice([*(entry.name for entry in NETWORKS), *LANGUAGE_MODELS]),
    metavar="NAME",
)
@click.option(
    "--height",
    type=int,
    metavar="H",
    help="Height of the input in pixels, and as a rule its width.",
)
@click.option(
    "--seed",
    type=int,
    default=0,
    metavar="S",
    show_default=True,
    help="Another seed, other weights.",
)
@click.option("--output", type=PATH, metavar="FILE", help="Write here instead of into the cache.")
@click.option(
    "--runtime",
    "name_of_runtime",
    type=click.Choice([entry.name for entry in RUNTIMES]),
    metavar="NAME",
    help=(
        "Runtime that the file is for; some need a converter: `reusebench doctor` lists both."
        " Default: onnxruntime; for language models llama_cpp."
    ),
)
@click.option(
    "--chip",
    type=click.Choice(_CHIPS, case_sensitive=False),
    metavar="CHIP",
    help=f"For rknn: the chip that the file is for, of {', '.join(_CHIPS)}.",
)
@click.option(
    "--remove-weight",
    is_flag=True,
    help=(
        "For rknn: leave the weights out, for the slave of weight sharing; not for rv1103 and"
        " rv1106."
    ),
)
@click.option(
    "--type",
    "file_type",
    type=click.Choice(FILE_TYPES),
    help=f"For language models as .gguf: type of the weights. Default: {FILE_TYPES[0]}.",
)
@click.option(
    "--adapter",
    type=int,
    metavar="N",
    help="For language models: adapter (LoRA) N of the model in its place.",
)
@click.option(
    "--merged", type=int, metavar="N", help="For language models: the model with adapter N merged."
)
@json_option
def build(
    name: str,
    height: int | None,
    seed: int,
    output: Path | None,
    name_of_runtime: str | None,
    chip: str | None,
    remove_weight: bool,
    file_type: str | None,
    adapter: int | None,
    merged: int | None,
) -> None:
    """Build a model file and print its path.

    NAME is one of `reusebench models list`. .rknn files and Teflon's .tflite files are INT8,
    calibrated with an image of noise; files of language models float16; others float32. A language
    model may be a folder of files.
    """
    options = {"--height": height, "--chip": chip, "--remove-weight": remove_weight or None}
    of_language = {"--type": file_type, "--adapter": adapter, "--merged": merged}
    if name in LANGUAGE_MODELS:
        _check_unused(options, f"{name} is a language model")
        recipe_of_language = _language_recipe(name, seed, file_type, adapter, merged)
        _give_path(build_language_model(recipe_of_language, name_of_runtime, output))
        return
    _check_unused(of_language, f"{name} is no language model")
    _give_path(_built_network(name, height, seed, output, name_of_runtime, chip, remove_weight))


def _check_unused(options: Mapping[str, object], reason: str) -> None:
    """Raise ModelError if an option is given that the model does not have."""
    for option, value in options.items():
        if value is not None:
            raise ModelError(f"{reason}: leave {option} out")


def _language_recipe(
    name: str, seed: int, file_type: str | None, adapter: int | None, merged: int | None
) -> LanguageRecipe:
    if adapter is not None and merged is not None:
        raise ModelError("--adapter and --merged are two files: leave one of them out")
    part = MODEL
    if adapter is not None:
        part = ADAPTER
    elif merged is not None:
        part = MERGED
    return LanguageRecipe(name, seed, part, adapter or merged or 0, file_type or FILE_TYPES[0])


def _built_network(
    name: str,
    height: int | None,
    seed: int,
    output: Path | None,
    name_of_runtime: str | None,
    chip: str | None,
    remove_weight: bool,
) -> Path:
    """Build a network's file into the output or the cache."""
    recipe = Recipe(name, find_network(name).default_size if height is None else height, seed)
    runtime = find_runtime(name_of_runtime or "onnxruntime")
    if runtime.has_conversations:
        raise ModelError(
            f"{runtime.name} runs language models; valid: {', '.join(LANGUAGE_MODELS)}"
        )
    kind = runtime.kind
    if kind != ".rknn" and (chip or remove_weight):
        option = "--chip" if chip else "--remove-weight"
        raise ModelError(f"{option} is for .rknn files only; add --runtime rknn, or leave it out")
    if kind == ".rknn" and chip is None:
        raise ModelError(
            f"a .rknn file is made for one chip; add --chip CHIP, one of {', '.join(_CHIPS)}"
        )
    return _converted(kind, recipe, chip, remove_weight, output) or _emitted(recipe, output)


def _give_path(path: Path) -> None:
    give(PathResult(str(path)), [str(path)])


def _converted(
    kind: str, source: Recipe, chip: str | None, remove_weight: bool, output: Path | None
) -> Path | None:
    """Convert the recipe into the output or the cache; return None if there is no converter."""
    kind_of_converter = converter_of(kind)
    if kind_of_converter is None:
        return None
    with kind_of_converter() as converter:
        recipe = converter.recipe(source, chip, remove_weight, quantised=True)
        if output is None:
            (path,) = converter.ensure_all([recipe])
            return path
        converter.write(recipe, output)
        return output


def _emitted(recipe: Recipe, output: Path | None) -> Path:
    """Write the ONNX file into the output, or into the cache, and return the path."""
    # Not at the top: the other commands need neither numpy nor onnx.
    from reusebench.models.onnx.emitter import emit

    if output is None:
        return fill(recipe, lambda path: emit(recipe.network(), recipe.seed, path))
    with written_whole(output) as temporary:
        emit(recipe.network(), recipe.seed, temporary)
    return output


def _size(context: click.Context, option: click.Parameter, text: str) -> tuple[int, int]:
    size = re.fullmatch(r"(\d+)x(\d+)", text)
    if size is None:
        raise click.BadParameter(
            f"{text!r} is no size; valid: WIDTHxHEIGHT in pixels, as in 1920x1080"
        )
    return int(size[1]), int(size[2])


@models.command()
@click.option(
    "--output", type=PATH, metavar="FILE", help="Write here (MP4) instead of into the cache."
)
@click.option(
    "--duration",
    type=Parsed(functools.partial(parse_duration, shortest_s=0)),
    default="10s",
    metavar="TIME",
    show_default=True,
    help="Length of the clip: 10s, 2m.",
)
@click.option(
    "--size",
    default="1920x1080",
    callback=_size,
    metavar="WxH",
    show_default=True,
    help="Width and height of a frame in pixels.",
)
@click.option(
    "--fps", type=int, default=30, metavar="F", show_default=True, help="Frames per second."
)
@json_option
def clip(output: Path | None, duration: float, size: tuple[int, int], fps: int) -> None:
    """Make the clip that streams play, a moving texture in H.264, and print its path."""
    width, height = size
    form = Clip(width, height, fps, duration)
    if output is None:
        _give_path(ensure_clip(form))
        return
    check_extra("streams", "this command")
    from reusebench.video.encoder import write_clip

    write_clip(form, str(output))
    _give_path(output)


@models.group()
def install() -> None:
    """Install a converter, in an environment of its own in the user's cache."""


_python = click.option(
    "--python", metavar="PYTHON", help="The Python to use. Default: a python3.N of the path."
)


@install.command("rknn-toolkit")
@json_option
@_python
@click.option(
    "--torch",
    metavar="REQUIREMENT",
    help="PyTorch for pip install. Default: the newest build for CPUs that pip can reach.",
)
def install_rknn_toolkit(python: str | None, torch: str | None) -> None:
    """Install rknn-toolkit2, which makes .rknn files."""
    _give_path(install_toolkit(_show_step, python, torch))


def _add_install(converter: type[Converter[Any]]) -> None:
    """Add the command that installs a converter, if it has an environment of its own."""
    environment = converter.environment
    installer = converter.installer
    if (
        installer is None
        or isinstance(environment, PythonPackage)
        or environment.command in install.commands
    ):
        return

    def install_it(python: str | None) -> None:
        _give_path(installer(_show_step, python))

    text = f"Install {environment.library}, which makes {environment.makes} files."
    install.command(environment.command, help=text)(json_option(_python(install_it)))


for _converter in converters():
    _add_install(_converter)


def _show_step(step: str) -> None:
    click.echo(f"{step} ...", err=True)
