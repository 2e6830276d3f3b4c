"""Weight files that a model file names, or has beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.models import weight_files as module
from reusebench.models.weight_files import weight_files

#: Entry of an ONNX file that names its weights.
_ENTRY = b"\x0a\x08location\x12\x03ext"


def test_only_onnx_files_name_weights(tmp_path: Path) -> None:
    """Files of other kinds, which may be large, are not searched."""
    (tmp_path / "ext").write_bytes(b"weights")
    for name, files in (("a.onnx", [tmp_path / "ext"]), ("a.rknn", []), ("a.tflite", [])):
        (tmp_path / name).write_bytes(b"x" + _ENTRY)
        assert weight_files(tmp_path / name) == files


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
