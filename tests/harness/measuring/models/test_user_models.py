"""The user's own model files with their inputs, tried on the real ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from reusebench.harness.errors import NoModels, UnusableModel, UserError
from reusebench.harness.measuring.models import model_trials
from reusebench.harness.measuring.models.model_files import InputShape, ModelFile
from reusebench.harness.measuring.models.model_remarks import assumptions
from reusebench.harness.measuring.models.user_models import UserModels
from reusebench.measured.messages import Message
from reusebench.measured.plan import Model, Plan
from reusebench.measured.runtimes import find_runtime
from reusebench.measured.runtimes.base import InputData, Interface
from reusebench.targets.barriers import Barrier, StepData
from reusebench.targets.measured_process import interface_of
from reusebench.targets.outcome import Failure
from reusebench.targets.target import THIS_INTERPRETER, Target
from tests.helpers.forks import ONNX_FORKS
from tests.helpers.support import TIME_LIMIT_S

pytestmark = pytest.mark.process

_ONNX = find_runtime("onnxruntime")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpack arrays into a cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def _save(
    path: Path,
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    output: Any,
    constants: Sequence[Any] = (),
) -> Path:
    graph = helper.make_graph(nodes, "graph", inputs, [output], initializer=constants)
    onnx.save(
        helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)]),
        str(path),
    )
    return path


def _info(name: str, element: int, shape: Sequence[Any] | None) -> Any:
    return helper.make_tensor_value_info(name, element, shape)


def _picture(
    folder: Path, sizes: Sequence[Any] = ("n", 3, "h", "w"), name: str = "picture.onnx"
) -> Path:
    output = _info("y", TensorProto.FLOAT, sizes)
    return _save(
        folder / name,
        [helper.make_node("Relu", ["x"], ["y"])],
        [_info("x", TensorProto.FLOAT, sizes)],
        output,
    )


def _only_of(folder: Path, rows: int) -> Path:
    """Return a model of free sizes that runs only with `rows` rows: a constant of that height is
    added.
    """
    constant = onnx.numpy_helper.from_array(np.zeros((1, 3, rows, 1), np.float32), "constant")
    node = helper.make_node("Concat", ["x", "constant"], ["y"], axis=3)
    sizes = ["n", 3, "h", "w"]
    output = _info("y", TensorProto.FLOAT, None)
    return _save(
        folder / "rows.onnx", [node], [_info("x", TensorProto.FLOAT, sizes)], output, [constant]
    )


def _table(folder: Path, rows: int) -> Path:
    """Return a model whose integers index a table of `rows` rows."""
    table = onnx.numpy_helper.from_array(np.zeros((rows, 4), np.float32), "table")
    node = helper.make_node("Gather", ["table", "ids"], ["y"])
    inputs = [_info("ids", TensorProto.INT64, ["batch", "length"])]
    return _save(
        folder / "table.onnx", [node], inputs, _info("y", TensorProto.FLOAT, None), [table]
    )


def _models(
    *paths: Path, shapes: Sequence[InputShape] = (), arrays: Path | None = None
) -> tuple[Model, ...]:
    user = UserModels({"onnxruntime": ONNX_FORKS}, TIME_LIMIT_S, shapes, arrays)
    return user.of(_ONNX, [ModelFile(path) for path in paths])


def test_free_sizes_are_assumed(tmp_path: Path) -> None:
    """The name of the model tells the shape, and a remark the option that changes it."""
    (model,) = _models(_picture(tmp_path))
    assert model.name == "picture 1x3x640x640"
    assert model.inputs == (InputData("x", "float32", (1, 3, 640, 640), assumed=(0, 2, 3)),)
    assert assumptions(model) == "assumed for picture.onnx: --shape x=1x3x640x640"


def test_the_next_size_is_tried(tmp_path: Path) -> None:
    """If the first guess does not run, another one may; if a given shape does not run, the reason
    is told.
    """
    (model,) = _models(_only_of(tmp_path, 48))
    assert model.inputs[0].shape == (1, 3, 48, 320)
    with pytest.raises(UnusableModel) as refusal:
        _models(_only_of(tmp_path, 48), shapes=[InputShape(None, (1, 3, 8, 8))])
    for words in (
        "--model rows.onnx does not run with x=1x3x8x8: ",
        "Concat",
        "--shape NAME=SIZES",
    ):
        assert words in str(refusal.value)


def test_integers_index_any_table(tmp_path: Path) -> None:
    """Indices are 1, or 0 if the table has one row."""
    assert [_models(_table(tmp_path, rows))[0].inputs[0].value for rows in (2, 1)] == [1, 0]


def test_a_model_without_free_sizes_is_what_it_was(tmp_path: Path) -> None:
    """The model's name and digest are the file's alone, so that they equal those of earlier
    versions.
    """
    (fixed,) = _models(_picture(tmp_path, (1, 3, 8, 8)))
    assert (fixed.name, fixed.inputs) == ("picture", (InputData("x", "float32", (1, 3, 8, 8)),))
    assert assumptions(fixed) == ""


@pytest.mark.parametrize("name", [None, "x"])
def test_a_shape_that_is_given(tmp_path: Path, name: str | None) -> None:
    """A given shape is used as it is, is no assumption, and makes another configuration of the same
    file.
    """
    path = _picture(tmp_path)
    models = [_models(path, shapes=[InputShape(name, (1, 3, size, 9))])[0] for size in (8, 16)]
    assert [model.name for model in models] == ["picture 1x3x8x9", "picture 1x3x16x9"]
    assert [assumptions(model) for model in models] == ["", ""]
    assert len({model.digest for model in models}) == 2
    assert len({model.path for model in models}) == 1


def test_arrays_that_are_given(tmp_path: Path) -> None:
    """Arrays give shape and elements for all models that have the input; their digest is part of
    the configuration.
    """
    paths = [_picture(tmp_path), _picture(tmp_path, (1, 3, 8, 8), "fixed.onnx")]
    digests = []
    for value in (0, 1):
        np.savez(tmp_path / "data.npz", x=np.full((1, 3, 8, 8), value, np.float32))
        models = _models(*paths, arrays=tmp_path / "data.npz")
        assert [model.inputs[0].shape for model in models] == [(1, 3, 8, 8)] * 2
        assert all(np.load(model.inputs[0].file or "").max() == value for model in models)
        digests += [model.digest for model in models]
    assert len(set(digests)) == 4


@pytest.mark.parametrize(
    ("shapes", "error", "words"),
    [
        (
            [InputShape("z", (1,))],
            UnusableModel,
            "--shape z: no model has such an input. The models have: x",
        ),
        (
            [InputShape("x", (1, 3, 8))],
            UnusableModel,
            "input 'x' is ?x3x?x?, not 1x3x8. Change --shape",
        ),
        (
            [InputShape("x", (1, 3, 8, 7))],
            UserError,
            "--shape x=1x3x8x7: the array of --inputs is 1x3x8x8",
        ),
    ],
)
def test_what_contradicts(
    tmp_path: Path, shapes: Sequence[InputShape], error: type[Exception], words: str
) -> None:
    """Names that no model has, shapes that do not fit, and a shape that contradicts an array are
    refused.
    """
    np.savez(tmp_path / "data.npz", x=np.zeros((1, 3, 8, 8), np.float32))
    arrays = tmp_path / "data.npz" if error is UserError else None
    with pytest.raises(error) as refusal:
        _models(_picture(tmp_path), shapes=shapes, arrays=arrays)
    assert words in str(refusal.value)


def test_arrays_that_no_model_takes(tmp_path: Path) -> None:
    """An array of another name or type is refused with the inputs that there are, and so is a file
    without arrays.
    """
    path = _picture(tmp_path)
    for arrays, words in (
        ({"y": np.zeros(3)}, "no model has an input 'y'. The models have: x"),
        ({"x": np.zeros((1, 3, 8, 8))}, "input 'x' takes float32, and its data are float64"),
    ):
        np.savez(tmp_path / "data.npz", **arrays)
        with pytest.raises(UnusableModel) as refusal:
            _models(path, arrays=tmp_path / "data.npz")
        assert words in str(refusal.value)
    with pytest.raises(UserError, match=r"--inputs .*none\.npz: it does not exist"):
        _models(path, arrays=tmp_path / "none.npz")


def test_words_of_others_are_made_printable() -> None:
    """A runtime's message may have the model's names in it; control characters are removed."""
    assert str(UserError("two\nlines \x1b[31m")) == "two\nlines \\x1b[31m"


def test_a_nameless_shape_of_several_inputs(tmp_path: Path) -> None:
    """The shape could belong to any input: the inputs' names are listed."""
    inputs = [_info(name, TensorProto.FLOAT, ["n"]) for name in ("a", "b")]
    path = _save(
        tmp_path / "sum.onnx",
        [helper.make_node("Add", ["a", "b"], ["y"])],
        inputs,
        _info("y", 1, ["n"]),
    )
    with pytest.raises(
        UnusableModel, match=r"--shape 4 is of the only input, and there are several.*: a, b"
    ):
        _models(path, shapes=[InputShape(None, (4,))])
    (model,) = _models(path, shapes=[InputShape("a", (4,))])
    assert [tensor.shape for tensor in model.inputs] == [(4,), (4,)], (
        "they have one name for the size"
    )


def test_a_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several sets of models have the same files: a process for each set would take seconds."""
    calls = []

    def read(*arguments: Any) -> Interface | Failure:
        calls.append(arguments)
        return interface_of(*arguments)

    monkeypatch.setattr(model_trials, "interface_of", read)
    user = UserModels({"onnxruntime": ONNX_FORKS}, TIME_LIMIT_S)
    file = ModelFile(_picture(tmp_path, (1, 3, 8, 8)))
    assert user.of(_ONNX, [file, file]) == user.of(_ONNX, [file]) * 2
    assert len(calls) == 1


def test_the_error_of_another_runtimes_file(tmp_path: Path) -> None:
    """The file is not to blame: the runtime is left out, and the session goes on."""
    with pytest.raises(NoModels) as refusal:
        UserModels({}, TIME_LIMIT_S).of(
            find_runtime("megengine_lite"), [ModelFile(_picture(tmp_path))]
        )
    assert not isinstance(refusal.value, UnusableModel)


def test_a_converted_file_is_fed_with_what_its_source_is(tmp_path: Path) -> None:
    """The value that an index needs, and the user's data, reach the converted file; noise is made
    anew.
    """
    pytest.importorskip("MNN")
    mnn = find_runtime("mnn")
    file = ModelFile(_table(tmp_path, rows=2))
    (indices,) = UserModels({"mnn": THIS_INTERPRETER, "onnxruntime": ONNX_FORKS}, TIME_LIMIT_S).of(
        mnn, [file]
    )
    assert indices.conversion is not None
    (source,) = indices.conversion.inputs
    (fed,) = indices.inputs
    assert (fed.value, fed.file, fed.shape) == (source.value, None, source.shape)
    arrays = tmp_path / "data.npz"
    np.savez(arrays, ids=np.ones(source.shape, np.int64))
    (given,) = UserModels(
        {"mnn": THIS_INTERPRETER, "onnxruntime": ONNX_FORKS}, TIME_LIMIT_S, arrays=arrays
    ).of(mnn, [file])
    assert [Path(tensor.file or "").suffix for tensor in given.inputs] == [".npy"]
    assert given.digest != indices.digest
    (picture,) = UserModels({"mnn": THIS_INTERPRETER, "onnxruntime": ONNX_FORKS}, TIME_LIMIT_S).of(
        mnn, [ModelFile(_picture(tmp_path))]
    )
    assert picture.inputs == ()


def test_free_sizes_of_older_litert_files(tmp_path: Path) -> None:
    """LiteRT gives 1 for such sizes; they are free all the same, for a guess and for --shape."""
    write_model = pytest.importorskip("tests.measured.runtimes.litert_models").write_model
    litert = find_runtime("litert")
    path = write_model(tmp_path / "net_96.tflite", 0, rank=False)
    for given, shape in ((None, (1, 96, 96, 3)), ((1, 64, 32, 3), (1, 64, 32, 3))):
        shapes = [InputShape(None, given)] if given else []
        user = UserModels({"litert": THIS_INTERPRETER}, TIME_LIMIT_S, shapes)
        (model,) = user.of(litert, [ModelFile(path)])
        assert model.inputs[0].shape == shape


def _failing(monkeypatch: pytest.MonkeyPatch, failure: Failure) -> list[Plan]:
    """Let every trial fail; return the plans tried."""
    plans: list[Plan] = []

    def try_plan(_target: Target, plan: Plan, _limit_s: float) -> Failure:
        plans.append(plan)
        return failure

    monkeypatch.setattr(model_trials, "try_plan", try_plan)
    return plans


def _failure(code: str, **values: str) -> Failure:
    return Failure("failed", "context", 0, Message(code, values))


def test_an_option_that_a_file_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime that asks for an option gets it, in all contexts of the model, and it is said."""
    plans: list[Plan] = []

    def try_plan(_target: Target, plan: Plan, _limit_s: float) -> list[Barrier] | Failure:
        plans.append(plan)
        if plan.models[0].options:
            return []
        return _failure("needs_option", option="api=Interpreter", reason="state")

    monkeypatch.setattr(model_trials, "try_plan", try_plan)
    user = UserModels({"onnxruntime": ONNX_FORKS}, TIME_LIMIT_S)
    (model,) = user.of(_ONNX, [ModelFile(_picture(tmp_path, (1, 3, 8, 8)))])
    assert model.options == ("api=Interpreter",)
    assert [plan.options_of(0) for plan in plans] == [(), ("api=Interpreter",)]
    assert Plan.from_json(plans[1].to_json()).models == plans[1].models
    assert user.remarks == [
        "--model picture.onnx is measured with api=Interpreter. Without it the runtime says: state"
    ]


@pytest.mark.parametrize("code", ["litert_operator_missing", "ncnn_weights_missing"])
def test_what_no_shape_mends_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """The file's own fault ends the trials, and no other shape is suggested."""
    plans = _failing(monkeypatch, _failure(code))
    with pytest.raises(UnusableModel, match="cannot be run") as raised:
        _models(_picture(tmp_path))
    assert len(plans) == 1
    assert "--shape" not in str(raised.value)


def test_fixed_sizes_have_no_other_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without free sizes is run once, and no shape is suggested."""
    plans = _failing(monkeypatch, _failure("litert_call_failed"))
    with pytest.raises(UnusableModel) as raised:
        _models(_picture(tmp_path, (1, 3, 8, 8)))
    assert (len(plans), "--shape" in str(raised.value)) == (1, False)


@pytest.mark.parametrize("kind", ["crashed", "hung", "out_of_memory"])
def test_a_fixed_file_that_ends_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It is measured all the same: how it fails is a result."""
    _failing(monkeypatch, Failure(kind, "context", 0, Message("process_exited", {"code": 1})))
    (model,) = _models(_picture(tmp_path, (1, 3, 8, 8)))
    assert model.inputs[0].shape == (1, 3, 8, 8)
    with pytest.raises(UnusableModel):
        _models(_picture(tmp_path, ("", 3, "", ""), "free.onnx"))


def test_pictures_that_take_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Smaller ones alone are tried then, and the terminal says it."""
    tried: list[str] = []

    def try_plan(_target: Target, plan: Plan, _limit_s: float) -> list[Barrier] | Failure:
        tried.append(plan.models[0].name)
        if tried[-1] in ("large 1x3x320x320", "large 1x3x640x640", "large 1x3x224x224"):
            return Failure("hung", "first_inference", 0, Message("text", {"text": "too slow"}))
        return _failure("onnx_inference_failed") if tried[-1] == "large 1x3x48x320" else []

    monkeypatch.setattr(model_trials, "try_plan", try_plan)
    user = UserModels({"onnxruntime": ONNX_FORKS}, 60)
    (model,) = user.of(_ONNX, [ModelFile(_picture(tmp_path, ("b", 3, "h", "w"), "large.onnx"))])
    sides = ["640x640", "320x320", "224x224", "48x320", "32x100"]
    assert tried == [f"large 1x3x{side}" for side in sides]
    assert model.inputs[0].shape == (1, 3, 32, 100)
    (remark,) = user.remarks
    words = ("run with x=1x3x32x100", "x=1x3x640x640; x=1x3x320x320; x=1x3x224x224", "60 s")
    assert [word for word in words if word not in remark] == []


def test_a_guess_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A doubtful size that takes longer than a trial may gives way to any that runs."""
    limits_s: list[float] = []

    def try_plan(_target: Target, plan: Plan, limit_s: float) -> list[Barrier] | Failure:
        limits_s.append(limit_s)
        if plan.models[0].name == "line 1x16000":
            return Failure("hung", "first_inference", 0, Message("text", {"text": "too slow"}))
        return [Barrier("steady", None, 0, StepData(latencies_ns=((5 * 10**9,),)))]

    monkeypatch.setattr(model_trials, "try_plan", try_plan)
    user = UserModels({"onnxruntime": ONNX_FORKS}, 600)
    (model,) = user.of(_ONNX, [ModelFile(_picture(tmp_path, ("b", "n"), "line.onnx"))])
    assert model.inputs[0].shape == (1, 512)
    assert limits_s == [20, 20]
    (remark,) = user.remarks
    assert "takes at least 4 times as long" in remark


def test_a_guess_that_is_far_slower_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a doubtful size takes too long, the next is taken; both are said."""
    latencies_ns = {"line 1x16000": 9 * 10**9, "line 1x512": 10**7}

    def try_plan(_target: Target, plan: Plan, _limit_s: float) -> list[Barrier]:
        data = StepData(latencies_ns=((latencies_ns[plan.models[0].name],),))
        return [Barrier("steady", None, 0, data)]

    monkeypatch.setattr(model_trials, "try_plan", try_plan)
    user = UserModels({"onnxruntime": ONNX_FORKS}, TIME_LIMIT_S)
    (model,) = user.of(_ONNX, [ModelFile(_picture(tmp_path, ("b", "n"), "line.onnx"))])
    assert model.inputs[0].shape == (1, 512)
    (remark,) = user.remarks
    assert "x=1x512 is a guess" in remark
    assert "x=1x16000 an inference takes 9e+02 times as long" in remark


def test_a_guess_is_told_with_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A doubtful size that is fast enough stays, and the terminal calls it a guess."""
    latencies_ns = {"line 1x16000": 3 * 10**6, "line 1x512": 10**6}

    def try_plan(_target: Target, plan: Plan, _limit_s: float) -> list[Barrier]:
        data = StepData(latencies_ns=((latencies_ns[plan.models[0].name],),))
        return [Barrier("steady", None, 0, data)]

    monkeypatch.setattr(model_trials, "try_plan", try_plan)
    (model,) = _models(_picture(tmp_path, ("b", "n"), "line.onnx"))
    assert model.inputs[0].shape == (1, 16000)
    assert "--shape x=1x16000 (a guess)" in assumptions(model)
