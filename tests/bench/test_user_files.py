"""Files that options name, and cached ones, stay as they were during a session."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from reusebench.models.built_files import ensure
from reusebench.models.litert.environment import ONNX2TF
from reusebench.models.recipe import Recipe
from tests.bench.bench_process import Bench
from tests.helpers.support import Reusebench

pytest.importorskip("ai_edge_litert")

#: The user's own cache, read before the session has a cache of its own.
_FOLDER = ONNX2TF.folder()

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not ONNX2TF.installed(),
        reason=f"{_FOLDER} is not there: run `reusebench models install onnx2tf` to test it",
    ),
]

_SHAPE = (1, 3, 32, 32)


def _save(folder: Path) -> tuple[Path, Path]:
    """Write a read-only model with its weights in a folder beside it, and data for its input."""
    weights = np.random.RandomState(0).rand(4, 3, 3, 3).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "weights"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, _SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "weights")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (folder / "parts").mkdir(parents=True)
    path = folder / "model.onnx"
    data = folder / "data.npz"
    onnx.save(
        model, path, save_as_external_data=True, location="parts/weights.data", size_threshold=0
    )
    np.savez(data, x=np.random.RandomState(1).rand(*_SHAPE).astype(np.float32))
    for file in (path, data, folder / "parts" / "weights.data"):
        file.chmod(0o444)
    return path, data


def _digests(*folders: Path) -> dict[Path, str]:
    digests = {}
    for folder in folders:
        for file in folder.rglob("*"):
            if file.is_file():
                digests[file] = hashlib.sha256(file.read_bytes()).hexdigest()
    return digests


def test_no_file_of_the_user_or_of_the_cache_changes(
    bench: Bench, reusebench: Reusebench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's model with external data is converted for LiteRT and measured, then a built-in
    network is converted.
    """
    cache = bench.folder / "cache"
    user = bench.folder / "user"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    ONNX2TF.folder().parent.mkdir(parents=True)
    ONNX2TF.folder().symlink_to(_FOLDER)
    path, data = _save(user)
    network = ensure(Recipe("tiny", 64, 1))
    models = network.parent
    before = _digests(user, models)
    chosen = ("--runtime=litert", "bench/test_dup.py", "-k", "full_dup and not internal")
    done = bench.run(*chosen, "--model", path, "--inputs", data, cache=cache)
    assert done.code == 0, done.words
    assert set(done.outcomes().values()) == {"ok"}
    size = ("--height", 64, "--seed", 1)
    ended = reusebench("models", "build", "tiny", *size, "--runtime", "litert")
    assert ended.exit_code == 0, ended.err
    after = _digests(user, models)
    assert {file: after[file] for file in before} == before
    assert len([file for file in after if file.suffix == ".tflite"]) == 2
