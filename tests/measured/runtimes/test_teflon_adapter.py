"""Teflon without a board: the library's file, its device, and the placement of operators."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reusebench.measured.messages import Message
from reusebench.measured.runtimes.base import Placement
from reusebench.measured.runtimes.device_nodes import Node
from reusebench.measured.runtimes.teflon import device, library_file
from reusebench.measured.runtimes.teflon.placement import Delegation

_CONV, _SOFTMAX, _PARTITION = "CONV_2D", "SOFTMAX", "DELEGATE"


class _Interpreter:
    """LiteRT's details of the nodes of an interpreter, whose tensors have 10 bytes each."""

    def __init__(self, *nodes: tuple[str, list[int], list[int]]) -> None:
        self._nodes = nodes

    def _get_ops_details(self) -> list[dict[str, Any]]:
        keys = ("op_name", "inputs", "outputs")
        return [dict(zip(keys, node)) for node in self._nodes]

    def get_tensor_details(self) -> list[dict[str, Any]]:
        shape = np.array([2, 5])
        return [{"index": number, "shape": shape, "dtype": np.int8} for number in range(20)]


@pytest.mark.parametrize(
    ("nodes", "placement"),
    [
        (
            [(_CONV, [0, 1, -1], [2]), (_CONV, [2, 1, -1], [3]), (_PARTITION, [0, 1], [3])],
            Placement({_CONV: 2}, {}, 1, 0),
        ),
        (
            [
                (_CONV, [0, 9], [1]),
                (_SOFTMAX, [1], [2]),
                (_CONV, [2, 9], [3]),
                (_PARTITION, [0, 9], [1]),
                (_PARTITION, [2, 9], [3]),
            ],
            Placement({_CONV: 2}, {_SOFTMAX: 1}, 2, 20),
        ),
        ([(_SOFTMAX, [0], [1])], Placement({}, {_SOFTMAX: 1}, 0, 0)),
    ],
    ids=["all", "some", "none"],
)
def test_placement_follows_from_the_nodes(nodes: Any, placement: Placement) -> None:
    """A partition is known by the tensors that it writes; what is within it crosses nothing."""
    interpreter = _Interpreter(*nodes)
    assert Delegation(interpreter).placement(interpreter) == placement


def test_the_library_is_found_by_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is named precedes all others; its text has Mesa's version."""
    library = tmp_path / "libteflon.so"
    before = b"\x7fELF" + bytes((1 << 16) - 10)  # the version is where two pieces meet
    library.write_bytes(before + b"\x0026.1.6-1~bpo13+1\0" + bytes(100))
    monkeypatch.setenv(library_file.LIBRARY_VARIABLE, str(library))
    assert library_file.find_library() == str(library)
    assert library_file.version_of(str(library)) == "26.1.6-1~bpo13+1"
    library.write_bytes(before)
    assert library_file.version_of(str(library)) is None


@pytest.mark.parametrize(
    ("node", "code"),
    [
        (Node(device.NODE, errno.ENOENT), "teflon_no_node"),
        (Node(device.NODE, errno.EACCES), "rknn_no_permission"),
        (Node(device.NODE), "teflon_no_driver"),
    ],
    ids=["absent", "denied", "unknown"],
)
def test_the_reason_that_there_is_no_delegate(
    node: Node, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no node, this user may not open it, or this Mesa has no driver for it."""
    monkeypatch.setattr(device, "node_of", lambda _path: node)
    assert device.reason("25.0.7-2").code == code


def test_the_remedy_for_a_node_of_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes of accelerators go to the group of systemd's own rules, and not to Rockchip's."""
    denied = Node(device.NODE, errno.EACCES)
    monkeypatch.setattr(device, "node_of", lambda _path: denied)
    remedy = device.reason(None).values["remedy"]
    assert remedy == Message("teflon_udev_rule", {"rule": device.RULE})
