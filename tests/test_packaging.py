"""An installation is complete, from a wheel or the checkout; `make wheel` builds and uses them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from reusebench.system.package import PACKAGE
from tests.helpers.support import CHECKOUT

pytestmark = pytest.mark.process

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Links to folders at the root of a checkout.
_LINKS = ("bench", "native", "reports", "scenarios")


def test_every_file_of_the_package_is_installed() -> None:
    """Each tracked file is a module, or has a name that pyproject.toml takes along."""
    if not (CHECKOUT / ".git").exists():
        pytest.skip("this is no checkout of git")
    command = ["git", "ls-files", "-z", "src/reusebench", *_LINKS]
    listed = subprocess.run(
        command, cwd=CHECKOUT, check=True, capture_output=True, text=True
    ).stdout
    files = [
        Path(name) for name in listed.split("\0") if name and not (CHECKOUT / name).is_symlink()
    ]
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "setuptools"
    ]
    patterns = ["*.py", *settings["package-data"]["*"]]
    assert len(files) > 100
    assert [
        str(file) for file in files if not any(fnmatch(file.name, pattern) for pattern in patterns)
    ] == []


@pytest.mark.parametrize("name", _LINKS)
def test_links_are_relative(name: str) -> None:
    """A checkout may lie anywhere, and be moved."""
    assert (PACKAGE / name).readlink() == Path("..", "..", name)


def test_a_checkout_without_links_is_told(tmp_path: Path) -> None:
    """Git writes links as text if the file system has none, or it was told so."""
    (tmp_path / "reusebench").mkdir()
    shutil.copy(PACKAGE / "__init__.py", tmp_path / "reusebench")
    for name in _LINKS:
        (tmp_path / "reusebench" / name).write_text(f"../../{name}")
    command = [sys.executable, "-c", "import reusebench"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "ImportError: reusebench is not whole: bench is no folder" in done.stderr


def test_the_image_gets_what_an_installation_needs() -> None:
    """The container's context has the package, its links, and the files that pyproject.toml names;
    all else stays out.
    """
    lines = (CHECKOUT / ".containerignore").read_text(encoding="utf-8").split()
    assert lines[0] == "**"
    taken = {line[1:] for line in lines if line.startswith("!")}
    assert {name for name in taken if not (CHECKOUT / name).exists()} == set()
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {"pyproject.toml", "src", project["readme"], *project["license-files"], *_LINKS}
    assert needed <= taken
