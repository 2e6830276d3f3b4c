"""The inputs and outputs of a module: variables (MNN.expr.Var), which numpy sees in place."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from MNN import expr

from reusebench.measured.runtimes.arrays import Arrays, as_buffer, filled, image_in
from reusebench.measured.runtimes.base import (
    Allocation,
    Copies,
    DeclaredTensor,
    ImageInput,
    InputData,
    Inputs,
    NotSupported,
    data_for,
)
from reusebench.measured.runtimes.mnn.failures import inference_error

__all__ = ["MnnTensors", "Signature", "fed_inputs", "signature_of"]

#: numpy's names for the types of variables that Python can write.
_TYPES = {expr.float: "float32", expr.int: "int32", expr.uint8: "uint8"}


class Signature(NamedTuple):
    """The tensors that the modules of a file take and give."""

    inputs: Tuple[DeclaredTensor, ...]
    #: Order of the elements of each input, by its name, in MNN's words.
    orders: Dict[str, Any]
    types: Dict[str, Any]
    #: Names of the outputs, whose sizes the file does not show.
    outputs: Tuple[str, ...]
    #: Version of the converter; "" if the file does not say.
    version: str

    @property
    def packed(self) -> List[str]:
        """The inputs that are in the order of vectors, as in models converted from Caffe."""
        return [name for name, order in self.orders.items() if order == expr.NC4HW4]

    def check_plain(self) -> None:
        """Raise NotSupported if an input is in the order of vectors, which no application has."""
        for name in self.packed:
            raise NotSupported("mnn_packed", tensor=name)


def signature_of(module: Any) -> Signature:
    """Return a module's signature; call it once per file, as Module.get_info() leaks variables."""
    info = module.get_info()
    inputs = dict(zip(info["inputNames"], info["inputs"]))
    return Signature(
        inputs=tuple(_declared(name, variable) for name, variable in inputs.items()),
        orders={name: variable.data_format for name, variable in inputs.items()},
        types={name: variable.dtype for name, variable in inputs.items()},
        outputs=tuple(info["outputNames"]),
        version=info["version"],
    )


def _declared(name: str, variable: Any) -> DeclaredTensor:
    kind = _TYPES.get(variable.dtype, str(variable.dtype).rpartition(".")[2])
    dimensions = tuple(size if size >= 0 else "" for size in variable.shape)
    return DeclaredTensor(name, kind, dimensions)


def fed_inputs(tensors: Sequence[DeclaredTensor], inputs: Inputs) -> List[InputData]:
    """Return the data of each input; raise NotSupported if Python cannot write its type."""
    for tensor in tensors:
        if tensor.type not in _TYPES.values():
            raise NotSupported("mnn_input_type", tensor=tensor.name, type=tensor.type)
    return [data_for(tensor, inputs) for tensor in tensors]


class MnnTensors:
    """The inputs and outputs of one module."""

    def __init__(
        self,
        module: Any,
        signature: Signature,
        inputs: Inputs,
        zero_copy: Sequence[str],
        arrays: Arrays,
    ) -> None:
        """`arrays` may have the variables of other contexts, and gets what is missing."""
        fed = fed_inputs(signature.inputs, inputs)
        self._module = module
        self._signature = signature
        self._in_place = "input" in zero_copy
        self._output_in_place = "output" in zero_copy
        if self._in_place:
            signature.check_plain()
        #: Whether no other context made the variables.
        self._are_own = not any(tensor.name in arrays for tensor in fed)
        self._inputs: Dict[str, Any] = {}
        #: Arrays of the application that each inference copies, by the name of the input.
        self._copied: Dict[str, Any] = {}
        for tensor in fed:
            if tensor.name not in arrays:
                arrays[tensor.name] = _variable(tensor, signature)
            self._inputs[tensor.name] = arrays[tensor.name]
            if not self._in_place:
                self._copied[tensor.name] = arrays[tensor.name].read().copy()
        self._outputs: List[Any] = []
        self._converted_bytes = 0

    def run(self) -> None:
        """Run; the last outputs are dropped first, or MNN would allocate others beside them."""
        self._outputs = []
        for name, array in self._copied.items():
            self._inputs[name].write(array)
        inputs = dict(self._inputs)
        for name in self._signature.packed:
            inputs[name] = expr.convert(inputs[name], expr.NC4HW4)
        outputs = self._module.forward(list(inputs.values()))
        if not outputs:
            raise inference_error()
        self._converted_bytes = 0
        for name, output in zip(self._signature.outputs, outputs):
            if output.data_format == expr.NC4HW4:
                if self._output_in_place:
                    raise NotSupported("mnn_packed", tensor=name)
                output = expr.convert(output, expr.NCHW)
                self._converted_bytes += output.read().nbytes
            self._outputs.append(output)

    def views(self) -> List[memoryview]:
        """Return the outputs where MNN left them; they stay there until the next run."""
        return [as_buffer(output.read()) for output in self._outputs]

    def copies(self) -> Copies:
        """Return inputs written into variables, and tensors converted to or from the order of
        vectors.
        """
        written_bytes = sum(array.nbytes for array in self._copied.values())
        for name in self._signature.packed:
            written_bytes += self._copied[name].nbytes
        return Copies(written_bytes, self._converted_bytes)

    def image_input(self) -> ImageInput:
        """Return the application's array, or the memory of the variable."""
        if self._copied:
            return image_in(self._copied.values())
        return image_in(variable.read() for variable in self._inputs.values())

    def allocations(self) -> List[Allocation]:
        """Return the variables that the application writes in place."""
        if not (self._in_place and self._are_own):
            return []
        return [
            Allocation("input", variable.read().nbytes, 0) for variable in self._inputs.values()
        ]


def _variable(tensor: InputData, signature: Signature) -> Any:
    """Return a variable with the elements of the input, in its own memory."""
    order = signature.orders[tensor.name]
    kind = signature.types[tensor.name]
    if order == expr.NC4HW4:
        order = expr.NCHW
    variable = expr.placeholder(list(tensor.shape), order, kind)
    variable.write(filled(tensor).astype(_TYPES[kind], copy=False))
    return variable
