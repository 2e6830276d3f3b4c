"""`reusebench libraries`: what is here, and one measurement of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Optional, TextIO

import pytest

from reusebench.commands import libraries
from reusebench.storage.result import Result
from reusebench.system.cache import cache_root
from reusebench.targets import resolve
from reusebench.targets.errors import TargetError
from reusebench.targets.far.pushed_files import FarFiles
from reusebench.targets.programs import NativeProgram
from reusebench.targets.rknn_library import RknnLibrary, architecture_of_this_python, find_libraries
from reusebench.targets.vboard.catalogue import rknn_board
from reusebench.targets.vboard.virtual_board import VirtualBoard
from tests.helpers.far_shell import connected, shell_at
from tests.helpers.support import Ended, Reusebench
from tests.reports.versions.stored_versions import (
    NEW,
    OLD,
    heavier_dups,
    of_version,
    store_versions,
)
from tests.targets.library_files import write_library

# The user's cache, read during collection, before tests have caches of their own.
_CACHE = cache_root()
_MODELS = sorted((_CACHE / "models").glob("tiny-64-seed1-rk3588-*.rknn"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of three libraries."""
    folder = tmp_path / "libraries"
    folder.mkdir()
    write_library(folder / "new.so", version="2.3.2", architecture="aarch64")
    write_library(folder / "old.so", version="1.6.0")
    write_library(folder / "mini.so", "librknnmrt", "1.6.0")
    return folder


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Have pytest, which is not started, store a run of each library; return the commands that it
    would have had.
    """
    commands: list[list[str]] = []
    storage = tmp_path / "storage"
    of_library: dict[str, Callable[[], list[Result]]] = {
        "old.so": lambda: of_version(storage, OLD, "armhf"),
        "new.so": lambda: of_version(storage, NEW, account=heavier_dups),
    }

    def run_pytest(command: Sequence[str], _output: None) -> int:
        commands.append(list(command))
        names = [Path(command[command.index("--rknn-library") + 1]).name for command in commands]
        store_versions(storage, *(of_library[name]() for name in names))
        return 0

    monkeypatch.setattr("reusebench.commands.benching.run_in_terminal", run_pytest)
    monkeypatch.setattr(libraries, "install_virtual_board", lambda *_: None)
    return commands


def run(reusebench: Reusebench, folder: Path, *words: object) -> Ended:
    return reusebench(
        "libraries", "run", "--rknn-library", folder, "--storage", folder.parent / "storage", *words
    )


def test_the_list(folder: Path, reusebench: Reusebench) -> None:
    """Kind, version with its build, architecture, chips and file of each; if there is none, what
    to do.
    """
    done = reusebench("libraries", "list", "--rknn-library", folder)
    assert done.exit_code == 0
    lines = done.out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["librknnmrt", "1.6.0"],
        ["librknnrt", "1.6.0"],
        ["librknnrt", "2.3.2"],
    ]
    assert "(9a7b5d24c@2023-12-13T17:32:13)  aarch64" in lines[3]
    assert "rk3588" in lines[3]
    done = reusebench("libraries", "list", "--rknn-library", folder.parent)
    assert done.exit_code == 1
    assert "there is no library of Rockchip's in" in done.out


def test_each_library_is_measured(
    folder: Path, stores: list[list[str]], reusebench: Reusebench
) -> None:
    """The target's, the oldest first, with the options behind --; the end is what came of each and
    what changed.
    """
    done = run(reusebench, folder, "--target", "vboard:rk3588", "--", "--quick", "-k", "dup")
    assert done.exit_code == 0
    assert [Path(command[command.index("--rknn-library") + 1]).name for command in stores] == [
        "old.so",
        "new.so",
    ]
    for command in stores:
        assert command[command.index("--target") + 1] == "vboard:rk3588"
        assert command[4:7] == ["--quick", "-k", "dup"]
    assert "left out:" in done.out
    assert "librknnmrt" in done.out
    assert "librknnrt 1.6.0 (armhf)    2 ok" in done.out
    assert "Each dup takes 69,632 bytes more in register commands." in done.out


def test_one_that_does_not_load_ends_nothing(
    folder: Path, stores: list[list[str]], monkeypatch: pytest.MonkeyPatch, reusebench: Reusebench
) -> None:
    """It is a line of the summary, the others are measured, and the exit code is 1."""

    def install(board: VirtualBoard, *_: object) -> None:
        if board.library.name == "old.so":
            raise TargetError(f"{board.library} does not load on the virtual board: no such symbol")

    monkeypatch.setattr(libraries, "install_virtual_board", install)
    done = run(reusebench, folder, "--target", "vboard:rk3588")
    assert done.exit_code == 1
    assert len(stores) == 1
    assert "does not load on the virtual board: no such symbol" in done.out
    assert "librknnrt 2.3.2 (aarch64)  2 ok" in done.out
    assert "no two versions have measured the same" in done.out


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("vboard:rk9999", "there is no chip 'rk9999'"),
        ("vboard:rv1106", "this is librknnrt, and rv1106 needs librknnmrt"),
        ("elsewhere", "no such target"),
    ],
)
def test_no_library_for_the_target(
    target: str, sentence: str, folder: Path, reusebench: Reusebench
) -> None:
    """It is said why, and nothing is measured."""
    (folder / "mini.so").unlink()
    done = run(reusebench, folder, "--target", target)
    assert done.exit_code == 2
    assert sentence in done.err


def test_a_board_measures_the_libraries_of_its_chip(
    folder: Path, stores: list[list[str]], monkeypatch: pytest.MonkeyPatch, reusebench: Reusebench
) -> None:
    """The mini runtime is no library for an RK3588, and is left out with the reason."""
    architecture = architecture_of_this_python() or ""
    for name, kind in (("old.so", "librknnrt"), ("mini.so", "librknnmrt")):
        write_library(folder / name, kind, architecture=architecture)
    (folder / "new.so").unlink()
    monkeypatch.setattr(NativeProgram, "is_built", lambda *_: True)
    monkeypatch.setattr(resolve, "chip_of", lambda _: "rk3588")
    done = run(reusebench, folder, "--target", "board")
    assert (
        f"left out: --rknn-library {folder / 'mini.so'}: this is librknnmrt, and rk3588 needs"
        " librknnrt" in done.out
    )
    assert [Path(command[command.index("--rknn-library") + 1]).name for command in stores] == [
        "old.so"
    ]


@pytest.mark.process
def test_a_board_far_away_is_left_to_the_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reusebench: Reusebench
) -> None:
    """A library that the board refuses is left out too."""
    (tmp_path / "home").mkdir()
    target = shell_at(tmp_path / "home")
    own = architecture_of_this_python() or ""
    foreign = "aarch64" if own == "x86_64" else "x86_64"
    named: list[object] = []
    for architecture, version in ((own, "1.6.0"), (foreign, "2.3.2")):
        library = write_library(
            tmp_path / f"{architecture}.so", version=version, architecture=architecture
        )
        named += ["--rknn-library", library]
    measured = []

    def bench(
        options: Sequence[str], _storage: Path, output: Optional[TextIO] = None
    ) -> tuple[int, list[Path]]:
        assert output is None
        with connected(tmp_path / "home") as connection:
            FarFiles(connection).lock()
        measured.append(Path(options[-1]))
        return 0, []

    monkeypatch.setattr(libraries, "run_bench", bench)
    done = reusebench(
        "libraries", "run", "--target", target, "--storage", tmp_path / "storage", *named
    )
    assert f"is for {foreign}, and the programs of {target} are for {own}" in done.out
    assert (done.exit_code, measured) == (0, [tmp_path / f"{own}.so"]), done.err


def _installed() -> list[RknnLibrary]:
    """Return two versions of librknnrt that are here, with the virtual board for them."""
    folder = _CACHE / "rknn"
    full = (
        [one for one in find_libraries([folder]) if one.kind == "librknnrt"]
        if folder.is_dir()
        else []
    )
    ready = [one for one in full if not rknn_board(one).missing_parts()]
    return [ready[0], ready[-1]] if len({one.version for one in ready}) > 1 else []


_LIBRARIES = _installed()


@pytest.mark.skipif(
    not (_LIBRARIES and _MODELS), reason="needs two versions of librknnrt, their board and a model"
)
@pytest.mark.process
def test_two_libraries_of_rockchips(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    reusebench: Reusebench,
) -> None:
    """They are measured one after another, and compared at the end."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(_CACHE.parent))
    monkeypatch.setenv("PYTEST_ADDOPTS", "--quick -p pytest_benchmark.plugin")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    # pytest-benchmark does not measure in a worker of pytest-xdist.
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    named = [word for one in _LIBRARIES for word in ("--rknn-library", one.path)]
    words = ["--target", "vboard:rk3588", "--storage", tmp_path / "storage", *named]
    options = ["--model", _MODELS[0], "--streams", 1, "--contexts", 2, "--repeats", 1]
    options += ["--rounds", 1, "-k", "test_dup and full_dup and not internal"]
    done = reusebench("libraries", "run", *words, "--", "-q", "-p", "no:cacheprovider", *options)
    assert done.exit_code == 0, capfd.readouterr()
    old, new = _LIBRARIES
    assert f"2 of 2: {new}" in done.out
    (heads,) = {
        line
        for line in done.out.splitlines()
        if line.startswith("Scenario") and old.version in line
    }
    assert new.version in heads
    assert "NPU memory" in done.out
