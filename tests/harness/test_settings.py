"""Options and what becomes of them; what only a whole pytest shows is in tests/bench."""

from __future__ import annotations

import argparse
import hashlib
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import models
from harness import settings
from harness.errors import (
    ModelFileEmpty,
    ModelFileMissing,
    ModelNotBuilt,
    NoRuntime,
    PssUnreadable,
    RuntimeNotInstalled,
    StorageNotLocal,
    StorageNotWritable,
    UserError,
)
from harness.session import choose_board_storage, storage_folder
from harness.settings import (
    add_options,
    check_kernel,
    check_runtimes,
    chosen_runtimes,
    resolve_models,
    resolve_settings,
)
from runtimes import RUNTIMES
from samplers import process as process_module
from storage.board import board_storage


class Group:
    """Collects what add_options declares in an argparse parser, as pytest does."""

    def __init__(self) -> None:
        self.parser = argparse.ArgumentParser(exit_on_error=False)

    def getgroup(self, *_: str) -> Group:
        """Return the one group."""
        return self

    def addoption(self, *names: str, **options: Any) -> None:
        """Declare one option."""
        self.parser.add_argument(*names, **options)


def _config(*arguments: object, **options: object) -> Any:
    """Return a pytest.Config as far as the settings look into it."""
    group: Any = Group()
    add_options(group)
    option = group.parser.parse_args([str(each) for each in arguments])
    for name, value in options.items():
        setattr(option, name, value)
    return SimpleNamespace(option=option, getoption=lambda name: getattr(option, name))


def test_defaults() -> None:
    """Four streams with three contexts each, in three processes, on all usable CPUs."""
    found = resolve_settings(_config())
    assert (found.streams, found.contexts, found.repeats, found.sample_hz) == (4, 3, 3, 200)
    assert found.cores == len(os.sched_getaffinity(0))


def test_quick_gives_way_to_what_is_given_beside_it() -> None:
    """--quick means less effort, but only where no option says otherwise."""
    default, quick = resolve_settings(_config()), resolve_settings(_config("--quick"))
    assert quick.repeats < default.repeats
    assert quick.rounds < default.rounds
    given = resolve_settings(_config("--quick", "--repeats", 7, "--rounds", 9, "--streams", 2))
    assert (given.repeats, given.rounds, given.streams) == (7, 9, 2)


@pytest.mark.parametrize("option", ["--streams", "--contexts", "--repeats", "--rounds"])
@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5", "", "inf", "1e3"])
def test_counts_are_whole_numbers_from_1(option: str, value: str) -> None:
    """The message quotes what was given and says what is valid."""
    with pytest.raises(argparse.ArgumentError) as refusal:
        _config(f"{option}={value}")
    assert f"{option}: {value!r} is not valid; valid: a whole number from 1" in str(refusal.value)


@pytest.mark.parametrize("option", ["--sample-hz", "--time-limit"])
@pytest.mark.parametrize("value", ["0", "-1", "x", "nan", "inf", ""])
def test_rates_are_above_0(option: str, value: str) -> None:
    """The message quotes what was given and says what is valid."""
    with pytest.raises(argparse.ArgumentError) as refusal:
        _config(f"{option}={value}")
    assert f"{option}: {value!r} is not valid; valid: a number above 0" in str(refusal.value)


def test_runtimes_by_name() -> None:
    """Without a name all that are installed are measured; a name given twice counts once."""
    assert chosen_runtimes(_config()) == ["onnxruntime"]
    assert chosen_runtimes(_config("--runtime", "onnxruntime", "--runtime", "onnxruntime")) == ["onnxruntime"]
    with pytest.raises(argparse.ArgumentError, match="unknown runtime 'onnx'; valid: onnxruntime"):
        _config("--runtime", "onnx")
    check_runtimes(_config())


def test_runtimes_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was asked for is an error that says what to install; none at all is an error too."""
    monkeypatch.setattr(settings, "available", lambda _: False)
    with pytest.raises(RuntimeNotInstalled, match=f"--runtime onnxruntime: .* Install it: {RUNTIMES[0].install}"):
        check_runtimes(_config("--runtime", "onnxruntime"))
    assert chosen_runtimes(_config()) == []
    with pytest.raises(NoRuntime, match="python -m runtimes"):
        check_runtimes(_config())


def test_a_kernel_without_pss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where neither smaps_rollup nor smaps can be read nothing is measured, and the kernel's option is named."""
    check_kernel()
    monkeypatch.setattr(process_module, "_read_sizes", lambda *_: {})
    with pytest.raises(PssUnreadable, match="CONFIG_PROC_PAGE_MONITOR=y"):
        check_kernel()


def test_models_that_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They keep their order; each has its file's name, its absolute path and its digest."""
    for name in ("b.onnx", "a.onnx"):
        (tmp_path / name).write_bytes(name.encode())
    monkeypatch.chdir(tmp_path)
    found = resolve_models(_config("--model", "b.onnx", "--model", tmp_path / "a.onnx"))
    assert [(model.name, model.path) for model in found] == [
        ("b", str(tmp_path / "b.onnx")),
        ("a", str(tmp_path / "a.onnx")),
    ]
    assert [model.digest for model in found] == [hashlib.sha256(name).hexdigest() for name in (b"b.onnx", b"a.onnx")]


def test_weights_beside_a_model_belong_to_its_digest(tmp_path: Path) -> None:
    """A file that the model names changes what the model is; its other neighbours do not."""
    model = tmp_path / "model.onnx"
    model.write_bytes(b"... location weights.bin ...")

    def digest() -> str:
        return resolve_models(_config("--model", model))[0].digest

    digests = [digest()]
    for name, content in (("weights.bin", b"1"), ("weights.bin", b"2"), ("other.bin", b"3")):
        (tmp_path / name).write_bytes(content)
        digests.append(digest())
    assert len(set(digests[:3])) == 3
    assert digests[3] == digests[2]


def test_the_built_in_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without --model each stream has the same network with other weights; --quick takes another network."""
    built = []

    def ensure(network: str, size: int, seed: int) -> Path:
        built.append((network, size, seed))
        path = tmp_path / f"{network}-{seed}.onnx"
        path.write_bytes(str(seed).encode())
        return path

    monkeypatch.setattr(models, "ensure", ensure)
    assert len({model.digest for model in resolve_models(_config("--streams", 3))}) == 3
    resolve_models(_config("--quick", "--streams", 1))
    assert built == [("yolov5s", 320, 1), ("yolov5s", 320, 2), ("yolov5s", 320, 3), ("mobilenet_v2", 224, 1)]


def test_files_that_are_no_models(tmp_path: Path) -> None:
    """Missing, a folder, empty: each is named with what is wrong and what to do."""
    empty = tmp_path / "empty.onnx"
    empty.touch()
    cases = [
        (tmp_path / "none.onnx", ModelFileMissing, "does not exist. Give a model file"),
        (tmp_path, ModelFileMissing, "is a folder. Give a model file"),
        (empty, ModelFileEmpty, "the file is empty. Export or copy it again"),
    ]
    for path, error, words in cases:
        with pytest.raises(error) as refusal:
            resolve_models(_config("--model", path))
        assert str(refusal.value).startswith(f"--model {path}: {words}")


def test_a_built_in_model_that_cannot_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is passed on with a way around it."""

    def fail(*_: object) -> None:
        raise models.ModelError("no space left")

    monkeypatch.setattr(models, "ensure", fail)
    with pytest.raises(ModelNotBuilt, match=r"no space left\. Give your own with --model FILE"):
        resolve_models(_config())


def test_every_mistake_is_a_user_error() -> None:
    """conftest.py catches one class."""
    errors = (ModelFileEmpty, ModelFileMissing, ModelNotBuilt, NoRuntime, RuntimeNotInstalled)
    assert all(issubclass(error, UserError) for error in (*errors, StorageNotLocal, StorageNotWritable))


@pytest.mark.parametrize("uri", ["file:///data/store", "/data/store"])
def test_a_storage_is_a_folder(uri: str) -> None:
    """With a scheme or without, as pytest-benchmark understands both."""
    config = _config(benchmark_storage=uri)
    choose_board_storage(config)
    assert storage_folder(config) == Path("/data/store")


def test_the_common_storage_becomes_the_boards() -> None:
    """pytest-benchmark's default place is one for all boards."""
    config = _config(benchmark_storage="file://./.benchmarks")
    choose_board_storage(config)
    assert storage_folder(config) == board_storage()


def test_a_storage_that_is_no_folder() -> None:
    """It is refused before pytest-benchmark opens it."""
    with pytest.raises(pytest.UsageError, match=r"elasticsearch.*: results and traces need a folder"):
        choose_board_storage(_config(benchmark_storage="elasticsearch+http://host/index"))
