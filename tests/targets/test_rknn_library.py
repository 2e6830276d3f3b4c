"""The search for Rockchip's libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.measured.runtimes.rknn import library_file
from reusebench.system.cache import cache_root
from reusebench.targets.errors import TargetError
from reusebench.targets.rknn_library import find_libraries
from tests.targets.library_files import write_library


def test_libraries_of_files_and_folders(tmp_path: Path) -> None:
    """Each build is there once, by kind and version; other files of a folder are skipped."""
    folder = tmp_path / "libraries"
    (folder / "deeper").mkdir(parents=True)
    (folder / "model.rknn").write_bytes(b"RKNN")
    write_library(folder / "a.so", version="2.3.2", architecture="aarch64")
    write_library(folder / "b.so", version="1.10.0")
    write_library(folder / "copy.so", version="1.10.0")
    file = write_library(tmp_path / "c.so", "librknnmrt", "1.6.0")
    found = find_libraries([folder, file])
    assert list(map(str, found)) == [
        "librknnmrt 1.6.0 (armhf)",
        "librknnrt 1.10.0 (armhf)",
        "librknnrt 2.3.2 (aarch64)",
    ]
    assert [one.path.name for one in found] == ["c.so", "b.so", "a.so"]
    assert found[1].full_version == "1.10.0 (9a7b5d24c@2023-12-13T17:32:13)"


@pytest.mark.usefixtures("own_cache")
def test_the_usual_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a path the cache folder and the boards' folders are searched; they may be missing."""
    monkeypatch.setattr(library_file, "_FOLDERS", (str(tmp_path / "lib"),))
    assert find_libraries() == []
    for folder, version in ((cache_root() / "rknn", "2.3.2"), (tmp_path / "lib", "1.6.0")):
        folder.mkdir(parents=True)
        write_library(folder / "librknnrt.so", version=version)
    assert [one.version for one in find_libraries()] == ["1.6.0", "2.3.2"]


@pytest.mark.parametrize("name", ["missing.so", "model.rknn"])
def test_a_named_file_must_be_a_library(name: str, tmp_path: Path) -> None:
    """The error says if it is missing or something else."""
    (tmp_path / "model.rknn").write_bytes(b"RKNN")
    with pytest.raises(TargetError, match=name):
        find_libraries([tmp_path / name])
