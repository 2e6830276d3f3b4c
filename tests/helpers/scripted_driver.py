"""`python -m tests.helpers.scripted_driver`: the driver with a runtime, `scripted`, that follows a
model's path.

A path is a list of parts divided by `;`. `abort@dup1` aborts in the second dup of the process (they
count from 0), `abort@infer1` in any inference of the second context; `differ@dup` lets the outputs
of dups differ, and `varies=1` those of each inference; `log=FILE` writes a line to FILE for each
operation, `calls=FILE` a line of JSON for how each context was made and which contexts were inside
an inference when another one began.

`create-1-5000@load0` makes NPU buffer 1 of 5000 bytes in the ledger (accounting/ledger.py),
`create-1-5000-internal@..` one that the context says it allocated itself; `destroy-1@destroy0`
gives it back. `submit-1-2-3@infer0` is a run whose task list is buffer 1 and whose register
commands, in buffer 2, read weights in buffer 3; `submit-1-2-3-dead@infer0` one that reads them
where buffer 3 was. `fork@load0` leaves a child with memory of its own. Runs in the measured
process: standard library only, Python 3.8.
"""

# ruff: noqa: ARG002  an interface names arguments that this runtime does not use

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from reusebench.measured import driver, runtimes
from reusebench.measured.runtimes.base import (
    NO_INPUTS,
    Allocation,
    Copies,
    DeclaredTensor,
    Inputs,
    Interface,
    Memory,
    NodeOrder,
    NotSupported,
    Preparation,
    Runtime,
    RuntimeContext,
    Turn,
)

#: The model of a context that does nothing out of the ordinary.
PLAIN = "plain"

#: Memory of a child that `fork` makes.
FORKED_BYTES = 32 << 20

#: Bytes that an inference copies if no tensor is used in place.
COPIES = Copies(input_bytes=600, output_bytes=40)

#: The node order of every preparation.
NODE_ORDER = NodeOrder(tried=2, saved_bytes=7000, chosen_bytes=5000)

#: The account of every context, in the form of Rockchip's library.
ACCOUNT = {"weights_bytes": 1000, "internal_bytes": 300, "dma_bytes": 1400}

_ERRORS: dict[str, Exception] = {
    "raise": RuntimeError("the script says so"),
    "memory": MemoryError("the script says so"),
    "not_supported": NotSupported("text", text="the script says so"),
}

_PAGE_BYTES = 4096
_MEETING_S = 30
#: Inferences before the steady phase.
_WARM_UP = 2


class Script:
    """The script's operations, and their counts, in this process."""

    def __init__(self) -> None:
        #: The model that was loaded last.
        self.model = ""
        self._parts: list[str] = []
        self._calls: dict[str, int] = {}
        #: Number of contexts made.
        self.contexts = 0
        #: Buffers of `create` words since a context took the last ones.
        self.allocated: list[Allocation] = []
        self._inside: list[int] = []
        self._lock = threading.Lock()
        self._meeting = threading.Barrier(2)

    def read(self, model: str) -> None:
        """Take the script from the model's path, in which it stands."""
        self.model = model
        self._parts = model.split(";")

    def at(self, operation: str, number: int | None = None) -> list[str]:
        """Follow the script for an operation, counted if it has no number; return the script's
        words.
        """
        if number is None:
            number = self._calls.get(operation, 0)
            self._calls[operation] = number + 1
        place = f"{operation}{number}"
        self._write("log", place)
        words = [part.split("@")[0] for part in self._parts if part.endswith(f"@{place}")]
        for word in words:
            self._do(word)
        return words

    def says(self, part: str) -> bool:
        """Whether the script has this part."""
        return part in self._parts

    def value(self, name: str) -> str | None:
        """Return the value of `name=`."""
        return next(
            (part.split("=", 1)[1] for part in self._parts if part.startswith(f"{name}=")), None
        )

    def note(self, **fields: Any) -> None:
        """Write down a call of the runtime, or of a context."""
        self._write("calls", json.dumps(fields))

    def enter(self, context: int) -> None:
        """Write down which contexts are inside an inference when this one begins, and stay a
        little.
        """
        if self.value("calls"):
            with self._lock:
                thread = threading.current_thread().name
                self.note(context=context, inside=list(self._inside), thread=thread)
                self._inside.append(context)
            time.sleep(0.002)

    def leave(self, context: int) -> None:
        """End the inference."""
        if self.value("calls"):
            with self._lock:
                self._inside.remove(context)

    def meet(self) -> None:
        """Wait for another context at this point; an error if there is none."""
        self._meeting.wait(_MEETING_S)

    def _do(self, word: str) -> None:
        if word in _ERRORS:
            raise _ERRORS[word]
        if word == "print":
            print("printed by the runtime")
            sys.stdout.flush()
            os.write(1, b"written by the runtime\n")
        if word in ("spawn", "leave"):  # a child in the session, or one of its own
            child = subprocess.Popen(["sleep", "600"], start_new_session=word == "leave")
            self._write("log", f"child {child.pid}")
        if word == "fork":
            _fork_with_memory()
        if word == "hang":
            time.sleep(600)
        if word == "abort":
            os.write(2, b"terminate called\n")
            os.abort()
        if word.startswith("exit"):
            os._exit(int(word[len("exit") :]))
        if word.startswith("signal"):
            os.kill(os.getpid(), int(word[len("signal") :]))
            time.sleep(600)
        name, *values = word.split("-")
        if name in _LEDGER_EVENTS:
            _LEDGER_EVENTS[name](self, *values)

    def _write(self, name: str, line: str) -> None:
        path = self.value(name)
        if path:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    def _create(self, buffer: str, size: str, kind: str = "") -> None:
        number = int(buffer)
        asked_bytes = int(size)
        whole = -(-asked_bytes // _PAGE_BYTES) * _PAGE_BYTES
        _append(
            "create", buffer=number, asked_bytes=asked_bytes, bytes=whole, flags=3, source="rknpu"
        )
        _append("inode", buffer=number, inode=1000 + number)
        if kind:
            self.allocated.append(Allocation(kind, asked_bytes, 1000 + number))

    def _destroy(self, buffer: str) -> None:
        _append("destroy", buffer=int(buffer))

    def _submit(self, tasks: str, registers: str, weights: str, state: str = "live") -> None:
        read = {"register": "0x1110", "buffer": int(weights), "state": state, "count": 5}
        _append("submit", task_buffer=int(tasks), registers=[int(registers)], reads=[read])


def _fork_with_memory() -> None:
    """Have a child take FORKED_BYTES; it lives as long as this process."""
    ready, told = os.pipe()
    alive, living = os.pipe()
    if os.fork() == 0:
        os.closerange(0, 3)
        os.close(living)
        memory = mmap.mmap(-1, FORKED_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for position in range(0, FORKED_BYTES, _PAGE_BYTES):
            memory[position] = 1
        os.write(told, b".")
        os.read(alive, 1)
        os._exit(0)
    os.read(ready, 1)


_LEDGER_EVENTS: dict[str, Callable[..., None]] = {
    "create": Script._create,
    "destroy": Script._destroy,
    "submit": Script._submit,
}


def _append(event: str, **fields: Any) -> None:
    """Write a line to the ledger, if the target keeps one."""
    path = os.environ.get("REUSEBENCH_LEDGER")
    if path:
        with Path(path).open("a", encoding="utf-8") as ledger:
            ledger.write(
                json.dumps({"event": event, "at_ns": time.monotonic_ns(), **fields}) + "\n"
            )


class ScriptedContext(RuntimeContext):
    """A context without any memory but what the script gives it."""

    def __init__(self, script: Script, made_by: str, memory: Memory) -> None:
        self._script = script
        self._made_by = made_by
        self._memory = memory
        self._outputs = f"outputs of {script.model}".encode()
        self.number = script.contexts
        script.contexts += 1
        self._inferences = 0
        self._turn: Turn | None = None
        self._allocations: list[Allocation] = []
        self.take_allocated()

    def take_allocated(self) -> None:
        """Own what the script has allocated by now."""
        self._allocations += self._script.allocated
        self._script.allocated.clear()

    def infer(self) -> None:
        """Do what the script says of `infer` of this context."""
        self._script.enter(self.number)
        started = time.perf_counter_ns()
        self._inferences += 1
        if self._script.says(f"meet@infer{self.number}") and self._inferences == _WARM_UP + 1:
            self._script.meet()
        self._script.at("infer", self.number)
        conversation = self._memory.conversation
        if conversation is not None:
            first_token_ns = time.perf_counter_ns() - started
            self._turn = Turn(conversation.prompt, first_token_ns, conversation.generated, 0)
        self._script.leave(self.number)

    def turn(self) -> Turn | None:
        """Return the last turn, whose tokens are all generated at once."""
        return self._turn

    def outputs(self) -> list[memoryview]:
        """Return the same bytes for each model, others if the script has `differ`, and others in
        each inference if it has `varies`.
        """
        if self._script.value("varies"):
            return [memoryview(self._outputs + bytes([self._inferences % 256]))]
        differ = "differ" in self._script.at("outputs") or self._script.says(
            f"differ@{self._made_by}"
        )
        return [memoryview(b"others" if differ else self._outputs)]

    def destroy(self) -> None:
        """Do what the script says of `destroy`."""
        self._script.note(destroyed=self.number)
        self._script.at("destroy")

    def copies(self) -> Copies:
        """Return COPIES without what is used in place."""
        in_place = ("input", "output") if self._memory.device_io else self._memory.zero_copy
        return Copies(
            input_bytes=0 if "input" in in_place else COPIES.input_bytes,
            output_bytes=0 if "output" in in_place else COPIES.output_bytes,
        )

    def account(self) -> dict[str, int]:
        """Return an account, as some runtimes have one."""
        return ACCOUNT

    def allocations(self) -> list[Allocation]:
        """Return the buffers that the script allocated for it."""
        return self._allocations


class ScriptedRuntime(Runtime):
    """A runtime that the tests write."""

    version = "1.2.3"

    def __init__(self) -> None:
        self._script = Script()

    def interface(self, model: str) -> Interface:
        """Follow the script for `inspect`; the input is a picture, with free sizes if the script
        has `free=1`.
        """
        self._script.read(model)
        self._script.at("inspect")
        sides = ("height", "width") if self._script.value("free") else (8, 8)
        return Interface((DeclaredTensor("picture", "float32", (1, 3, *sides)),), (), {})

    def prepare(
        self,
        model: str,
        digest: str,
        folder: str,
        alive: Callable[[], None],
        inputs: Inputs = NO_INPUTS,
    ) -> Preparation:
        """Return the model itself: a dup needs no more."""
        self._script.read(model)
        alive()
        self._script.at("prepare")
        return Preparation(model, NODE_ORDER)

    def load(
        self, model: str, prepared: str | None, memory: Memory, inputs: Inputs = NO_INPUTS
    ) -> RuntimeContext:
        """Do what the script says of `load`, or of `load_prepared`; `driver=V` is the driver's
        version from then on.
        """
        self._script.read(model)
        self.driver_version = self._script.value("driver")
        return self._make("load_prepared" if prepared else "load", memory)

    def dup(self, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Do what the script says of `dup`."""
        return self._make("dup", memory, source)

    def share_weights(
        self, model: str, source: RuntimeContext, memory: Memory, inputs: Inputs = NO_INPUTS
    ) -> RuntimeContext:
        """Do what the script says of `share_weights`."""
        self._script.read(model)
        return self._make("share_weights", memory, source)

    def share_weight_memory(
        self, model: str, source: RuntimeContext, memory: Memory, inputs: Inputs = NO_INPUTS
    ) -> RuntimeContext:
        """Do what the script says of `share_weight_memory`."""
        self._script.read(model)
        return self._make("share_weight_memory", memory, source)

    def sequence(self, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Do what the script says of `sequence`."""
        return self._make("sequence", memory, source)

    def shared_prompt(self, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Do what the script says of `shared_prompt`."""
        return self._make("shared_prompt", memory, source)

    def restored_prompt(self, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Do what the script says of `restored_prompt`."""
        return self._make("restored_prompt", memory, source)

    def adapter(self, model: str, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Do what the script says of `adapter`."""
        self._script.read(model)
        return self._make("adapter", memory, source)

    def infer_together(self, contexts: Sequence[RuntimeContext]) -> None:
        """Note the contexts of an inference, and run each."""
        self._script.note(together=list(map(_number, contexts)))
        super().infer_together(contexts)

    def estimate(self, model: str, memory: Memory) -> dict[str, int]:
        """Follow the script for `estimate`; each conversation has a cache of a byte for a token."""
        self._script.read(model)
        self._script.at("estimate")
        tokens = memory.conversation.tokens if memory.conversation else 0
        return {**ACCOUNT, "kv_cache_bytes": tokens * memory.sequences}

    def shared_context(self, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Do what the script says of `shared_context`."""
        return self._make("shared_context", memory, source)

    def share_internal(self, contexts: Sequence[RuntimeContext]) -> None:
        """Do what the script says of `share_internal`; what it allocates belongs to the first
        context.
        """
        self._script.note(operation="share_internal", contexts=list(map(_number, contexts)))
        self._script.at("share_internal")
        first = contexts[0]
        assert isinstance(first, ScriptedContext)
        first.take_allocated()

    def join_internal(self, context: RuntimeContext, member: RuntimeContext) -> None:
        """Do what the script says of `join_internal`."""
        self._script.note(operation="join_internal", contexts=[_number(context), _number(member)])
        self._script.at("join_internal")

    def _make(
        self, operation: str, memory: Memory, source: RuntimeContext | None = None
    ) -> RuntimeContext:
        number = source and _number(source)
        self._script.note(
            operation=operation, model=self._script.model, memory=asdict(memory), source=number
        )
        self._script.at(operation)
        return ScriptedContext(self._script, operation, memory)


def _number(context: RuntimeContext) -> int:
    assert isinstance(context, ScriptedContext)
    return context.number


def open_runtime() -> Runtime:
    """Return the adapter."""
    return ScriptedRuntime()


#: The row that the list of runtimes has in such a process.
ENTRY = runtimes.RuntimeEntry(
    "scripted",
    "Scripted",
    "tests.helpers.scripted_driver",
    "json",  # which any Python has
    "nothing",
    device="npu",
    suffixes=(".script",),
    prepares=True,
)


def main() -> int:
    """Serve a command as the driver does, with this runtime alone, and return the exit code."""
    runtimes.RUNTIMES = (ENTRY,)
    return driver.main()


if __name__ == "__main__":
    sys.exit(main())
