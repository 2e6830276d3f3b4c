"""The rooms of the house: who may import whom, held on the text of every module."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import CHECKOUT

#: What each room may import of the others. What has a row of its own is not part of its room.
_ARROWS = {
    "models": set(),
    "samplers": set(),
    "samplers/__main__.py": {"samplers", "storage"},
    "samplers/record_command.py": {"samplers", "storage"},
    "samplers/record_summary.py": {"samplers", "storage"},
    "samplers/stored_run.py": {"samplers", "storage"},
    "runtimes": set(),
    "runtimes/__main__.py": {"harness", "runtimes", "samplers", "storage", "targets"},
    "video": {"models", "runtimes"},
    "scenarios": {"runtimes", "video"},
    "targets": {"models", "runtimes", "scenarios"},
    "accounting": {"scenarios"},
    "storage": {"scenarios"},
    "harness": {"accounting", "models", "runtimes", "samplers", "scenarios", "storage", "targets", "video"},
    "reports": {"scenarios", "storage"},
    "bench": set(),
    "conftest.py": {"harness", "samplers", "storage"},
}  # type: dict[str, set[str]]

#: Where a room needs one module of another room and no more.
_ONLY = {
    ("accounting", "scenarios"): {"scenarios.plan"},
    ("storage", "scenarios"): {"scenarios.plan"},
    ("targets", "models"): {"models.cache", "models.megengine"},
    ("targets", "runtimes"): {"runtimes.RuntimeEntry", "runtimes.available", "runtimes.rknn.library"},
    ("reports", "scenarios"): {"scenarios.catalogue"},
    ("video", "models"): {"models.cache", "models.errors"},
    ("video", "runtimes"): {"runtimes.base"},
    ("scenarios", "video"): {"video.decoder", "video.letterbox"},
    ("harness", "video"): {"video.asked", "video.clip", "video.errors"},
}

#: Packages that only these rooms may import: they would weigh in on the scale, or draw a table where none belongs.
_PACKAGES = {
    "numpy": {"models", "reports", "runtimes"},
    "onnx": {"models", "runtimes"},  # runtimes: in the process that prepares models
    "onnxruntime": {"runtimes"},
    "pandas": {"reports"},
    "matplotlib": {"reports"},
    "jinja2": {"reports"},
    "av": {"video"},
    "psutil": {"samplers"},
    "jsonschema": {"storage"},
    "fastjsonschema": {"storage"},
    "pytest": {"bench", "harness", "conftest.py"},
}

#: Places that import the rooms and the standard library, and no package at all.
_STANDARD_LIBRARY_ALONE = ("accounting", "runtimes/__init__.py", "runtimes/base.py", "runtimes/rknn", "scenarios")

_ROOMS = {place.partition("/")[0].partition(".")[0] for place in _ARROWS}
_PARTS = [place for place in _ARROWS if (CHECKOUT / place).exists()]
_MEASURED = [
    path
    for room in ("scenarios", "runtimes", "video")
    for path in (CHECKOUT / room).rglob("*.py")
    if path.name != "__main__.py"
]


def _files(place: str) -> list[Path]:
    path = CHECKOUT / place
    if path.is_file():
        return [path]
    return [file for file in sorted(path.rglob("*.py")) if str(file.relative_to(CHECKOUT)) not in _ARROWS]


def _imports(file: Path) -> Iterator[str]:
    """Yield the full name of every module that the file imports, in functions and for annotations too."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}: relative import"
            assert node.module is not None
            # `from scenarios import plan` is an import of scenarios.plan.
            package = (CHECKOUT / node.module.replace(".", "/")).is_dir()
            yield from (f"{node.module}.{alias.name}" if package else node.module for alias in node.names)


def _room_of(module: str) -> str:
    return module.partition(".")[0]


def test_every_room_is_in_the_table() -> None:
    """A new package at the root needs a row here, and thereby a decision."""
    packages = {path.parent.name for path in CHECKOUT.glob("*/__init__.py") if not path.parent.name.startswith(".")}
    modules = {path.stem for path in CHECKOUT.glob("*.py")}
    assert packages | modules <= _ROOMS


@pytest.mark.parametrize("place", _PARTS)
def test_arrows_point_one_way(place: str) -> None:
    """A room imports only the rooms that it may; nobody imports bench, conftest or the tests."""
    own = place.partition("/")[0]
    allowed = _ARROWS[place] | {own}
    for file in _files(place):
        ours = {module for module in _imports(file) if _room_of(module) in _ROOMS | {"tests"}}
        assert {module for module in ours if _room_of(module) not in allowed} == set(), file
        for (room, other), modules in _ONLY.items():
            if room == own:
                of_other = {module for module in ours if _room_of(module) == other}
                assert {module for module in of_other if not module.startswith(tuple(modules))} == set(), file


@pytest.mark.parametrize("package", _PACKAGES)
def test_packages_stay_in_their_rooms(package: str) -> None:
    """What would weigh in on the scale, or does another room's work, is imported only where it belongs."""
    for place in _PARTS:
        users = [file for file in _files(place) if package in {_room_of(module) for module in _imports(file)}]
        assert place in _PACKAGES[package] or users == []


@pytest.mark.skipif(sys.version_info < (3, 10), reason="this Python does not say what its standard library has")
@pytest.mark.parametrize("place", _STANDARD_LIBRARY_ALONE)
def test_the_standard_library_is_enough(place: str) -> None:
    """What a bare Python on a board or under an emulator runs needs nothing installed."""
    for file in _files(place):
        packages = {_room_of(module) for module in _imports(file)} - _ROOMS
        assert packages <= set(sys.stdlib_module_names), file


@pytest.mark.parametrize("file", _MEASURED, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_the_measured_process_has_the_syntax_of_python_3_8(file: Path) -> None:
    """Boards come with old Pythons: what runs there parses there."""
    ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 8))
