"""The program behind test_megengine_adapter.py, which drives the adapter in its own environment.

Run as a module with the paths of a model, of another resolution of it, and of a damaged one. It
prints a line of JSON with the results of the functions here, by their names.
"""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import itertools
import json
import sys
import weakref
from typing import Any, Dict, List

from reusebench.measured.runtimes import open_runtime
from reusebench.measured.runtimes.base import AdapterError, Memory, Runtime, RuntimeContext

_WAYS = ((), ("input",), ("output",), ("input", "output"))


def same_outputs(runtime: Runtime, model: str) -> List[Any]:
    """Return the Memory of each context with wrong outputs, and numbers of contexts and bytes."""
    expected = _output(runtime.load(model, None, Memory()))
    memories = [
        Memory(internal=internal, zero_copy=way)
        for internal, way in itertools.product((None, 0), _WAYS)
    ]
    memories += [Memory(device_io=True), Memory(internal=1, device_io=True)]
    memories += [Memory(internal=2, zero_copy=("input", "output"), io=0)]
    wrong = []
    compared = 0
    for memory in memories:
        source = runtime.load(model, None, memory)
        for context in (
            source,
            runtime.dup(source, memory),
            runtime.share_weights(model, source, memory),
        ):
            compared += 1
            wrong += (
                [] if [_output(context), _output(context)] == [expected] * 2 else [repr(memory)]
            )
    return [wrong, compared, len(set(expected))]


def resolutions(runtime: Runtime, model: str, other: str) -> List[bool]:
    """Return whether another resolution over shared weights has the outputs of its own load."""
    source = runtime.load(model, None, Memory())
    expected = _output(runtime.load(other, None, Memory()))
    memories = (Memory(), Memory(zero_copy=("input", "output")), Memory(device_io=True))
    return [
        _output(runtime.share_weights(other, source, memory)) == expected != _output(source)
        for memory in memories
    ]


def orders(runtime: Runtime, model: str, other: str) -> int:
    """Return the number of wrong outputs while contexts that borrow are destroyed in any order."""
    differed = 0
    for order in itertools.permutations(range(4)):
        memory = Memory(internal=7, zero_copy=("output",))
        source = runtime.load(model, None, memory)
        contexts = [
            source,
            runtime.dup(source, memory),
            runtime.share_weights(other, source, memory),
        ]
        contexts.append(runtime.load(other, None, memory))
        expected = [_output(context) for context in contexts]
        left = dict(enumerate(contexts))
        del contexts, source
        for index in order:
            left.pop(index).destroy()
            differed += sum(
                _output(context) != expected[number] for number, context in left.items()
            )
    return differed


def in_place(runtime: Runtime, model: str) -> Dict[str, Any]:
    """Return whether inferences write into the application's array, and sizes copied and given."""
    context = runtime.load(model, None, Memory(zero_copy=("input", "output")))
    expected = _output(context)
    address = _address(context)
    ctypes.memset(address, 0, len(expected))
    again = _output(context)
    given = {allocation.kind: allocation.asked_bytes for allocation in context.allocations()}
    sharing = [
        runtime.load(model, None, Memory(zero_copy=("input", "output"), io=3)) for _ in range(2)
    ]
    outputs = [_output(one) for one in sharing]
    addresses = {_address(one) for one in sharing}
    shared = outputs == [expected] * 2 and len(addresses) == 1 and not sharing[1].allocations()
    return {
        "again": again == expected,
        "moved": _address(context) != address,
        "shared": shared,
        "given": given,
        **_copies(context),
    }


def copies(runtime: Runtime, model: str) -> List[Any]:
    """Return the bytes that one inference copies, for each way to move tensors."""
    memories = [*(Memory(zero_copy=way) for way in _WAYS), Memory(device_io=True)]
    return [list(_copies(runtime.load(model, None, memory)).values()) for memory in memories]


def frames(runtime: Runtime, model: str) -> Dict[str, Any]:
    """Return the form of the input, and the numbers of outputs that differ by way and picture."""
    from av import VideoFrame

    from reusebench.measured.streams.letterbox import Letterbox

    outputs_by_way = []
    form = []
    for way in _WAYS:
        context = runtime.load(model, None, Memory(zero_copy=way))
        outputs = [_output(context)]
        image = context.image_input()
        form = list(image[1:])
        letterbox = Letterbox(image)
        for value in (50, 200, 50):
            picture = VideoFrame(160, 90, "gray")
            picture.planes[0].update(bytes((value,)) * picture.planes[0].buffer_size)
            letterbox.fill(picture)
            outputs.append(_output(context))
        outputs_by_way.append(outputs)
    device = runtime.load(model, None, Memory(device_io=True))
    return {
        "form": form,
        "ways": len({tuple(outputs) for outputs in outputs_by_way}),
        "pictures": len(set(outputs_by_way[0])),
        "again": outputs_by_way[0][1] == outputs_by_way[0][3],
        "device": _words(device.image_input),
    }


def refusals(runtime: Runtime, model: str, damaged: str) -> List[str]:
    """Return the sentence of each refusal, and those of two damaged files."""
    memories = (
        Memory(outside=("internal",)),
        Memory(outside=("weights",)),
        Memory(allocator="mmz"),
        Memory(device="cuda"),
    )
    attempts: List[Any] = [
        lambda memory=memory: runtime.load(model, None, memory) for memory in memories
    ]
    source = runtime.load(model, None, Memory())
    attempts.append(lambda: runtime.shared_context(source, Memory()))
    attempts.append(lambda: runtime.load(damaged, None, Memory()))
    attempts.append(lambda: runtime.share_weights(damaged, source, Memory()))
    return [_words(attempt) for attempt in attempts]


def freed(runtime: Runtime, model: str) -> bool:
    """Return whether a destroyed network and its file's bytes are gone before a collection."""
    gc.collect()
    context: Any = runtime.load(model, None, Memory())
    network = weakref.ref(context.network)
    context.infer()
    gc.disable()
    size = len(context.network.model_bytes)
    context.destroy()
    gc.enable()
    arrays = [item for item in gc.get_objects() if isinstance(item, ctypes.Array)]
    return network() is None and size not in map(ctypes.sizeof, arrays)


def _output(context: RuntimeContext) -> bytes:
    context.infer()
    return b"".join(bytes(view) for view in context.outputs())


def _address(context: RuntimeContext) -> int:
    view = context.outputs()[0].cast("B")
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def _copies(context: RuntimeContext) -> Dict[str, int]:
    context.infer()
    return dataclasses.asdict(context.copies())


def _words(attempt: Any) -> str:
    try:
        attempt()
    except AdapterError as error:
        return f"{type(error).__name__}: {error}"
    return "no refusal"


def main(model: str, other: str, damaged: str) -> Dict[str, Any]:
    runtime = open_runtime("megengine_lite")
    results: Dict[str, Any] = {
        function.__name__: function(runtime, model)
        for function in (freed, same_outputs, in_place, copies, frames)
    }
    results["resolutions"] = resolutions(runtime, model, other)
    results["orders"] = orders(runtime, model, other)
    results["refusals"] = refusals(runtime, model, damaged)
    return results


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
