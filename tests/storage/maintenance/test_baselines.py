"""The baselines of a project: found where pytest takes options from."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.storage.errors import StorageError
from reusebench.storage.maintenance.baselines import configured_baselines


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", "[pytest]\naddopts = -q --baseline 12 --fail latency:5%\n"),
        (".pytest.ini", "[pytest]\naddopts =\n    --baseline=12\n    -q\n"),
        ("tox.ini", "[tox]\nenvlist = py311\n[pytest]\naddopts = --baseline '12'\n"),
        ("setup.cfg", "[metadata]\nname = %x\n[tool:pytest]\naddopts = --baseline 12\n"),
        ("pyproject.toml", '[tool.pytest.ini_options]\naddopts = "-q --baseline 12"\n'),
        ("pyproject.toml", '[tool.pytest.ini_options]\naddopts = ["--baseline", "12"]\n'),
        ("pyproject.toml", '[tool.pytest]\naddopts = ["--benchmark-compare=12"]\n'),
    ],
)
def test_files(tmp_path: Path, name: str, text: str) -> None:
    """Every file of pytest's configuration is read, in folders above the project's, too."""
    (tmp_path / name).write_text(text)
    project = tmp_path / "bench"
    project.mkdir()
    (baseline,) = configured_baselines(project)
    assert baseline.reference == "12"
    assert baseline.place.endswith(f"in {tmp_path / name}")


def test_no_baselines(tmp_path: Path) -> None:
    """Files without options, or of other tools, name none; an option without a value neither."""
    (tmp_path / "tox.ini").write_text("[tox]\naddopts = --baseline 12\n")
    (tmp_path / "pyproject.toml").write_text("[tool]\npytest = 3\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --benchmark-compare -q\n")
    assert configured_baselines(tmp_path) == []


def test_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PYTEST_ADDOPTS counts as pytest counts it."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-q --baseline 'my release'")
    assert configured_baselines(tmp_path) == [("my release", "--baseline in PYTEST_ADDOPTS")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", "addopts = x"),
        ("pytest.ini", "[pytest]\naddopts = 'x"),
        ("pyproject.toml", "[tool"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, name: str, text: str) -> None:
    """The baselines are unknown then, and nothing may be removed."""
    (tmp_path / name).write_text(text)
    with pytest.raises(StorageError, match=r"baselines in .* are unknown"):
        configured_baselines(tmp_path)
