"""What the measured process imports is weighed with the runtime: the standard library, numpy and the runtime."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from scenarios.plan import Plan, Streams, Video
from targets.base import THIS_INTERPRETER, Target
from targets.measured_process import prepare_models
from tests.support import CHECKOUT, TIME_LIMIT_S, make_plan, walk

#: Packages that the measured process may hold.
_ROOMS = {"messages", "runtimes", "scenarios"}

#: Modules that Python's own start may leave in any process.
_START = {"__main__", "__mp_main__", "sitecustomize", "usercustomize"}

_WRITE_MODULES = """
import json, sys
modules = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
with open(sys.argv[1], "w") as file:
    json.dump(modules, file)
"""


def _modules(code: str, output: Path, commands: str = "") -> dict[str, str | None]:
    """Return {name: file} of the modules of a process that has run the code."""
    command = [sys.executable, "-c", code + _WRITE_MODULES, str(output)]
    subprocess.run(command, input=commands, text=True, cwd=CHECKOUT, check=True, capture_output=True)
    modules: dict[str, str | None] = json.loads(output.read_text())
    return modules


def _walk(model: Path, folder: Path) -> dict[str, str | None]:
    """Return the modules of a process that has walked a plan with dups on ONNX Runtime."""
    plan = prepare_models(THIS_INTERPRETER, make_plan("full_dup", model, runtime="onnxruntime"), folder, TIME_LIMIT_S)
    assert isinstance(plan, Plan)
    command = {"command": "run", "runtime": "onnxruntime", "plan": plan.to_json()}
    commands = json.dumps(command) + "\n" + "go\n" * len(list(plan.steps()))
    return _modules("from scenarios.driver import main; assert main() == 0", folder / "modules.json", commands)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """Return the modules of a process that imports numpy and ONNX Runtime and nothing else."""
    return _modules("import numpy, onnxruntime", tmp_path_factory.mktemp("bare") / "modules.json")


@pytest.fixture(scope="module")
def walked(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """Return the modules of a process that has walked a plan without trimming, which may import ctypes."""
    return _walk(tiny_model, tmp_path_factory.mktemp("walked"))


def _in_standard_library(name: str, file: str | None) -> bool:
    top = name.partition(".")[0]
    if sys.version_info >= (3, 10):
        return top in sys.stdlib_module_names
    libraries = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    return file is None or (file.startswith(libraries) and "site-packages" not in file)


def test_the_measured_process_imports_no_more_than_the_runtime_needs(
    walked: dict[str, str | None], bare: dict[str, str | None]
) -> None:
    """Beyond `import numpy, onnxruntime` there are our packages and the standard library, and nothing else."""
    more = {name: file for name, file in walked.items() if name not in bare}
    foreign = {name for name, file in more.items() if not _in_standard_library(name, file)}
    assert {name.partition(".")[0] for name in foreign} - _START == _ROOMS
    assert "runtimes.onnxruntime.adapter" in foreign
    assert "scenarios.catalogue" not in walked


def test_what_the_runtime_itself_needs(bare: dict[str, str | None]) -> None:
    """The comparison above is worth something: none of the harness's packages come with the runtime."""
    tops = {name.partition(".")[0] for name in bare}
    assert not tops & {"psutil", "pytest", "jsonschema", "rich", "models", "samplers", "targets", "storage", "harness"}


def test_what_streams_need_weighs_in_plans_of_streams_alone(
    walked: dict[str, str | None], tiny_model: Path, tmp_path: Path
) -> None:
    """There it is PyAV, what that imports, and the room of the video; numpy and the runtime were there before."""
    clip = tmp_path / "clip.mp4"
    make = [sys.executable, "-m", "commands", "models", "clip", "--output", str(clip)]
    make += ["--size", "64x48", "--seconds", "0.5"]
    subprocess.run(make, cwd=CHECKOUT, check=True, capture_output=True)
    video = Video("clip", str(clip), "", "h264", 64, 48, 30.0, 15)
    schedule = Streams(count=1, fps=30.0, queue=0, warm_up_s=0.0, duration_s=0.2, video=video)
    plan = make_plan("streams_no_reuse", tiny_model, runtime="onnxruntime", schedule=schedule)
    streamed = _led({"command": "run", "runtime": "onnxruntime", "plan": plan.to_json()}, tmp_path / "modules.json")
    new = {name: file for name, file in streamed.items() if name not in walked}
    more = {name: file for name, file in new.items() if file and not _in_standard_library(name, file)}
    # Cython, which PyAV is compiled by, makes modules of other names in its folder, and some without a file.
    whose = {"av" if Path(file).parent.name == "av" else name.partition(".")[0] for name, file in more.items()}
    assert whose - _START == {"av", "video", "scenarios"}
    assert {name.partition(".")[2] for name in more if name.startswith("video.")} == {"decoder", "letterbox"}
    assert {"av", "scenarios.pipeline", "scenarios.frames"} & set(walked) == set()


def _led(command: dict[str, object], output: Path) -> dict[str, str | None]:
    """Return the modules of a process that was led through a plan; it may be told to go on only when it waits."""
    code = f"from scenarios.driver import main; assert main() == 0{_WRITE_MODULES}"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(output)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps(command), file=process.stdin, flush=True)
        for line in process.stdout:
            if json.loads(line)["event"] == "barrier":
                print("go", file=process.stdin, flush=True)
    assert process.returncode == 0
    modules: dict[str, str | None] = json.loads(output.read_text())
    return modules


#: Each weighs some hundred KiB, and nothing that is measured needs it.
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


def test_no_heavy_part_of_the_standard_library(walked: dict[str, str | None], bare: dict[str, str | None]) -> None:
    """Hashing (OpenSSL), foreign functions and the like come into the process only if the runtime brings them."""
    assert _HEAVY & (set(walked) - set(bare)) == set()


def test_rockchips_adapter_needs_the_standard_library_alone(tmp_path: Path) -> None:
    """Its API is bound by ctypes: no package comes with it, and no other heavy part of the standard library."""
    modules = _modules("import scenarios.driver, runtimes.rknn.adapter", tmp_path / "modules.json")
    bare = _modules("import json, zlib, threading", tmp_path / "bare.json")
    more = {name: file for name, file in modules.items() if name not in bare}
    foreign = {name.partition(".")[0] for name, file in more.items() if not _in_standard_library(name, file)}
    assert foreign - _START == _ROOMS
    assert _HEAVY & set(more) == {"ctypes"}


_ON_3_8 = """
import importlib.machinery, sys
from unittest.mock import MagicMock
import runtimes, tests.scripted_driver
from scenarios import driver

class Pretended:
    # None of these packages is needed to find out that the adapters' own code runs here.
    def find_spec(self, name, *_):
        if name.partition(".")[0] in ("numpy", "onnxruntime", "megenginelite"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
    def create_module(self, spec):
        return MagicMock(__version__="0")
    def exec_module(self, module):
        pass

sys.meta_path.insert(0, Pretended())
for entry in runtimes.RUNTIMES:
    importlib.import_module(entry.adapter)
runtimes.RUNTIMES = (tests.scripted_driver.ENTRY,)
sys.exit(driver.main())
"""


def _python_3_8() -> str:
    """Return a Python 3.8 that is found by name and works."""
    python = shutil.which("python3.8")
    if python is None or subprocess.run([python, "-c", "pass"], capture_output=True, check=False).returncode:
        pytest.skip("no python3.8 that works on this machine")
    return python


def test_streams_on_python_3_8() -> None:
    """Frames are paced and taken there too; what decodes them is tested with the video."""
    target = Target("3.8", (_python_3_8(), "-c", _ON_3_8))
    schedule = Streams(count=2, fps=50.0, queue=1, warm_up_s=0.0, duration_s=0.3, video=None)
    run = walk(make_plan("streams_full_dup", "plain", streams=2, schedule=schedule), target)
    assert run.failure is None
    assert (run.barriers[0].data.python_version or "").startswith("3.8.")


def test_a_walk_on_python_3_8() -> None:
    """The driver walks a plan on the oldest Python that boards have, and the adapters can be imported there."""
    plan = make_plan("full_dup", "plain")
    command = {"command": "run", "runtime": "scripted", "plan": plan.to_json()}
    commands = json.dumps(command) + "\n" + "go\n" * len(list(plan.steps()))
    done = subprocess.run(
        [_python_3_8(), "-c", _ON_3_8], input=commands, text=True, cwd=CHECKOUT, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    barriers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["phase"], each["context"]) for each in barriers] == list(plan.steps())
    assert barriers[0]["data"]["python_version"].startswith("3.8.")
