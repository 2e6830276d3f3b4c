"""The environment variables that the hooks read; all may be missing.

REUSEBENCH_APPLY_REPORT   file to which a line of JSON is appended at the process's end
REUSEBENCH_APPLY_AT_ONCE  most runs at once; the default is the number of the process's CPUs
REUSEBENCH_APPLY_OFF      if set, everything is left alone
REUSEBENCH_APPLY_DIGESTS  if "1", the report has digests of all outputs, also with OFF
REUSEBENCH_APPLY_CACHE    folder of prepared models
"""

from __future__ import annotations

import os
from typing import Optional

IS_OFF = bool(os.environ.get("REUSEBENCH_APPLY_OFF"))
WITH_DIGESTS = os.environ.get("REUSEBENCH_APPLY_DIGESTS") == "1"


def _cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def at_once() -> int:
    """Return the most runs at once; a value that is no count above 0 is as good as none."""
    text = os.environ.get("REUSEBENCH_APPLY_AT_ONCE", "")
    count = int(text) if text.isdecimal() else 0
    return count or _cpus()


def report_path() -> Optional[str]:
    """Return the report's path, which a change of the working folder does not move."""
    path = os.environ.get("REUSEBENCH_APPLY_REPORT")
    return os.path.abspath(path) if path else None


def has_plan() -> bool:
    """Return whether the program follows a plan."""
    return bool(os.environ.get("REUSEBENCH_APPLY_PLAN"))


def cache_folder() -> str:
    """Return the folder of prepared models, which may not exist yet."""
    path = os.environ.get("REUSEBENCH_APPLY_CACHE")
    if path:
        return os.path.abspath(path)
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(caches, "reusebench", "apply")
