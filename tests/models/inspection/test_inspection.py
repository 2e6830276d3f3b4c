"""Files that can be inspected at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reusebench.models.errors import ModelError
from reusebench.models.inspection import READERS, inspect
from tests.helpers.support import CHECKOUT


@pytest.mark.parametrize("suffix", READERS)
def test_empty_files(tmp_path: Path, suffix: str) -> None:
    """An empty file is called empty, whatever its suffix."""
    path = tmp_path / f"model{suffix}"
    path.touch()
    with pytest.raises(ModelError, match=r"the file is empty\. Give a model file"):
        inspect(path)


def test_what_is_no_model_file(tmp_path: Path) -> None:
    """A missing file, a folder and another suffix are refused, and the valid ones named."""
    (tmp_path / "model.pt").write_bytes(b"model")
    for name, problem in (
        ("no.onnx", "does not exist"),
        ("", "is a folder"),
        ("model.pt", "is no model file"),
    ):
        with pytest.raises(ModelError, match=f"{problem}.*\\.onnx, .*\\.rknn"):
            inspect(tmp_path / name)


@pytest.mark.process
def test_importing_it_imports_no_library() -> None:
    """The harness can import the package, since it imports neither numpy nor onnx."""
    code = (
        "import sys, reusebench.models.inspection, reusebench.models.inspection.applicability; "
        "sys.exit(bool({'numpy', 'onnx'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, check=False).returncode == 0
