"""Names of models as readers know them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from reusebench.storage.result import ModelName

#: The name of a built-in model: network and size, then its seed, and a part that differs by
#: runtime.
_BUILT_IN = re.compile(r"(\w+-\d+)-seed\d+.*")


def short_name(name: str) -> str:
    """Return the name of a model; of a built-in one network and size alone."""
    return _BUILT_IN.sub(r"\1", name)


def models_in_words(models: Iterable[ModelName]) -> str:
    """Return the short names of models, equal ones counted."""
    counts = Counter(short_name(model.name) for model in models)
    return ", ".join(name if count == 1 else f"{name} ({count})" for name, count in counts.items())
