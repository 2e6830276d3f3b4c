"""The built-in language models' files in the cache: made once, and again if one is missing."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from reusebench.models.errors import ModelError
from reusebench.models.language.recipe import GGUF, OPENVINO, LanguageRecipe
from reusebench.system.cache import (
    ProcessError,
    cache_root,
    locked,
    run_in_another_process,
    scratch_folder,
    written_whole,
)

__all__ = ["check_can_make", "ensure_language", "fill"]

#: Program that makes files.
_MAKER = "reusebench.models.language.maker"
#: Module that makes a kind of files, and the extra that installs it; others need none.
_NEEDED = {GGUF: ("gguf", "llama"), OPENVINO: ("openvino", "openvino-genai")}
#: File in the cache with the sizes of all files of a model; its name begins with the model's.
_SIZES = ".sizes"

#: A function that writes the files of a kind and a recipe; the path is that of the file, or of the
#: file that stands for a folder.
Write = Callable[[str, LanguageRecipe, Path], None]


def ensure_language(kind: str, recipes: Sequence[LanguageRecipe]) -> list[Path]:
    """Return the recipes' files from the cache, in order; make the missing and the damaged ones.

    `kind` is one of KINDS. If it is the name of a file, its folder has other files of the model.
    One process makes all: it imports numpy and gguf, which the harness must not. Raises ModelError
    if a recipe is not made in this kind, or a library is missing; CacheError if the files cannot be
    written.
    """
    paths = [_path(kind, recipe) for recipe in recipes]
    missing = [recipe for recipe in recipes if not _is_intact(kind, recipe)]
    if missing:
        check_can_make(kind)
        jobs = json.dumps([recipe.arguments() for recipe in missing])
        try:
            run_in_another_process(_MAKER, kind, jobs)
        except ProcessError as error:
            raise ModelError(
                f"a built-in language model could not be made: {error.words}"
            ) from None
    return paths


def check_can_make(kind: str) -> None:
    """Raise ModelError if the library that writes files of this kind is missing."""
    if kind not in _NEEDED:
        return
    module, extra = _NEEDED[kind]
    if importlib.util.find_spec(module) is None:
        raise ModelError(
            f"{kind} files are made with {module}, which is not installed: pip install"
            f" 'reusebench[{extra}]'"
        )


def fill(kind: str, recipe: LanguageRecipe, write: Write) -> Path:
    """Return the recipe's file in the cache; make it first if it is missing or damaged.

    Only one process fills the cache at a time: a second one waits and then uses the first one's.
    """
    path = _path(kind, recipe)
    place = _place(kind, recipe)
    with locked(place):
        if _is_intact(kind, recipe):
            return path

        with scratch_folder(place.parent) as scratch:
            new = scratch / place.name
            made = new if place == path else new / path.name
            made.parent.mkdir(exist_ok=True)
            write(kind, recipe, made)
            if place.is_dir():
                shutil.rmtree(place)
            new.replace(place)

        with written_whole(_record(place)) as temporary:
            temporary.write_text(json.dumps(_sizes(place)), encoding="utf-8")
    return path


def _path(kind: str, recipe: LanguageRecipe) -> Path:
    return cache_root() / "models" / recipe.path_in_cache(kind)


def _place(kind: str, recipe: LanguageRecipe) -> Path:
    """Return the path of the file, or of the folder of all files that it stands for."""
    path = _path(kind, recipe)
    return path.parent if path.name == kind else path


def _is_intact(kind: str, recipe: LanguageRecipe) -> bool:
    """Whether all files have the sizes recorded when they were made."""
    place = _place(kind, recipe)
    try:
        record = json.loads(_record(place).read_text(encoding="utf-8"))
        return bool(record == _sizes(place))
    except (OSError, ValueError):
        return False


def _record(place: Path) -> Path:
    return place.with_name(f".{place.name}{_SIZES}")


def _sizes(place: Path) -> dict[str, int]:
    files = sorted(place.iterdir()) if place.is_dir() else [place]
    return {file.name: file.stat().st_size for file in files}
