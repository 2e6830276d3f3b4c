"""Storages without waiting: what was just written may be kept, however small it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.storage.index import covered, storage_index


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setattr(covered, "_STEP_S", 0)
    monkeypatch.setattr(storage_index, "LEAST_BYTES", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """A folder for a storage."""
    return tmp_path / "storage"
