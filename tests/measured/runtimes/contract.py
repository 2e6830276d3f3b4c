"""The contract of every runtime's adapter, as functions that test_contract.py runs.

A function raises if the adapter breaks the contract. `python -m tests.measured.runtimes.contract
NAME FILES` runs all of them in its own process, for runtimes that cannot live in the process of the
tests. It prints a line of JSON with the traceback, or null, of each function. Python 3.8; imports
are numpy, the standard library and the measured process's own code.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
import threading
import traceback
import zlib
from dataclasses import dataclass, replace
from typing import Callable, Dict, List, Optional, Tuple

import numpy as np

from reusebench.measured.failures import message_of
from reusebench.measured.messages import words
from reusebench.measured.runtimes import RuntimeEntry, find_runtime, open_runtime
from reusebench.measured.runtimes.base import (
    ELEMENT_TYPES,
    InputData,
    Memory,
    NotSupported,
    Runtime,
    RuntimeContext,
)

__all__ = ["CONTRACT", "Files", "Trial"]

#: All ways to move tensors.
_WAYS: Tuple[Tuple[str, ...], ...] = ((), ("input",), ("output",), ("input", "output"))
_INFERENCES_PER_THREAD = 10


@dataclass(frozen=True)
class Files:
    """Paths of the models that the contract needs of a runtime."""

    #: A network whose first input is a picture.
    model: str
    #: The same network and weights at another resolution; None if the library compares no weights.
    resized: Optional[str]
    #: Another network, or the same one with other weights; None if the library compares no weights.
    other: Optional[str]


class Trial:
    """A runtime on trial, with its files and a folder for prepared models."""

    def __init__(self, entry: RuntimeEntry, runtime: Runtime, files: Files, folder: str) -> None:
        self.entry = entry
        self.runtime = runtime
        self.files = files
        self.folder = folder
        self._lacks = dict(entry.lacks)

    def has(self, scenario: str) -> bool:
        """Whether the runtime's row in RUNTIMES has no reason against the mechanism."""
        return scenario not in self._lacks

    @property
    def takes_tensors(self) -> bool:
        """Whether tensors in place are the application's memory, and not the runtime's own."""
        return self.entry.name != "teflon"

    def implements(self, method: str) -> bool:
        """Whether the adapter overrides a method of Runtime."""
        return getattr(type(self.runtime), method) is not getattr(Runtime, method)

    def reason(self, scenario: str) -> str:
        """Return the code of the row's reason against a mechanism."""
        return self._lacks[scenario]

    def prepared(self, model: Optional[str] = None) -> Optional[str]:
        """Return the prepared file of a model; None if the runtime prepares nothing."""
        model = model or self.files.model
        digest = f"digest-{zlib.crc32(model.encode()):08x}"
        preparation = self.runtime.prepare(model, digest, self.folder, lambda: None)
        return preparation.path if preparation else None

    def load(self, memory: Memory = Memory()) -> RuntimeContext:  # noqa: B008  it is frozen
        """Return a context of the model that shares nothing but what `memory` says."""
        return self.runtime.load(self.files.model, None, memory)

    def source(self, memory: Memory = Memory()) -> RuntimeContext:  # noqa: B008  it is frozen
        """Return a context of the model whose weights can be shared."""
        return self.runtime.load(self.files.model, self.prepared(), memory)

    def sharing(self, memory: Memory) -> Dict[str, RuntimeContext]:
        """Return a source and contexts over its weights, by each mechanism that the runtime has."""
        runtime = self.runtime
        model = self.files.model
        source = self.source(memory)
        contexts = {"load": source, "dup": runtime.dup(source, memory)}
        if self.has("shared_context") and (self.takes_tensors or not memory.zero_copy):
            contexts["shared_context"] = runtime.shared_context(source, memory)
        if self.files.resized and self.has("shared_weights"):
            path = self.prepared() or model
            contexts["share_weights"] = runtime.share_weights(path, source, memory)
        if self.has("external_weights"):
            given = replace(memory, outside=("weights",))
            owner = runtime.load(model, self.prepared(), given)
            contexts["weights outside"] = owner
            if self.implements("share_weight_memory"):
                again = runtime.share_weight_memory(model, owner, memory)
                contexts["share_weight_memory"] = again
        if memory.internal is not None:
            runtime.share_internal(list(contexts.values()))
        elif self.has("external_internal"):
            own = replace(memory, outside=("internal",))
            contexts["internal outside"] = runtime.load(model, None, own)
        return contexts


def _outputs(context: RuntimeContext) -> List[bytes]:
    context.infer()
    return [bytes(output) for output in context.outputs()]


def _write_picture(context: RuntimeContext, byte: int) -> None:
    memory = context.image_input().memory
    memory[:] = bytes((byte,)) * memory.nbytes


def _address(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).ctypes.data)


def _code_of_option(trial: Trial, option: str) -> str:
    """Return the code of the refusal of an option."""
    return _code_of_refusal(lambda: trial.load(Memory(options=(option,))))


def _code_of_refusal(attempt: Callable[[], object]) -> str:
    """Return the code of a refusal, which must also have a text."""
    try:
        attempt()
    except NotSupported as refusal:
        message = refusal.message
    else:
        raise AssertionError("it is not refused")
    assert words(message) != message.code
    return message.code


# Declarations


def it_declares_the_tensors_of_a_model(trial: Trial) -> None:
    """Inputs can be filled as they are declared, and an inference gives all outputs."""
    interface = trial.runtime.interface(trial.files.model)
    assert interface.inputs
    for tensor in interface.inputs:
        assert tensor.name
        assert tensor.type in ELEMENT_TYPES
        assert all(size > 0 for size in tensor.shape)
    assert all(tensor.name for tensor in interface.outputs)
    assert len(_outputs(trial.load())) == len(interface.outputs)


def it_names_a_file_that_is_no_model(trial: Trial) -> None:
    """Nothing crashes, and the sentence has the file's name.

    Rockchip's library is given the content alone, and knows no name.
    """
    path = os.path.join(trial.folder, "broken" + trial.entry.suffix)
    with open(path, "wb") as file:
        file.write(b"GIF89a and so on" * 100)
    for read in (trial.runtime.interface, lambda model: trial.runtime.load(model, None, Memory())):
        try:
            read(path)
        except Exception as error:
            sentence = words(message_of(error))
        else:
            sentence = "it was taken for a model"
        assert os.path.basename(path) in sentence or trial.entry.name == "rknn", sentence


def it_prepares_models_if_its_row_says_so(trial: Trial) -> None:
    """The prepared file is in a folder that is named by the digest."""
    prepared = trial.prepared()
    assert (prepared is not None) == trial.entry.prepares
    if prepared is not None:
        assert os.path.isfile(prepared)
        assert "digest-" in os.path.relpath(prepared, trial.folder)


# Inferences


def its_outputs_are_the_same_every_time(trial: Trial) -> None:
    """Another load has the same outputs, they are not all zeros, and CRC-32 is their checksum."""
    context = trial.load()
    first = _outputs(context)
    assert any(set(output) != {0} for output in first)
    assert _outputs(context) == first
    assert context.checksum() == zlib.crc32(b"".join(first))
    assert [output.c_contiguous for output in context.outputs()] == [True] * len(first)
    assert _outputs(trial.load()) == first


def it_reads_the_picture_before_each_inference(trial: Trial) -> None:
    """Its memory does not move, has the declared form, and belongs to one context alone."""
    for way in _WAYS:
        context = trial.source(Memory(zero_copy=way))
        other = trial.runtime.dup(context, Memory(zero_copy=way))
        noise = _outputs(context)
        assert _outputs(other) == noise
        image = context.image_input()
        address = _address(image.memory)
        rows = image.height * (image.channels if image.layout == "nchw" else 1)
        assert image.layout in ("nchw", "nhwc")
        assert image.channels in (1, 3)
        assert image.memory.itemsize == 1
        assert image.pitch_bytes * (rows - 1) < image.memory.nbytes <= image.pitch_bytes * rows
        original = bytes(image.memory)

        _write_picture(context, 0)
        zeros = _outputs(context)
        assert zeros != noise
        assert _outputs(other) == noise
        image.memory[:] = original
        assert _outputs(context) == noise
        assert _address(context.image_input().memory) == address


def it_feeds_values_and_files(trial: Trial) -> None:
    """An input of zeros and a file of zeros are the same, and are not noise."""
    tensor = trial.runtime.interface(trial.files.model).inputs[0]
    path = os.path.join(trial.folder, "zeros.npy")
    np.save(path, np.zeros(tensor.shape, tensor.type))
    outputs = []
    for fed in (
        InputData(tensor.name, tensor.type, tensor.shape, value=0),
        InputData(tensor.name, tensor.type, tensor.shape, file=path),
        InputData(tensor.name, tensor.type, tensor.shape),
    ):
        context = trial.runtime.load(trial.files.model, None, Memory(), {tensor.name: fed})
        outputs.append(_outputs(context))
    zeros, file, noise = outputs
    assert zeros == file != noise == _outputs(trial.load())


def its_contexts_infer_on_several_threads_at_once(trial: Trial) -> None:
    """Contexts over the same weights, each with its own picture, do not disturb each other."""
    source = trial.source()
    contexts = [source, trial.runtime.dup(source, Memory()), trial.runtime.dup(source, Memory())]
    if trial.has("shared_context"):
        contexts.append(trial.runtime.shared_context(source, Memory()))
    expected = []
    for number, context in enumerate(contexts):
        context.infer()
        _write_picture(context, 60 + number)
        expected.append(_outputs(context))
    assert len(set(map(tuple, expected))) == len(contexts)
    seen: List[List[List[bytes]]] = [[] for _ in contexts]

    def infer(number: int) -> None:
        for _ in range(_INFERENCES_PER_THREAD):
            seen[number].append(_outputs(contexts[number]))

    threads = [threading.Thread(target=infer, args=(number,)) for number in range(len(contexts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, outputs in enumerate(expected):
        assert seen[number] == [outputs] * _INFERENCES_PER_THREAD


# Sharing


def its_outputs_do_not_depend_on_sharing(trial: Trial) -> None:
    """All mechanisms, with and without shared internal memory, and all ways to move tensors."""
    expected = _outputs(trial.load())
    numbers = (None, 0) if trial.has("internal_reuse") else (None,)
    for way, internal in itertools.product(_WAYS, numbers):
        contexts = trial.sharing(Memory(zero_copy=way, internal=internal))
        for name, context in 3 * list(contexts.items()):
            assert _outputs(context) == expected, (name, way, internal)
        for context in reversed(list(contexts.values())):
            context.destroy()


def it_shares_weights_with_another_resolution(trial: Trial) -> None:
    """Outputs equal those of a plain load; other weights are refused."""
    if trial.files.resized is None or trial.files.other is None:
        return
    if not trial.has("shared_weights"):
        path, source = trial.files.resized, trial.source()
        code = _code_of_refusal(lambda: trial.runtime.share_weights(path, source, Memory()))
        assert code == trial.reason("shared_weights")
        return
    resized, other = trial.files.resized, trial.files.other
    source = trial.source()
    context = trial.runtime.share_weights(trial.prepared(resized) or resized, source, Memory())
    assert _outputs(context) == _outputs(trial.runtime.load(resized, None, Memory()))
    assert _outputs(source) == _outputs(trial.load()) != _outputs(context)
    path = trial.prepared(other) or other
    _code_of_refusal(lambda: trial.runtime.share_weights(path, source, Memory()))


def it_shares_internal_memory_by_number(trial: Trial) -> None:
    """Contexts of several models that run in turn, one of which joins the others last."""
    memory = Memory(internal=5)
    if not trial.has("internal_reuse"):
        assert _code_of_refusal(lambda: trial.load(memory)) == trial.reason("internal_reuse")
        return
    models = [trial.files.model, trial.files.resized or trial.files.model, trial.files.model]
    contexts = [trial.runtime.load(model, None, memory) for model in models]
    trial.runtime.share_internal(contexts)
    expected = [_outputs(trial.runtime.load(model, None, Memory())) for model in models]
    assert [_outputs(context) for context in contexts + contexts] == expected + expected
    late = trial.runtime.load(models[0], None, memory)
    trial.runtime.join_internal(late, contexts[0])
    assert _outputs(late) == expected[0]
    assert [_outputs(context) for context in contexts] == expected


def its_contexts_go_in_any_order(trial: Trial) -> None:
    """Those that remain infer as before; one that is gone holds and returns nothing."""
    expected = _outputs(trial.load())
    memory = Memory(internal=2 if trial.has("internal_reuse") else None, zero_copy=("output",))
    for order in itertools.permutations(range(3)):
        source = trial.source(memory)
        contexts = [source, trial.runtime.dup(source, memory), trial.load(memory)]
        trial.runtime.share_internal(contexts)
        assert [_outputs(context) for context in contexts] == [expected] * 3
        for position, index in enumerate(order):
            contexts[index].destroy()
            for remaining in order[position + 1 :]:
                assert _outputs(contexts[remaining]) == expected, order
        assert [context.allocations() for context in contexts] == [[]] * 3
        assert [len(context.outputs()) for context in contexts] == [0] * 3


# Tensors


def it_copies_nothing_in_place(trial: Trial) -> None:
    """Tensors in place are not copied; the others are copied a whole number of times."""
    plain = trial.load()
    output_bytes = sum(map(len, _outputs(plain)))
    for way in _WAYS:
        context = trial.load(Memory(zero_copy=way))
        for _ in range(2):
            context.infer()
        copies = context.copies()
        if "input" in way:
            assert copies.input_bytes == 0
        if "output" in way:
            assert copies.output_bytes == 0
        assert copies.output_bytes % output_bytes == 0
        kinds = {allocation.kind for allocation in context.allocations()} - {"internal"}
        assert kinds <= set(way)
        assert ("input" in kinds) == ("input" in way and trial.takes_tensors)


def its_contexts_share_tensors_by_number(trial: Trial) -> None:
    """Contexts of one number have one picture, which the first one lists."""
    memory = Memory(zero_copy=("input", "output"), io=5)
    if not trial.takes_tensors:
        _code_of_refusal(lambda: trial.source(memory))
        return
    source = trial.source(memory)
    contexts = [source, trial.runtime.dup(source, memory)]
    contexts.append(trial.runtime.dup(source, replace(memory, io=6)))
    expected = _outputs(trial.load())
    assert [_outputs(context) for context in contexts] == [expected] * 3
    first, second, own = (_address(context.image_input().memory) for context in contexts)
    assert first == second != own
    listed = [[item for item in one.allocations() if item.kind == "input"] for one in contexts]
    assert [len(items) for items in listed] == [1, 0, 1]
    assert listed[0][0].asked_bytes == listed[2][0].asked_bytes


def it_renews_tensors(trial: Trial) -> None:
    """Inferences after it have noise in their input again, in new memory."""
    for way in _WAYS:
        context = trial.load(Memory(zero_copy=way))
        expected = _outputs(context)
        _write_picture(context, 0)
        context.renew_io()
        assert [_outputs(context) for _ in range(2)] == [expected] * 2


# Refusals


def it_lacks_what_its_row_says(trial: Trial) -> None:
    """Mechanisms in the row are refused, for the row's reason; all others work."""
    path = trial.prepared()

    def load(memory: Memory) -> RuntimeContext:
        return trial.runtime.load(trial.files.model, path, memory)

    attempts: Dict[str, Callable[[], RuntimeContext]] = {
        "shared_context": lambda: trial.runtime.shared_context(trial.load(), Memory()),
        "external_weights": lambda: load(Memory(outside=("weights",))),
        "external_internal": lambda: load(Memory(outside=("internal",))),
        "external_memory": lambda: load(Memory(outside=("weights", "internal"))),
        "device_io": lambda: load(Memory(device_io=True)),
    }
    for scenario, attempt in attempts.items():
        if trial.has(scenario):
            context = attempt()
            assert _outputs(context), scenario
        else:
            assert _code_of_refusal(attempt) == trial.reason(scenario)


def it_has_the_options_of_its_row_alone(trial: Trial) -> None:
    """Contexts infer with each; an unknown name, or value, is refused by name."""
    for option in trial.entry.options:
        context = trial.load(Memory(options=(option,)))
        assert len(_outputs(context)) == len(_outputs(trial.load())), option
        name = option.partition("=")[0]
        if "." not in name:  # entries of ONNX Runtime have any text for a value
            code = _code_of_option(trial, f"{name}=unheard-of")
            assert code in ("option_value", "option_refused"), option
    for option in ("no_such=option", "no.such=option", "memory.no_such=option"):
        assert _code_of_option(trial, option) == "unknown_option"


def its_account_is_in_bytes(trial: Trial) -> None:
    """Its account has whole numbers by component, or is empty."""
    context = trial.load()
    context.infer()
    for component, size in context.account().items():
        assert component.endswith("_bytes")
        assert isinstance(size, int)
        assert size >= 0


#: All functions of this module whose names begin with the adapter.
CONTRACT: Dict[str, Callable[[Trial], None]] = {
    name: function for name, function in list(globals().items()) if name.startswith(("it_", "its_"))
}


def main(name: str, files: str) -> None:
    """Run the contract on a runtime that this interpreter can import, and print the failures."""
    runtime = open_runtime(name)
    failures: Dict[str, Optional[str]] = {}
    for clause, function in CONTRACT.items():
        failures[clause] = None
        with tempfile.TemporaryDirectory() as folder:
            trial = Trial(find_runtime(name), runtime, Files(**json.loads(files)), folder)
            try:
                function(trial)
            except Exception:
                failures[clause] = traceback.format_exc()
    print(json.dumps(failures))


if __name__ == "__main__":
    main(*sys.argv[1:])
