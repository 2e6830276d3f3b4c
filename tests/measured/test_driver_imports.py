"""Imports of the measured process, which add to its memory: the runtime's and a few more."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Optional

import pytest

from reusebench.measured.plan import Plan, Streams, Video
from reusebench.targets.target import THIS_INTERPRETER, Target
from tests.helpers.support import CHECKOUT, make_plan, prepared_plan, walk

pytestmark = pytest.mark.process

#: Packages that the measured process may hold.
_PACKAGES = {"reusebench"}

#: Modules that Python's own start may leave in any process.
_START = {"__main__", "__mp_main__", "sitecustomize", "usercustomize"}

_WRITE_MODULES = """
import json, sys
def write_modules():
    modules = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    with open(sys.argv[1], "w") as file:
        json.dump(modules, file)
"""

#: The driver, which also writes its modules before each of its messages.
_WALK = """
from reusebench.measured import driver
class Channel(driver.HarnessPipes):
    def send(self, event, **fields):
        write_modules()
        super().send(event, **fields)
driver.HarnessPipes = Channel
driver.main()
"""


#: Files of modules by their names; None if they are built in.
Modules = dict[str, Optional[str]]


def _modules(code: str, output: Path) -> Modules:
    """Return the modules of a process that has run the code."""
    code = f"{_WRITE_MODULES}\n{code}\nwrite_modules()"
    subprocess.run([sys.executable, "-c", code, str(output)], cwd=CHECKOUT, check=True)
    modules: Modules = json.loads(output.read_text())
    return modules


def _modules_of_walk(plan: Plan, output: Path) -> Modules:
    """Return the modules of a process that has walked the plan."""
    run = walk(plan, Target("modules", (sys.executable, "-c", _WRITE_MODULES + _WALK, str(output))))
    assert run.failure is None
    modules: Modules = json.loads(output.read_text())
    return modules


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Modules:
    """Return the modules of a process that imports only numpy and ONNX Runtime."""
    return _modules("import numpy, onnxruntime", tmp_path_factory.mktemp("bare") / "modules.json")


@pytest.fixture(scope="module")
def walked(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Modules:
    """Return the modules of a process that has walked a plan with dups on ONNX Runtime."""
    folder = tmp_path_factory.mktemp("walked")
    plan = prepared_plan(
        make_plan("full_dup", tiny_model, runtime="onnxruntime"), THIS_INTERPRETER, folder
    )
    assert isinstance(plan, Plan)
    return _modules_of_walk(plan, folder / "modules.json")


def _in_standard_library(name: str, file: str | None) -> bool:
    top = name.partition(".")[0]
    if sys.version_info >= (3, 10):
        return top in sys.stdlib_module_names
    libraries = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    return file is None or (file.startswith(libraries) and "site-packages" not in file)


def test_the_measured_process_imports_no_more_than_the_runtime_needs(
    walked: Modules, bare: Modules
) -> None:
    """Apart from `import numpy, onnxruntime` it has our packages and the standard library."""
    more = {name: file for name, file in walked.items() if name not in bare}
    foreign = {name for name, file in more.items() if not _in_standard_library(name, file)}
    assert {name.partition(".")[0] for name in foreign} - _START == _PACKAGES
    assert "reusebench.measured.runtimes.onnxruntime.adapter" in foreign
    assert "reusebench.scenarios.catalogue" not in walked


def test_what_the_runtime_itself_needs(bare: Modules) -> None:
    """The comparison above is valid: the runtime brings none of the harness's packages."""
    tops = {name.partition(".")[0] for name in bare}
    assert not tops & {
        "psutil",
        "pytest",
        "jsonschema",
        "rich",
        "models",
        "samplers",
        "targets",
        "storage",
        "harness",
    }


def test_what_streams_need_weighs_in_plans_of_streams_alone(
    walked: Modules, tiny_model: Path, tmp_path: Path
) -> None:
    """They add PyAV, its imports and our package of streams; numpy was there before."""
    clip = tmp_path / "clip.mp4"
    make = [sys.executable, "-m", "reusebench", "models", "clip", "--output", str(clip)]
    make += ["--size", "64x48", "--duration", "0.5"]
    subprocess.run(make, cwd=CHECKOUT, check=True, capture_output=True)
    video = Video("clip", str(clip), "", "h264", 64, 48, 30.0, 15)
    schedule = Streams(count=1, fps=30.0, queue=0, warm_up_s=0.0, duration_s=0.2, video=video)
    plan = make_plan("streams_no_reuse", tiny_model, runtime="onnxruntime", schedule=schedule)
    streamed = _modules_of_walk(plan, tmp_path / "modules.json")
    new = {name: file for name, file in streamed.items() if name not in walked}
    more = {}
    whose = set()
    for name, file in new.items():
        # Cython, which compiles PyAV, makes modules of other names in its folder, some without a
        # file.
        if not file or _in_standard_library(name, file):
            continue
        more[name] = file
        is_in_av = Path(file).parent.name == "av"
        whose.add("av" if is_in_av else name.partition(".")[0])
    assert whose - _START == {"av", "reusebench"}
    assert {name for name in more if name.startswith("reusebench.")} == _OF_STREAMS
    assert {
        "av",
        "reusebench.measured.streams.pipeline",
        "reusebench.measured.streams.threads",
    } & set(walked) == set()


#: Modules that streams with a video add to the measured process.
_OF_STREAMS = {
    "reusebench.measured.heap",
    "reusebench.measured.streams",
    "reusebench.measured.streams.decoder",
    "reusebench.measured.streams.threads",
    "reusebench.measured.streams.letterbox",
    "reusebench.measured.streams.pipeline",
    "reusebench.measured.streams.pool",
}

#: Modules of some hundred KiB each, which nothing that is measured needs.
_HEAVY = {
    "asyncio",
    "ctypes",
    "hashlib",
    "lzma",
    "random",
    "shutil",
    "socket",
    "ssl",
    "subprocess",
    "tempfile",
    "unittest",
}


def test_no_heavy_part_of_the_standard_library(walked: Modules, bare: Modules) -> None:
    """Hashing (OpenSSL), foreign functions and the like are loaded only by the runtime."""
    assert _HEAVY & (set(walked) - set(bare)) == set()


def test_rockchips_adapter_needs_the_standard_library_alone(tmp_path: Path) -> None:
    """Its API is bound by ctypes: it brings no package, and no other heavy standard module."""
    modules = _modules(
        "import reusebench.measured.driver, reusebench.measured.runtimes.rknn.adapter",
        tmp_path / "modules.json",
    )
    bare = _modules("import json, zlib, threading", tmp_path / "bare.json")
    more = {name: file for name, file in modules.items() if name not in bare}
    foreign = {
        name.partition(".")[0]
        for name, file in more.items()
        if not _in_standard_library(name, file)
    }
    assert foreign - _START == _PACKAGES
    assert _HEAVY & set(more) == {"ctypes"}


_ON_3_8 = """
import importlib.machinery, sys
from unittest.mock import MagicMock
import tests.helpers.scripted_driver
from reusebench.measured import runtimes
from reusebench.measured import driver

# None of these packages is needed to find out that the adapters' own code runs here.
modules = [entry.module for entry in runtimes.RUNTIMES if entry.module]
pretended = {"numpy", *(module.partition(".")[0] for module in modules)}

class Pretended:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in pretended:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
    def create_module(self, spec):
        return MagicMock(__version__="0")
    def exec_module(self, module):
        pass

sys.meta_path.insert(0, Pretended())
for entry in runtimes.RUNTIMES:
    importlib.import_module(entry.adapter)
runtimes.RUNTIMES = (tests.helpers.scripted_driver.ENTRY,)
sys.exit(driver.main())
"""


@pytest.mark.parametrize("scenario", ["full_dup", "streams_full_dup"])
def test_walks_on_python_3_8(scenario: str) -> None:
    """The driver, streams and adapters run on the oldest Python that boards have."""
    python = shutil.which("python3.8")
    if (
        python is None
        or subprocess.run([python, "-c", "pass"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no python3.8 that works on this machine")
    schedule = Streams(count=2, fps=50.0, queue=1, warm_up_s=0.0, duration_s=0.3, video=None)
    plan = make_plan(scenario, "plain", streams=2, schedule=schedule)
    run = walk(
        plan,
        Target("3.8", (python, "-c", _ON_3_8), CHECKOUT, {"PYTHONPATH": str(CHECKOUT / "src")}),
    )
    assert run.failure is None
    assert (run.barriers[0].data.python_version or "").startswith("3.8.")
