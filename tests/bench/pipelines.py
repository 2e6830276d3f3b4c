"""A pipeline as a user has it, small enough to be measured in no time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reusebench.storage.result import Result

#: Two streams: a detector with larger internal tensors, then a recogniser; both of the second
#: stream are dups.
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
    """Write the pipeline, and more behind it, into a file of this name, which is the plan's name
    too.
    """
    path = folder / f"{name}.toml"
    path.write_text(_PIPELINE + more)
    return path


def saved_bytes(results: Mapping[str, Result]) -> int:
    """Return what the pipeline takes less than itself without reuse, trimmed: what a heap keeps is
    chance.
    """
    whole, own = (
        results[name].memory.application_memory_trimmed_bytes
        for name in ("pipeline.no_reuse", "pipeline")
    )
    return (whole[0] or 0) - (own[0] or 0)
