"""Which order of nodes takes the least memory, found by running the model in each of several.

Each runs in a child of the preparing process, so that none finds memory that another one has left.
"""

from __future__ import annotations

import ctypes
import json
import os
import warnings
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Callable, Dict, NamedTuple

from reusebench.measured.messages import Message
from reusebench.measured.runtimes.base import AdapterError, NodeOrder, RuntimeContext
from reusebench.measured.runtimes.onnxruntime.options import as_prepared, plain_options
from reusebench.measured.runtimes.onnxruntime.orders import candidate_orders

if TYPE_CHECKING:
    from reusebench.measured.runtimes.onnxruntime.graph import SavedGraph

__all__ = ["Runner", "Trial", "TrialFailed", "choose_order", "run_apart"]

#: ONNX Runtime plans its memory in the first inference and allocates by the plan from the second
#: on, beside the outputs that the application still holds: with YOLOv5s the fourth was the last
#: that took more.
_INFERENCES = 4
#: An order that saves less than this is not preferred to an earlier one: readings of one order
#: differ by a few pages, and the same order is to be chosen every time.
_LEAST_SAVING_BYTES = 1 << 18
#: PR_SET_THP_DISABLE of Linux's prctl.h: whether a huge page fits depends on the address of a
#: region.
_NO_HUGE_PAGES = 41
_KIB = 1024


class Runner(NamedTuple):
    """How a model is run here."""

    #: Opens a session of a model file with options.
    open_session: Callable[[str, Any], Any]
    #: Gives a session the inputs of the model.
    context_of: Callable[[Any], RuntimeContext]
    #: Is called before each run: the preparing process is alive.
    alive: Callable[[], None]


class Trial(NamedTuple):
    """A model that was run."""

    #: Memory that the inferences added.
    added_bytes: int
    #: CRC-32 of the outputs.
    checksum: int


class TrialFailed(Exception):
    """The model could not be run."""

    def __init__(self, reason: Message) -> None:
        super().__init__(reason)
        self.reason = reason


def choose_order(path: str, graph: SavedGraph, saved: Trial, runner: Runner) -> NodeOrder:
    """Write the graph to the path, in the order that takes the least memory; `saved` is its trial
    as it was saved.

    Orders whose outputs are others, in any bit, do not count. At most eight are tried, of four
    inferences each, beside nine inferences before them.
    """
    chosen = list(range(len(graph.names)))
    graph.write(path, chosen)
    try:
        sizes = _node_sizes(runner, path)
    except TrialFailed as failed:
        return NodeOrder(reason=Message("onnx_order_not_tried", {"reason": failed.reason}))
    tried = 0
    least_bytes = None
    for order in candidate_orders(
        graph.sources, graph.results, [sizes.get(name, 0) for name in graph.names]
    ):
        tried += 1
        graph.write(path, order)
        with suppress(TrialFailed):
            trial = run_apart(runner, path, as_prepared(plain_options()))
            is_less = least_bytes is None or trial.added_bytes + _LEAST_SAVING_BYTES <= least_bytes
            if trial.checksum == saved.checksum and is_less:
                chosen = order
                least_bytes = trial.added_bytes
    graph.write(path, chosen)
    reason = Message("onnx_order_outputs_differ") if least_bytes is None else None
    return NodeOrder(tried, saved.added_bytes, least_bytes, reason)


def run_apart(runner: Runner, model: str, options: Any) -> Trial:
    """Return what the model costs and returns, in a child of this process; raise TrialFailed where
    it cannot be run.
    """

    def call() -> Trial:
        libc = ctypes.CDLL(None)
        libc.prctl(_NO_HUGE_PAGES, 1, 0, 0, 0)
        context = runner.context_of(runner.open_session(model, options))
        before_bytes = _memory_in_use(libc)
        for _ in range(_INFERENCES):
            context.infer()
        return Trial(_memory_in_use(libc) - before_bytes, context.checksum())

    return Trial(*_in_a_child(runner, call))


def _node_sizes(runner: Runner, path: str) -> Dict[str, int]:
    """Return the bytes that each node of a saved graph makes, by its name, from a profile of one
    inference.
    """
    options = as_prepared(plain_options())
    options.enable_profiling = True
    options.profile_file_prefix = path

    def call() -> Dict[str, int]:
        session = runner.open_session(path, options)
        runner.context_of(session).infer()
        profile = session.end_profiling()
        with open(profile, encoding="utf-8") as file:
            events = json.load(file)
        os.unlink(profile)
        sizes: Dict[str, int] = {}
        for event in events:
            name, is_kernel, _ = event["name"].partition("_kernel_time")
            if is_kernel:
                sizes[name] = max(sizes.get(name, 0), int(event["args"].get("output_size") or 0))
        return sizes

    sizes: Dict[str, int] = _in_a_child(runner, call)
    return sizes


def _in_a_child(runner: Runner, call: Callable[[], Any]) -> Any:
    """Return what the call returns in a child of this process, which JSON can hold."""
    runner.alive()
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python warns of locks that other threads may hold: those of numpy's libraries wait for
        # work.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        with open(writing, "w", encoding="utf-8") as pipe:
            json.dump(_outcome(call), pipe)
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if not text:
        raise TrialFailed(Message("text", {"text": f"wait status {status}"}))
    outcome = json.loads(text)
    if "failed" in outcome:
        code, values = outcome["failed"]
        raise TrialFailed(Message(code, values))
    return outcome["returned"]


def _outcome(call: Callable[[], Any]) -> Dict[str, Any]:
    try:
        return {"returned": call()}
    except AdapterError as error:
        message = error.message
    except Exception as error:
        message = Message("exception", {"type": type(error).__name__, "text": str(error)})
    return {"failed": list(asdict(message).values())}


def _memory_in_use(libc: ctypes.CDLL) -> int:
    """Return the anonymous memory of this process, in bytes, without what the C library keeps for
    the next caller.

    A session finds there what it allocates later, or another session does: it is no part of what
    each one costs.
    """
    if hasattr(libc, "malloc_trim"):  # of glibc
        libc.malloc_trim(0)
    with open("/proc/self/smaps_rollup", encoding="utf-8") as rollup:
        for line in rollup:
            if line.startswith("Anonymous:"):
                return int(line.split()[1]) * _KIB
    return 0
