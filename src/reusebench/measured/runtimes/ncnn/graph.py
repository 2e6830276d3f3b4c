"""The graph of a .param file: its layers, inputs and outputs. Standard library only; nothing runs.

The text is `7767517`, the counts of layers and blobs, and a line for each layer: type, name, counts
of its bottoms and tops, their names, and parameters as `id=value`, or
`-23300-id=count,value,value...` for an array.
"""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, NamedTuple, Sequence, Set, Tuple, Union

from reusebench.measured.runtimes.base import AdapterError, DeclaredTensor, Interface

__all__ = ["Graph", "NcnnLayer", "read_graph", "weights_of"]

_MAGIC = "7767517"
#: Largest .param file: it has a line for each layer, so a larger file is something else.
_LARGEST_BYTES = 16 * 2**20
#: Most steps in the search for the layers that read an input, some 100 ns each.
_MOST_STEPS = 10_000_000
#: Names that pnnx gives to inputs and outputs.
_NUMBERED = re.compile(r"(?:in|out)(\d{1,9})")
#: Whole numbers of 32 bits, as ncnn reads them.
_WHOLE = re.compile(r"-?\d{1,10}")
_PARAMETER = re.compile(r"-?\d+=[^=\s]*")
#: Parameters of the layer Input for the sizes of a tensor, from the outermost: channels, depth,
#: height, width.
_SIZES = (2, 11, 1, 0)
#: Parameters of layers that multiply by weights: outputs, width and height of the kernel, number of
#: weights.
_OUTPUTS = 0
_KERNEL_WIDTH = 1
_KERNEL_HEIGHT = 11
_WEIGHTS = 6
_PRODUCT_WEIGHTS = 2


class NcnnLayer(NamedTuple):
    """A line of the file."""

    type: str
    name: str
    bottoms: Tuple[str, ...]
    tops: Tuple[str, ...]
    #: Values as they are written, by the parameter's number.
    parameters: Dict[int, str]

    def number(self, parameter: int, default: int = 0) -> int:
        """Return a parameter that is a whole number; the default if it is none."""
        text = self.parameters.get(parameter, "")
        return int(text) if _WHOLE.fullmatch(text) else default


class Graph(NamedTuple):
    """The layers, in the order in which they run."""

    layers: Tuple[NcnnLayer, ...]

    @property
    def inputs(self) -> List[str]:
        """The names of the inputs, in the order of the model that pnnx converted."""
        return _ordered([layer.tops[0] for layer in self.layers if layer.type == "Input"])

    @property
    def outputs(self) -> List[str]:
        """The blobs that no layer reads; if some are numbered, the others are dead ends.

        An input that no layer reads is no output.
        """
        read: Set[str] = set()
        for layer in self.layers:
            read.update(layer.bottoms)

        unread = []
        for layer in self.layers:
            if layer.type == "Input":
                continue
            unread += [top for top in layer.tops if top not in read]
        numbered = [name for name in unread if _NUMBERED.fullmatch(name)]
        return _ordered(numbered or unread)

    def readers(self, blob: str) -> Iterator[NcnnLayer]:
        """Yield the layers that read a blob, also those behind layers that only split it."""
        blobs = {blob}  # layers follow those that they read; a damaged file may have others
        for layer in self.layers:
            if blobs.isdisjoint(layer.bottoms):
                continue
            if layer.type == "Split":
                blobs.update(layer.tops)
            else:
                yield layer

    @property
    def interface(self) -> Interface:
        """The inputs and outputs; a leading 1 stands for the batch, and outputs have no shape."""
        order = {name: number for number, name in enumerate(self.inputs)}
        inputs = [self._input(layer) for layer in self.layers if layer.type == "Input"]
        inputs.sort(key=lambda tensor: order[tensor.name])
        outputs = [DeclaredTensor(name, "float32", ()) for name in self.outputs]
        return Interface(tuple(inputs), tuple(outputs), {})

    def without_sizes(self) -> Tuple[NcnnLayer, ...]:
        """Return the layers without the sizes of inputs: equal for all resolutions of a network."""
        layers = []
        for layer in self.layers:
            if layer.type == "Input":
                layer = layer._replace(parameters={})
            layers.append(layer)
        return tuple(layers)

    def _input(self, layer: NcnnLayer) -> DeclaredTensor:
        name = layer.tops[0]
        readers = list(self.readers(name))
        is_index = any(reader.type == "Embed" for reader in readers)
        kind = "int32" if is_index else "float32"

        sizes = [layer.number(parameter) for parameter in _SIZES]
        given = [size for size in sizes if size > 0]
        if given:
            return DeclaredTensor(name, kind, (1, *given))
        return DeclaredTensor(name, kind, _dimensions_for(readers))


def read_graph(path: str) -> Graph:
    """Return the graph of a .param file; raise AdapterError if it is none, or is cut short."""
    with open(path, "rb") as file:
        text = file.read(_LARGEST_BYTES + 1).decode("utf-8", "replace")
    lines = text.splitlines()
    if len(text) > _LARGEST_BYTES or len(lines) < 3 or lines[0].strip() != _MAGIC:
        raise AdapterError("ncnn_param_unreadable", model=path)
    try:
        layer_count, blob_count = map(int, lines[1].split())
        layers = [_layer(line) for line in lines[2:] if line.strip()]
    except (ValueError, IndexError):
        raise AdapterError("ncnn_param_unreadable", model=path) from None

    is_whole = len(layers) == layer_count and _is_closed(layers, blob_count)
    inputs = sum(layer.type == "Input" for layer in layers)
    if not is_whole or inputs * len(layers) > _MOST_STEPS:
        raise AdapterError("ncnn_param_unreadable", model=path)
    return Graph(tuple(layers))


def _is_closed(layers: Sequence[NcnnLayer], blob_count: int) -> bool:
    """Whether the layers make each blob once, and read no others."""
    tops: List[str] = []
    for layer in layers:
        tops += layer.tops
    made = set(tops)
    if not len(tops) == len(made) == blob_count:
        return False
    return all(made.issuperset(layer.bottoms) for layer in layers)


def weights_of(param: str) -> str:
    """Return the path of the weights, beside the .param file."""
    return f"{param[: -len('.param')]}.bin"


def _layer(line: str) -> NcnnLayer:
    kind, name, *rest = line.split()
    bottoms = int(rest[0])
    tops = int(rest[1])
    names = rest[2 : 2 + bottoms + tops]
    texts = rest[2 + bottoms + tops :]
    is_input_without_top = kind == "Input" and tops != 1
    if min(bottoms, tops) < 0 or len(names) < bottoms + tops or is_input_without_top:
        raise ValueError(line)
    parameters = {}
    for text in texts:
        if not _PARAMETER.fullmatch(text):
            raise ValueError(line)
        number, _, value = text.partition("=")
        parameters[int(number)] = value
    return NcnnLayer(kind, name, tuple(names[:bottoms]), tuple(names[bottoms:]), parameters)


def _ordered(names: Sequence[str]) -> List[str]:
    """Return the names in the order of their numbers if all have one; otherwise as they are."""
    matches = [_NUMBERED.fullmatch(name) for name in names]
    numbers = {match.group(): int(match.group(1)) for match in matches if match}
    if len(numbers) < len(names):
        return list(names)
    return sorted(names, key=numbers.__getitem__)


def _dimensions_for(readers: Sequence[NcnnLayer]) -> Tuple[Union[int, str], ...]:
    """Return the dimensions of an input without sizes, by its readers; () if they are unknown."""
    for layer in readers:
        if layer.type == "Embed":
            return (1, "tokens")
        if layer.type == "Convolution":
            width = layer.number(_KERNEL_WIDTH)
            taps = layer.number(_OUTPUTS) * width * layer.number(_KERNEL_HEIGHT, width)
            channels = layer.number(_WEIGHTS) // taps if taps > 0 else 0
            return (1, channels or "channels", "height", "width")
        if layer.type == "InnerProduct" and layer.number(_OUTPUTS) > 0:
            return (1, layer.number(_PRODUCT_WEIGHTS) // layer.number(_OUTPUTS))
    return ()
