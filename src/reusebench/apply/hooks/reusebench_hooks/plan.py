"""The plan of a layout, if there is one: what each context of a model shares.

    reusebench-apply-plan 1
    model RUNTIME DIGEST BYTES NAME
    context CONTEXT WEIGHTS MEMORY CORE   one for each context of the model, in the plan's order

Equal numbers share; -1 is the context's own. The n-th living context of a model has the n-th line.
Contexts beyond the lines share with the first one.
reusebench writes the file (apply/plan.py), and native/apply/plan.c reads it as well.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Callable, Counter, Dict, List, NamedTuple, Optional

_FIRST_LINE = "reusebench-apply-plan 1"
_VARIABLE = "REUSEBENCH_APPLY_PLAN"
#: Place of a context that has no line.
_BEYOND = -1


class PlannedContext(NamedTuple):
    """A line of a model: numbers, of which equal ones share."""

    #: Place among the lines of the model.
    place: int
    #: One session for several callers.
    context: int
    weights: int
    #: Internal memory; -1: its own.
    memory: int


class RuntimePlan:
    """The lines of one runtime's models, and which of them contexts of the program have.

    plan = read_plan("onnxruntime", report.failed)
    line = plan.take(digest, name) if plan else None
    """

    def __init__(self, lines: Dict[str, List[PlannedContext]]) -> None:
        self._lines = lines
        self._taken: Dict[str, List[bool]] = {
            digest: [False] * len(own) for digest, own in lines.items()
        }
        #: A context may end, and give its line back, whenever Python frees memory.
        self._lock = threading.RLock()
        self._loaded: Counter[str] = Counter()
        self._beyond: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()

    def take(self, digest: str, name: str) -> Optional[PlannedContext]:
        """Return the next free line of the model; None if the model is not in the plan."""
        with self._lock:
            if digest not in self._lines:
                self._unknown[name] += 1
                return None
            taken = self._taken[digest]
            if all(taken):
                self._beyond[digest] += 1
                return self._lines[digest][0]._replace(place=_BEYOND)
            place = taken.index(False)
            taken[place] = True
            self._loaded[digest] += 1
            return self._lines[digest][place]

    def give_back(self, digest: str, line: Optional[PlannedContext]) -> None:
        """Free the line of a context that has ended."""
        if line is not None and line.place != _BEYOND:
            with self._lock:
                self._taken[digest][line.place] = False

    def report(self) -> Dict[str, Any]:
        """Return the value of the report's key "plan"."""
        with self._lock:
            return {
                "loaded": dict(self._loaded),
                "beyond": dict(self._beyond),
                "unknown": dict(self._unknown),
            }


def read_plan(runtime: str, failed: Callable[[str], None]) -> Optional[RuntimePlan]:
    """Return the plan that REUSEBENCH_APPLY_PLAN names; None if there is none.

    If its file cannot be read, `failed` gets the variable's name.
    """
    path = os.environ.get(_VARIABLE)
    if not path:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return RuntimePlan(_lines_of(runtime, file.read().splitlines()))
    except (OSError, ValueError):
        failed(_VARIABLE)
        return None


def _lines_of(runtime: str, text: List[str]) -> Dict[str, List[PlannedContext]]:
    """Return the lines of each model of the runtime, by digest."""
    if text[:1] != [_FIRST_LINE]:
        raise ValueError("no plan of this version")
    lines: Dict[str, List[PlannedContext]] = {}
    contexts: Optional[List[PlannedContext]] = None
    for line in text[1:]:
        kind, *words = line.split()
        if kind == "model":
            of_runtime, digest = words[:2]
            contexts = lines.setdefault(digest, []) if of_runtime == runtime else None
        elif kind == "context" and contexts is not None:
            context, weights, memory = map(int, words[:3])
            contexts.append(PlannedContext(len(contexts), context, weights, memory))
    return lines
