"""Makes files of built-in language models in the cache; built_files.py runs it in a process.

It imports numpy and the libraries that write the files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from reusebench.models.errors import ModelError
from reusebench.models.language.built_files import fill
from reusebench.models.language.recipe import ADAPTER, GENAI, GGUF, LanguageRecipe
from reusebench.system.cache import CacheError

__all__ = ["main", "write"]


def main() -> int:
    """Make the files of all recipes that the command line names; return the exit code."""
    kind, jobs = sys.argv[1:]
    try:
        for job in json.loads(jobs):
            fill(kind, LanguageRecipe(**job), write)
    except (CacheError, ModelError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def write(kind: str, recipe: LanguageRecipe, path: Path) -> None:
    """Write the file of that kind, and those that belong to it."""
    # Not at the top: each kind has libraries of its own.
    is_adapter = recipe.part == ADAPTER
    if kind == GGUF:
        from reusebench.models.language.gguf_writer import write_gguf

        write_gguf(recipe, path)
    elif kind == GENAI:
        from reusebench.models.language.genai_writer import write_genai, write_genai_adapter

        (write_genai_adapter if is_adapter else write_genai)(recipe, path)
    else:
        from reusebench.models.language.openvino_writer import (
            write_openvino,
            write_openvino_adapter,
        )

        (write_openvino_adapter if is_adapter else write_openvino)(recipe, path)


if __name__ == "__main__":
    sys.exit(main())
