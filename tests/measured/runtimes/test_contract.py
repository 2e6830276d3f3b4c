"""The contract of every runtime's adapter (contract.py), on each runtime that is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from reusebench import models
from reusebench.measured.runtimes import RUNTIMES, RuntimeEntry, available, open_runtime
from reusebench.measured.runtimes.base import Runtime
from reusebench.measured.runtimes.rknn.library_file import LIBRARY_VARIABLE
from reusebench.models.megengine.environment import MEGENGINE
from tests.helpers.support import CHECKOUT
from tests.measured.runtimes.contract import CONTRACT, Files, Trial
from tests.measured.runtimes.example.adapter import open_runtime as open_example

pytestmark = pytest.mark.process

#: The row that RUNTIMES would have if users could choose the example.
_EXAMPLE = RuntimeEntry(
    "example",
    "Example",
    "tests.measured.runtimes.example.adapter",
    "numpy",
    "pip install numpy",
    device="cpu",
    suffixes=(".npz",),
    lacks=(
        ("shared_context", "no_shared_context"),
        ("external_weights", "text"),
        ("external_internal", "text"),
        ("external_memory", "text"),
        ("device_io", "text"),
    ),
)
#: Runtimes that run the contract in a process of their own: MegEngine has its own Python, and
#: Rockchip's library, here its double, is loaded once by a process.
_APART = ("megengine_lite", "rknn")
#: Runtimes of language models have a contract of their own (test_conversations.py).
_ROWS = {entry.name: entry for entry in (*RUNTIMES, _EXAMPLE) if not entry.has_conversations}


@pytest.fixture(scope="module", params=list(_ROWS))
def row(request: pytest.FixtureRequest) -> RuntimeEntry:
    """Return the row of each runtime; skips those that are not installed."""
    entry = _ROWS[request.param]
    if entry.name not in _APART and not available(entry):
        pytest.skip(f"{entry.title} is not installed: {entry.install}")
    if entry.has_own_python and not MEGENGINE.installed():
        pytest.skip(f"{entry.title} is not installed: {entry.install}")
    return entry


@pytest.fixture(scope="module")
def files(
    row: RuntimeEntry, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Files:
    """Return the runtime's models."""
    make = _FILES.get(row.name, _onnx_files)
    return make(request, tmp_path_factory.mktemp(row.name))


@pytest.fixture(scope="module")
def opened(row: RuntimeEntry, request: pytest.FixtureRequest) -> Runtime | None:
    """Return the runtime, once for all of its tests; None if it runs apart."""
    if row.name in _APART:
        return None
    if row is _EXAMPLE:
        return open_example()
    if row.name == "onnxruntime":
        runtime: Runtime = request.getfixturevalue("runtime")
        return runtime
    return open_runtime(row.name)


@pytest.fixture(scope="module")
def failures_apart(
    row: RuntimeEntry, files: Files, request: pytest.FixtureRequest
) -> dict[str, str | None]:
    """Return the traceback of each clause that fails in a process of its own."""
    if row.name not in _APART:
        return {}
    python = sys.executable
    environment = dict(os.environ)
    if row.name == "rknn":
        double = request.getfixturevalue("rknn_double")("librknnrt version: 2.3.2 (double)")
        environment[LIBRARY_VARIABLE] = str(double)
    else:
        python = str(MEGENGINE.python())
    program = [python, "-m", "tests.measured.runtimes.contract", row.name]
    done = subprocess.run(
        [*program, json.dumps(asdict(files))],
        cwd=CHECKOUT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    failures: dict[str, str | None] = json.loads(done.stdout.splitlines()[-1])
    return failures


@pytest.mark.parametrize("clause", CONTRACT)
def test_every_adapter_keeps_the_contract(
    row: RuntimeEntry,
    files: Files,
    opened: Runtime | None,
    failures_apart: dict[str, str | None],
    clause: str,
    tmp_path: Path,
) -> None:
    """The clause is a function of contract.py."""
    if opened is None:
        failure = failures_apart[clause]
        assert failure is None, failure
    else:
        CONTRACT[clause](Trial(row, opened, files, str(tmp_path)))


def test_the_example_is_no_runtime_for_users() -> None:
    """It is in no list of the product."""
    assert _EXAMPLE.name not in [entry.name for entry in RUNTIMES]


# The models of each runtime


def _onnx_files(request: pytest.FixtureRequest, _folder: Path) -> Files:
    model, resized = request.getfixturevalue("tiny_resolutions")
    _, other = request.getfixturevalue("tiny_models")
    return Files(str(model), str(resized), str(other))


def _ncnn_files(_request: pytest.FixtureRequest, folder: Path) -> Files:
    from tests.measured.runtimes.ncnn_models import DETECTOR, write_net

    model = write_net(folder / "model.param", DETECTOR.layers(50), DETECTOR.weights())
    resized = write_net(folder / "resized.param", DETECTOR.layers(72), DETECTOR.weights())
    other = write_net(folder / "other.param", DETECTOR.layers(50), DETECTOR.weights(seed=1))
    return Files(str(model), str(resized), str(other))


def _mnn_files(request: pytest.FixtureRequest, folder: Path) -> Files:
    model, resized = request.getfixturevalue("mnn_files")(("tiny", 64), ("tiny", 96))
    content = bytearray(Path(model).read_bytes())
    content[len(content) // 2] ^= 1
    other = folder / "other.mnn"
    other.write_bytes(content)
    return Files(model, resized, str(other))


def _litert_files(_request: pytest.FixtureRequest, folder: Path) -> Files:
    from tests.measured.runtimes.litert_models import write_model

    model = write_model(folder / "model.tflite", 64)
    resized = write_model(folder / "resized.tflite", 96)
    other = write_model(folder / "other.tflite", 64, seed=1)
    return Files(str(model), str(resized), str(other))


def _teflon_files(_request: pytest.FixtureRequest, folder: Path) -> Files:
    from tests.measured.runtimes.teflon_models import write_model

    model = write_model(folder / "model.tflite", with_cpu_output=True)
    resized = write_model(folder / "resized.tflite", 24, with_cpu_output=True)
    other = write_model(folder / "other.tflite", channels=32, with_cpu_output=True)
    return Files(str(model), str(resized), str(other))


def _megengine_files(_request: pytest.FixtureRequest, folder: Path) -> Files:
    installed = MEGENGINE.folder()
    networks = [("tiny", 64, 1), ("tiny", 96, 1), ("tiny", 64, 2)]
    recipes = [models.Recipe(name, size, seed=seed) for name, size, seed in networks]
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
        MEGENGINE.folder().parent.mkdir(parents=True)
        MEGENGINE.folder().symlink_to(installed)
        model, resized, other = map(str, models.ensure_all(".mge", recipes))
    return Files(model, resized, other)


def _rknn_files(_request: pytest.FixtureRequest, folder: Path) -> Files:
    """Return a model of the double, which compares no weights."""
    model = folder / "model.rknn"
    model.write_text("9000 5000 1 ")
    return Files(str(model), resized=None, other=None)


def _example_files(_request: pytest.FixtureRequest, folder: Path) -> Files:
    random = np.random.default_rng(1)
    weights = random.standard_normal((32, 3), np.float32)
    head = random.standard_normal((10, 32), np.float32)
    np.savez(folder / "model.npz", weights=weights, head=head, size=24)
    np.savez(folder / "resized.npz", weights=weights, head=head, size=40)
    np.savez(folder / "other.npz", weights=weights + 1, head=head, size=24)
    names = ("model", "resized", "other")
    return Files(*(str(folder / f"{name}.npz") for name in names))


_FILES: dict[str, Callable[[pytest.FixtureRequest, Path], Files]] = {
    "ncnn": _ncnn_files,
    "mnn": _mnn_files,
    "litert": _litert_files,
    "teflon": _teflon_files,
    "megengine_lite": _megengine_files,
    "rknn": _rknn_files,
    "example": _example_files,
}
