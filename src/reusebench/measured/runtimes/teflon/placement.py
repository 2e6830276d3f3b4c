"""Which operators of a model a delegate has taken, as LiteRT's interpreter tells it.

A delegate's partition is a node that LiteRT adds behind the nodes of the file, and it writes
tensors that nodes of the file write, too. Nothing here knows Mesa's operators or the delegate's
name.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Set

import numpy as np

from reusebench.measured.runtimes.base import Placement

__all__ = ["Delegation"]


class _Node(NamedTuple):
    """An operator of the file, or a partition of a delegate."""

    name: str
    inputs: Set[int]
    outputs: Set[int]


class Delegation:
    """The parts of an interpreter that its delegate has taken.

    Made right after the interpreter: as soon as it allocates its tensors, LiteRT's own delegate for
    the CPU adds partitions, too.
    """

    def __init__(self, interpreter: Any) -> None:
        self._operators: List[_Node] = []
        self._partitions: List[_Node] = []
        #: Operator that writes a tensor, by the tensor's number.
        self._writers: Dict[int, _Node] = {}
        for details in interpreter._get_ops_details():  # there is no public way to them
            sides = (set(map(int, details[side])) - {-1} for side in ("inputs", "outputs"))
            node = _Node(details["op_name"], *sides)
            if node.outputs and node.outputs <= self._writers.keys():
                self._partitions.append(node)
            else:
                self._operators.append(node)
                self._writers.update(dict.fromkeys(node.outputs, node))
        self._members = [self._members_of(partition) for partition in self._partitions]

    def written(self) -> Set[int]:
        """Return the numbers of the tensors that operators in partitions write."""
        numbers: Set[int] = set()
        for members in self._members:
            numbers.update(*(node.outputs for node in members))
        return numbers

    def placement(self, interpreter: Any) -> Placement:
        """Return which operators are where, and the size of the tensors between them."""
        on_npu = [node for members in self._members for node in members]
        on_cpu = [node for node in self._operators if node not in on_npu]
        sizes = {tensor["index"]: _bytes_of(tensor) for tensor in interpreter.get_tensor_details()}
        crossing_bytes = sum(sizes[number] for number in self._crossing())
        partitions = len(self._partitions)
        return Placement(_counted(on_npu), _counted(on_cpu), partitions, crossing_bytes)

    def _crossing(self) -> Set[int]:
        """Return the numbers of the tensors between partitions, and between them and the CPU."""
        numbers: Set[int] = set()
        for partition, members in zip(self._partitions, self._members):
            numbers |= partition.inputs & self._writers.keys()
            for node in self._operators:
                if node not in members:
                    numbers |= partition.outputs & node.inputs
        return numbers

    def _members_of(self, partition: _Node) -> List[_Node]:
        """Return the operators of a partition: those between its inputs and its outputs."""
        members: List[_Node] = []
        tensors = list(partition.outputs)
        while tensors:
            node = self._writers[tensors.pop()]
            if node not in members:
                members.append(node)
                tensors += (node.inputs - partition.inputs) & self._writers.keys()
        return members


def _counted(operators: List[_Node]) -> Dict[str, int]:
    counts: Dict[str, int] = {}
    for operator in operators:
        counts[operator.name] = counts.get(operator.name, 0) + 1
    return counts


def _bytes_of(tensor: Any) -> int:
    elements = int(np.prod(tensor["shape"], dtype=np.int64))
    return elements * int(np.dtype(tensor["dtype"]).itemsize)
