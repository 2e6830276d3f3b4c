"""All tables of the index, and the version of what fills them."""

from __future__ import annotations

import functools
import hashlib

from reusebench.storage.index.figures_table import FIGURES
from reusebench.storage.index.measured_table import MEASURED
from reusebench.storage.index.results_table import RESULTS
from reusebench.system.package import PACKAGE

__all__ = ["TABLES", "version"]

#: Each is a Parquet file in every part.
TABLES = (MEASURED, FIGURES, RESULTS)
#: The code that decides what is in a table: an index that other code has made is not used.
_FILLED_BY = (
    "accounting",
    "measured/messages/__init__.py",
    "measured/plan.py",
    "measured/runtimes/base.py",
    "samplers/readings.py",
    "storage",
    "system/files.py",
    "targets/barriers.py",
    "targets/outcome.py",
)
_DIGITS = 12


@functools.cache
def version() -> str:
    """Return the digest of the code that fills the tables."""
    digest = hashlib.sha256()
    for name in _FILLED_BY:
        place = PACKAGE / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:_DIGITS]
