"""The search for the order of nodes that takes the least memory, by running the model in several.

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

#: Inferences of a trial. ONNX Runtime plans its memory in the first and allocates by the plan from
#: the second on, while the application still holds outputs. With YOLOv5s the fourth was the last
#: that took more.
_INFERENCES = 4
#: Least saving for which an order is preferred to an earlier one. Readings of one order differ by a
#: few pages, and the same order is to be chosen every time.
_LEAST_SAVING_BYTES = 1 << 18
#: PR_SET_THP_DISABLE (Linux, prctl.h). Whether a huge page fits depends on the address of a region.
_NO_HUGE_PAGES = 41
_KIB = 1024


class Runner(NamedTuple):
    """The calls by which a model is run."""

    #: Opens a session of a model file with options.
    open_session: Callable[[str, Any], Any]
    #: Makes a context of a session, with the model's inputs.
    context_of: Callable[[Any], RuntimeContext]
    #: Tells the harness, before each run, that the preparing process is alive.
    alive: Callable[[], None]


class Trial(NamedTuple):
    """The result of running a model."""

    #: Memory that the inferences added.
    added_bytes: int
    #: CRC-32 of the outputs.
    checksum: int


class TrialFailed(Exception):
    """A model that could not be run."""

    def __init__(self, reason: Message) -> None:
        super().__init__(reason)
        self.reason = reason


def choose_order(path: str, graph: SavedGraph, saved: Trial, runner: Runner) -> NodeOrder:
    """Write the graph to the path in the order that takes the least memory.

    `saved` is the trial of the model as it was saved. Orders with other outputs, in any bit, do not
    count. At most eight are tried, of four inferences each, in addition to nine inferences before.
    """
    chosen = list(range(len(graph.names)))
    graph.write(path, chosen)
    try:
        sizes = _node_sizes(runner, path)
    except TrialFailed as failed:
        return NodeOrder(reason=Message("onnx_order_not_tried", {"reason": failed.reason}))

    tried = 0
    least_bytes = None
    node_sizes = [sizes.get(name, 0) for name in graph.names]
    for order in candidate_orders(graph.sources, graph.results, node_sizes):
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
    """Run the model in a child of this process; raise TrialFailed if that fails."""

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
    """Return the bytes that each node makes, by its name, from a profile of one inference."""
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
                size = int(event["args"].get("output_size") or 0)
                sizes[name] = max(sizes.get(name, 0), size)
        return sizes

    sizes: Dict[str, int] = _in_a_child(runner, call)
    return sizes


def _in_a_child(runner: Runner, call: Callable[[], Any]) -> Any:
    """Return the result of the call in a child of this process; JSON must be able to hold it."""
    runner.alive()
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python warns of locks that other threads may hold; here these are threads of numpy's
        # libraries, which wait for work.
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
    """Return the anonymous memory of this process, in bytes, without the C library's free heap.

    A session may find there what it allocates later, or another session may: it is no part of the
    cost of one.
    """
    if hasattr(libc, "malloc_trim"):  # only glibc has it
        libc.malloc_trim(0)
    with open("/proc/self/smaps_rollup", encoding="utf-8") as rollup:
        for line in rollup:
            if line.startswith("Anonymous:"):
                return int(line.split()[1]) * _KIB
    return 0
