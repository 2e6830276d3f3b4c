"""The attributes of a model's tensors, the shapes that it allows, and its interface."""

from __future__ import annotations

from typing import List, Sequence, Tuple, Union

from reusebench.measured.runtimes.base import AdapterError, DeclaredTensor, Inputs, Interface
from reusebench.measured.runtimes.rknn.abi import (
    FORMAT_NHWC,
    QUERY_CURRENT_INPUT_ATTR,
    QUERY_CURRENT_NATIVE_INPUT_ATTR,
    QUERY_CURRENT_NATIVE_OUTPUT_ATTR,
    QUERY_CURRENT_OUTPUT_ATTR,
    QUERY_INPUT_ATTR,
    QUERY_NATIVE_INPUT_ATTR,
    QUERY_NATIVE_OUTPUT_ATTR,
    QUERY_OUTPUT_ATTR,
    TYPE_BFLOAT16,
    TYPE_FLOAT16,
    TYPE_FLOAT32,
    TYPE_INT8,
    TYPE_INT16,
    TYPE_UINT8,
    TYPES,
    TensorAttr,
)
from reusebench.measured.runtimes.rknn.binding import Binding

__all__ = [
    "Attributes",
    "Shapes",
    "allowed_shapes",
    "declared_interface",
    "interface_of",
    "is_picture",
    "is_quantised",
    "is_real",
    "name_of",
    "set_shapes",
]

#: Shapes of all inputs, in their order.
Shapes = Tuple[Tuple[int, ...], ...]

_IMAGE_DIMENSIONS = 4
_IMAGE_CHANNELS = (1, 3, 4)


class Attributes:
    """The attributes of a context's tensors; with dynamic shapes, for the shapes that are set."""

    def __init__(self, binding: Binding, context: int, is_dynamic: bool) -> None:
        self._binding = binding
        self._context = context
        self._is_dynamic = is_dynamic

    def inputs(self, *, native: bool = False) -> List[TensorAttr]:
        """Return the attributes of all inputs; `native`: as the NPU reads them."""
        if self._is_dynamic:
            command = QUERY_CURRENT_NATIVE_INPUT_ATTR if native else QUERY_CURRENT_INPUT_ATTR
        else:
            command = QUERY_NATIVE_INPUT_ATTR if native else QUERY_INPUT_ATTR
        count = self._binding.numbers(self._context).n_input
        return self._all(command, count)

    def outputs(self, *, native: bool = False) -> List[TensorAttr]:
        """Return the attributes of all outputs; `native`: as the NPU writes them."""
        if self._is_dynamic:
            command = QUERY_CURRENT_NATIVE_OUTPUT_ATTR if native else QUERY_CURRENT_OUTPUT_ATTR
        else:
            command = QUERY_NATIVE_OUTPUT_ATTR if native else QUERY_OUTPUT_ATTR
        count = self._binding.numbers(self._context).n_output
        return self._all(command, count)

    def _all(self, command: int, count: int) -> List[TensorAttr]:
        return [self._binding.attribute(self._context, command, index) for index in range(count)]


def interface_of(binding: Binding, context: int) -> Interface:
    """Return the inputs as the application feeds them, and the outputs."""
    attributes = Attributes(binding, context, is_dynamic=False)
    shapes = allowed_shapes(binding, context)
    return declared_interface(attributes.inputs(), attributes.outputs(), shapes)


def declared_interface(
    inputs: Sequence[TensorAttr], outputs: Sequence[TensorAttr], shapes: Tuple[Shapes, ...]
) -> Interface:
    """Return the interface with these attributes, and the shapes that the model allows."""
    declared_inputs = []
    for number, attribute in enumerate(inputs):
        variants = [combination[number] for combination in shapes]
        declared_inputs.append(_declared_input(attribute, variants or [_dimensions(attribute)]))
    declared_outputs = tuple(_declared(attribute) for attribute in outputs)
    return Interface(tuple(declared_inputs), declared_outputs, {}, shapes)


def allowed_shapes(binding: Binding, context: int) -> Tuple[Shapes, ...]:
    """Return the shapes that a model with dynamic shapes allows, the largest first; else nothing.

    The order is the library's.
    """
    count = binding.numbers(context).n_input
    try:
        ranges = [binding.input_range(context, index) for index in range(count)]
    except AdapterError:
        # The library's way of saying that there are none; before 1.5.0, and in the mini runtime, it
        # does not know them.
        return ()
    combinations = []
    shape_count = min((of_input.shape_number for of_input in ranges), default=0)
    for number in range(shape_count):
        shapes = []
        for of_input in ranges:
            sizes = of_input.dyn_range[number][: of_input.n_dims]
            shapes.append(tuple(sizes))
        combinations.append(tuple(shapes))
    return tuple(combinations)


def set_shapes(binding: Binding, context: int, inputs: Inputs) -> bool:
    """Set the inputs' shapes if the model has dynamic shapes; return whether it has.

    Unless they are set, rknn_run aborts.
    """
    shapes = allowed_shapes(binding, context)
    if not shapes:
        return False
    default = shapes[0]
    inputs_now = Attributes(binding, context, is_dynamic=False).inputs()
    attributes = (TensorAttr * len(default))(*inputs_now)
    for attribute, shape in zip(attributes, default):
        data = inputs.get(name_of(attribute))
        attribute.dims[: len(shape)] = data.shape if data else shape
    binding.set_input_shapes(context, attributes)
    return True


def is_picture(attribute: TensorAttr) -> bool:
    """Whether the input takes 8-bit pixels, which the library scales and quantises."""
    if attribute.n_dims != _IMAGE_DIMENSIONS or attribute.dims[3] not in _IMAGE_CHANNELS:
        return False
    if attribute.fmt != FORMAT_NHWC:
        return False
    return is_real(attribute) or attribute.type == TYPE_UINT8


def is_real(attribute: TensorAttr) -> bool:
    """Whether the model takes real numbers, also quantised ones."""
    return attribute.type in (TYPE_FLOAT32, TYPE_FLOAT16, TYPE_BFLOAT16) or is_quantised(attribute)


def is_quantised(attribute: TensorAttr) -> bool:
    """Whether elements stand for other numbers; indices and masks have scale 1 or, on mini, 0."""
    has_scale = attribute.zp != 0 or attribute.scale not in (0.0, 1.0)
    return has_scale and attribute.type in (TYPE_INT8, TYPE_UINT8, TYPE_INT16)


def _declared(attribute: TensorAttr) -> DeclaredTensor:
    return DeclaredTensor(name_of(attribute), TYPES[attribute.type], _dimensions(attribute))


def _declared_input(attribute: TensorAttr, variants: List[Tuple[int, ...]]) -> DeclaredTensor:
    """Return the input with the application's type; sizes that differ between variants are free."""
    dimensions: List[Union[int, str]] = []
    for sizes in zip(*variants):
        is_fixed = len(set(sizes)) == 1
        dimensions.append(sizes[0] if is_fixed else "")
    tensor = _declared(attribute)._replace(dimensions=tuple(dimensions))
    if attribute.fmt == FORMAT_NHWC and attribute.n_dims == _IMAGE_DIMENSIONS:
        tensor = tensor._replace(layout="nhwc")
    if is_picture(attribute):
        return tensor._replace(type=TYPES[TYPE_UINT8], also=(TYPES[TYPE_FLOAT32],))
    if is_real(attribute):
        return tensor._replace(type=TYPES[TYPE_FLOAT32])
    return tensor


def _dimensions(attribute: TensorAttr) -> Tuple[int, ...]:
    return tuple(attribute.dims[: attribute.n_dims])


def name_of(attribute: TensorAttr) -> str:
    """Return the tensor's name."""
    return str(attribute.name.decode(errors="replace"))
