"""A graph that ONNX Runtime saved, in a form that every save has, and in any order of its nodes.

ONNX Runtime 1.31 walks tables of addresses when it optimises. So the nodes of the same model are
saved in another order, and with other names, from process to process. Tensors and weights have the
same names each time.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, Sequence

import onnx

from reusebench.measured.runtimes.onnxruntime.orders import depth_first

__all__ = ["SavedGraph"]


class SavedGraph:
    """A saved model, its nodes numbered and named in the order of a depth-first walk."""

    def __init__(self, path: str) -> None:
        self._model = onnx.load(path, load_external_data=False)
        _sort(self._model.graph)
        for number, node in enumerate(_all_nodes(self._model.graph)):
            node.name = f"{node.op_type}_{number}"
        self._nodes = list(self._model.graph.node)

    @property
    def names(self) -> List[str]:
        """The names of the nodes, which are unique, also among the bodies of control flow."""
        return [node.name for node in self._nodes]

    @property
    def sources(self) -> List[List[int]]:
        """For each node, the nodes whose tensors it reads, in the order of reading."""
        return _sources(self._nodes)

    @property
    def results(self) -> List[int]:
        """The nodes that make the model's outputs, in the order of the outputs."""
        return _results(self._model.graph)

    def weights(self) -> Iterator[onnx.TensorProto]:
        """Yield the tensors that are in the weights' file."""
        return (tensor for tensor in self._model.graph.initializer if tensor.external_data)

    def write(self, path: str, order: Sequence[int]) -> None:
        """Write the model with its nodes in this order, to a path in the folder of its weights."""
        del self._model.graph.node[:]
        self._model.graph.node.extend(self._nodes[number] for number in order)
        with open(path, "wb") as file:
            file.write(self._model.SerializeToString(deterministic=True))


def _sort(graph: onnx.GraphProto) -> None:
    """Put the nodes of the graph and of its bodies into the order of a depth-first walk."""
    nodes = list(graph.node)
    for node in nodes:
        for body in _bodies(node):
            _sort(body)
    order = depth_first(_sources(nodes), _results(graph))
    del graph.node[:]
    graph.node.extend(nodes[number] for number in order)


def _sources(nodes: Sequence[onnx.NodeProto]) -> List[List[int]]:
    maker = _makers(nodes)
    sources = []
    for node in nodes:
        read = [maker[name] for name in _names_read(node) if name in maker]
        sources.append(list(dict.fromkeys(read)))
    return sources


def _results(graph: onnx.GraphProto) -> List[int]:
    maker = _makers(graph.node)
    results = [maker[value.name] for value in graph.output if value.name in maker]
    return list(dict.fromkeys(results))


def _makers(nodes: Sequence[onnx.NodeProto]) -> Dict[str, int]:
    """Return the number of the node that makes each tensor, by the tensor's name."""
    makers = {}
    for number, node in enumerate(nodes):
        for name in node.output:
            if name:
                makers[name] = number
    return makers


def _names_read(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names that the node reads, and all that its bodies read, including their own."""
    yield from node.input
    for body in _bodies(node):
        for inner in body.node:
            yield from _names_read(inner)
        for value in body.output:
            yield value.name


def _bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs that a node of control flow runs."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of the graph, each followed by those of its bodies."""
    for node in graph.node:
        yield node
        for body in _bodies(node):
            yield from _all_nodes(body)
