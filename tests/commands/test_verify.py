"""`reusebench board verify`: its mistakes, and with Rockchip's library the virtual board itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reusebench.commands import verify as module
from reusebench.storage.board_sizes import (
    BOARD_SIZES_SCHEMA,
    BoardSizes,
    ScenarioSizes,
    read_board_sizes,
    write_board_sizes,
)
from reusebench.system.cache import cache_root
from reusebench.targets.chips import RUNTIME
from reusebench.targets.rknn_library import find_libraries
from reusebench.targets.vboard.catalogue import rknn_board
from tests.helpers.support import Reusebench
from tests.targets.library_files import write_library

pytestmark = pytest.mark.process

# The user's cache, read during collection, before tests have caches of their own.
_CACHE = cache_root()
_HERE = [
    one
    for one in (find_libraries([_CACHE / "rknn"]) if (_CACHE / "rknn").is_dir() else [])
    if not rknn_board(one).missing_parts()
]
_LIBRARIES = [one for one in _HERE if one.kind == RUNTIME]
_MODELS = sorted((_CACHE / "models").glob("tiny-64-seed1-rk3588-*.rknn"))
_with_library = pytest.mark.skipif(
    not (_LIBRARIES and _MODELS), reason="needs librknnrt, its virtual board and a model"
)


def _sizes(**fields: Any) -> BoardSizes:
    common = {
        "schema": BOARD_SIZES_SCHEMA,
        "version": "0.2.0",
        "target": "vboard:rk3588",
        "chip": "rk3588",
        "driver_version": "0.9.8",
        "library_version": "2.3.2",
        "computes": False,
        "models": {},
        "scenarios": (ScenarioSizes(scenario="full_dup", outcome="crashed"),),
    }
    return BoardSizes(**{**common, **fields})


def test_sizes_are_read_as_they_were_written(tmp_path: Path) -> None:
    """A file has all that was measured."""
    sizes = _sizes()
    write_board_sizes(tmp_path / "sizes.json", sizes)
    assert read_board_sizes(tmp_path / "sizes.json") == sizes


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read: No such file or directory. Make it with: reusebench board verify"),
        ("", "has no sizes of a board"),
        ("{}", "missing required field"),
        ("[" * 100_000, "has no sizes of a board"),
        ('{"schema": 1}', "has no sizes of a board"),
        (("scenarios", [{"scenario": "x", "outcome": "ok", "total_bytes": -1}]), ">= 0"),
        (("scenarios", [{"scenario": "x", "outcome": "ok", "contexts": [{"a": "b"}]}]), "`int`"),
        (("schema", "reusebench-board-sizes-9"), "has another form, reusebench-board-sizes-9"),
        (("chip", "rv1106"), "is of rv1106, and the target is rk3588"),
    ],
)
def test_files_that_are_not_expected_sizes(
    content: Any,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reusebench: Reusebench,
) -> None:
    """A sentence says what is wrong with the file, before anything is measured."""
    monkeypatch.setattr(module, "resolve_targets", lambda _: {"rknn": _Place()})
    monkeypatch.setattr(module, "run_bench", lambda *_: pytest.fail("measured"))
    file = tmp_path / "sizes.json"
    if isinstance(content, str):
        file.write_text(content, encoding="utf-8")
    elif content is not None:
        document = msgspec.to_builtins(_sizes())
        document[content[0]] = content[1]
        file.write_text(json.dumps(document), encoding="utf-8")
    done = reusebench("board", "verify", "--target", "rock", "--expected", file)
    assert (done.exit_code, done.out) == (2, "")
    assert sentence in done.err
    assert "Traceback" not in done.err


class _Place:
    """A target, as far as it is looked at before anything is measured."""

    chip = "rk3588"
    keeps_ledger = True


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Missing option '--target'"),
        (["--target", "moon"], "--target moon: no such target; valid: python"),
        (["--target", "vboard:rk3588"], "name its file with --rknn-library"),
        (["--target", "vboard:moon", "--rknn-library", "{library}"], "there is no chip 'moon'"),
        (["--target", "vboard:rv1106", "--rknn-library", "{library}"], "rv1106 needs librknnmrt"),
        (["--target", "vboard:rk3588", "--rknn-library", "/none"], "/none: it does not exist"),
        (["--target", "x", "--output", "a", "--expected", "b"], "--expected compares and --output"),
    ],
)
def test_mistakes(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    reusebench: Reusebench,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They end with exit code 2, and what is valid."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no library"))
    library = write_library(tmp_path / "library.so")
    words = [argument.format(library=library) for argument in arguments]
    done = reusebench("board", "verify", *words)
    assert (done.exit_code, done.out) == (2, "")
    assert sentence in done.err
    assert "Traceback" not in done.err


def test_targets_without_a_ledger(monkeypatch: pytest.MonkeyPatch, reusebench: Reusebench) -> None:
    """They do not count buffers, so that nothing could be compared; a chip must be known."""
    place = _Place()
    monkeypatch.setattr(module, "resolve_targets", lambda _: {"rknn": place})
    monkeypatch.setattr(place, "keeps_ledger", False, raising=False)
    done = reusebench("board", "verify", "--target", "python")
    assert done.exit_code == 2
    assert "--target python does not count NPU buffers: take --target board" in done.err
    monkeypatch.setattr(place, "keeps_ledger", True, raising=False)
    monkeypatch.setattr(place, "chip", None, raising=False)
    done = reusebench("board", "verify", "--target", "rock")
    assert done.exit_code == 2
    assert "the chip of --target rock is unknown" in done.err


def test_a_library_that_only_the_board_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reusebench: Reusebench
) -> None:
    """After the measurement its version is known; the sizes can be kept."""
    monkeypatch.setattr(module, "resolve_targets", lambda _: {"rknn": _Place()})
    monkeypatch.setattr(module, "find_libraries", list)
    monkeypatch.setattr(module, "_measured", lambda *_: _sizes(target="rock"))
    done = reusebench("board", "verify", "--target", "rock")
    assert done.exit_code == 2
    assert "rock has librknnrt 2.3.2, which is not in the usual folders" in done.err
    file = tmp_path / "sizes.json"
    done = reusebench("board", "verify", "--target", "rock", "--output", file)
    assert (done.exit_code, read_board_sizes(file).target) == (0, "rock")
    done = reusebench("board", "verify", "--target", "rock", "--output", tmp_path)
    assert (done.exit_code, "cannot be written" in done.err) == (2, True)


def _measure_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the command measure with what is in the user's cache, and less of it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(_CACHE.parent))
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:cacheprovider -p pytest_benchmark.plugin")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setattr(module, "_FILES", ("test_dup.py", "test_external_memory.py"))


@_with_library
@pytest.mark.slow
def test_the_virtual_board_is_equal_to_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reusebench: Reusebench
) -> None:
    """The driver in C has all sizes that the one in Python wrote, and that one has all but a size
    that was changed.
    """
    _measure_less(monkeypatch)
    words = ["--target", "vboard:rk3588", "--rknn-library", _LIBRARIES[-1].path]
    words += ["--model", _MODELS[0]]
    file = tmp_path / "sizes.json"
    assert reusebench("board", "verify", *words, "--output", file).exit_code == 0
    sizes = read_board_sizes(file)
    dup = next(one for one in sizes.scenarios if one.scenario == "full_dup")
    assert [("weights" in context) for context in dup.contexts] == [True, False, False, False]
    done = reusebench("board", "verify", *words, "--driver", "c", "--expected", file)
    assert (done.exit_code, "sizes are equal." in done.out) == (0, True)

    document = json.loads(file.read_text(encoding="utf-8"))
    changed = next(one for one in document["scenarios"] if one["scenario"] == "full_dup")
    changed["contexts"][1]["register_commands"] += 1
    file.write_text(json.dumps(document), encoding="utf-8")
    done = reusebench("board", "verify", *words, "--driver", "python", "--expected", file)
    assert done.exit_code == 1
    assert "Different: full_dup (register_commands)." in done.out
