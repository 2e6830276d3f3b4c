"""Imports between packages, checked on the text of every module."""

from __future__ import annotations

import ast
import functools
import sys
from pathlib import Path

import pytest

import reusebench
from tests.helpers.support import CHECKOUT

_PACKAGE = CHECKOUT / "src" / "reusebench"

#: Packages that each package may import.
_PACKAGES: dict[str, set[str]] = {
    "measured": set(),
    "system": set(),
    "models": {"measured", "system"},
    "samplers": {"measured"},
    "scenarios": {"measured"},
    "video": {"measured", "system"},
    "targets": {"measured", "models", "samplers", "system"},
    "snippets": {"measured", "targets"},
    "accounting": {"measured", "system", "targets"},
    "storage": {"accounting", "measured", "samplers", "system", "targets"},
    "recorder": {"accounting", "measured", "samplers", "storage", "system", "targets"},
    "harness": {
        "accounting",
        "measured",
        "models",
        "samplers",
        "scenarios",
        "storage",
        "system",
        "targets",
        "video",
    },
    "apply": {
        "accounting",
        "measured",
        "recorder",
        "reports",
        "samplers",
        "storage",
        "system",
        "targets",
    },
    "fit": {"accounting", "measured", "storage", "targets"},
    "reports": {
        "accounting",
        "measured",
        "samplers",
        "scenarios",
        "snippets",
        "storage",
        "system",
        "targets",
    },
    "commands": {
        "apply",
        "fit",
        "harness",
        "measured",
        "models",
        "recorder",
        "reports",
        "samplers",
        "scenarios",
        "snippets",
        "storage",
        "system",
        "targets",
        "video",
    },
    "bench": {"scenarios"},
}

#: The only modules of another package that a package may import, if it does not need the whole.
_ONLY = {
    ("models", "measured"): {
        "messages",
        "runtimes.RUNTIMES",
        "runtimes.RuntimeEntry",
        "runtimes.base",
        "runtimes.ncnn.graph",
    },
    ("models", "system"): {"cache", "files", "package", "processes", "user_files"},
    ("samplers", "measured"): {"messages"},
    ("scenarios", "measured"): {"plan", "runtimes.base"},
    ("video", "measured"): {"runtimes.base"},
    ("video", "system"): {"cache", "files", "package", "processes"},
    ("targets", "models"): {"conversion", "converter_of", "weight_files"},
    ("targets", "samplers"): {"host", "readings", "system_memory"},
    ("snippets", "measured"): {
        "plan",
        "runtimes.RUNTIMES",
        "runtimes.base",
        "runtimes.litert.options",
        "runtimes.llama_cpp.cells",
        "runtimes.llama_cpp.options",
        "runtimes.mnn.options",
        "runtimes.find_runtime",
        "runtimes.onnxruntime.option_names",
        "runtimes.onnxruntime_genai.options",
        "runtimes.openvino_genai.options",
        "runtimes.option_words",
    },
    ("snippets", "targets"): {"chips"},
    ("accounting", "measured"): {"plan", "runtimes.base"},
    ("accounting", "system"): {"files"},
    ("accounting", "targets"): {"barriers", "ledger_file"},
    ("storage", "accounting"): {"account", "attribution", "domains", "ledger", "requested"},
    ("storage", "measured"): {"messages", "plan", "runtimes.base"},
    ("storage", "samplers"): {"host", "readings"},
    ("storage", "system"): {"cache", "files", "interrupts", "option_names", "package", "processes"},
    ("storage", "targets"): {"barriers", "outcome"},
    ("recorder", "measured"): {"messages"},
    ("recorder", "accounting"): {"ledger"},
    ("recorder", "system"): {"cache", "files"},
    ("recorder", "targets"): {
        "errors",
        "far.machine",
        "far.program",
        "ledger_file",
        "machine",
        "outcome",
        "process",
        "vboard.user_program",
    },
    ("harness", "video"): {"VideoError", "clip", "probe"},
    ("apply", "accounting"): {"ledger"},
    ("apply", "reports"): {"compare.difference"},
    ("apply", "measured"): {
        "messages",
        "plan",
        "runtimes.RUNTIMES",
        "runtimes.elf_files",
        "runtimes.rknn.library_file",
    },
    ("fit", "accounting"): {"sizes"},
    ("fit", "measured"): {"messages", "plan"},
    ("fit", "storage"): {"fit_answer", "fit_sessions", "measured_figure", "result", "trace"},
    ("fit", "targets"): {"barriers"},
    ("reports", "accounting"): {"account", "attribution", "domains", "ledger", "sharing", "sizes"},
    ("reports", "measured"): {
        "messages",
        "plan",
        "runtimes.RUNTIMES",
        "runtimes.base",
        "runtimes.version_order",
        "streams.threads",
    },
    ("reports", "samplers"): {"readings"},
    ("reports", "scenarios"): {"catalogue", "titles"},
    ("reports", "system"): {"files", "processes"},
    ("reports", "targets"): {"barriers", "outcome"},
    ("bench", "scenarios"): {"catalogue"},
}

#: The order of the parts of a package: each part imports those that stand before it, and none
#: behind it.
_LAYERS = {
    "measured": (
        "messages runtimes plan failures heap usage schedule conversations streams driver versions"
        " launch start"
    ),
    "system": "package option_names files interrupts processes cache user_files",
    "apply": (
        "hooks errors reasons settings report elf executable placeholder library rknn waiting"
        " launch outcome summary digests plan plan_result deploy comparison"
    ),
    "fit": (
        "conditions layouts prediction study uncertainty npu_costs process_costs search answering"
        " sessions"
    ),
    "reports": (
        "errors base results shared explanation claims streams compare versions boards"
        " side_by_side history material sections page"
    ),
    "harness": (
        "errors extras former_names selection machine_info memory_gate gate_reports conversations"
        " settings plans clock standard_output progress measuring subjects result_text"
        " figure_properties effort model_request"
        " benchmark_plugin bench_options overrides session_run board_worker session fleet measure"
        " plugin all_questions"
    ),
    "samplers": (
        "errors readings proc_files host descendants mappings held_files huge_pages npu"
        " process_memory cpu_time system_memory control_groups oom_watch pressure evidence machine"
        " sources observer environment"
    ),
    "models": (
        "errors model_kinds weight_files language inputs networks platforms recipe built_files"
        " conversion onnx rknn megengine ncnn mnn litert teflon inspection __init__"
    ),
    "recorder": (
        "errors signals pace phases marker marks moments process_tree phase_figures share_changes"
        " mark_readings program site far_site virtual_site recording npu_buffers memory_reader"
        " recorder stored_form repeats keeping"
        " summary task"
    ),
    "targets": (
        "errors chips boards outcome barriers oom_scores ledger_file standard_error starter_link"
        " process protocol machine target interpreters rknn_library compilers programs sandbox"
        " vboard far labgrid resolve conversation measured_process"
    ),
}

#: Libraries that only these packages may import: elsewhere they would add to what is measured, or
#: do another's work.
_LIBRARIES = {
    # apply: the hooks, in the user's program.
    "numpy": {"apply", "measured", "models", "reports", "storage"},
    "gguf": {"models"},
    "onnx": {"measured", "models"},  # measured: in the process that prepares models
    "onnxruntime": {"apply", "measured", "models"},  # models: in an environment of its own
    "duckdb": {"storage", "reports"},
    "pandas": {"storage", "reports"},
    "matplotlib": {"reports"},
    "jinja2": {"reports", "snippets"},
    "rich": {"commands", "reports"},
    "tabulate": {"commands", "recorder", "reports"},
    "click": {"commands"},
    "av": {"measured", "video"},
    "psutil": {"targets"},
    "msgspec": {
        "accounting",
        "apply",
        "commands",
        "fit",
        "harness",
        "recorder",
        "reports",
        "samplers",
        "storage",
        "targets",
    },
    "pytest": {"bench", "commands", "harness"},
}

#: The part of storage that has data frames, and the packages that may import it.
_FRAMES = "storage/frames"
_USERS_OF_FRAMES = {"commands", "reports"}

#: Parts that import this project and the standard library alone.
_STANDARD_LIBRARY_ALONE = (
    "measured/messages",
    "measured/runtimes/__init__.py",
    "measured/runtimes/base.py",
    "measured/runtimes/rknn",
    "measured/driver.py",
    "measured/plan.py",
    "measured/start.py",
    "scenarios",
    "system",
)

#: Modules that run on Python 3.8: in the measured process, and in a user's.
_MEASURED = sorted((_PACKAGE / "measured").rglob("*.py"))
_HOOKS = sorted((_PACKAGE / "apply" / "hooks").rglob("*.py"))


def _files(place: str) -> list[Path]:
    """Return the Python files of a folder of the package, or the one file that is named."""
    path = _PACKAGE / place
    if not path.exists():
        raise FileNotFoundError(path)
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


@functools.cache
def _imports(file: Path) -> frozenset[str]:
    """Return the full name of every module that the file imports, in functions and for annotations
    too.
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}: relative import"
            assert node.module is not None
            # `from reusebench.measured import plan` imports reusebench.measured.plan.
            package = (CHECKOUT / "src" / node.module.replace(".", "/")).is_dir()
            names.update(
                f"{node.module}.{alias.name}" if package else node.module for alias in node.names
            )
    return frozenset(names)


def _ours(file: Path) -> set[str]:
    """Return the imported modules of this package, without its name; everybody may use its public
    face.
    """
    names = {name.partition(".")[2] for name in _imports(file) if name.startswith("reusebench.")}
    return names - {*reusebench.__all__, "__version__"}


def _top_of(module: str) -> str:
    return module.partition(".")[0]


def _part_of(module: str) -> str:
    """Return the subpackage or module of a package that the module is in; `__init__` for the
    package itself.
    """
    package, _, rest = module.partition(".")
    part = rest.partition(".")[0]
    is_part = (_PACKAGE / package / part).is_dir() or (_PACKAGE / package / f"{part}.py").is_file()
    return part if part and is_part else "__init__"


def _is_in(module: str, others: set[str]) -> bool:
    """Whether the module is one of the others, or below one."""
    return any(module == other or module.startswith(f"{other}.") for other in others)


def test_every_package_is_in_the_table() -> None:
    """A new package needs a row here, and thereby a decision; `native` has no Python."""
    packages = {
        path.name for path in _PACKAGE.iterdir() if path.is_dir() and not path.name.startswith("_")
    }
    assert packages - {"native"} == _PACKAGES.keys()


@pytest.mark.parametrize("package", _PACKAGES)
def test_packages_import_one_way(package: str) -> None:
    """A package imports those that it may, by their full names; nobody imports the tests or the
    benchmarks.
    """
    outside = {"tests", "benchmarks", "conftest", *_PACKAGES}
    for file in _files(package):
        assert {_top_of(module) for module in _imports(file)} & outside == set(), file
        others = {module for module in _ours(file) if _top_of(module) != package}
        assert {
            module for module in others if _top_of(module) not in _PACKAGES[package]
        } == set(), file
        for (user, other), modules in _ONLY.items():
            if user == package:
                needed = {module.partition(".")[2] for module in others if _top_of(module) == other}
                assert {module for module in needed if not _is_in(module, modules)} == set(), file


@pytest.mark.parametrize("package", _LAYERS)
def test_parts_of_a_package_import_one_way(package: str) -> None:
    """A part imports itself and those before it."""
    layers = _LAYERS[package].split()
    for file in _files(package):
        part = _part_of(
            ".".join(file.relative_to(_PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        )
        if part == "__init__" and part not in layers:
            continue
        assert part in layers, f"{file}: {part} has no place in the order of {package}"
        others = {_part_of(module) for module in _ours(file) if _top_of(module) == package} - {
            part,
            "__init__",
        }
        assert others <= set(layers[: layers.index(part)]), file


@pytest.mark.parametrize("library", _LIBRARIES)
def test_libraries_stay_in_their_packages(library: str) -> None:
    """Modules that would add to the measured memory, or do another package's work, have fixed
    importers.
    """
    for package in _PACKAGES.keys() - _LIBRARIES[library]:
        assert [
            file
            for file in _files(package)
            if library in {_top_of(module) for module in _imports(file)}
        ] == []


def test_data_frames_stay_out_of_what_measures() -> None:
    """The frames alone of storage import numpy and pandas; reports, commands and users alone import
    the frames.
    """
    frames = _files(_FRAMES)
    for file in set(_files("storage")) - set(frames):
        assert {_top_of(module) for module in _imports(file)} & {"numpy", "pandas"} == set(), file
    users = [
        file
        for package in _PACKAGES.keys() - _USERS_OF_FRAMES
        for file in _files(package)
        if file not in frames
    ]
    assert [
        file for file in users if any(_is_in(module, {"storage.frames"}) for module in _ours(file))
    ] == []


@pytest.mark.skipif(
    sys.version_info < (3, 10), reason="this Python does not say what its standard library has"
)
@pytest.mark.parametrize("place", _STANDARD_LIBRARY_ALONE)
def test_the_standard_library_is_enough(place: str) -> None:
    """Modules that run on a bare Python, on a board or under an emulator, need no installed
    package.
    """
    for file in _files(place):
        libraries = {_top_of(module) for module in _imports(file)} - {"reusebench"}
        assert libraries <= set(sys.stdlib_module_names), file


@pytest.mark.parametrize(
    "file", [*_MEASURED, *_HOOKS], ids=lambda path: str(path.relative_to(_PACKAGE))
)
def test_the_measured_process_and_the_hooks_have_the_syntax_of_python_3_8(file: Path) -> None:
    """Boards come with old Pythons: what runs there parses there."""
    ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 8))
