"""The user's ONNX files for a runtime of another kind: tried on ONNX Runtime, converted by a
scripted toolkit.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from reusebench.harness.errors import NoModels, UnusableModel
from reusebench.harness.measuring.models import model_trials
from reusebench.harness.measuring.models.model_files import InputShape, ModelFile, is_unchanged
from reusebench.harness.measuring.models.model_remarks import assumptions, conversion_text
from reusebench.harness.measuring.models.user_models import UserModels
from reusebench.measured.messages import Message
from reusebench.measured.plan import Conversion, Plan
from reusebench.measured.runtimes import find_runtime
from reusebench.measured.runtimes.base import InputData
from reusebench.measured.runtimes.rknn.library_file import LIBRARY_VARIABLE
from reusebench.models.rknn.toolkit import TOOLKIT
from reusebench.system.user_files import Pins
from reusebench.targets.barriers import Barrier
from reusebench.targets.measured_process import interface_of, try_plan
from reusebench.targets.outcome import Failure
from reusebench.targets.target import Target
from tests.helpers.forks import ONNX_FORKS, RKNN_FORKS
from tests.helpers.support import CHECKOUT, TIME_LIMIT_S
from tests.models.inspection.rknn_files import save_rknn
from tests.models.rknn.scripted_toolkit import install_scripted_toolkit

pytestmark = pytest.mark.process

_RKNN = find_runtime("rknn")


@pytest.fixture
def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the scripted toolkit in a cache of the test's own, and let all its files run; return
    its folder.
    """

    def try_converted(target: Target, plan: Plan, time_limit_s: float) -> list[Barrier] | Failure:
        return [] if plan.runtime == "rknn" else try_plan(target, plan, time_limit_s)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(model_trials, "try_plan", try_converted)
    return install_scripted_toolkit()


def _network(path: Path, *sizes: Any) -> Path:
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "graph", info[:1], info[1:])
    onnx.save(
        helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)]),
        str(path),
    )
    return path


def _user(chip: str | None = "rk3588", **changes: Any) -> UserModels:
    return UserModels(
        {"rknn": replace(RKNN_FORKS, chip=chip), "onnxruntime": ONNX_FORKS}, TIME_LIMIT_S, **changes
    )


def _read(path: str) -> Any:
    return json.loads(Path(path).read_text())


def _starts(toolkit: Path) -> int:
    starts = toolkit / "starts"
    return len(starts.read_text().splitlines()) if starts.exists() else 0


@pytest.mark.usefixtures("toolkit")
def test_a_file_is_converted_for_the_chip(tmp_path: Path) -> None:
    """The model's name tells shape and precision; remarks tell its source, and the options that
    change it.
    """
    path = _network(tmp_path / "net.onnx", "n", 3, "h", "w")
    (model,) = _user().of(_RKNN, [ModelFile(path)])
    assert model.name == "net 1x3x640x640 INT8"
    taken = InputData("x", "float32", (1, 3, 640, 640), assumed=(0, 2, 3))
    assert model.conversion == Conversion(str(path), "rknn-toolkit2 2.5.0", "INT8", (taken,))
    assert model.inputs == ()
    made = _read(model.path)
    assert (made["onnx"], made["target_platform"]) == (path.name, "rk3588")
    assert (made["inputs"], made["input_size_list"]) == (["x"], [[1, 3, 640, 640]])
    assert assumptions(model) == "assumed for net.onnx: --shape x=1x3x640x640"
    words = "net.onnx is converted to INT8 by rknn-toolkit2 2.5.0, calibrated with noise in x"
    assert conversion_text(model) == f"{words} (--inputs FILE.npz gives data)"


@pytest.mark.usefixtures("toolkit")
def test_a_file_that_is_quantised_already(tmp_path: Path) -> None:
    """A quantised file keeps its scales whatever is wanted: it counts as INT8, and no remark calls
    it calibrated.
    """
    scale, zero = (
        onnx.numpy_helper.from_array(value, name)
        for name, value in (("s", np.float32(1)), ("z", np.int8(0)))
    )
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4]),
        helper.make_tensor_value_info("y", 3, [1, 4]),
    ]
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    graph = helper.make_graph([node], "graph", ends[:1], ends[1:], initializer=[scale, zero])
    path = tmp_path / "net.onnx"
    onnx.save(
        helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)]),
        str(path),
    )
    for quantised in (True, False):
        (model,) = _user(quantised=quantised).of(_RKNN, [ModelFile(path)])
        assert model.name == "net INT8"
        assert conversion_text(model) == "net.onnx is converted to INT8 by rknn-toolkit2 2.5.0"
        assert _read(model.path)["do_quantization"] is False


def test_a_file_is_converted_once(tmp_path: Path, toolkit: Path) -> None:
    """The next session takes the file from the cache; another shape, precision, chip or content is
    another file.
    """
    path = _network(tmp_path / "net.onnx", 1, 3, "h", "w")
    cases: list[Callable[[], UserModels]] = [
        _user,
        lambda: _user(shapes=[InputShape("x", (1, 3, 64, 64))]),
        lambda: _user(quantised=False),
        lambda: _user("rv1106"),
    ]
    models = [case().of(_RKNN, [ModelFile(path)])[0] for case in cases]
    assert models == [case().of(_RKNN, [ModelFile(path)])[0] for case in cases]
    assert _starts(toolkit) == 4
    (path.parent / "other").mkdir()
    other = _network(path.parent / "other" / "net.onnx", 1, 3, "h", "width")
    models += _user().of(_RKNN, [ModelFile(other)])
    assert len({model.path for model in models}) == len({model.digest for model in models}) == 5
    assert [model.name for model in models[1:4]] == [
        "net 1x3x64x64 INT8",
        "net 1x3x640x640 FP16",
        models[0].name,
    ]


@pytest.mark.usefixtures("toolkit")
def test_data_calibrate_and_count(tmp_path: Path) -> None:
    """The given arrays reach the toolkit, and other data make another model."""
    path = _network(tmp_path / "net.onnx", 1, 4)
    digests = set()
    for scale in (1, 2):
        np.savez(tmp_path / "data.npz", x=np.ones((1, 4), np.float32) * scale)
        (model,) = _user(arrays=tmp_path / "data.npz").of(_RKNN, [ModelFile(path)])
        digests.add(model.digest)
        assert conversion_text(model).endswith("calibrated with the data of --inputs")
        assert model.conversion is not None
        assert model.conversion.inputs[0].file is not None
    assert len(digests) == 2


@pytest.mark.usefixtures("toolkit")
@pytest.mark.parametrize("sizes", [(1, 4), (1, 3, "h", "w")])
def test_a_stored_model_whose_source_changes(tmp_path: Path, sizes: tuple[Any, ...]) -> None:
    """A file that was converted from a user's file no longer suits a stored plan after the source
    has changed.
    """
    path = _network(tmp_path / "net.onnx", *sizes)
    (model,) = _user().of(_RKNN, [ModelFile(path)])
    pins = Pins()
    assert is_unchanged(model, pins)
    _network(path, *sizes[:-1], 8)
    for known in (pins, Pins()):
        assert not is_unchanged(model, known)
    path.unlink()
    assert not is_unchanged(model, Pins())


@pytest.mark.usefixtures("toolkit")
def test_the_next_shape_where_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the toolkit does not convert a shape, or the chip does not run it, the next shape is
    tried.
    """
    monkeypatch.setenv("SCRIPTED_TOOLKIT", "refuse 640")
    path = _network(tmp_path / "net.onnx", "n", 3, "h", "w")
    (model,) = _user().of(_RKNN, [ModelFile(path)])
    assert model.name == "net 1x3x320x320 INT8"


def test_what_no_shape_makes_good(
    tmp_path: Path, toolkit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal messages at two shapes end the attempts; they are told with a remedy, and nothing is
    tried again.
    """
    monkeypatch.setenv("SCRIPTED_TOOLKIT", "refuse")
    path = _network(tmp_path / "net.onnx", "n", 3, "h", "w")
    user = _user()
    for _ in range(2):
        with pytest.raises(UnusableModel) as refusal:
            user.of(_RKNN, [ModelFile(path)])
        assert (
            str(refusal.value)
            == "--model net.onnx, with x=1x3x640x640; x=1x3x320x320: rknn-toolkit2 2.5.0 cannot"
            " convert it: build failed: build: rv9999 cannot do that. Change the network, add"
            " --float, or convert it yourself and give the .rknn file"
        )
        assert _starts(toolkit) == 1
    with pytest.raises(UnusableModel) as refusal:
        _user("rv1106").of(_RKNN, [ModelFile(path)])
    assert "--float" not in str(refusal.value), "it has no floating point"


def test_what_the_chip_does_not_run(
    tmp_path: Path, toolkit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A converted file that fails at two shapes with equal messages is named with them, and no
    third one is made.
    """
    plans = []

    def fail(_target: Target, plan: Plan, _time_limit_s: float) -> list[Barrier] | Failure:
        plans.append(plan)
        # Rockchip's library puts the time before its messages.
        words = Message(
            "exception", {"type": "E RKNN", "text": f"[17:35:53.32{len(plans)}] no Slice"}
        )
        return Failure("failed", "context", 0, words, "") if plan.runtime == "rknn" else []

    monkeypatch.setattr(model_trials, "try_plan", fail)
    words = (
        "with x=1x3x640x640; x=1x3x320x320: converted by rknn-toolkit2 2.5.0 it does not run: E"
        " RKNN: no Slice. Change"
    )
    with pytest.raises(UnusableModel, match=words):
        _user().of(_RKNN, [ModelFile(_network(tmp_path / "net.onnx", "n", 3, "h", "w"))])
    assert [plan.runtime for plan in plans] == ["onnxruntime", "rknn"] * 2
    assert _starts(toolkit) == 1


def test_resolutions_have_files_without_weights(tmp_path: Path, toolkit: Path) -> None:
    """All files but the first, if the chip's toolkit makes them; one process of the toolkit makes
    all.
    """
    files = [
        ModelFile(_network(tmp_path / f"{size}.onnx", 1, 3, size, size), "--resolution")
        for size in (64, 32)
    ]
    first, second = _user().of(_RKNN, files, slaves=files[1:])
    assert first.weightless is None
    assert second.weightless is not None
    assert (_read(second.weightless)["remove_weight"], _read(second.path)["remove_weight"]) == (
        True,
        False,
    )
    assert _starts(toolkit) == 1
    assert [model.weightless for model in _user("rv1106").of(_RKNN, files, slaves=files[1:])] == [
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("chip", "quantised", "words"),
    [
        (None, True, "the target's is not known; name one with --target vboard:CHIP"),
        ("rv1103", False, "no file with floating point can be made for rv1103"),
        ("rk3588", True, "which is not in /.*run `reusebench models install rknn-toolkit` once"),
    ],
)
def test_where_the_toolkit_cannot_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chip: str | None, quantised: bool, words: str
) -> None:
    """The file is not to blame: the runtime is left out with the reason, the session goes on."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert not TOOLKIT.installed()
    user = _user(chip, quantised=quantised)
    with pytest.raises(
        NoModels, match=f"--model .*net.onnx is not converted: .*{words}"
    ) as refusal:
        user.of(_RKNN, [ModelFile(_network(tmp_path / "net.onnx", 1, 4))])
    assert not isinstance(refusal.value, UnusableModel)
    assert user.remarks == [str(refusal.value)]


def test_files_of_its_own_kind_come_first(
    tmp_path: Path, toolkit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each runtime takes files of its own kinds and tells the files that it left out; if it has
    such files, it converts none.
    """
    onnx_file = _network(tmp_path / "net.onnx", 1, 4)
    own = ModelFile(tmp_path / "net.rknn")
    own.path.write_bytes(b"RKNN")
    user = _user()
    interface = interface_of(ONNX_FORKS, "onnxruntime", str(onnx_file), TIME_LIMIT_S)
    monkeypatch.setattr(model_trials, "interface_of", lambda *_: interface)
    (model,) = user.of(_RKNN, [ModelFile(onnx_file), own])
    assert (model.path, model.conversion) == (str(own.path), None)
    assert user.remarks == [
        f"--model {onnx_file}: it is not converted, since rknn has .rknn files of its own"
    ]
    assert _starts(toolkit) == 0
    (model,) = user.of(find_runtime("onnxruntime"), [ModelFile(onnx_file), own])
    assert model.path == str(onnx_file)
    assert user.remarks[1:] == [
        f"--model {own.path}: onnxruntime reads .onnx files. Give one, or choose another --runtime:"
        " rknn reads .rknn"
    ]


def test_the_harness_imports_no_library_of_the_measured_process(
    tmp_path: Path, toolkit: Path
) -> None:
    """A process that had a file converted has mapped neither numpy nor onnx nor a runtime."""
    path = _network(tmp_path / "net.onnx", 1, 4)
    code = (
        "import sys; from dataclasses import replace; from pathlib import Path;from"
        " reusebench.harness.measuring.models import model_trials;"
        " model_trials.try_plan = lambda *_: []; from"
        " reusebench.measured.runtimes import find_runtime;from"
        " reusebench.harness.measuring.models.user_models import *; from"
        " reusebench.harness.measuring.models.model_files import ModelFile;"
        " from reusebench.targets.target import"
        " THIS_INTERPRETER;user = UserModels({'rknn': replace(THIS_INTERPRETER, chip='rk3588')},"
        " 60);print(user.of(find_runtime('rknn'),"
        f" [ModelFile(Path({str(path)!r}))])[0].name);print([name for name in ('numpy', 'onnx',"
        " 'onnxruntime') if name in sys.modules])"
    )
    harness = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert (harness.stdout, harness.stderr) == ("net INT8\n[]\n", "")
    assert _starts(toolkit) == 1


# Files of the user's own


def test_a_file_for_another_chip(tmp_path: Path) -> None:
    """The file is refused before a library sees it, and so is a weightless one; the error has the
    chip and a remedy.
    """
    path = save_rknn(tmp_path / "net.rknn", {"x": (1, 4)}, platform="rk3566")
    own = save_rknn(tmp_path / "own.rknn", {"x": (1, 4)}, platform="rk3588")
    words = (
        r"^--model net.rknn is for rk3566, and python has the NPU of rk3588, which is another one\."
        r" Convert the ONNX"
    )
    for file in (ModelFile(path), ModelFile(own, weightless=path)):
        with pytest.raises(UnusableModel, match=words):
            _user("rk3588").of(_RKNN, [file])


def test_a_file_that_is_cut_short(tmp_path: Path) -> None:
    """The file is refused: some libraries abort on it, and the mini runtime runs it."""
    path = save_rknn(tmp_path / "net.rknn", {"x": (1, 4)})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        UnusableModel, match=r"^--model .*net.rknn is cut short: .*\. Copy or convert it again$"
    ):
        _user("rk3588").of(_RKNN, [ModelFile(path)])


@pytest.mark.parametrize("chip", ["rk3588", None])
def test_a_file_that_the_library_refuses(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rknn_double: Callable[[str], Path],
    chip: str | None,
) -> None:
    """The file's maker stands with the library's reason; if the chip is not known, the library
    judges the file.
    """
    monkeypatch.setenv(LIBRARY_VARIABLE, str(rknn_double("librknnrt version: 1.4.0 (double)")))
    monkeypatch.setenv("DOUBLE_FAIL", "rknn_init=-1")
    monkeypatch.setenv("DOUBLE_SAY", "rknn_init=E RKNN: Invalid RKNN model version 6")
    path = save_rknn(tmp_path / "net.rknn", {"x": (1, 4)}, platform=chip or "rk3566")
    made = rf"\(by rknn-toolkit2 2\.3\.2 for {chip or 'rk3566'}\)"
    words = (
        rf"^--model net\.rknn {made} cannot be loaded: the model file is of version 6, which this"
        r" library does not"
    )
    with pytest.raises(UnusableModel, match=words):
        _user(chip).of(_RKNN, [ModelFile(path)])
