"""The real onnx2tf, if it is installed in the user's cache, with a cache of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from reusebench.models.litert.environment import ONNX2TF, LiteRtConverter

__all__ = ["REAL_ONNX2TF", "opened"]

_Converter = TypeVar("_Converter", bound=LiteRtConverter)

#: The user's environment, looked up before a test has its own cache.
_FOLDER = ONNX2TF.folder()
#: Marks of tests that run it.
REAL_ONNX2TF = [
    pytest.mark.process,
    pytest.mark.skipif(
        not ONNX2TF.installed(),
        reason=f"{_FOLDER} is not there: run `reusebench models install onnx2tf` to test it",
    ),
]


@contextmanager
def opened(kind: type[_Converter], caches: pytest.TempPathFactory) -> Iterator[_Converter]:
    """Open a converter that writes into a cache of its own; one process serves all its files."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("XDG_CACHE_HOME", str(caches.mktemp("cache")))
        ONNX2TF.folder().parent.mkdir(parents=True)
        ONNX2TF.folder().symlink_to(_FOLDER)
        with kind() as converter:
            yield converter
