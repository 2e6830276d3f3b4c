"""The measured process: walks a Plan on a runtime and stops at a barrier after every step.

Run as `python .../measured/start.py`. It reads one JSON line from standard input, the command, and
writes one JSON line per barrier to standard output. At a barrier nothing runs: it waits until the
harness has read the memory and writes `go`. Instead of `go` the harness may write `trim`: the
process returns its free heap to the kernel (malloc_trim) and stops at one more barrier, so that
this state can be read too. While streams run it writes a line `frames` every second, and the
harness may write `stop` to end them. Of a plan that fills `stop` in place of `go` means that no
further context is to be made.

What is imported here is weighed with the runtime: standard library only, and little of it. Python
3.8.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
import time
from array import array
from dataclasses import asdict
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, TextIO, Tuple

from reusebench.measured.failures import kind_of, message_of
from reusebench.measured.plan import (
    DUP,
    INFERENCES,
    INFERENCES_PER_CYCLE,
    IO_MEMORY,
    REPLACED,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    Context,
    Plan,
    Step,
    inputs_from_json,
)
from reusebench.measured.runtimes import open_runtime
from reusebench.measured.runtimes.base import Memory, NotSupported, Runtime, RuntimeContext
from reusebench.measured.schedule import FairSemaphore, Worker, run_on_all

__all__ = ["main"]

#: Of the thread of each context, where there may be hundreds: of the usual 8 MiB, 300 use up a
#: 32-bit process.
_SMALL_STACK_BYTES = 1 << 20
#: Of address space, which is given back where a step fails: it may have used up all that there is,
#: and is to be told. Nothing writes to it, so that a page of it is in memory, and it is too small
#: for a huge page.
_RESERVE_BYTES = 1 << 20


class HarnessPipes:
    """The two pipes to the harness."""

    def __init__(self, commands: TextIO, messages: TextIO) -> None:
        self._commands = commands
        self._messages = messages

    def command(self) -> str:
        """Return the next line from the harness; end the process where the harness is gone."""
        line = self._commands.readline()
        if not line:
            os._exit(1)
        return line.strip()

    def send(self, event: str, **fields: Any) -> None:
        """Write one message."""
        self._messages.write(
            json.dumps({"event": event, "at_ns": time.monotonic_ns(), **fields}) + "\n"
        )
        self._messages.flush()

    def barrier(self, step: Step, data: Dict[str, Any]) -> str:
        """Write which step has ended, wait for `go` or `stop` and return which of them came."""
        self.send("barrier", phase=step.phase, context=step.context, data=data)
        while True:
            command = self.command()
            if command in ("go", "stop"):
                return command
            if command == "trim":
                self.send("barrier", phase="trimmed", context=None, data={"trimmed": _trim_heap()})

    def stopped_within(self, seconds: float) -> bool:
        """Wait so long, or until the harness writes `stop`; return whether it did."""
        readable, _, _ = select.select([self._commands], [], [], seconds)
        return bool(readable) and self.command() == "stop"


class Walk:
    """A plan being walked: each step ends at its barrier, with its data."""

    def __init__(self, plan: Plan, runtime: Runtime, channel: HarnessPipes) -> None:
        self._plan = plan
        self._runtime = runtime
        self._channel = channel
        self._contexts: List[RuntimeContext] = []
        self._workers: List[Worker] = []
        #: Of all cycles: threads that come and go leave memory behind in an emulator, and spread
        #: the heap over arenas.
        self._cycling = Worker("cycles") if plan.cycles else None
        self._decoders: List[Any] = []
        #: Contexts that have run, of a plan that fills; and whether no further one is made.
        self._ran = 0
        self._is_full = False
        if plan.fills:
            threading.stack_size(_SMALL_STACK_BYTES)
        self._steps: Dict[str, Callable[..., Dict[str, Any]]] = {
            "imported": self._imported,
            "decoders": self._open_decoders,
            "context": self._make,
            "internal_memory": self._share_internal,
            "first_inference": self._first_inference,
            "steady": self._rounds if plan.schedule is None else self._streams,
            "cycle": self._cycle,
            "decoders_closed": self._close_decoders,
            "destroy": self._destroy,
        }

    def steps(self) -> Iterator[Step]:
        """Yield the steps in order, each when the one before it was taken."""
        for step in self._plan.steps():
            yield step
            if self._is_full:
                made = len(self._contexts)
                self._plan = self._plan.limited_to(self._ran)
                yield from self._plan.steps_when_full(made, self._ran)
                return

    def take(self, step: Step) -> None:
        """Take one step and stop at its barrier.

        Of a plan that fills the failure of a further context is the answer: it has a barrier,
        `full`, in place of the step's, and nothing of the context is touched before the harness has
        read memory there.
        """
        do = self._steps[step.phase]
        try:
            data = do() if step.context is None else do(step.context)
        except Exception as error:
            if isinstance(error, NotSupported) or not self._plan.may_be_full_at(step):
                raise
            data = {
                "failure": {
                    "phase": step.phase,
                    "kind": kind_of(error),
                    "message": asdict(message_of(error)),
                }
            }
            step = Step("full", step.context)
            self._is_full = True
        if self._plan.cycles is not None:
            from reusebench.measured.usage import usage  # weighs nothing in plans without cycles

            data["usage"] = usage(_trim_heap)
        if step.phase == "first_inference":
            self._ran += 1
        if self._channel.barrier(step, data) == "stop":
            self._is_full = True

    def _imported(self) -> Dict[str, Any]:
        return {"python_version": sys.version.split()[0], **self._versions()}

    def _versions(self) -> Dict[str, Any]:
        return {
            "runtime_version": self._runtime.version,
            "driver_version": self._runtime.driver_version,
        }

    def _make(self, index: int) -> Dict[str, Any]:
        started = time.monotonic_ns()
        context = self._new_context(index)
        load_ns = time.monotonic_ns() - started
        self._contexts.append(context)
        self._workers.append(self._worker_of(index))
        return {"load_ns": load_ns, **self._versions(), **_account(context)}

    def _worker_of(self, index: int) -> Worker:
        """Return the thread of the context's chain, which is there as soon as one of its contexts
        is.
        """
        if self._cycling is not None:
            return self._cycling
        for other in self._plan.chain_of(index):
            if other < index:
                return self._workers[other]
        return Worker(f"context-{index}")

    def _new_context(self, index: int) -> RuntimeContext:
        spec = self._plan.contexts[index]
        model = self._plan.models[spec.model]
        memory = _memory(spec, self._plan.cores, self._plan.options_of(index))
        inputs = {tensor.name: tensor for tensor in model.inputs}
        if spec.source is None:
            return self._runtime.load(
                model.path,
                model.prepared if self._plan.needs_prepared(index) else None,
                memory,
                inputs,
            )
        source = self._contexts[spec.source]
        if spec.mechanism == SHARED_WEIGHTS:
            return self._runtime.share_weights(
                model.prepared or model.weightless or model.path, source, memory, inputs
            )
        if spec.mechanism == SHARED_WEIGHT_MEMORY:
            return self._runtime.share_weight_memory(model.path, source, memory, inputs)
        make = self._runtime.dup if spec.mechanism == DUP else self._runtime.shared_context
        return make(source, memory)

    def _share_internal(self, index: int) -> Dict[str, Any]:
        for first, *others in self._plan.internal_memories().values():
            if index in others:  # of a plan that fills
                self._runtime.join_internal(self._contexts[index], self._contexts[first])
            elif index == first:
                made = [other for other in others if other < len(self._contexts)]
                self._runtime.share_internal([self._contexts[member] for member in (first, *made)])
        return {"allocations": _account(self._contexts[index])["allocations"]}

    def _first_inference(self, index: int) -> Dict[str, Any]:
        context = self._contexts[index]
        worker = self._workers[index]
        worker.start(lambda: _warm_up(context))
        latency_ns = worker.finish()
        data = {
            "latency_ns": latency_ns,
            "digest": f"{context.checksum():08x}",
            "copies": asdict(context.copies()),
        }
        if self._plan.is_first_of_model(index):
            data["samples"] = context.samples()
        return {**data, **_account(context)}

    def _open_decoders(self) -> Dict[str, Any]:
        from reusebench.measured.streams.pipeline import (
            open_decoders,
        )  # weighs nothing in plans without streams

        assert self._plan.schedule is not None
        self._decoders = open_decoders(self._plan.schedule)
        return {}

    def _close_decoders(self) -> Dict[str, Any]:
        while self._decoders:
            self._decoders.pop().close()
        return {}

    def _streams(self) -> Dict[str, Any]:
        from reusebench.measured.streams.pipeline import (
            Pipeline,
        )  # weighs nothing in plans without streams

        pipeline = Pipeline(self._plan, self._contexts, self._workers, self._decoders)
        return pipeline.run(
            lambda progress: self._channel.send("frames", **progress), self._channel.stopped_within
        )

    def _rounds(self) -> Dict[str, Any]:
        any_core = FairSemaphore(self._plan.cores)
        of_core = [FairSemaphore(1) for _ in range(self._plan.cores)]
        latencies = [array("q", bytes(8 * self._plan.rounds)) for _ in self._contexts]
        workers = []
        tasks = []
        for chain in self._plan.all_chains():
            turns = []
            for index in chain:
                core = self._plan.contexts[index].core
                gate = any_core if core is None else of_core[core]
                turns.append(_Turn(self._contexts[index], gate, latencies[index]))
            workers.append(self._workers[chain[0]])
            tasks.append(_rounds(turns, self._plan.rounds))
        started = time.monotonic_ns()
        run_on_all(workers, tasks)
        elapsed_ns = time.monotonic_ns() - started
        return {
            "elapsed_ns": elapsed_ns,
            "latencies_ns": [of_context.tolist() for of_context in latencies],
            "digests": [f"{context.checksum():08x}" for context in self._contexts],
        }

    def _cycle(self) -> Dict[str, Any]:
        assert self._plan.cycles is not None
        kind = self._plan.cycles.kind
        last = len(self._plan.contexts) - 1
        if kind == INFERENCES:
            context = self._contexts[0]
            worker = self._workers[0]
            run_on_all([worker], [lambda: _infer(context, INFERENCES_PER_CYCLE)])
            return {}
        if kind == IO_MEMORY:
            self._contexts[0].renew_io()
        else:
            self._make(last)
        digest = self._first_inference(len(self._contexts) - 1)["digest"]
        if kind != IO_MEMORY:
            self._destroy(0 if kind == REPLACED else len(self._contexts) - 1)
        return {"digest": digest}

    def _destroy(self, index: int) -> Dict[str, Any]:
        worker = self._workers.pop(index)
        if worker not in self._workers and worker is not self._cycling:
            worker.stop()
        self._contexts.pop(index).destroy()
        return {}


def main() -> int:
    """Serve one command from the harness and return the exit code."""
    # The harness's pipe is kept apart from what a runtime prints: standard output becomes standard
    # error.
    messages = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    channel = HarnessPipes(sys.stdin, messages)
    reserve = bytes(_RESERVE_BYTES)
    command = json.loads(channel.command())
    step = Step("imported" if command["command"] == "run" else command["command"])
    try:
        runtime = open_runtime(command["runtime"])
        if command["command"] == "prepare":
            prepared: Dict[str, Any] = {}
            for model in command["models"]:
                path = model["path"]
                digest = model["digest"]
                inputs = {tensor.name: tensor for tensor in inputs_from_json(model["inputs"])}
                preparation = runtime.prepare(
                    path, digest, command["folder"], lambda: channel.send("preparing"), inputs
                )
                prepared[digest] = preparation and asdict(preparation)
            channel.send("prepared", models=prepared)
            return 0
        if command["command"] == "inspect":
            channel.send("interface", interface=runtime.interface(command["model"]))
            return 0
        plan = Plan.from_json(command["plan"])
        walk = Walk(plan, runtime, channel)
        for step in walk.steps():
            walk.take(step)
    except Exception as error:  # every failure of the runtime is a result
        del reserve
        message = asdict(message_of(error))
        channel.send(
            "failure", phase=step.phase, context=step.context, kind=kind_of(error), message=message
        )
        return 1
    return 0


def _memory(spec: Context, cores: int, options: Tuple[str, ...]) -> Memory:
    """Return the runtime's part of the context; on one core there is none to choose."""
    core = spec.core if cores > 1 else None
    return Memory(
        spec.internal,
        spec.outside,
        spec.allocator,
        spec.zero_copy,
        spec.io,
        spec.device_io,
        spec.device,
        core,
        options,
    )


def _account(context: RuntimeContext) -> Dict[str, Any]:
    allocations = [asdict(allocation) for allocation in context.allocations()]
    return {"account": context.account(), "allocations": allocations}


class _Turn(NamedTuple):
    """A context's turn in the rounds of its chain."""

    context: RuntimeContext
    gate: FairSemaphore
    #: Of each round, to be filled.
    latencies_ns: array[int]


def _rounds(turns: List[_Turn], rounds: int) -> Callable[[], None]:
    def run() -> None:
        for number in range(rounds):
            for context, gate, latencies_ns in turns:
                with gate:
                    latencies_ns[number] = _timed(context.infer)

    return run


def _warm_up(context: RuntimeContext) -> int:
    """Run the first inference and one more, and return the latency of the first.

    The second belongs to what a context costs: runtimes plan their memory in the first and allocate
    by the plan from the second on (ONNX Runtime 1.31, YOLOv5s at 320x320: 6.6 of a dup's 16 MiB;
    only in orders of its nodes that are not chosen did more come after the second).
    """
    latency_ns = _timed(context.infer)
    context.infer()
    return latency_ns


def _infer(context: RuntimeContext, count: int) -> None:
    for _ in range(count):
        context.infer()


def _timed(call: Callable[[], None]) -> int:
    """Return how long the call took in nanoseconds of the monotonic clock."""
    started = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - started


def _trim_heap() -> bool:
    """Return free heap pages to the kernel; False where the C library has no malloc_trim."""
    import ctypes  # only now: nothing is measured "as allocated" after a trim

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return False
    trim(0)
    return True
