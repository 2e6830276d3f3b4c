"""The models of a session: the user's, and the built-in ones of each runtime."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from reusebench.harness.errors import NoModels, UserError
from reusebench.harness.measuring.models import model_sets, model_trials
from reusebench.harness.measuring.models.model_files import ModelFile
from reusebench.harness.measuring.models.model_sets import BuiltIn, ModelSets
from reusebench.harness.measuring.models.user_models import UserModels
from reusebench.harness.plans.plan_file import PlanFile
from reusebench.harness.plans.reading import read_plan_file
from reusebench.measured.runtimes.base import DeclaredTensor, Interface
from reusebench.models import ModelError, Recipe
from reusebench.models.inspection.summary import FileSummary
from reusebench.scenarios.catalogue import (
    FRAMES_4K,
    FRAMES_1080P,
    IN_TURN,
    RESOLUTIONS,
    STREAMS,
)
from reusebench.targets.target import THIS_INTERPRETER
from tests.helpers.support import TIME_LIMIT_S

_BUILT_IN = BuiltIn(
    stream=("yolov5s", 320),
    in_turn=(("yolov5s", 320), ("resnet50", 224)),
    resolutions=(("yolov5s", 320), ("yolov5s", 640)),
)

#: The sets of models that are no language models.
_SETS = (STREAMS, IN_TURN, RESOLUTIONS, FRAMES_1080P, FRAMES_4K)


_PICTURE = Interface((DeclaredTensor("picture", "float32", (1, 3, 8, 8)),), (), {})


@pytest.fixture(autouse=True)
def pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every file be a model that takes a picture, and runs; test_user_models.py tests the
    reading of files.
    """
    monkeypatch.setattr(model_trials, "interface_of", lambda *_: _PICTURE)
    monkeypatch.setattr(model_trials, "try_plan", lambda *_: [])
    monkeypatch.setattr(model_trials, "summary_of", lambda _: FileSummary())


def _sets(**changes: Any) -> ModelSets:
    targets = dict.fromkeys(("onnxruntime", "megengine_lite", "rknn"), THIS_INTERPRETER)
    return ModelSets(
        **{
            "built_in": _BUILT_IN,
            "streams": 3,
            "user": UserModels(targets, TIME_LIMIT_S),
            **changes,
        }
    )


def _resolution(file: Path, weightless: Path | None = None) -> ModelFile:
    return ModelFile(file, "--resolution", weightless)


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Build models in no time, and return the list of those that were built."""
    made: list[tuple[Any, ...]] = []

    def ensure_all(
        kind: str,
        recipes: Sequence[Recipe],
        chip: str | None = None,
        weightless: bool = False,
        quantised: bool = True,
    ) -> list[Path]:
        paths = []
        for recipe in recipes:
            assert quantised
            form = (chip, weightless) if kind == ".rknn" else ()
            made.append((kind, recipe.name, recipe.size, recipe.seed, *form))
            path = tmp_path / "-".join(map(str, made[-1]))
            path.write_text(path.name)
            paths.append(path)
        return paths

    monkeypatch.setattr(model_sets, "ensure_all", ensure_all)
    return made


def _write(folder: Path, *names: str) -> Iterator[Path]:
    for name in names:
        (folder / name).write_bytes(name.encode())
        yield folder / name


# The user's models


@pytest.mark.parametrize("suffix", [".onnx", ".ort"])
@pytest.mark.parametrize("model_set", [STREAMS, IN_TURN])
def test_models_that_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, model_set: str
) -> None:
    """Files serve streams and turns, keep their order, and have their name, absolute path and
    digest.
    """
    names = [f"b{suffix}", f"a{suffix}"]
    list(_write(tmp_path, *names))
    monkeypatch.chdir(tmp_path)
    models = _sets(files=(ModelFile(Path(names[0])), ModelFile(tmp_path / names[1]))).of(
        "onnxruntime", model_set
    )
    assert [(model.name, model.path) for model in models] == [
        ("b", str(tmp_path / names[0])),
        ("a", str(tmp_path / names[1])),
    ]
    assert [model.digest for model in models] == [
        hashlib.sha256(name.encode()).hexdigest() for name in names
    ]
    assert [model.weightless for model in models] == [None, None]


def test_weights_beside_a_model_belong_to_its_digest(tmp_path: Path) -> None:
    """A file that the model names changes the model's digest; other files beside it do not."""
    model = tmp_path / "model.onnx"
    model.write_bytes(b"other.bin \x0a\x08location\x12\x0bweights.bin ...")

    def digest() -> str:
        return _sets(files=(ModelFile(model),)).of("onnxruntime", STREAMS)[0].digest

    digests = [digest()]
    for name, content in (("weights.bin", b"1"), ("weights.bin", b"2"), ("other.bin", b"3")):
        (tmp_path / name).write_bytes(content)
        digests.append(digest())
    assert len(set(digests[:3])) == 3
    assert digests[3] == digests[2]


def test_resolutions_that_are_given(tmp_path: Path) -> None:
    """Each model may have a file without its weights, which is part of the model and not of its
    digest.
    """
    small, large, weightless = _write(tmp_path, "small.rknn", "large.rknn", "weightless.rknn")
    models = _sets(resolutions=(_resolution(small), _resolution(large, weightless))).of(
        "rknn", RESOLUTIONS
    )
    assert [(model.name, model.weightless) for model in models] == [
        ("small", None),
        ("large", str(weightless)),
    ]
    assert models[1].digest == hashlib.sha256(b"large.rknn").hexdigest()


def test_models_without_resolutions(tmp_path: Path) -> None:
    """The user's models are no resolutions of one network; the message names the option and the
    remedy.
    """
    (model,) = _write(tmp_path, "a.rknn")
    with pytest.raises(NoModels) as refusal:
        _sets(files=(ModelFile(model),)).of("rknn", RESOLUTIONS)
    words = ("--resolution FILE[,WEIGHTLESS]", "the one with the weights first")
    assert [word for word in words if word not in str(refusal.value)] == []


def test_models_of_another_runtime(tmp_path: Path) -> None:
    """A file of a kind that only another runtime reads is left out."""
    onnx, mge = _write(tmp_path, "a.onnx", "a.mge")
    sets = _sets(files=(ModelFile(onnx),), resolutions=(_resolution(mge),))
    assert sets.of("onnxruntime", STREAMS)
    assert sets.of("megengine_lite", RESOLUTIONS)
    for runtime, model_set, words in (
        (
            "megengine_lite",
            STREAMS,
            f"--model {onnx}: megengine_lite reads .mge files, and MegEngine has no importer",
        ),
        (
            "rknn",
            RESOLUTIONS,
            f"--resolution {mge}: rknn reads .rknn files, and .onnx files, which rknn-toolkit2",
        ),
        (
            "onnxruntime",
            RESOLUTIONS,
            "onnxruntime reads .onnx files. Give one, or choose another --runtime: megengine",
        ),
    ):
        with pytest.raises(NoModels, match=re.escape(words)) as refusal:
            sets.of(runtime, model_set)
        assert str(refusal.value) in sets.assumptions(), "it is shown once, before the measurement"


@pytest.mark.parametrize("model_set", [FRAMES_1080P, FRAMES_4K])
def test_frames_are_built_in(tmp_path: Path, built: list[tuple[Any, ...]], model_set: str) -> None:
    """Frames are not measured with the user's models; --resolution leaves frames and streams to
    built-in networks.
    """
    (model,) = _write(tmp_path, "a.onnx")
    with pytest.raises(NoModels, match="Leave --model out"):
        _sets(files=(ModelFile(model),)).of("onnxruntime", model_set)
    assert built == []
    sets = _sets(resolutions=(_resolution(model),), streams=1)
    assert sets.of("onnxruntime", model_set)
    assert sets.of("onnxruntime", STREAMS)
    size = {FRAMES_1080P: 1080, FRAMES_4K: 2160}[model_set]
    assert built == [(".onnx", "frame", size, 1), (".onnx", "yolov5s", 320, 1)]


def test_files_that_are_no_models(tmp_path: Path) -> None:
    """A missing file, a folder and an empty file are named with the problem and a remedy, for every
    option.
    """
    (good,) = _write(tmp_path, "good.rknn")
    empty = tmp_path / "empty.rknn"
    empty.touch()
    cases = [
        (tmp_path / "none.rknn", "it does not exist. Give a model file"),
        (tmp_path, "it is a folder; a regular file is needed. Give a model file"),
        (empty, "the file is empty. Give a model file"),
    ]
    for path, words in cases:
        with pytest.raises(UserError, match=words) as refusal:
            _sets(files=(ModelFile(good), ModelFile(path))).of("rknn", STREAMS)
        assert str(refusal.value).startswith(f"--model {path}: {words}")
        for resolution in (_resolution(path), _resolution(good, path)):
            with pytest.raises(UserError, match=words) as refusal:
                _sets(resolutions=(resolution,)).of("rknn", RESOLUTIONS)
            assert str(refusal.value).startswith(f"--resolution {path}: {words}")


# The built-in models


@pytest.mark.parametrize(
    ("runtime", "chip", "model_set", "files"),
    [
        # Each stream has a seed of its own.
        ("onnxruntime", None, STREAMS, [(".onnx", "yolov5s", 320, seed) for seed in (1, 2, 3)]),
        ("megengine_lite", None, STREAMS, [(".mge", "yolov5s", 320, seed) for seed in (1, 2, 3)]),
        (
            "rknn",
            "rk3588",
            STREAMS,
            [(".rknn", "yolov5s", 320, seed, "rk3588", False) for seed in (1, 2, 3)],
        ),
        # There is one file of each network, whatever the number of streams.
        (
            "onnxruntime",
            None,
            IN_TURN,
            [(".onnx", "yolov5s", 320, 1), (".onnx", "resnet50", 224, 1)],
        ),
        # All resolutions have one seed; if weights can be removed, all but the first are also made
        # without them.
        (
            "megengine_lite",
            None,
            RESOLUTIONS,
            [(".mge", "yolov5s", size, 1) for size in (320, 640)],
        ),
        (
            "rknn",
            "rv1106",
            RESOLUTIONS,
            [(".rknn", "yolov5s", size, 1, "rv1106", False) for size in (320, 640)],
        ),
        (
            "rknn",
            "rk3588",
            RESOLUTIONS,
            [
                (".rknn", "yolov5s", size, 1, "rk3588", bare)
                for size, bare in ((320, False), (640, False), (640, True))
            ],
        ),
    ],
)
def test_built_in_models(
    built: list[tuple[Any, ...]],
    runtime: str,
    chip: str | None,
    model_set: str,
    files: list[tuple[Any, ...]],
) -> None:
    """A set is built once in the runtime's own form: building takes seconds, and many scenarios
    have one set.
    """
    sets = _sets(chip=chip)
    models = sets.of(runtime, model_set)
    assert sets.of(runtime, model_set) is models
    assert built == files
    count = sum(file[-1] is not True for file in files)
    assert len({model.digest for model in models}) == len(models) == count
    weightless = [model.weightless for model in models if model.weightless]
    assert len(weightless) == len(files) - count
    assert not {model.path for model in models} & set(weightless)


@pytest.mark.parametrize("model_set", _SETS)
def test_a_built_in_model_that_cannot_be_built(
    monkeypatch: pytest.MonkeyPatch, model_set: str
) -> None:
    """The reason is passed on with a remedy if there is one; a long attempt is not repeated."""
    ways = {
        RESOLUTIONS: ". Give your own with --resolution FILE[,WEIGHTLESS]",
        FRAMES_1080P: "",
        FRAMES_4K: "",
    }
    way = ways.get(model_set, ". Give your own with --model FILE")
    tries = []

    def fail(kind: str, *_: object, **__: object) -> None:
        tries.append(kind)
        raise ModelError("no space left")

    monkeypatch.setattr(model_sets, "ensure_all", fail)
    sets = _sets(chip="rk3588")
    for _ in range(2):
        with pytest.raises(NoModels, match=rf"no space left{re.escape(way)}$"):
            sets.of("rknn", model_set)
    assert len(tries) == 1


@pytest.mark.parametrize("model_set", _SETS)
def test_built_in_models_for_a_chip(model_set: str) -> None:
    """Without a known chip there are no RKNN models; for a chip that the toolkit lacks, the error
    lists the valid ones.
    """
    with pytest.raises(
        NoModels, match=r"made for one chip, .*; name one with --target vboard:CHIP"
    ):
        _sets().of("rknn", model_set)
    with pytest.raises(NoModels, match="unknown platform 'rk1'; valid: rk3588, "):
        _sets(chip="rk1").of("rknn", model_set)


def test_networks_that_a_runtime_can_run(built: list[tuple[Any, ...]]) -> None:
    """Teflon gets MobileNetV2 in place of the networks with which it crashes, quantised."""
    _sets().of("teflon", IN_TURN)
    assert built == [
        (".int8.tflite", "mobilenet_v2", 224, 1),
        (".int8.tflite", "mobilenet_v2", 160, 1),
    ]


# The models of plan files


def _plan_file(folder: Path, text: str, name: str = "p.toml") -> PlanFile:
    (folder / name).write_text(text)
    return read_plan_file(folder / name)


def test_models_of_a_plan(tmp_path: Path, built: list[tuple[Any, ...]]) -> None:
    """Files and networks have the names that the plan gives them; on an NPU slaves come without
    their weights.
    """
    list(_write(tmp_path, "m.rknn"))
    file = _plan_file(
        tmp_path,
        """
        [models]
        own = "m.rknn"
        master = { network = "tiny", size = 64, seed = 1 }
        slave = { network = "tiny", size = 96, seed = 1 }
        [contexts]
        a = { model = "own" }
        b = { model = "master" }
        c = { model = "slave", shared_weights = "b" }
        """,
    )
    sets = _sets(chip="rk3588")
    models = sets.of_plan("rknn", file)
    assert [model.name for model in models] == ["own", "master", "slave"]
    assert models[0].path == str(tmp_path / "m.rknn")
    assert built == [
        (".rknn", "tiny", 64, 1, "rk3588", False),
        (".rknn", "tiny", 96, 1, "rk3588", False),
        (".rknn", "tiny", 96, 1, "rk3588", True),
    ]
    assert [Path(model.weightless or "").name for model in models[1:]] == [
        "",
        ".rknn-tiny-96-1-rk3588-True",
    ]
    assert sets.of_plan("rknn", file) is models
    assert len(built) == 3
    del built[:]
    with pytest.raises(
        NoModels,
        match=r"p\.toml, line 3, models\.own: file .*m\.rknn: onnxruntime reads \.onnx files",
    ):
        sets.of_plan("onnxruntime", file)


def test_a_plan_gives_its_models_their_inputs(tmp_path: Path) -> None:
    """Each model has its own shapes; a mistake in one is told with the model's line."""
    list(_write(tmp_path, "m.onnx"))
    text = (
        "[models]\nm = { file = 'm.onnx', shape = { picture = '1x3x8x8' } }\n[contexts]\na = {"
        " model = 'm' }"
    )
    (model,) = _sets().of_plan("onnxruntime", _plan_file(tmp_path, text))
    assert [tensor.shape for tensor in model.inputs] == [(1, 3, 8, 8)]
    wrong = _plan_file(tmp_path, text.replace("picture", "frame"))
    with pytest.raises(
        UserError, match=r"line 2, models\.m: --shape frame: no model has such an input"
    ):
        _sets().of_plan("onnxruntime", wrong)


def test_models_of_a_stored_plan(tmp_path: Path) -> None:
    """The models of a stored plan are those that were measured, on that runtime; a changed file is
    refused.
    """
    list(_write(tmp_path, "m.onnx"))
    text = "[models]\nm = 'm.onnx'\n[contexts]\na = { model = 'm' }"
    file = _plan_file(tmp_path, text)
    models = _sets().of_plan("onnxruntime", file)
    stored = json.dumps(file.plan("onnxruntime", models, 1, 1).to_json())
    again = _plan_file(tmp_path, stored, "p.json")
    assert _sets().of_plan("onnxruntime", again) == models
    with pytest.raises(
        NoModels, match=r"p\.json was measured on onnxruntime: add --runtime onnxruntime"
    ):
        _sets().of_plan("rknn", again)
    (tmp_path / "m.onnx").write_bytes(b"another")
    with pytest.raises(UserError, match=r"m\.onnx has changed since the plan was stored"):
        _sets().of_plan("onnxruntime", again)


def test_a_network_of_a_plan_that_cannot_be_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is told, and the conversion tried only once: a failing one takes time, too."""
    calls = []

    def fail(*_: Any, **__: Any) -> Any:
        calls.append(1)
        raise ModelError("no converter")

    monkeypatch.setattr(model_sets, "ensure_all", fail)
    file = _plan_file(
        tmp_path, "[models]\nm = { network = 'tiny' }\n[contexts]\na = { model = 'm' }"
    )
    sets = _sets()
    for _ in range(2):
        with pytest.raises(
            NoModels, match=r"--plan .*p\.toml: a network could not be built: no converter"
        ):
            sets.of_plan("megengine_lite", file)
    assert len(calls) == 1
