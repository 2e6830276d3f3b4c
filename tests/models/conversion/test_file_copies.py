"""Converters get copies: whatever they do to their input, files of users and of the cache stay as
they are.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from reusebench.measured.runtimes.base import InputData
from reusebench.models import converters
from reusebench.models.built_files import fill
from reusebench.models.conversion.converter import Converter, NativeConverter
from reusebench.models.conversion.environments import ConverterEnvironment, PythonPackage
from reusebench.models.conversion.file_copies import copy_files
from reusebench.models.errors import ConversionError
from reusebench.models.recipe import NativeForm, NativeRecipe, OnnxFile, Recipe
from reusebench.system.cache import CacheError, cache_root

pytestmark = pytest.mark.process

_TINY = Recipe("tiny", 64, 1)
_CHIP = "rk3588"
_INPUT = InputData("x", "float32", (1, 3, 32, 32))
_WEIGHTS = "parts/weights.data"

#: The real converters with their folders, looked up before a test has its own cache.
_REAL = [
    pytest.param(
        converter,
        converter.environment.folder()
        if isinstance(converter.environment, ConverterEnvironment)
        else None,
        id=converter.environment.makes,
        marks=pytest.mark.skipif(
            not converter.environment.installed(),
            reason=f"{converter.environment.library} is not installed",
        ),
    )
    for converter in converters()
]

#: Changes to the model, and then to all files beside it and to the data of its inputs.
_SCRIPT = """
import os
import pathlib


def convert(job):
    model = pathlib.Path(job["onnx"])
    files = [file for file in sorted(model.parent.rglob("*")) if file.is_file()]
    files += [pathlib.Path(tensor["file"]) for tensor in job["inputs"] if tensor["file"]]
    pathlib.Path(job["output"]).write_text("\\n".join(str(file) for file in files))
    for file in files:
        {action}
    return None
"""
_ACTIONS = {
    "writes over": 'file.write_bytes(b"another")',
    "writes into": (
        'descriptor = os.open(file, os.O_RDWR); os.pwrite(descriptor, b"another", 0);'
        " os.close(descriptor)"
    ),
    "appends": 'file.open("ab").write(b"more")',
    "deletes": "file.unlink()",
    "replaces": 'new = file.with_name("new"); new.write_bytes(b"another"); new.replace(file)',
    "changes the mode": "file.chmod(0o777)",
}


class _ScriptedConverter(NativeConverter):
    """Runs a program of the test in this Python."""

    environment = PythonPackage(
        library="scripted", module="json", makes=".scripted", install="nothing"
    )

    @classmethod
    def form(cls) -> NativeForm:
        """Return the format of the files."""
        return NativeForm(".scripted", "scripted1", revision=1)


@pytest.fixture
def cached_network(model_cache: Path, tiny_model: Path) -> Path:  # noqa: ARG001 - where the file is
    """Return the ONNX file of a built-in network in the cache of the test."""
    return fill(_TINY, lambda path: shutil.copyfile(tiny_model, path))


@pytest.fixture(params=list(_ACTIONS.values()), ids=list(_ACTIONS))
def scripted(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    model_cache: Path,  # noqa: ARG001
) -> Iterator[_ScriptedConverter]:
    """Return a converter that applies the action to all its files."""
    program = tmp_path / "program.py"
    program.write_text(_SCRIPT.format(action=request.param))

    class Converting(_ScriptedConverter):
        """A converter with this program."""

    Converting.program = program
    with Converting() as converter:
        yield converter


def _user_file(folder: Path, free: bool = False) -> OnnxFile:
    """Return a read-only model with external data in a subfolder, and data for its input."""
    weights = np.random.RandomState(0).rand(4, 3, 3, 3).astype(np.float32)
    declared: list[int | str | None] = ["batch", 3, "height", "width"] if free else [*_INPUT.shape]
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "weights"], ["z"]), helper.make_node("Relu", ["z"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, declared)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "weights")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (folder / _WEIGHTS).parent.mkdir(parents=True)
    path = folder / "user's model.onnx"
    data = folder / "data.npy"
    onnx.save(model, path, save_as_external_data=True, location=_WEIGHTS, size_threshold=0)
    assert (folder / _WEIGHTS).stat().st_size == weights.nbytes
    np.save(data, np.random.RandomState(1).rand(*_INPUT.shape).astype(np.float32))
    for file in (path, data, folder / _WEIGHTS):
        file.chmod(0o444)
    fed = InputData(_INPUT.name, _INPUT.type, _INPUT.shape, file=str(data))
    digest = "5b" if free else "5a"
    return OnnxFile(str(path), digest * 32, (fed,), free)


def _state(folder: Path) -> dict[Path, tuple[Any, ...]]:
    """Return the digest of each file in a folder, with its inode, mode, links and time of
    change.
    """
    return {path: _state_of(path) for path in folder.rglob("*") if path.is_file()}


def _state_of(file: Path) -> tuple[Any, ...]:
    status = file.stat()
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return digest, status.st_ino, status.st_mode, status.st_nlink, status.st_ctime_ns


def _nothing_left() -> bool:
    return list((cache_root() / "temporary").iterdir()) == []


@pytest.mark.parametrize(("kind", "folder"), _REAL)
def test_what_real_converters_read(
    kind: type[Converter[Any]], folder: Path | None, cached_network: Path, tmp_path: Path
) -> None:
    """Each converter reads users' models with data, and a built-in network; no file changes."""
    _link_environment(kind, folder)
    network = _state_of(cached_network)
    sources: list[Recipe | OnnxFile] = [_TINY]
    if kind.imports_onnx:
        for name, is_free in (("fixed", False), ("free", True)):
            sources.append(_user_file(tmp_path / "user" / name, is_free))
    before = _state(tmp_path / "user")
    with kind() as converter:
        recipes = [
            converter.recipe(source, _CHIP, weightless=False, quantised=True) for source in sources
        ]
        made = converter.ensure_all(recipes)
    assert [file for file in made if file.stat().st_size == 0] == []
    assert len(set(made)) == len(sources)
    assert _state(tmp_path / "user") == before
    assert _state_of(cached_network) == network
    assert _nothing_left()


def _link_environment(kind: type[Converter[Any]], folder: Path | None) -> None:
    """Put the user's environment into the cache of the test."""
    if isinstance(kind.environment, ConverterEnvironment) and folder is not None:
        kind.environment.folder().parent.mkdir(parents=True)
        kind.environment.folder().symlink_to(folder)


def test_what_a_converter_does_to_a_users_files(
    scripted: _ScriptedConverter, tmp_path: Path
) -> None:
    """The user's files do not change; the converter gets writable copies with relative names."""
    source = _user_file(tmp_path / "user")
    before = _state(tmp_path / "user")
    for _ in range(2):
        scripted.write(scripted.recipe(source), tmp_path / "made")
        given = [Path(line) for line in (tmp_path / "made").read_text().splitlines()]
        assert [file.name for file in given] == ["weights.data", "user's model.onnx", "0.npy"]
        assert given[0] == given[1].parent / _WEIGHTS
        assert all(cache_root() in file.parents for file in given)
        assert _state(tmp_path / "user") == before
    assert list((cache_root() / "temporary").glob("*/model")) == []


def test_what_a_converter_does_to_the_cache(
    scripted: _ScriptedConverter, cached_network: Path, tmp_path: Path
) -> None:
    """The ONNX file of a built-in network does not change."""
    before = _state_of(cached_network)
    scripted.write(scripted.recipe(_TINY), tmp_path / "made")
    assert (tmp_path / "made").exists()
    assert _state_of(cached_network) == before


def test_copies_have_their_own_inodes_and_names(tmp_path: Path) -> None:
    """The recipe has only paths of copies, which are no links and are writable."""
    source = _user_file(tmp_path / "user")
    recipe, copy = copy_files(
        _ScriptedConverter.recipe(source), Path(source.path), tmp_path / "copies"
    )
    assert isinstance(recipe, NativeRecipe)
    assert isinstance(recipe.source, OnnxFile)
    assert recipe.source.path == str(copy)
    assert recipe.file_name == _ScriptedConverter.recipe(source).file_name
    data = recipe.source.inputs[0].file
    assert data is not None
    for made, origin in (
        (copy, Path(source.path)),
        (copy.parent / _WEIGHTS, tmp_path / "user" / _WEIGHTS),
        (Path(data), tmp_path / "user" / "data.npy"),
    ):
        assert tmp_path / "copies" in made.parents
        assert made.read_bytes() == origin.read_bytes()
        assert not made.is_symlink()
        assert made.stat().st_nlink == 1
        assert made.stat().st_mode & 0o200


def test_a_path_that_leads_out_of_the_folder_is_not_copied(tmp_path: Path) -> None:
    """A file elsewhere that a model names is not copied."""
    source = _user_file(tmp_path / "user")
    model = onnx.load(source.path, load_external_data=False)
    model.graph.initializer[0].external_data[0].value = "../secret.data"
    (tmp_path / "secret.data").write_bytes(b"secret")
    path = tmp_path / "user" / "escaping.onnx"
    path.write_bytes(model.SerializeToString())
    copy_files(
        _ScriptedConverter.recipe(OnnxFile(str(path), "0" * 64, (), False)),
        path,
        tmp_path / "copies",
    )
    copied = [file for file in (tmp_path / "copies").rglob("*") if file.is_file()]
    assert [file.name for file in copied] == ["escaping.onnx"]


@pytest.mark.parametrize("name", ["user's model.onnx", _WEIGHTS, "data.npy"])
def test_what_cannot_be_read(name: str, scripted: _ScriptedConverter, tmp_path: Path) -> None:
    """The error names the file; weights that are no regular file are refused too."""
    source = _user_file(tmp_path / "user")
    (tmp_path / "user" / name).unlink()
    (tmp_path / "user" / name).mkdir()
    with pytest.raises(
        ConversionError,
        match=rf"^scripted could not make .*: reading /.*{name} failed: it is a folder",
    ):
        scripted.write(scripted.recipe(source), tmp_path / "made")
    assert not (tmp_path / "made").exists()
    assert _nothing_left()


def test_a_full_disk(
    scripted: _ScriptedConverter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The usual message appears, and nothing is left."""

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    source = _user_file(tmp_path / "user")
    monkeypatch.setattr(shutil, "copyfile", fail)
    with pytest.raises(
        CacheError,
        match=r"cannot write /.*user's model\.onnx: No space left on device; choose a folder",
    ):
        scripted.write(scripted.recipe(source), tmp_path / "made")
    assert not (tmp_path / "made").exists()
    assert _nothing_left()
