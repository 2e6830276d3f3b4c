"""Wheels of another machine's Python, which this machine's pip installs from a folder."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from reusebench.targets.errors import TargetError
from reusebench.targets.vboard.catalogue import rocket_board
from reusebench.targets.vboard.wheels import install_wheels

pytestmark = pytest.mark.process

_TAG = "cp399-cp399-manylinux_2_27_aarch64"
_FILES = {
    "thing.py": "value = 1\n",
    "thing-1.0.dist-info/METADATA": (
        "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\nRequires-Python: >=3.99\n"
        "Requires-Dist: another\n"
    ),
    "thing-1.0.dist-info/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {_TAG}\n",
    "thing-1.0.dist-info/RECORD": "",
}


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return requirements with the hash of the one wheel that there is."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel = wheels / f"thing-1.0-{_TAG}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in _FILES.items():
            archive.writestr(name, text)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    lock = tmp_path / "things.txt"
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    lock.write_text(f"thing==1.0 --hash=sha256:{digest}\n", encoding="ascii")
    return lock


def test_wheels_of_another_machine_are_installed(lock: Path, tmp_path: Path) -> None:
    """Neither this machine's Python nor its processor matters, and nothing is compiled."""
    assert install_wheels(lock, tmp_path / "site", "aarch64", "3.99") == ["thing-1.0"]
    files = [path.name for path in (tmp_path / "site").rglob("*") if path.is_file()]
    assert "thing.py" in files
    assert not [name for name in files if name.endswith(".pyc")]


def test_another_wheel_than_the_pinned_one(lock: Path, tmp_path: Path) -> None:
    """It is refused, and so is one that is missing."""
    text = lock.read_text(encoding="ascii")
    digest = text.partition("sha256:")[2]
    for wrong in (text.replace(digest, "0" * 64), text.replace("1.0", "2.0")):
        lock.write_text(wrong, encoding="ascii")
        with pytest.raises(TargetError, match="not install the wheels of things for Python 3"):
            install_wheels(lock, tmp_path / "site", "aarch64", "3.99")


def test_the_pinned_wheels_are_checked() -> None:
    """Every package of the virtual rocket board has a version and hashes."""
    system = rocket_board().system
    assert system is not None
    assert system.wheels is not None
    lines = system.wheels.read_text(encoding="ascii").splitlines()
    pinned = [line for line in lines if not line.startswith((" ", "#"))]
    assert all("==" in line and line.endswith("\\") for line in pinned)
    assert {line.partition("==")[0] for line in pinned} == {"ai-edge-litert", "numpy"}
