"""The tensors of an infer request: copied by infer(), or the application's arrays in place."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

import numpy as np
import openvino as ov

from reusebench.measured.runtimes.arrays import Arrays, as_buffer, filled, image_in, numpy_type
from reusebench.measured.runtimes.base import (
    BFLOAT16,
    Allocation,
    Copies,
    DeclaredTensor,
    ImageInput,
    InputData,
    Inputs,
    data_for,
)

__all__ = ["TYPES", "OpenVinoTensors", "declared", "fed_inputs"]

#: Types of elements, by OpenVINO's names. Text is left out: a scalar of text crashes OpenVINO
#: 2026.4.
TYPES = {
    "f32": "float32",
    "f64": "float64",
    "f16": "float16",
    "bf16": BFLOAT16,
    "boolean": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
}

_NO_NAMES: Mapping[Tuple[str, int], str] = {}


def declared(port: Any, names: Mapping[Tuple[str, int], str] = _NO_NAMES) -> DeclaredTensor:
    """Return an input or output as the model declares it; `names` has names of free sizes.

    A tensor of unknown rank looks like a scalar.
    """
    name = port.get_any_name() if port.get_names() else port.get_node().get_friendly_name()
    shape = port.get_partial_shape()
    sizes: List[Any] = []
    rank = shape.rank.get_length() if shape.rank.is_static else 0
    for index in range(rank):
        size = shape.get_dimension(index)
        if size.is_static:
            sizes.append(size.get_length())
        else:
            sizes.append(names.get((name, index), ""))
    kind = port.get_element_type().get_type_name()
    return DeclaredTensor(name, TYPES.get(kind, kind), tuple(sizes))


def fed_inputs(model: Any, inputs: Inputs) -> Tuple[InputData, ...]:
    """Return the data of each input of a model."""
    return tuple(data_for(declared(port), inputs) for port in model.inputs)


class OpenVinoTensors:
    """The application's arrays of one context, and the infer request that reads and writes them."""

    def __init__(self, fed: Sequence[InputData], zero_copy: Sequence[str], arrays: Arrays) -> None:
        """`arrays` may come from other contexts, and gets what is missing."""
        self._fed = tuple(fed)
        self._input_stays = "input" in zero_copy
        self._output_stays = "output" in zero_copy
        self._request: Any = None
        #: Outputs of the last inference.
        self._outputs: List[Any] = []
        self._use(arrays)

    def open(self, compiled: Any) -> None:
        """Infer with a request of this compiled model from now on."""
        self._request = compiled.create_infer_request()
        self._bind()

    def renew(self) -> None:
        """Replace the arrays by new ones, with the same request."""
        self._use({})
        self._bind()

    def _use(self, arrays: Arrays) -> None:
        self._arrays = arrays
        #: Keys of the arrays that another context made.
        self._shared = set(arrays)
        self._inputs = []
        for number, tensor in enumerate(self._fed):
            key = f"input {number}"
            if key not in arrays:
                arrays[key] = filled(tensor)
            self._inputs.append(arrays[key])

    def _bind(self) -> None:
        """Have the request use the arrays in place, but outputs of free sizes only when they are
        known.
        """
        self._outputs = []
        if self._input_stays:
            for number, (tensor, array) in enumerate(zip(self._fed, self._inputs)):
                self._request.set_input_tensor(number, _tensor_over(array, tensor.type))
        else:
            self._own_inputs()
        ports = self._request.model_outputs
        if self._output_stays and all(port.get_partial_shape().is_static for port in ports):
            self._place([declared(port).shape for port in ports])

    def _own_inputs(self) -> None:
        """Have the graph read inputs of free sizes from the request's own tensors.

        Otherwise OpenVINO 2026.4 copies them to where the last request had them, which may be an
        array in place of another context.
        """
        for number, port in enumerate(self._request.model_inputs):
            if port.get_partial_shape().is_dynamic:
                self._request.set_input_tensor(number, self._request.get_input_tensor(number))

    def close(self) -> None:
        """Drop the request, with the tensors that it holds."""
        self._request = None
        self._outputs = []

    def infer(self) -> None:
        """Run; the first run shows the free sizes of outputs in place, which get arrays then."""
        if not self._output_stays:
            # Dropped first, so that the next outputs take their memory.
            self._outputs = []
        returned = self._request.infer(self._copied(), share_outputs=self._output_stays)
        results = list(returned.values())
        if not self._output_stays:
            self._outputs = results
        elif not self._outputs:
            self._place([result.shape for result in results])
            for array, result in zip(self._outputs, results):
                array[...] = result.view(array.dtype)

    def _copied(self) -> Dict[int, Any]:
        """Return the arrays that infer() copies into the request's tensors, by input number."""
        if self._input_stays:
            return {}
        fed = {}
        for number, (tensor, array) in enumerate(zip(self._fed, self._inputs)):
            if tensor.type == BFLOAT16:
                array = _tensor_over(array, tensor.type)
            fed[number] = array
        return fed

    def _place(self, shapes: Sequence[Sequence[int]]) -> None:
        """Have the request write outputs of these shapes into the application's arrays."""
        for number, (port, shape) in enumerate(zip(self._request.model_outputs, shapes)):
            kind = declared(port).type
            array = self._arrays.setdefault(f"output {number}", np.empty(shape, numpy_type(kind)))
            self._outputs.append(array)
            self._request.set_output_tensor(number, _tensor_over(array, kind))

    def views(self) -> List[memoryview]:
        """Return the bytes of the outputs of the last inference."""
        return [as_buffer(output) for output in self._outputs]

    def image_input(self) -> ImageInput:
        """Return the array of the first input that is a picture; every inference reads it."""
        return image_in(self._inputs)

    def copies(self) -> Copies:
        """Return the bytes that infer() copies into and out of the request's tensors."""
        input_bytes = 0 if self._input_stays else _size_bytes(self._inputs)
        output_bytes = 0 if self._output_stays else _size_bytes(self._outputs)
        return Copies(input_bytes, output_bytes)

    def allocations(self) -> List[Allocation]:
        """Return the arrays in place, unless another context made them."""
        allocations = []
        for key, array in self._arrays.items():
            kind = key.split()[0]
            stays = self._input_stays if kind == "input" else self._output_stays
            if stays and key not in self._shared:
                allocations.append(Allocation(kind, array.nbytes, 0))
        return allocations


def _tensor_over(array: Any, kind: str) -> Any:
    """Return a tensor over the array's memory."""
    if kind == BFLOAT16:
        return ov.Tensor(array, array.shape, ov.Type.bf16)
    return ov.Tensor(array, shared_memory=True)


def _size_bytes(arrays: Iterable[Any]) -> int:
    return sum(array.nbytes for array in arrays)
