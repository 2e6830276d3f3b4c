"""A user's pipeline, small enough to be measured in no time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reusebench.storage.result import Result

#: Two streams, each with a detector of larger internal tensors and a recogniser; the second stream
#: has dups.
_PIPELINE = """\
[models]
detector = { network = "tiny", size = 320, seed = 1 }
recogniser = { network = "tiny", size = 64, seed = 1 }

[contexts]
detect-0 = { model = "detector", stream = 0, internal = "stream-0" }
recognise-0 = { model = "recogniser", stream = 0, after = "detect-0", internal = "stream-0" }
detect-1 = { dup = "detect-0", stream = 1, internal = "stream-1" }
recognise-1 = { dup = "recognise-0", stream = 1, after = "detect-1", internal = "stream-1" }
"""


def pipeline_file(folder: Path, name: str = "pipeline", more: str = "") -> Path:
    """Write the pipeline, and `more` after it, into a file of this name, which is also the plan's
    name.
    """
    path = folder / f"{name}.toml"
    path.write_text(_PIPELINE + more)
    return path


def saved_bytes(results: Mapping[str, Result]) -> int:
    """Return the memory that the pipeline saves by its reuse, trimmed: the rest in a heap is
    chance.
    """
    whole, own = (
        results[name].memory.application_memory_trimmed_bytes
        for name in ("pipeline.no_reuse", "pipeline")
    )
    return (whole[0] or 0) - (own[0] or 0)
