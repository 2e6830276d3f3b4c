"""Shared by all tests: warnings are errors here, and files that are made once per session."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reusebench.commands import main
from reusebench.models import ensure_all
from reusebench.models.built_files import ensure
from reusebench.models.mnn.environment import PACKAGE
from reusebench.models.recipe import Recipe
from reusebench.targets.compilers import find_compiler
from reusebench.targets.programs import DRIVER
from reusebench.targets.rknn_library import architecture_of_this_python
from tests.helpers.support import Ended, Reusebench, made_once

_HERE = Path(__file__).resolve().parent
_DOUBLE = _HERE / "measured" / "runtimes" / "rknn_double.c"
#: Folders and files with the longest tests: they begin first, so that no worker has one left at the
#: end.
_LONGEST = (
    "targets/native/test_drift_on_board.py",
    "reports/test_emptied.py",
    "measured/runtimes/test_megengine_adapter.py",
    "commands/test_fit.py",
    "test_tutorial.py",
    "snippets",
    "commands/test_verify.py",
    "bench",
    "reports/page",
    "models/megengine/test_real.py",
    "commands/test_record.py",
    "models/rknn/test_toolkit_real.py",
    "runtimes",
    "targets",
    "commands",
    "harness",
    "models",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare what renews the snapshots: `pytest tests/reports --update-snapshots`, or
    tests/storage.
    """
    parser.addoption(
        "--update-snapshots",
        action="store_true",
        help="Write what is there as what shall be there.",
    )


def pytest_configure() -> None:
    """Let signals work as on a terminal, even if a background shell ignores SIGINT, or nohup
    SIGHUP. Processes of tests keep compiled files, as users' processes do: half a second for
    each session of pytest.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    sys.addaudithook(_Starts.hear)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Make a warning an error in every test here; bench/ shows the user's warnings as warnings.

    With several workers the tests of a file are one worker's: they share what they have made.
    """
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("error"))
    items.sort(key=_order)


def _order(item: pytest.Item) -> int:
    """Return the index of the item's file in the order of beginning."""
    path = str(item.path)
    return next(
        (index for index, part in enumerate(_LONGEST) if f"/tests/{part}" in path), len(_LONGEST)
    )


class _Starts:
    """Counts the processes that the process of the tests starts."""

    events = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"})
    count = 0
    #: The count before the test.
    before = 0

    @classmethod
    def hear(cls, event: str, _: tuple[object, ...]) -> None:
        cls.count += event in cls.events


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Begin to count what a test starts, its fixtures included."""
    _Starts.before = _Starts.count


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test that has started a process without saying so: `make quick` would run it."""
    yield
    if _Starts.count > _Starts.before and item.get_closest_marker("process") is None:
        pytest.fail(
            "this test starts a process: mark it, or its file, with pytest.mark.process",
            pytrace=False,
        )


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """Undo what a command that ran in this process did to the handlers of signals."""
    handlers = {
        number: signal.getsignal(number)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of this run of the tests that all of its workers have."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def cache(shared_folder: Path) -> Path:
    """Return the tests' own $XDG_CACHE_HOME, so that the user's cache is neither used nor
    filled.
    """
    return shared_folder / "cache"


@pytest.fixture(scope="session")
def tiny_models(cache: Path) -> tuple[Path, Path]:
    """Return two model files of equal size with different weights (0.3 MiB each)."""
    return _built(cache, "tiny", 64, 1), _built(cache, "tiny", 64, 2)


@pytest.fixture(scope="session")
def tiny_model(tiny_models: tuple[Path, Path]) -> Path:
    """Return the first of the tiny models."""
    return tiny_models[0]


@pytest.fixture(scope="session")
def tiny_resolutions(tiny_model: Path, cache: Path) -> tuple[Path, Path]:
    """Return the first tiny model and the same network, with the same weights, at another
    resolution.
    """
    return tiny_model, _built(cache, "tiny", 96, 1)


@pytest.fixture(scope="session")
def mobile_model(cache: Path) -> Path:
    """Return a model with 14 MB of weights and small internal tensors, so that weights decide
    memory.
    """
    return _built(cache, "mobilenet_v2", 64, 1)


@pytest.fixture(scope="session")
def mobile_resolutions(mobile_model: Path, cache: Path) -> tuple[Path, Path]:
    """Return the model, and the same network with the same weights at another resolution."""
    return mobile_model, _built(cache, "mobilenet_v2", 96, 1)


@pytest.fixture(scope="session")
def wide_internal_model(cache: Path) -> Path:
    """Return a model with 0.3 MiB of weights and far larger internal tensors, so that these decide
    memory.
    """
    return _built(cache, "tiny", 640, 1)


@pytest.fixture(scope="session")
def rknn_double(shared_folder: Path) -> Callable[..., Path]:
    """Return a function that compiles the double of Rockchip's library with a version text, and
    without some functions.

    Skips if there is no C compiler.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler (cc, gcc or clang) for the double of Rockchip's library")

    def compile_double(version: str, *without: str) -> Path:
        options = (f'-DVERSION="{version}"', *(f"-DWITHOUT_{name}" for name in without))
        name = re.sub(r"\W+", "-", "".join(options))
        return made_once(
            shared_folder / f"{name}.so",
            lambda path: subprocess.run(
                [
                    compiler,
                    "-std=gnu11",
                    "-shared",
                    "-fPIC",
                    *options,
                    "-o",
                    str(path),
                    str(_DOUBLE),
                ],
                check=True,
            ),
        )

    return compile_double


@pytest.fixture(scope="session")
def native_driver(shared_folder: Path) -> Path:
    """Return the driver in C for this machine."""
    form = architecture_of_this_python() or ""
    compiler = find_compiler(form)
    if compiler is None:
        pytest.skip("no C compiler (Debian: apt install gcc) for the driver in C")

    def compile_into(folder: Path) -> None:
        folder.mkdir()
        DRIVER.compile(compiler, form, folder, "-Werror")

    return made_once(shared_folder / "native", compile_into) / DRIVER.main


@pytest.fixture(scope="session")
def mnn_files(cache: Path) -> Callable[..., list[str]]:
    """Return mnn_files((name, size), ...), which converts built-in networks of seed 1; skips
    without MNN.
    """
    if not PACKAGE.installed():
        pytest.skip("MNN is not installed")

    def convert(*networks: tuple[str, int]) -> list[str]:
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
            return list(
                map(str, ensure_all(".mnn", [Recipe(name, size, 1) for name, size in networks]))
            )

    return convert


@pytest.fixture
def reusebench(capfd: pytest.CaptureFixture[str]) -> Reusebench:
    """Return reusebench(arguments...), which runs the command and returns how it ended."""

    def run(*arguments: object) -> Ended:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments], prog_name="reusebench")
        assert isinstance(ended.value.code, int)
        return Ended(ended.value.code, *capfd.readouterr())

    return run


def _built(cache: Path, name: str, size: int, seed: int) -> Path:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        return ensure(Recipe(name, size, seed))
