"""Weight files that a model file names, or has beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.models import weight_files as module
from reusebench.models.model_kinds import is_language_model, language_file, model_name
from reusebench.models.weight_files import weight_files

#: Entry of an ONNX file that names its weights.
_ENTRY = b"\x0a\x08location\x12\x03ext"


def test_only_onnx_files_name_weights(tmp_path: Path) -> None:
    """Files of other kinds, which may be large, are not searched."""
    (tmp_path / "ext").write_bytes(b"weights")
    for name, files in (("a.onnx", [tmp_path / "ext"]), ("a.rknn", []), ("a.tflite", [])):
        (tmp_path / name).write_bytes(b"x" + _ENTRY)
        assert weight_files(tmp_path / name) == files


def test_other_parts_and_the_files_of_a_folder(tmp_path: Path) -> None:
    """A split GGUF file has its other parts, and a model that is a folder its other files."""
    names = [f"m-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    assert weight_files(tmp_path / names[0]) == [tmp_path / names[1], tmp_path / names[2]]
    folder = tmp_path / "talker"
    folder.mkdir()
    for name in ("genai_config.json", "model.onnx", "tokenizer.json"):
        (folder / name).write_bytes(b"x")
    (folder / "folder").mkdir()
    config = folder / "genai_config.json"
    assert weight_files(config) == [folder / "model.onnx", folder / "tokenizer.json"]
    assert (language_file(folder), model_name(config)) == (config, "talker")
    assert is_language_model(folder)
    (folder / "tokenizer.json").unlink()
    assert not is_language_model(folder)


def test_the_search_ends_where_protobuf_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sparse ONNX file of any size takes no longer than the largest valid one."""
    monkeypatch.setattr(module, "MOST_ONNX_BYTES", 1)
    monkeypatch.setattr(module, "_BLOCK_BYTES", 64)
    (tmp_path / "ext").write_bytes(b"weights")
    model = tmp_path / "a.onnx"
    model.write_bytes(bytes(64) + _ENTRY)
    assert weight_files(model) == []
