"""A program on librknnrt that knows nothing of reuse, and prints all that it is told.

inference.py MODEL... loads each model three times, as bytes and by its path, and duplicates the
first context itself. Addresses and times are not printed; nor are outputs, since the virtual board
computes only what runs on the CPU.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

from reusebench.measured.runtimes.rknn.abi import (
    InputOutputNumber,
    InputRange,
    MemSize,
    RknnInput,
    RknnOutput,
    SdkVersion,
    TensorAttr,
)

_IN_OUT_NUM, _INPUT_ATTR, _MEM_SIZE = 0, 1, 6
_FLOAT32 = 0
#: Commands of rknn_query with an index of an input or output; the library crashes at others.
_OF_INPUTS, _OF_OUTPUTS = (1, 8, 10), (2, 9, 11)
#: The other commands: their answers are of these sizes, or as long as that of a tensor.
_SIZES = {
    _IN_OUT_NUM: ctypes.sizeof(InputOutputNumber),
    5: ctypes.sizeof(SdkVersion),
    _MEM_SIZE: ctypes.sizeof(MemSize),
    7: 1024,
    13: ctypes.sizeof(InputRange),
}
#: Answers with addresses and times.
_CHANGING = (3, 4)
_LAST_COMMAND = 17

library = ctypes.CDLL("librknnrt.so")


def check(what: str, code: int) -> None:
    """Print the result of a call."""
    print(what, code)


def load(path: str, is_by_path: bool, flags: int) -> ctypes.c_uint64:
    """Return a new context."""
    context = ctypes.c_uint64()
    content = path.encode() if is_by_path else Path(path).read_bytes()
    size = 0 if is_by_path else len(content)
    check("init", library.rknn_init(ctypes.byref(context), content, size, flags, None))
    check("set_core_mask", library.rknn_set_core_mask(context, 1 << flags // 2))
    return context


def query(context: ctypes.c_uint64, command: int, index: int, size: int) -> None:
    """Print an answer, with what is behind it."""
    answer = ctypes.create_string_buffer(b"\x55" * (size + 16))
    ctypes.memmove(answer, index.to_bytes(4, "little"), 4)
    code = library.rknn_query(context, command, answer, size)
    digest = int.from_bytes(answer.raw, "little") % (2**61 - 1)
    print("query", command, index, size, code, None if command in _CHANGING else digest)


def number(context: ctypes.c_uint64) -> InputOutputNumber:
    """Return the numbers of inputs and outputs."""
    found = InputOutputNumber()
    library.rknn_query(context, _IN_OUT_NUM, ctypes.byref(found), ctypes.sizeof(found))
    return found


def query_all(context: ctypes.c_uint64) -> None:
    """Print all answers, and that of memory for every size that a program may give."""
    tensors = number(context)
    for command in range(_LAST_COMMAND + 1):
        count = 1
        if command in _OF_INPUTS:
            count = tensors.n_input
        elif command in _OF_OUTPUTS:
            count = tensors.n_output
        for index in range(count):
            query(context, command, index, _SIZES.get(command, ctypes.sizeof(TensorAttr)))
    for size in range(4, 76, 4):
        query(context, _MEM_SIZE, 0, size)


def run(context: ctypes.c_uint64) -> None:
    """Run once, with copied inputs and outputs."""
    tensors = number(context)
    for index in range(tensors.n_input):
        attribute = TensorAttr(index=index)
        size = ctypes.sizeof(attribute)
        library.rknn_query(context, _INPUT_ATTR, ctypes.byref(attribute), size)
        values = (ctypes.c_float * attribute.n_elems)()
        given = RknnInput(
            index=index,
            buf=ctypes.addressof(values),
            size=ctypes.sizeof(values),
            type=_FLOAT32,
            fmt=attribute.fmt,
        )
        check("inputs_set", library.rknn_inputs_set(context, 1, ctypes.byref(given)))
    check("run", library.rknn_run(context, None))
    outputs = (RknnOutput * tensors.n_output)()
    for index, output in enumerate(outputs):
        output.index, output.want_float = index, 1
    check("outputs_get", library.rknn_outputs_get(context, len(outputs), outputs, None))
    check("outputs_release", library.rknn_outputs_release(context, len(outputs), outputs))


contexts = []
for path in sys.argv[1:]:
    contexts += [load(path, False, 0), load(path, True, 0), load(path, False, 2)]
duplicate = ctypes.c_uint64()
check("dup", library.rknn_dup_context(ctypes.byref(contexts[0]), ctypes.byref(duplicate)))
contexts.append(duplicate)
for context in contexts:
    query_all(context)
    run(context)
    query(context, _MEM_SIZE, 0, ctypes.sizeof(MemSize))
# The first context made the memory in which others run.
for place, context in enumerate(contexts):
    check("destroy", library.rknn_destroy(context))
    for later in contexts[place + 1 :]:
        run(later)
