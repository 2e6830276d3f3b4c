"""What a model's tensors are: their attributes, the shapes that it allows, and the interface that
follows.
"""

from __future__ import annotations

from typing import List, Sequence, Tuple

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

#: Of all inputs, in their order.
Shapes = Tuple[Tuple[int, ...], ...]

_IMAGE_DIMENSIONS = 4
_IMAGE_CHANNELS = (1, 3, 4)


class Attributes:
    """The attributes of a context's tensors; of dynamic shapes, those of the shapes that are
    set.
    """

    def __init__(self, binding: Binding, context: int, is_dynamic: bool) -> None:
        self._binding = binding
        self._context = context
        self._is_dynamic = is_dynamic

    def inputs(self, *, native: bool = False) -> List[TensorAttr]:
        """Return those of all inputs; `native`: as the NPU reads them."""
        current = QUERY_CURRENT_NATIVE_INPUT_ATTR if native else QUERY_CURRENT_INPUT_ATTR
        plain = QUERY_NATIVE_INPUT_ATTR if native else QUERY_INPUT_ATTR
        return self._all(
            current if self._is_dynamic else plain, self._binding.numbers(self._context).n_input
        )

    def outputs(self, *, native: bool = False) -> List[TensorAttr]:
        """Return those of all outputs; `native`: as the NPU writes them."""
        current = QUERY_CURRENT_NATIVE_OUTPUT_ATTR if native else QUERY_CURRENT_OUTPUT_ATTR
        plain = QUERY_NATIVE_OUTPUT_ATTR if native else QUERY_OUTPUT_ATTR
        return self._all(
            current if self._is_dynamic else plain, self._binding.numbers(self._context).n_output
        )

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
    """Return the same of these attributes, and of the shapes that the model allows."""
    declared = []
    for number, attribute in enumerate(inputs):
        variants = [combination[number] for combination in shapes] or [_dimensions(attribute)]
        declared.append(_declared_input(attribute, variants))
    return Interface(
        tuple(declared), tuple(_declared(attribute) for attribute in outputs), {}, shapes
    )


def allowed_shapes(binding: Binding, context: int) -> Tuple[Shapes, ...]:
    """Return the combinations of a model with dynamic shapes, in the library's order, the largest
    first; else none.
    """
    count = binding.numbers(context).n_input
    try:
        ranges = [binding.input_range(context, index) for index in range(count)]
    except AdapterError:
        # That is how the library says that there are none; one before 1.5.0, and the mini runtime,
        # do not know them.
        return ()
    combinations = []
    for number in range(min((one.shape_number for one in ranges), default=0)):
        combinations.append(tuple(tuple(one.dyn_range[number][: one.n_dims]) for one in ranges))
    return tuple(combinations)


def set_shapes(binding: Binding, context: int, inputs: Inputs) -> bool:
    """Choose the inputs' shapes where the model has dynamic shapes; return whether it has.

    As long as none are chosen, rknn_run aborts.
    """
    shapes = allowed_shapes(binding, context)
    if not shapes:
        return False
    default = shapes[0]
    attributes = (TensorAttr * len(default))(
        *Attributes(binding, context, is_dynamic=False).inputs()
    )
    for attribute, shape in zip(attributes, default):
        data = inputs.get(name_of(attribute))
        attribute.dims[: len(shape)] = data.shape if data else shape
    binding.set_input_shapes(context, attributes)
    return True


def is_picture(attribute: TensorAttr) -> bool:
    """Whether the library takes the input as 8-bit pixels, which it scales and quantises as the
    model was built to.
    """
    has_channels = attribute.n_dims == _IMAGE_DIMENSIONS and attribute.dims[3] in _IMAGE_CHANNELS
    return (
        has_channels
        and attribute.fmt == FORMAT_NHWC
        and (is_real(attribute) or attribute.type == TYPE_UINT8)
    )


def is_real(attribute: TensorAttr) -> bool:
    """Whether the model takes real numbers, be they quantised."""
    return attribute.type in (TYPE_FLOAT32, TYPE_FLOAT16, TYPE_BFLOAT16) or is_quantised(attribute)


def is_quantised(attribute: TensorAttr) -> bool:
    """Whether the elements stand for others; indices and masks have scale 1, or on the mini runtime
    0.
    """
    has_scale = attribute.zp != 0 or attribute.scale not in (0.0, 1.0)
    return has_scale and attribute.type in (TYPE_INT8, TYPE_UINT8, TYPE_INT16)


def _declared(attribute: TensorAttr) -> DeclaredTensor:
    return DeclaredTensor(name_of(attribute), TYPES[attribute.type], _dimensions(attribute))


def _declared_input(attribute: TensorAttr, variants: List[Tuple[int, ...]]) -> DeclaredTensor:
    """Return the input with the type that the application gives; sizes that the variants do not
    share are free.
    """
    sizes = tuple(axis[0] if len(set(axis)) == 1 else "" for axis in zip(*variants))
    tensor = _declared(attribute)._replace(dimensions=sizes)
    if attribute.fmt == FORMAT_NHWC and attribute.n_dims == _IMAGE_DIMENSIONS:
        tensor = tensor._replace(layout="nhwc")
    if is_picture(attribute):
        return tensor._replace(type=TYPES[TYPE_UINT8], also=(TYPES[TYPE_FLOAT32],))
    return tensor._replace(type=TYPES[TYPE_FLOAT32]) if is_real(attribute) else tensor


def _dimensions(attribute: TensorAttr) -> Tuple[int, ...]:
    return tuple(attribute.dims[: attribute.n_dims])


def name_of(attribute: TensorAttr) -> str:
    """Return the tensor's name."""
    return str(attribute.name.decode(errors="replace"))
