"""The trace of one repeat: every barrier in full and the timeline between them, as one compressed JSON file."""

from __future__ import annotations

import gzip
import json
import re
import warnings
import zlib
from pathlib import Path
from typing import Any

__all__ = ["TRACES", "TRACE_NAME", "read_trace", "write_trace"]

#: Folder of the traces inside a storage.
TRACES = "traces"
#: Of the files in it, which stand in a folder for each run.
TRACE_NAME = re.compile(r".+\.json\.gz")


def write_trace(storage: Path, run: str, name: str, trace: dict[str, Any]) -> str:
    """Write the trace and return its path relative to the storage; warn where it cannot be written.

    What was measured is not lost with it: tables do not need traces.
    `trace` is {"barriers": [...], "timeline": {"times_ns": [...], "rss_bytes": [...], "system_memory_bytes": [...]}};
    with a ledger also {"npu": {"times_ns": [...], "live_bytes": [...], "ledger": accounting.ledger.Ledger}}.
    Of a recorded program, with times since its start, it is {"timeline": {"times_ns": [...], "rss_bytes": [...]},
    "pss": {"times_ns", "pss_bytes"}, "system": {"times_ns", "system_memory_bytes"}, "npu_held": {"times_ns",
    "npu_memory_bytes"}, "phases": [{"name", "begin_ns", "end_ns"}], "processes": [...] as in schema/program-1.json}.
    """
    relative = Path(TRACES) / run / f"{name}.json.gz"
    path = storage / relative
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "wt", encoding="utf-8", compresslevel=6) as file:
            json.dump(trace, file, separators=(",", ":"))
    except OSError as error:
        reason = error.strerror or error
        warnings.warn(f"{path} cannot be written ({reason}): reports have no timeline of it", stacklevel=2)
    return relative.as_posix()


def read_trace(storage: Path, relative: str) -> dict[str, Any] | None:
    """Return the trace, or None where its file is lost or damaged: tables do not need it."""
    try:
        with gzip.open(storage / relative, "rt", encoding="utf-8") as file:
            trace: dict[str, Any] = json.load(file)
    except (OSError, EOFError, ValueError, zlib.error):
        return None
    return trace
