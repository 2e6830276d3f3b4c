"""Who may import whom, held on the text of every module."""

from __future__ import annotations

import ast
import functools
import sys
from pathlib import Path

import pytest

from tests.support import CHECKOUT

#: What each package may import of the others.
_PACKAGES: dict[str, set[str]] = {
    "messages": set(),
    "system": set(),
    "models": {"runtimes", "system"},
    "samplers": {"messages"},
    "recorder": {"samplers", "storage", "system", "targets"},
    "runtimes": {"messages"},
    "video": {"runtimes", "system"},
    "scenarios": {"messages", "runtimes", "video"},
    "targets": {"messages", "models", "runtimes", "samplers", "scenarios", "system"},
    "snippets": {"runtimes", "scenarios", "targets"},
    "accounting": {"scenarios", "targets"},
    "storage": {"accounting", "messages", "samplers", "scenarios", "system", "targets"},
    "harness": {
        "accounting",
        "messages",
        "models",
        "runtimes",
        "samplers",
        "scenarios",
        "storage",
        "system",
        "targets",
        "video",
    },
    "fit": {"accounting", "messages", "scenarios", "storage"},
    "reports": {
        "accounting",
        "messages",
        "runtimes",
        "samplers",
        "scenarios",
        "snippets",
        "storage",
        "system",
        "targets",
    },
    "commands": {
        "fit",
        "harness",
        "messages",
        "models",
        "recorder",
        "reports",
        "runtimes",
        "samplers",
        "scenarios",
        "snippets",
        "storage",
        "system",
        "targets",
        "video",
    },
    "bench": {"scenarios"},
    "conftest": {"harness", "samplers", "scenarios", "storage", "system"},
}

#: Where a package needs one module of another package and no more.
_ONLY = {
    ("models", "system"): {
        "reusebench.system.cache",
        "reusebench.system.files",
        "reusebench.system.processes",
        "reusebench.system.user_files",
    },
    ("recorder", "system"): {"reusebench.system.files"},
    ("video", "system"): {"reusebench.system.cache", "reusebench.system.files", "reusebench.system.processes"},
    ("storage", "system"): {"reusebench.system.files", "reusebench.system.interrupts"},
    ("reports", "system"): {"reusebench.system.files", "reusebench.system.processes"},
    ("conftest", "system"): {"reusebench.system.files", "reusebench.system.interrupts"},
    ("snippets", "runtimes"): {"reusebench.measured.runtimes.RUNTIMES", "reusebench.measured.runtimes.base"},
    ("snippets", "scenarios"): {"reusebench.measured.plan"},
    ("snippets", "targets"): {"reusebench.targets.chips"},
    ("accounting", "scenarios"): {"reusebench.measured.plan"},
    ("recorder", "targets"): {"reusebench.targets.errors"},
    ("accounting", "targets"): {"reusebench.targets.barriers"},
    ("commands", "scenarios"): {
        "reusebench.scenarios.catalogue",
        "reusebench.measured.failures",
        "reusebench.measured.plan",
    },
    ("storage", "accounting"): {
        "reusebench.accounting.account",
        "reusebench.accounting.domains",
        "reusebench.accounting.ledger",
    },
    ("storage", "samplers"): {"reusebench.samplers.host", "reusebench.samplers.readings"},
    ("storage", "scenarios"): {"reusebench.measured.plan"},
    ("storage", "targets"): {"reusebench.targets.barriers", "reusebench.targets.outcome"},
    ("reports", "accounting"): {
        "reusebench.accounting.account",
        "reusebench.accounting.attribution",
        "reusebench.accounting.domains",
        "reusebench.accounting.ledger",
        "reusebench.accounting.sharing",
        "reusebench.accounting.sizes",
    },
    ("fit", "accounting"): {"reusebench.accounting.sizes"},
    ("fit", "scenarios"): {"reusebench.measured.plan"},
    ("fit", "storage"): {
        "reusebench.storage.figure",
        "reusebench.storage.fit",
        "reusebench.storage.result",
        "reusebench.storage.trace",
    },
    ("models", "runtimes"): {
        "reusebench.measured.runtimes.RUNTIMES",
        "reusebench.measured.runtimes.base",
        "reusebench.measured.runtimes.ncnn.graph",
    },
    ("reports", "runtimes"): {
        "reusebench.measured.runtimes.RUNTIMES",
        "reusebench.measured.runtimes.base",
        "reusebench.measured.runtimes.version_order",
    },
    ("reports", "samplers"): {"reusebench.samplers.readings"},
    ("reports", "targets"): {"reusebench.targets.barriers", "reusebench.targets.outcome"},
    ("targets", "samplers"): {"reusebench.samplers.host", "reusebench.samplers.readings", "reusebench.samplers.system"},
    ("targets", "models"): {
        "reusebench.models.conversion",
        "reusebench.models.converter_of",
        "reusebench.models.weight_files",
    },
    ("targets", "runtimes"): {
        "reusebench.measured.runtimes.RuntimeEntry",
        "reusebench.measured.runtimes.available",
        "reusebench.measured.runtimes.base",
        "reusebench.measured.runtimes.rknn.abi",
        "reusebench.measured.runtimes.rknn.attributes",
        "reusebench.measured.runtimes.rknn.binding",
        "reusebench.measured.runtimes.rknn.device",
        "reusebench.measured.runtimes.rknn.diagnosis",
        "reusebench.measured.runtimes.rknn.library",
        "reusebench.measured.runtimes.version_order",
    },
    ("reports", "scenarios"): {
        "reusebench.scenarios.catalogue",
        "reusebench.measured.streams.frames",
        "reusebench.measured.plan",
    },
    ("video", "runtimes"): {"reusebench.measured.runtimes.base"},
    ("scenarios", "video"): {"reusebench.measured.streams.decoder", "reusebench.measured.streams.letterbox"},
    ("conftest", "scenarios"): {"reusebench.scenarios.catalogue"},
    ("harness", "video"): {"reusebench.video.VideoError", "reusebench.video.clip", "reusebench.video.describe"},
}

#: The order of the parts of a package: each part imports those that stand before it, and none behind it.
_LAYERS = {
    "system": "files interrupts processes cache user_files",
    "fit": "layouts prediction study npu process search answering",
    "reports": "errors base results sections explanation claims streams compare versions history page",
    "harness": "errors extras mechanisms selection machine_info gate settings plans clock output progress measuring"
    " result_text options session",
    "samplers": "errors readings files host process cpu_time system npu pressure shortage machine sources observer"
    " environment",
    "models": "errors weight_files inputs networks platforms recipe built_files conversion onnx rknn megengine ncnn"
    " mnn litert inspection __init__",
    "recorder": "errors signals pace phases process_tree phase_figures program machine far recording stored_form"
    " keeping summary task",
    "targets": "errors chips boards outcome barriers victims process talks machine base interpreters folders"
    " rknn_library compilers sandbox preload vboard reader native far resolve measured_process",
}

#: Libraries that only these packages may import: they would weigh in on the scale, or draw a table where none belongs.
_LIBRARIES = {
    "numpy": {"models", "reports", "runtimes"},
    "onnx": {"models", "runtimes"},  # runtimes: in the process that prepares models
    "onnxruntime": {"models", "runtimes"},  # models: in an environment of its own
    "pandas": {"reports"},
    "matplotlib": {"reports"},
    "jinja2": {"reports", "snippets"},
    "rich": {"commands", "reports"},
    "tabulate": {"commands", "recorder", "reports"},
    "click": {"commands"},
    "av": {"video"},
    "psutil": {"targets"},
    "msgspec": {"accounting", "conftest", "fit", "harness", "recorder", "reports", "samplers", "storage", "targets"},
    "pytest": {"bench", "harness", "conftest"},
}

#: Parts that import this project and the standard library alone.
_STANDARD_LIBRARY_ALONE = (
    "messages",
    "measured/runtimes/__init__.py",
    "measured/runtimes/base.py",
    "measured/runtimes/rknn",
    "scenarios",
    "system",
)

_MEASURED = [
    path
    for package in ("messages", "scenarios", "runtimes", "video")
    for path in (CHECKOUT / package).rglob("*.py")
    if path.name != "__main__.py"
]


def _files(place: str) -> list[Path]:
    """Return the Python files of a package, of a folder in it, or of a module at the root."""
    path = CHECKOUT / place
    return sorted(path.rglob("*.py")) if path.is_dir() else [path if path.suffix else path.with_suffix(".py")]


@functools.cache
def _imports(file: Path) -> frozenset[str]:
    """Return the full name of every module that the file imports, in functions and for annotations too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}: relative import"
            assert node.module is not None
            # `from reusebench.scenarios import plan` is an import of scenarios.plan.
            package = (CHECKOUT / node.module.replace(".", "/")).is_dir()
            names.update(f"{node.module}.{alias.name}" if package else node.module for alias in node.names)
    return frozenset(names)


def _package_of(module: str) -> str:
    return module.partition(".")[0]


def _part_of(module: str) -> str:
    """Return the subpackage or module of its package that a module is, or is in; of the package itself `__init__`."""
    package, _, rest = module.partition(".")
    part = rest.partition(".")[0]
    is_part = (CHECKOUT / package / part).is_dir() or (CHECKOUT / package / f"{part}.py").is_file()
    return part if part and is_part else "__init__"


def test_every_package_is_in_the_table() -> None:
    """A new package at the root needs a row here, and thereby a decision."""
    packages = {path.parent.name for path in CHECKOUT.glob("*/__init__.py") if not path.parent.name.startswith(".")}
    modules = {path.stem for path in CHECKOUT.glob("*.py")}
    assert packages | modules <= _PACKAGES.keys()


@pytest.mark.parametrize("package", _PACKAGES)
def test_packages_import_one_way(package: str) -> None:
    """A package imports only those that it may; nobody imports bench, conftest, the tests or the benchmarks."""
    for file in _files(package):
        ours = {module for module in _imports(file) if _package_of(module) in {*_PACKAGES, "tests", "benchmarks"}}
        assert {module for module in ours if _package_of(module) not in {*_PACKAGES[package], package}} == set(), file
        for (user, other), modules in _ONLY.items():
            if user == package:
                of_other = {module for module in ours if _package_of(module) == other}
                assert {module for module in of_other if not module.startswith(tuple(modules))} == set(), file


@pytest.mark.parametrize("package", _LAYERS)
def test_parts_of_a_package_import_one_way(package: str) -> None:
    """A part imports itself and those before it."""
    layers = _LAYERS[package].split()
    for file in _files(package):
        part = _part_of(".".join(file.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__init__"))
        if part == "__init__" and part not in layers:
            continue
        assert part in layers, f"{file}: {part} has no place in the order of {package}"
        others = {_part_of(module) for module in _imports(file) if _package_of(module) == package} - {part, "__init__"}
        assert others <= set(layers[: layers.index(part)]), file


@pytest.mark.parametrize("library", _LIBRARIES)
def test_libraries_stay_in_their_packages(library: str) -> None:
    """What would weigh in on the scale, or does another package's work, is imported only where it belongs."""
    for package in _PACKAGES.keys() - _LIBRARIES[library]:
        assert [file for file in _files(package) if library in {_package_of(module) for module in _imports(file)}] == []


@pytest.mark.skipif(sys.version_info < (3, 10), reason="this Python does not say what its standard library has")
@pytest.mark.parametrize("place", _STANDARD_LIBRARY_ALONE)
def test_the_standard_library_is_enough(place: str) -> None:
    """What a bare Python on a board or under an emulator runs needs nothing installed."""
    for file in _files(place):
        libraries = {_package_of(module) for module in _imports(file)} - _PACKAGES.keys()
        assert libraries <= set(sys.stdlib_module_names), file


@pytest.mark.parametrize("file", _MEASURED, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_the_measured_process_has_the_syntax_of_python_3_8(file: Path) -> None:
    """Boards come with old Pythons: what runs there parses there."""
    ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 8))
