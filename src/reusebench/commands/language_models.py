"""The built-in language models, as `reusebench models` lists and builds them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from reusebench.commands.results import NetworkRow
from reusebench.measured.runtimes import RUNTIMES, RuntimeEntry, find_runtime
from reusebench.models.errors import ModelError
from reusebench.models.language.built_files import check_can_make, fill
from reusebench.models.language.recipe import ADAPTER, LanguageRecipe
from reusebench.models.language.shapes import SHAPES
from reusebench.models.model_kinds import built_in_kind
from reusebench.system.cache import cannot_write, written_whole

__all__ = ["LANGUAGE_MODELS", "build_language_model", "language_rows"]

LANGUAGE_MODELS = tuple(shape.name for shape in SHAPES)
_DEFAULT_RUNTIME = "llama_cpp"
_HALF_BYTES = 2


def language_rows() -> Iterator[NetworkRow]:
    """Yield the rows of `models list`."""
    for shape in SHAPES:
        yield NetworkRow(
            name=shape.name,
            parameters=shape.parameter_count(),
            weight_bytes=shape.parameter_count() * _HALF_BYTES,
            default_size=None,
            source="made up: a decoder of the Llama architecture, each byte a token",
            context_tokens=shape.context,
            kv_bytes_per_token=shape.kv_bytes_per_token(),
        )


def build_language_model(
    recipe: LanguageRecipe, name_of_runtime: str | None, output: Path | None
) -> Path:
    """Make the files, in the cache or in `output`, and return the path that runtimes are given."""
    # Not at the top: other commands start no process that writes models.
    from reusebench.models.language.maker import write

    kind = built_in_kind(_runtime(recipe, name_of_runtime))
    check_can_make(kind)
    if output is None:
        return fill(kind, recipe, write)
    if recipe.part == ADAPTER or kind.startswith("."):
        with written_whole(output) as temporary:
            write(kind, recipe, temporary)
        return output
    try:
        output.mkdir(parents=True, exist_ok=True)
        write(kind, recipe, output / kind)
    except OSError as error:
        raise cannot_write(output, error) from error
    return output / kind


def _runtime(recipe: LanguageRecipe, name: str | None) -> RuntimeEntry:
    runtime = find_runtime(name or _DEFAULT_RUNTIME)
    if not runtime.has_conversations:
        valid = ", ".join(entry.name for entry in RUNTIMES if entry.has_conversations)
        raise ModelError(
            f"{recipe.name} is a language model, and {runtime.name} runs none; valid: --runtime"
            f" {valid}"
        )
    return runtime
