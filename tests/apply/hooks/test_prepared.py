"""Prepared models: made at the first start, loaded by later ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import onnx
import pytest

from tests.apply.hooks.hooked import run

pytestmark = pytest.mark.process

_PROGRAM = """
    import json, sys
    import numpy as np
    import onnxruntime as ort

    x = np.arange(128 * 64, dtype=np.float32).reshape(1, 128, 8, 8) / 1000
    outputs = []
    for source in ("large.onnx", open("large.onnx", "rb").read()):
        session = ort.InferenceSession(source, providers=["CPUExecutionProvider"])
        options, meta = session.get_session_options(), session.get_modelmeta()
        outputs.append([
            session.run(["y"], {"x": x})[0].tobytes().hex(),
            [(one.name, one.type, one.shape) for one in session.get_inputs()],
            [(one.name, one.type, one.shape) for one in session.get_outputs()],
            [meta.graph_name, meta.producer_name, meta.custom_metadata_map],
            [str(options.graph_optimization_level), options.log_severity_level],
            session.get_provider_options(),
        ])
        del session
    print(json.dumps(outputs))
"""


@pytest.fixture(scope="module")
def as_is(models: Path) -> list[object]:
    """Return the program's answer without the hooks."""
    answer: list[object] = run(models, _PROGRAM, hooks=None).answer
    return answer


@pytest.fixture(scope="module")
def prepared(models: Path, tmp_path_factory: pytest.TempPathFactory, as_is: list[object]) -> Path:
    """Return a cache that a first start has filled."""
    cache = tmp_path_factory.mktemp("cache")
    first = run(models, _PROGRAM, REUSEBENCH_APPLY_CACHE=str(cache))
    assert first.answer == as_is
    assert first.error == ""
    assert first.reports[0]["failures"] == {}
    # The second session of the first start has the prepared model already.
    assert first.reports[0]["shared"] == {"prepared": 1, "arena": 2}
    return cache


def test_a_later_start_loads_the_prepared_model(
    models: Path, prepared: Path, as_is: list[object]
) -> None:
    """Outputs and all that sessions tell are equal, from a path and from bytes."""
    later = run(models, _PROGRAM, REUSEBENCH_APPLY_CACHE=str(prepared))
    assert later.answer == as_is
    assert later.error == ""
    assert later.reports[0]["shared"]["prepared"] == 2
    (folder,) = (prepared / "onnxruntime").iterdir()
    assert {path.name for path in folder.iterdir()} == {"model.onnx", "weights.bin", "state.json"}


@pytest.mark.parametrize("damaged", ["weights.bin", "state.json", "model.onnx"])
def test_a_damaged_file_is_made_anew(
    models: Path, prepared: Path, tmp_path: Path, as_is: list[object], damaged: str
) -> None:
    """One bit in the weights, or half a file, is noticed before it is loaded."""
    cache = tmp_path / "cache"
    shutil.copytree(prepared, cache)
    (folder,) = (cache / "onnxruntime").iterdir()
    data = bytearray((folder / damaged).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / damaged).write_bytes(data if damaged == "weights.bin" else data[: len(data) // 2])
    again = run(models, _PROGRAM, REUSEBENCH_APPLY_CACHE=str(cache))
    assert again.answer == as_is
    assert again.reports[0]["failures"] == {}
    assert again.reports[0]["shared"]["prepared"] == 1
    assert (folder / damaged).read_bytes() != data


def test_a_model_that_was_not_equal_is_not_prepared_again(
    models: Path, prepared: Path, tmp_path: Path, as_is: list[object]
) -> None:
    """The folder says so, and the program's own model is loaded."""
    cache = tmp_path / "cache"
    shutil.copytree(prepared, cache)
    (folder,) = (cache / "onnxruntime").iterdir()
    state = {"is_equal": False, "files": {}}
    (folder / "state.json").write_text(json.dumps(state), encoding="utf-8")
    ended = run(models, _PROGRAM, REUSEBENCH_APPLY_CACHE=str(cache))
    assert ended.answer == as_is
    assert "prepared" not in ended.reports[0]["shared"]
    assert json.loads((folder / "state.json").read_text(encoding="utf-8")) == state


def test_weights_in_a_file_of_their_own_are_mapped_already(
    models: Path, tmp_path: Path, as_is: list[object]
) -> None:
    """Nothing is prepared: the runtime itself maps them."""
    model = onnx.load(models / "large.onnx")
    onnx.save(model, models / "external.onnx", save_as_external_data=True, location="weights")
    program = _PROGRAM.replace("large.onnx", "external.onnx")
    ended = run(models, program, REUSEBENCH_APPLY_CACHE=str(tmp_path))
    assert ended.answer == as_is
    assert ended.reports[0]["shared"] == {"arena": 2}
    assert list(tmp_path.rglob("*.onnx")) == []


def test_a_folder_that_cannot_be_made_is_done_without(models: Path, as_is: list[object]) -> None:
    """The place of the cache is a file."""
    cache = str(models / "large.onnx")
    ended = run(models, _PROGRAM, REUSEBENCH_APPLY_CACHE=cache)
    assert (ended.answer, ended.error) == (as_is, "")
    assert ended.reports[0]["failures"] == {}
