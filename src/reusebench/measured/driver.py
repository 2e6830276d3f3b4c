"""The measured process: walks a Plan on a runtime and stops at a barrier after every step.

Run as `python .../measured/start.py`. The process reads its command, a line of JSON, from standard
input, and writes a line of JSON for each barrier to standard output. At a barrier nothing runs: the
process waits until the harness has read the memory and writes `go`.

Instead of `go` the harness may write `trim`. The process then returns its free heap to the kernel
(malloc_trim) and stops at one more barrier, so that this state can be read too. While streams run,
the process writes a line `frames` every second, and the harness may write `stop` to end them. In a
plan that adds contexts until one fails, `stop` instead of `go` means that no more contexts are
made.

Every import here adds to the memory being measured: standard library only, and little of it. Python
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
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, TextIO, Tuple

from reusebench.measured.failures import kind_of, message_of
from reusebench.measured.plan import (
    ADAPTER,
    DUP,
    INFERENCES,
    IO_MEMORY,
    REPLACED,
    RESTORED_PROMPT,
    SEQUENCE,
    SHARED_PROMPT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    Plan,
    Step,
    inputs_from_json,
)
from reusebench.measured.runtimes import open_runtime
from reusebench.measured.runtimes.base import (
    Memory,
    NotSupported,
    Runtime,
    RuntimeContext,
    Turn,
)
from reusebench.measured.schedule import FairSemaphore, Worker, run_on_all

__all__ = ["main"]

#: Stack of each context's thread, if there may be hundreds: 300 of the usual 8 MiB fill the address
#: space of a 32-bit process.
_SMALL_STACK_BYTES = 1 << 20
#: Memory reserved at start and freed when a step fails, so that the failure can still be reported.
#: It is never written, so it costs one page, and it is too small for a huge page.
_RESERVE_BYTES = 1 << 20


class HarnessPipes:
    """The two pipes to the harness."""

    def __init__(self, commands: TextIO, messages: TextIO) -> None:
        self._commands = commands
        self._messages = messages

    def command(self) -> str:
        """Return the next line from the harness; end the process if the harness is gone."""
        line = self._commands.readline()
        if not line:
            os._exit(1)
        return line.strip()

    def send(self, event: str, **fields: Any) -> None:
        """Write one message."""
        message = {"event": event, "at_ns": time.monotonic_ns(), **fields}
        self._messages.write(json.dumps(message) + "\n")
        self._messages.flush()

    def barrier(self, step: Step, data: Dict[str, Any]) -> str:
        """Tell the harness that a step has ended, and return its answer: `go` or `stop`."""
        self.send("barrier", phase=step.phase, context=step.context, data=data)
        while True:
            command = self.command()
            # A `stop` that was to end streams may come when they have ended.
            if command == "go" or (command == "stop" and step.phase != "steady"):
                return command
            if command == "trim":
                self.send("barrier", phase="trimmed", context=None, data={"trimmed": _trim_heap()})

    def stopped_within(self, seconds: float) -> bool:
        """Wait up to `seconds`; return True as soon as the harness writes `stop`."""
        readable, _, _ = select.select([self._commands], [], [], seconds)
        return bool(readable) and self.command() == "stop"


class Walk:
    """The walk through a plan: each step ends at its barrier, with its data."""

    def __init__(self, plan: Plan, runtime: Runtime, pipes: HarnessPipes) -> None:
        self._plan = plan
        self._runtime = runtime
        self._pipes = pipes
        self._contexts: List[RuntimeContext] = []
        self._workers: List[Worker] = []
        #: Thread of all cycles. Threads that come and go would leave memory behind in an emulator,
        #: and spread the heap over arenas.
        self._cycling = Worker("cycles") if plan.cycles else None
        self._decoders: List[Any] = []
        #: Number of contexts that have run.
        self._ran = 0
        #: Whether no more contexts are made, in a plan that adds them until one fails.
        self._is_full = False
        if plan.fills:
            threading.stack_size(_SMALL_STACK_BYTES)
        self._steps: Dict[str, Callable[..., Dict[str, Any]]] = {
            "imported": self._imported,
            "decoders": self._open_decoders,
            "context": self._make,
            "internal_memory": self._share_internal,
            "first_inference": self._first_inference,
            "steady": self._steady,
            "cycle": self._cycle,
            "decoders_closed": self._close_decoders,
            "destroy": self._destroy,
        }

    def steps(self) -> Iterator[Step]:
        """Yield the steps in order, each after the one before it has been taken."""
        for step in self._plan.steps():
            yield step
            if self._is_full:
                made = len(self._contexts)
                self._plan = self._plan.limited_to(self._ran)
                yield from self._plan.steps_when_full(made, self._ran)
                return

    def take(self, step: Step) -> None:
        """Take one step and stop at its barrier.

        In a plan that adds contexts until one fails, the failure of an additional context is the
        answer. It has a barrier of its own, `full`, instead of the step's. Nothing of the context
        is touched before the harness has read the memory there.
        """
        do_step = self._steps[step.phase]
        arguments = () if step.context is None else (step.context,)
        try:
            data = do_step(*arguments)
        except Exception as error:
            if isinstance(error, NotSupported) or not self._plan.may_be_full_at(step):
                raise
            failure = {
                "phase": step.phase,
                "kind": kind_of(error),
                "message": asdict(message_of(error)),
            }
            data = {"failure": failure}
            step = Step("full", step.context)
            self._is_full = True

        if self._plan.cycles is not None:
            from reusebench.measured.usage import usage  # adds nothing to plans without cycles

            data["usage"] = usage(_trim_heap)
        if step.phase == "first_inference":
            self._ran += 1
        if self._pipes.barrier(step, data) == "stop":
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
        """Return the thread of the context's chain; the first context of a chain starts it."""
        if self._cycling is not None:
            return self._cycling
        for other in self._plan.chain_of(index):
            if other < index:
                return self._workers[other]
        if self._plan.conversation is not None and self._workers:
            # One thread runs all conversations: a runtime's own threads may belong to each caller.
            return self._workers[0]
        return Worker(f"context-{index}")

    def _new_context(self, index: int) -> RuntimeContext:
        spec = self._plan.contexts[index]
        model = self._plan.models[spec.model]
        memory = _memory(self._plan, index)
        inputs = {tensor.name: tensor for tensor in model.inputs}
        if spec.source is None:
            prepared = model.prepared if self._plan.needs_prepared(index) else None
            return self._runtime.load(model.path, prepared, memory, inputs)

        source = self._contexts[spec.source]
        if spec.mechanism == SHARED_WEIGHTS:
            path = model.prepared or model.weightless or model.path
            return self._runtime.share_weights(path, source, memory, inputs)
        if spec.mechanism == SHARED_WEIGHT_MEMORY:
            return self._runtime.share_weight_memory(model.path, source, memory, inputs)
        if spec.mechanism == ADAPTER:
            return self._runtime.adapter(model.path, source, memory)
        of_source = {
            DUP: self._runtime.dup,
            SEQUENCE: self._runtime.sequence,
            SHARED_PROMPT: self._runtime.shared_prompt,
            RESTORED_PROMPT: self._runtime.restored_prompt,
        }
        make = of_source.get(spec.mechanism, self._runtime.shared_context)
        return make(source, memory)

    def _share_internal(self, index: int) -> Dict[str, Any]:
        for first, *others in self._plan.internal_memories().values():
            if index in others:  # in a plan that adds contexts until one fails
                self._runtime.join_internal(self._contexts[index], self._contexts[first])
            elif index == first:
                members = [member for member in (first, *others) if member < len(self._contexts)]
                self._runtime.share_internal([self._contexts[member] for member in members])
        return {"allocations": _account(self._contexts[index])["allocations"]}

    def _first_inference(self, index: int) -> Dict[str, Any]:
        context = self._contexts[index]
        worker = self._workers[index]
        worker.start(lambda: _warm_up(context))
        latency_ns, turn = worker.finish()
        data = {
            "latency_ns": latency_ns,
            "digest": f"{context.checksum():08x}",
            "copies": asdict(context.copies()),
        }
        if self._plan.is_first_of_model(index):
            data["samples"] = context.samples()
            placement = context.placement()
            if placement:
                data["placement"] = asdict(placement)
        if turn:
            data["turns"] = [[turn]]
        return {**data, **_account(context)}

    def _open_decoders(self) -> Dict[str, Any]:
        # Imported only now: it adds nothing to plans without streams.
        from reusebench.measured.streams.pipeline import open_decoders

        assert self._plan.schedule is not None
        self._decoders = open_decoders(self._plan.schedule)
        return {}

    def _close_decoders(self) -> Dict[str, Any]:
        while self._decoders:
            self._decoders.pop().close()
        return {}

    def _steady(self) -> Dict[str, Any]:
        if self._plan.schedule is not None:
            return self._streams()
        if self._plan.conversation is not None:
            # Imported only now: it adds nothing to plans of other models.
            from reusebench.measured.conversations import hold_conversations

            return hold_conversations(self._plan, self._runtime, self._contexts, self._workers[0])
        return self._rounds()

    def _streams(self) -> Dict[str, Any]:
        # Imported only now: it adds nothing to plans without streams.
        from reusebench.measured.streams.pipeline import Pipeline

        pipeline = Pipeline(self._plan, self._contexts, self._workers, self._decoders)

        def send_progress(progress: Dict[str, Any]) -> None:
            self._pipes.send("frames", **progress)

        return pipeline.run(send_progress, self._pipes.stopped_within)

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
        inferences = self._plan.cycles.inferences
        last = len(self._plan.contexts) - 1
        if kind == INFERENCES:
            context = self._contexts[0]
            worker = self._workers[0]
            run_on_all([worker], [lambda: _infer(context, inferences)])
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
    # The harness gets a pipe of its own, apart from what a runtime prints: standard output becomes
    # standard error.
    messages = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    pipes = HarnessPipes(sys.stdin, messages)
    reserve = bytes(_RESERVE_BYTES)
    command = json.loads(pipes.command())
    step = Step("imported" if command["command"] == "run" else command["command"])
    try:
        runtime = open_runtime(command["runtime"])
        if command["command"] == "prepare":
            _prepare(runtime, command, pipes)
        elif command["command"] == "inspect":
            pipes.send("interface", interface=runtime.interface(command["model"]))
        elif command["command"] == "estimate":
            plans = [Plan.from_json(plan) for plan in command["plans"]]
            pipes.send("estimated", accounts=_estimates(runtime, plans))
        else:
            walk = Walk(Plan.from_json(command["plan"]), runtime, pipes)
            for step in walk.steps():
                walk.take(step)
    except Exception as error:  # every failure of the runtime is a result
        del reserve
        pipes.send(
            "failure",
            phase=step.phase,
            context=step.context,
            kind=kind_of(error),
            message=asdict(message_of(error)),
        )
        return 1
    return 0


def _prepare(runtime: Runtime, command: Dict[str, Any], pipes: HarnessPipes) -> None:
    """Prepare the command's models, and tell the harness which files were made."""
    prepared: Dict[str, Any] = {}
    for model in command["models"]:
        inputs = {tensor.name: tensor for tensor in inputs_from_json(model["inputs"])}
        preparation = runtime.prepare(
            model["path"],
            model["digest"],
            command["folder"],
            lambda: pipes.send("preparing"),
            inputs,
        )
        prepared[model["digest"]] = preparation and asdict(preparation)
    pipes.send("prepared", models=prepared)


def _estimates(runtime: Runtime, plans: List[Plan]) -> List[List[Dict[str, int]]]:
    """Return the account that each context of each plan would have; nothing is allocated.

    Memory that contexts share belongs to the first of them, as in accounts of real contexts.
    """
    #: Equal contexts are estimated once: it reads the model's file.
    known: Dict[Tuple[str, Memory], Dict[str, int]] = {}
    estimates: List[List[Dict[str, int]]] = []
    for plan in plans:
        estimates.append([])
        for index, spec in enumerate(plan.contexts):
            account: Dict[str, int] = {}
            if spec.mechanism not in (SEQUENCE, SHARED_PROMPT):
                key = (plan.models[spec.model].path, _memory(plan, index))
                if key not in known:
                    known[key] = runtime.estimate(*key)
                account = dict(known[key])
            if spec.source is not None:
                account.pop("weights_bytes", None)
            estimates[-1].append(account)
    return estimates


def _memory(plan: Plan, index: int) -> Memory:
    """Return the runtime's part of a context; with one core there is none to choose."""
    spec = plan.contexts[index]
    sequences = [plan.contexts[other].mechanism for other in plan.sequences_over(index)]
    return Memory(
        spec.internal,
        spec.outside,
        spec.allocator,
        spec.zero_copy,
        spec.io,
        spec.device_io,
        spec.device,
        spec.core if plan.cores > 1 else None,
        plan.options_of(index),
        plan.conversation,
        1 + len(sequences),
        spec.unified_cache,
        sequences.count(SHARED_PROMPT),
    )


def _account(context: RuntimeContext) -> Dict[str, Any]:
    allocations = [asdict(allocation) for allocation in context.allocations()]
    return {"account": context.account(), "allocations": allocations}


class _Turn(NamedTuple):
    """The turn of one context in the rounds of its chain."""

    context: RuntimeContext
    gate: FairSemaphore
    #: Latency of each round, filled in as the rounds go.
    latencies_ns: array[int]


def _rounds(turns: List[_Turn], rounds: int) -> Callable[[], None]:
    def run() -> None:
        for number in range(rounds):
            for context, gate, latencies_ns in turns:
                with gate:
                    latencies_ns[number] = _timed(context.infer)

    return run


def _warm_up(context: RuntimeContext) -> Tuple[int, Optional[Turn]]:
    """Run the first inference and one more, and return the latency and the turn of the first.

    The second one belongs to the cost of a context. Runtimes plan their memory in the first
    inference and allocate by the plan from the second on: with ONNX Runtime 1.31 and YOLOv5s at
    320x320, 6.6 of a dup's 16 MiB. More came after the second only in node orders that are not
    chosen. A turn of a conversation is many inferences.
    """
    latency_ns = _timed(context.infer)
    turn = context.turn()
    if turn is None:
        context.infer()
    return latency_ns, turn


def _infer(context: RuntimeContext, count: int) -> None:
    for _ in range(count):
        context.infer()


def _timed(call: Callable[[], None]) -> int:
    """Return the duration of the call, in nanoseconds."""
    started = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - started


def _trim_heap() -> bool:
    """Return free heap pages to the kernel; False if the C library has no malloc_trim."""
    import ctypes  # only now: nothing is measured "as allocated" after a trim

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return False
    trim(0)
    return True
