"""Makes files of built-in language models in the cache; built_files.py runs it in a process.

It imports numpy and the libraries that write the files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from reusebench.models.errors import ModelError
from reusebench.models.language.built_files import fill
from reusebench.models.language.recipe import GGUF, LanguageRecipe
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


def write(recipe: LanguageRecipe, path: Path) -> None:
    """Write the recipe's files; the name of `path` tells the kind."""
    if path.suffix != GGUF:
        raise ModelError(f"{path.name} is not made yet")
    # Not at the top: each kind has a library of its own.
    from reusebench.models.language.gguf_writer import write_gguf

    write_gguf(recipe, path)


if __name__ == "__main__":
    sys.exit(main())
