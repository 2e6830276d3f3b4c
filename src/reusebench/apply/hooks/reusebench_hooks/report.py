"""What one runtime's contexts share in this process, as a line of JSON at the process's end."""

from __future__ import annotations

import atexit
import collections
import json
import os
import sys
import threading
from typing import Any, Counter, Dict, Optional, Set, Tuple

from reusebench_hooks import settings
from reusebench_hooks.digests import Digests
from reusebench_hooks.plan import RuntimePlan
from reusebench_hooks.turns import Turns


class Report:
    """The contexts of one runtime: how many share what, and why others were left alone.

    report.made(digest)
    report.shares("context", digest)
    report.left_alone("custom_operators")
    """

    def __init__(
        self, runtime: str, version: Optional[str], turns: Turns, digests: Digests
    ) -> None:
        self._runtime = runtime
        self.version = version
        self._turns = turns
        self._digests = digests
        #: What the plan says of this runtime, if there is one.
        self.plan: Optional[RuntimePlan] = None
        self._path = settings.report_path()
        self._restart()
        if self._path:
            os.register_at_fork(after_in_child=self._restart)
            atexit.register(self.write)

    def _restart(self) -> None:
        """Begin the report of a process that was forked."""
        self._lock = threading.RLock()
        self._contexts = 0
        self._models: Set[str] = set()
        self._alone: Counter[str] = collections.Counter()
        self._failures: Counter[str] = collections.Counter()
        #: Kind and group: contexts of a group share with one another.
        self._sharing: Counter[Tuple[str, str]] = collections.Counter()
        self._each: Counter[str] = collections.Counter()
        self._is_written = False
        self._is_finalized = False

    def made(self, model: Optional[str]) -> None:
        """Count a context that the program made; None if the model could not be read."""
        with self._lock:
            self._contexts += 1
            if model is not None:
                self._models.add(model)
        self._write_in_children()

    def shares(self, kind: str, group: Optional[str] = None) -> None:
        """Count a context that shares something of this kind: with those of its group, if given."""
        with self._lock:
            if group is None:
                self._each[kind] += 1
            else:
                self._sharing[kind, group] += 1

    def shares_no_more(self, kind: str, group: str) -> None:
        """Count a context that has left its group no longer."""
        with self._lock:
            self._sharing[kind, group] -= 1

    def left_alone(self, reason: str) -> None:
        """Count a context that is left alone for the reason with this code."""
        with self._lock:
            self._alone[reason] += 1

    def failed(self, call: str) -> None:
        """Count a call of the hooks that failed."""
        with self._lock:
            self._failures[call] += 1

    def _write_in_children(self) -> None:
        """Write at the end of a child of multiprocessing too, which runs no exit functions."""
        process = sys.modules.get("multiprocessing.process")
        util = sys.modules.get("multiprocessing.util")
        if self._path is None or process is None or util is None or self._is_finalized:
            return
        if process.parent_process() is not None:
            self._is_finalized = True
            util.Finalize(None, self.write, exitpriority=-100)

    def _shared(self) -> Dict[str, int]:
        counts = collections.Counter(self._each)
        for (kind, _), count in self._sharing.items():
            if count > 1:
                counts[kind] += count
        return dict(counts)

    def line(self) -> Dict[str, Any]:
        """Return the report's line."""
        digests = self._digests.by_model()
        with self._lock:
            return {
                "runtime": self._runtime,
                "version": self.version,
                "process": os.getpid(),
                "contexts": self._contexts,
                "models": len(self._models),
                "shared": self._shared(),
                "saved_bytes": {},
                "most_at_once": self._turns.most,
                "left_alone": dict(self._alone),
                "failures": dict(self._failures),
                "digests": digests,
                "plan": self.plan.report() if self.plan else None,
            }

    def write(self) -> None:
        """Append the line, if there is anything to tell and it was not written yet."""
        line = self.line()
        is_empty = not (line["contexts"] or line["digests"] or line["failures"])
        if self._path is None or self._is_written or is_empty:
            return
        self._is_written = True
        try:
            with open(self._path, "ab", buffering=0) as file:
                file.write(json.dumps(line).encode() + b"\n")
        except OSError as error:
            print(f"reusebench apply: no report: {error}", file=sys.stderr)
