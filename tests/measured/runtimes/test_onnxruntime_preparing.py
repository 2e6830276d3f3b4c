"""Models that ONNX Runtime's adapter prepares, and the order of their nodes."""

from __future__ import annotations

import json
import os
import signal
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from reusebench.measured.messages import Message
from reusebench.measured.runtimes.base import (
    NO_INPUTS,
    Memory,
    NodeOrder,
    NotSupported,
    RuntimeContext,
)
from reusebench.measured.runtimes.onnxruntime.adapter import OnnxContext
from reusebench.measured.runtimes.onnxruntime.graph import SavedGraph
from reusebench.measured.runtimes.onnxruntime.options import as_prepared, plain_options
from reusebench.measured.runtimes.onnxruntime.orders import candidate_orders
from reusebench.measured.runtimes.onnxruntime.preparing import Runner, prepare
from reusebench.targets.measured_process import prepare_models
from reusebench.targets.target import THIS_INTERPRETER
from tests.helpers.support import TIME_LIMIT_S, known, models_of

pytestmark = pytest.mark.process

_FLOAT = onnx.TensorProto.FLOAT
_NONE: dict[str, Any] = {}
_PICTURE = [1, 16, 64, 64]
_BRANCHES = 6
_WIDE = 32
#: Bytes of a wide tensor.
_WIDE_BYTES = _WIDE * 64 * 64 * 4


def _save(
    path: Path,
    nodes: list[Any],
    outputs: dict[str, list[int]],
    weights: Mapping[str, Any] = _NONE,
) -> Path:
    """Write a model of one input, `x`."""
    graph = onnx.helper.make_graph(
        nodes,
        "graph",
        [onnx.helper.make_tensor_value_info("x", _FLOAT, _PICTURE)],
        [
            onnx.helper.make_tensor_value_info(name, _FLOAT, shape)
            for name, shape in outputs.items()
        ],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = onnx.helper.make_model(
        graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 13)]
    )
    onnx.save(model, str(path))
    return path


@pytest.fixture(scope="module")
def branches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model of wide branches with narrow ends, which is large if all are begun at once.

    Each branch is an output of its own, and ONNX Runtime saves them in an order that differs from
    process to process.
    """
    node = onnx.helper.make_node
    random = np.random.default_rng(1)
    nodes = []
    weights = {}
    for branch in range(_BRANCHES):
        names = [f"{name}{branch}" for name in ("wide", "rectified", "narrow", "y")]
        weights[f"w{branch}"] = random.standard_normal((_WIDE, 16, 3, 3), dtype=np.float32)
        weights[f"v{branch}"] = random.standard_normal((16, _WIDE, 3, 3), dtype=np.float32)
        nodes += [
            node("Conv", ["x", f"w{branch}"], [names[0]], pads=[1] * 4),
            node("Sigmoid", [names[0]], [names[1]]),
            node("Conv", [names[1], f"v{branch}"], [names[2]], strides=[8, 8]),
            node("Sigmoid", [names[2]], [names[3]]),
        ]
    outputs = {f"y{branch}": [1, 16, 8, 8] for branch in range(_BRANCHES)}
    return _save(tmp_path_factory.mktemp("branches") / "branches.onnx", nodes, outputs, weights)


def _context(session: Any) -> RuntimeContext:
    return OnnxContext(session, "", Memory(), NO_INPUTS, shared=False)


def _open_session(model: str, options: Any) -> Any:
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


_RUNNER = Runner(_open_session, _context, lambda: None)


def _prepare(model: Path, folder: Path, runner: Runner = _RUNNER) -> tuple[Path, NodeOrder]:
    preparation = prepare(str(model), str(folder), runner)
    return Path(preparation.path), known(preparation.node_order)


def _level_by_level(sources: Sequence[Sequence[int]]) -> list[int]:
    """Return the nodes so that all branches advance together."""
    depths: list[int] = []
    for of_node in sources:
        depths.append(1 + max((depths[source] for source in of_node), default=0))
    return sorted(range(len(sources)), key=lambda node: depths[node])


def _outputs(path: Path, options: Any) -> list[bytes]:
    context = _context(_open_session(str(path), options))
    context.infer()
    return [bytes(output) for output in context.outputs()]


def test_equal_models_give_equal_files(branches: Path, tmp_path: Path) -> None:
    """They do in every process, whatever addresses it has."""
    (model,) = models_of(branches)
    contents = []
    for name in "abc":
        made = prepare_models(
            THIS_INTERPRETER,
            "onnxruntime",
            [model],
            tmp_path / name,
            TIME_LIMIT_S,
        )
        assert isinstance(made, dict)
        folder = Path(known(made[model.digest]).path).parent
        contents.append({file.name: file.read_bytes() for file in folder.iterdir()})
    assert set(contents[0]) == {"model.onnx", "weights.bin", "weights.json"}
    assert contents[1:] == contents[:1] * 2


def test_layouts_of_kernels_that_crash(branches: Path, tmp_path: Path) -> None:
    """They are saved with the weights only if that file runs."""
    saved: list[str] = []

    def open_session(model: str, options: Any) -> Any:
        if options.optimized_model_filepath:
            saved.append(
                options.get_session_config_entry(
                    "session.save_external_prepacked_constant_initializers"
                )
            )
        elif saved[-1:] == ["1"]:
            os._exit(1)
        return _open_session(model, options)

    prepared, found = _prepare(
        branches, tmp_path / "prepared", _RUNNER._replace(open_session=open_session)
    )
    assert saved == ["1", "0"]
    assert found.reason is None
    assert _outputs(prepared, as_prepared(plain_options())) == _outputs(branches, plain_options())


def test_the_order_that_takes_the_least(
    branches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found whichever is tried first, and its outputs are those of the model, bit for bit."""
    folder = tmp_path / "prepared"
    prepared, found = _prepare(branches, folder)
    assert (found.tried > 2, found.reason) == (True, None)
    assert _outputs(prepared, as_prepared(plain_options())) == _outputs(branches, plain_options())
    files = []
    for turn in (1, -1):
        # Wide tensors live one at a time, or all at once.
        def orders(
            sources: Sequence[Sequence[int]], *more: Sequence[int], turn: int = turn
        ) -> list[list[int]]:
            both = [next(candidate_orders(sources, *more)), _level_by_level(sources)]
            return both[::turn]

        monkeypatch.setattr(
            "reusebench.measured.runtimes.onnxruntime.trials.candidate_orders", orders
        )
        prepared, found = _prepare(branches, folder)
        assert (found.tried, found.reason) == (2, None)
        assert known(found.chosen_bytes) < _BRANCHES * _WIDE_BYTES
        files.append(prepared.read_bytes())
    assert files[0] == files[1]


def test_nodes_run_in_the_order_of_the_file(branches: Path, tmp_path: Path) -> None:
    """They do not run in the order that ONNX Runtime chooses itself."""
    prepared, _ = _prepare(branches, tmp_path / "prepared")
    graph = SavedGraph(str(prepared))
    graph.write(str(prepared), _level_by_level(graph.sources))
    expected = [node.name for node in onnx.load(str(prepared), load_external_data=False).graph.node]
    assert expected != graph.names
    options = as_prepared(plain_options())
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = _open_session(str(prepared), options)
    _context(session).infer()
    events = json.loads(Path(session.end_profiling()).read_text())
    suffix = "_kernel_time"
    assert [
        event["name"][: -len(suffix)] for event in events if event["name"].endswith(suffix)
    ] == expected


def test_bodies_of_control_flow(tmp_path: Path) -> None:
    """A node comes before the node whose body reads its tensor, and the outputs stay."""
    helper = onnx.helper
    read_outside = helper.make_node("Mul", ["late", "late"], ["product"])
    squared = helper.make_graph(
        [read_outside],
        "then",
        [],
        [helper.make_tensor_value_info("product", _FLOAT, None)],
    )
    negative = helper.make_node("Neg", ["x"], ["negated"])
    negated = helper.make_graph(
        [negative],
        "else",
        [],
        [helper.make_tensor_value_info("negated", _FLOAT, None)],
    )
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["largest"], keepdims=0),
        helper.make_node("Cast", ["largest"], ["condition"], to=onnx.TensorProto.BOOL),
        helper.make_node("Exp", ["x"], ["late"]),
        helper.make_node("If", ["condition"], ["y"], then_branch=squared, else_branch=negated),
    ]
    model = _save(tmp_path / "if.onnx", nodes, {"y": _PICTURE})
    prepared, found = _prepare(model, tmp_path / "prepared")
    assert found.reason is None
    assert _outputs(prepared, as_prepared(plain_options())) == _outputs(model, plain_options())
    names = SavedGraph(str(prepared)).names
    assert [name.partition("_")[0] for name in names] == ["ReduceMax", "Cast", "Exp", "If"]


class _NeverTheSame(OnnxContext):
    """A context whose outputs differ in each process."""

    def checksum(self) -> int:
        """Return a number that no other process returns."""
        return os.getpid()


class _OfItsModel(OnnxContext):
    """A context whose outputs are those of the path of its model."""

    def checksum(self) -> int:
        """Return a number of the path."""
        return zlib.crc32(self.model.encode())


@pytest.mark.parametrize(
    ("kind", "code"),
    [(_OfItsModel, "onnx_order_outputs_differ"), (_NeverTheSame, "onnx_order_outputs_vary")],
)
def test_an_order_with_other_outputs(
    branches: Path, tmp_path: Path, kind: type[OnnxContext], code: str
) -> None:
    """None is chosen; the reason says whether the model itself has other outputs each time."""
    opened = [""]

    def open_session(model: str, options: Any) -> Any:
        opened[0] = model
        return _RUNNER.open_session(model, options)

    def context_of(session: Any) -> OnnxContext:
        return kind(session, opened[0], Memory(), NO_INPUTS, shared=False)

    runner = _RUNNER._replace(open_session=open_session, context_of=context_of)
    prepared, found = _prepare(branches, tmp_path / "prepared", runner)
    assert (found.chosen_bytes, found.reason) == (None, Message(code))
    assert _outputs(prepared, as_prepared(plain_options())) == _outputs(branches, plain_options())


def _refuse(_: Any) -> RuntimeContext:
    raise NotSupported("onnx_cpu_device_io")


def _fail(_: Any) -> RuntimeContext:
    raise ValueError("of some kind")


def _die(_: Any) -> RuntimeContext:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


@pytest.mark.parametrize(
    ("context_of", "reason"),
    [
        (_refuse, Message("onnx_cpu_device_io")),
        (_fail, Message("exception", {"type": "ValueError", "text": "of some kind"})),
        (_die, Message("text", {"text": "wait status 9"})),
    ],
)
def test_a_model_that_cannot_be_run(
    branches: Path,
    tmp_path: Path,
    context_of: Callable[[Any], RuntimeContext],
    reason: Message,
) -> None:
    """The model is prepared all the same, in the same order every time, with the reason."""
    files = []
    for name in "ab":
        prepared, found = _prepare(
            branches, tmp_path / name, _RUNNER._replace(context_of=context_of)
        )
        assert found == NodeOrder(reason=Message("onnx_order_not_tried", {"reason": reason}))
        files.append(prepared.read_bytes())
    assert files[0] == files[1]
    assert _outputs(prepared, as_prepared(plain_options())) == _outputs(branches, plain_options())


def test_without_the_package_onnx(
    branches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order stays as it was saved, with the reason, and the model runs."""
    monkeypatch.setitem(sys.modules, "reusebench.measured.runtimes.onnxruntime.graph", None)
    prepared, found = _prepare(branches, tmp_path / "prepared")
    assert found == NodeOrder(reason=Message("onnx_order_needs_onnx"))
    assert not prepared.with_name("weights.json").exists()
    assert _outputs(prepared, as_prepared(plain_options())) == _outputs(branches, plain_options())


def test_that_it_goes_on_is_said_before_each_run(branches: Path, tmp_path: Path) -> None:
    """So a model that takes long is not mistaken for one that hangs."""
    said = []
    _, found = _prepare(
        branches, tmp_path / "prepared", _RUNNER._replace(alive=lambda: said.append("alive"))
    )
    assert len(said) == 3 + found.tried
