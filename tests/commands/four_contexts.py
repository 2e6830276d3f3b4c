"""A program on librknnrt that knows nothing of reuse: four_contexts.py MODEL."""

import ctypes
import sys
from pathlib import Path

from reusebench.measured.runtimes.rknn.abi import (
    QUERY_IN_OUT_NUM,
    QUERY_INPUT_ATTR,
    InputOutputNumber,
    RknnInput,
    RknnOutput,
    TensorAttr,
)

_FLOAT32 = 0

library = ctypes.CDLL("librknnrt.so")
model = Path(sys.argv[1]).read_bytes()
contexts = []
for _ in range(4):
    contexts.append(ctypes.c_uint64())
    assert library.rknn_init(ctypes.byref(contexts[-1]), model, len(model), 0, None) == 0
for context in contexts:
    count = InputOutputNumber()
    size = ctypes.sizeof(count)
    assert library.rknn_query(context, QUERY_IN_OUT_NUM, ctypes.byref(count), size) == 0
    for index in range(count.n_input):
        attribute = TensorAttr(index=index)
        size = ctypes.sizeof(attribute)
        assert library.rknn_query(context, QUERY_INPUT_ATTR, ctypes.byref(attribute), size) == 0
        values = (ctypes.c_float * attribute.n_elems)()
        given = RknnInput(index, ctypes.addressof(values), ctypes.sizeof(values), 0, _FLOAT32)
        given.fmt = attribute.fmt
        assert library.rknn_inputs_set(context, 1, ctypes.byref(given)) == 0
    assert library.rknn_run(context, None) == 0
    outputs = (RknnOutput * count.n_output)()
    for index, output in enumerate(outputs):
        output.index, output.want_float = index, 1
    assert library.rknn_outputs_get(context, len(outputs), outputs, None) == 0
    assert library.rknn_outputs_release(context, len(outputs), outputs) == 0
for context in contexts:
    assert library.rknn_destroy(context) == 0
