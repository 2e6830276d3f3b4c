"""How the inputs of a module get in and its outputs out: variables (MNN.expr.Var), whose memory
numpy sees in place.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from MNN import expr

from reusebench.measured.runtimes.arrays import Arrays, as_buffer, filled, image_in
from reusebench.measured.runtimes.base import (
    AdapterError,
    Allocation,
    Copies,
    DeclaredTensor,
    ImageInput,
    InputData,
    Inputs,
    NotSupported,
)

__all__ = ["MnnTensors", "Signature", "fed_inputs", "signature_of"]

#: What numpy calls the types of variables that Python can write.
_TYPES = {expr.float: "float32", expr.int: "int32", expr.uint8: "uint8"}


class Signature(NamedTuple):
    """What the modules of a file take and give."""

    inputs: Tuple[DeclaredTensor, ...]
    #: By the name of the input: how MNN orders its elements, and their type, in MNN's words.
    orders: Dict[str, Any]
    types: Dict[str, Any]
    #: Their names; the file shows no sizes.
    outputs: Tuple[str, ...]
    #: Of the converter; "" where the file does not say.
    version: str

    @property
    def packed(self) -> List[str]:
        """The inputs that are in the order of vectors, as those that Caffe's models are converted
        to.
        """
        return [name for name, order in self.orders.items() if order == expr.NC4HW4]

    def check_plain(self) -> None:
        """Raise NotSupported where inputs are in no order of the application."""
        for name in self.packed:
            raise NotSupported("mnn_packed", tensor=name)


def signature_of(module: Any) -> Signature:
    """Return it; once for each file, since Module.get_info() never frees the variables that
    describe the inputs.
    """
    info = module.get_info()
    inputs = dict(zip(info["inputNames"], info["inputs"]))
    return Signature(
        tuple(_declared(name, variable) for name, variable in inputs.items()),
        {name: variable.data_format for name, variable in inputs.items()},
        {name: variable.dtype for name, variable in inputs.items()},
        tuple(info["outputNames"]),
        info["version"],
    )


def _declared(name: str, variable: Any) -> DeclaredTensor:
    kind = _TYPES.get(variable.dtype, str(variable.dtype).rpartition(".")[2])
    return DeclaredTensor(name, kind, tuple(size if size >= 0 else "" for size in variable.shape))


def fed_inputs(tensors: Sequence[DeclaredTensor], inputs: Inputs) -> List[InputData]:
    """Return what each input is fed with, in the order of the model; raise NotSupported where
    Python cannot feed it.
    """
    for tensor in tensors:
        if tensor.type not in _TYPES.values():
            raise NotSupported("mnn_input_type", tensor=tensor.name, type=tensor.type)
    return [
        inputs.get(tensor.name) or InputData(tensor.name, tensor.type, tensor.shape)
        for tensor in tensors
    ]


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
        """Make the inputs; `arrays` has the variables of other contexts that it shares, and gets
        those it makes.
        """
        fed = fed_inputs(signature.inputs, inputs)
        self._module = module
        self._signature = signature
        self._in_place = "input" in zero_copy
        self._output_in_place = "output" in zero_copy
        if self._in_place:
            signature.check_plain()
        #: Whether no other context has made them.
        self._are_own = not any(tensor.name in arrays for tensor in fed)
        self._inputs: Dict[str, Any] = {}
        #: The application's arrays that each inference copies, by the name of the input.
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
        """Run; the outputs of the inference before are let go first, or MNN would allocate others
        beside them.
        """
        self._outputs = []
        for name, array in self._copied.items():
            self._inputs[name].write(array)
        packed = {
            name: expr.convert(self._inputs[name], expr.NC4HW4) for name in self._signature.packed
        }
        outputs = self._module.forward(list({**self._inputs, **packed}.values()))
        if not outputs:
            raise AdapterError("mnn_inference_failed")
        self._converted_bytes = 0
        for name, output in zip(self._signature.outputs, outputs):
            if output.data_format == expr.NC4HW4:
                if self._output_in_place:
                    raise NotSupported("mnn_packed", tensor=name)
                output = expr.convert(output, expr.NCHW)
                self._converted_bytes += output.read().nbytes
            self._outputs.append(output)

    def views(self) -> List[memoryview]:
        """Return the outputs where MNN left them: until the next run, for as long as the variables
        are held.
        """
        return [as_buffer(output.read()) for output in self._outputs]

    def copies(self) -> Copies:
        """Return the inputs that are written into variables, and what is turned into the order of
        vectors or back.
        """
        written = [*self._copied.values(), *(self._copied[name] for name in self._signature.packed)]
        return Copies(sum(array.nbytes for array in written), self._converted_bytes)

    def image_input(self) -> ImageInput:
        """Return the application's array, or the memory of the variable."""
        arrays = (
            self._copied.values()
            if self._copied
            else [variable.read() for variable in self._inputs.values()]
        )
        return image_in(arrays)

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
    variable = expr.placeholder(
        list(tensor.shape), expr.NCHW if order == expr.NC4HW4 else order, kind
    )
    variable.write(filled(tensor).astype(_TYPES[kind], copy=False))
    return variable
