"""What an OpenVINO model is, wherever it comes from: a digest of its graph and of its weights.

The digest is of the model as it is now, so a change since it was read is in it: other shapes,
preprocessing, changed nodes.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
from typing import Any, Iterator, NamedTuple

from reusebench_hooks import hashing
from reusebench_hooks.model_files import LeftAlone

#: Operators whose outputs depend on former runs of the compiled model.
_RANDOM = frozenset(("RandomUniform", "Multinomial"))
_STATE = frozenset(("ReadValue", "Assign"))
#: Operators with graphs of their own, whose weights the digest would not have.
_NESTED = frozenset(("If", "Loop", "TensorIterator"))
#: Operators by whose names a program finds inputs and outputs.
_NAMED_BY_PROGRAM = frozenset(("Parameter", "Result"))
_LAYER = re.compile(
    rb'<layer id="(?P<id>\d+)" name="(?P<name>[^"]*)" type="(?P<type>[^"]*)"'
    rb' version="(?P<version>[^"]*)"'
)
_STANDARD = re.compile(rb"opset\d+")
#: A name that OpenVINO made up: type and a number, which differs each time a file is read.
_MADE_UP = re.compile(rb"[A-Za-z0-9]+_\d+")
#: Places in the file of weights, which is not written.
_PLACE = re.compile(rb' offset="-?\d+"')


class Identity(NamedTuple):
    """What equal models have in common."""

    digest: str
    #: For the report: the name that the model has, and the beginning of the digest.
    name: str


class _Lock:
    """The lock of those who read a graph: two threads that did so at once stopped for ever."""

    def __init__(self) -> None:
        self._restart()
        os.register_at_fork(after_in_child=self._restart)

    def _restart(self) -> None:
        self.held = threading.Lock()


_LOCK = _Lock()


def identity_of(openvino: Any, model: Any) -> Identity:
    """Return the identity of an openvino.Model; raise LeftAlone if it cannot be shared."""
    with _LOCK.held:
        return _identity_of(openvino, model)


def _identity_of(openvino: Any, model: Any) -> Identity:
    operators = model.get_ordered_ops()
    kinds = {operator.get_type_name() for operator in operators}
    if kinds & _RANDOM:
        raise LeftAlone("random_operators")
    if kinds & _STATE:
        raise LeftAlone("keeps_state")
    if kinds & _NESTED:
        raise LeftAlone("nested_graphs")

    digest = hashing.new(_graph(openvino, model))
    for operator in operators:
        digest.update(repr(sorted(_marks(operator))).encode())
        if operator.get_type_name() == "Constant":
            digest.update(_bytes_of(operator.data))
    text = digest.hexdigest()
    return Identity(text, f"{model.get_friendly_name()} {text[:8]}")


def _graph(openvino: Any, model: Any) -> bytes:
    """Return the graph without its weights, and without the names that OpenVINO made up."""
    with tempfile.TemporaryDirectory(prefix="reusebench-") as folder:
        path = os.path.join(folder, "model.xml")
        openvino.serialize(model, path, os.devnull)
        with open(path, "rb") as file:
            text = file.read()
    return _LAYER.sub(_without_made_up_name, _PLACE.sub(b"", text))


def _without_made_up_name(layer: re.Match[bytes]) -> bytes:
    if not _STANDARD.fullmatch(layer["version"]):
        raise LeftAlone("custom_operators")
    kind = layer["type"].decode()
    if kind in _NAMED_BY_PROGRAM or not _MADE_UP.fullmatch(layer["name"]):
        return layer[0]
    return b'<layer id="%s" type="%s" version="%s"' % (
        layer["id"],
        layer["type"],
        layer["version"],
    )


def _marks(operator: Any) -> Iterator[str]:
    """Yield what is noted on an operator for the compiler, of which the graph lacks a part."""
    for name, value in operator.get_rt_info().items():
        try:
            plain = value.value
        except TypeError:  # a type of the library's own
            plain = None
        yield f"{name}={plain}" if isinstance(plain, (str, int, float)) else name


def _bytes_of(array: Any) -> Any:
    """Return the content of an array, in place if possible."""
    if array.flags.c_contiguous and array.nbytes and array.dtype.kind not in "OSU":
        return memoryview(array.reshape(-1).view("u1"))
    return array.tobytes()
