"""Rockchip's own libraries on the installed virtual board.

They run where the libraries are found in reusebench/rknn in the user's cache (any file name) with models beside them or
in reusebench/models, and where `reusebench board install` was run for them.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import pytest

from cache import cache_root
from targets.chips import MINI_RUNTIME, RUNTIME
from targets.errors import TargetError
from targets.rknn_library import Library, read_library
from targets.vboard.guest import guest, missing_parts
from tests.support import CHECKOUT
from tests.targets.preload_support import Ended, live_bytes, read_ledger

# Read when the tests are collected, before any of them has a cache of its own.
_CACHE = cache_root()
_TIME_LIMIT_S = 60
_HEAD = "import os, sys, ctypes\nfrom tests.targets.rknn_client import *\n"


class Board(NamedTuple):
    """A library, the chip it plays on, and a model that it takes."""

    library: Library
    chip: str
    model: Path


def _libraries(kind: str) -> list[Library]:
    found = []
    for path in sorted((_CACHE / "rknn").glob("*.so*")):
        try:
            found.append(read_library(path))
        except TargetError:
            continue
    return [library for library in found if library.kind == kind]


def _models(chip: str, library: Library) -> list[Path]:
    """Return models to try, small ones first; older libraries take older models."""
    older = sorted((_CACHE / "rknn").glob(f"*{chip}*.rknn"))
    newer = sorted((_CACHE / "models").glob(f"tiny-64-*-{chip}-*.rknn"))
    return [*older, *newer] if library.version < "1.5" else [*newer, *older]


def _board(library: Library, chip: str) -> Board:
    missing = missing_parts(library)
    if missing:
        pytest.skip(f"the virtual board is not installed for {library.path.name}: {', '.join(missing)} missing")
    models = _models(chip, library)
    if not models:
        pytest.skip(f"no model for {chip} in {_CACHE / 'models'} or {_CACHE / 'rknn'} (tiny-64-*-{chip}-*.rknn)")
    return Board(library, chip, models[0])


def _parameters(kind: str) -> list[Any]:
    libraries = _libraries(kind)
    reason = f"no {kind} in {_CACHE / 'rknn'}: put Rockchip's library there, under any name"
    if not libraries:
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    return [pytest.param(each, id=f"{each.version}-{each.architecture}") for each in libraries]


@pytest.fixture(params=_parameters(RUNTIME))
def board(request: pytest.FixtureRequest) -> Board:
    """Return each librknnrt on an RK3588."""
    return _board(request.param, "rk3588")


@pytest.fixture(params=_parameters(MINI_RUNTIME))
def mini_board(request: pytest.FixtureRequest) -> Board:
    """Return each librknnmrt on an RV1106."""
    return _board(request.param, "rv1106")


def _run(board: Board, script: str, folder: Path, *models: Path, **variables: str) -> Ended:
    on_board = guest(board.chip, board.library)
    ledger = folder / "ledger.jsonl"
    done = subprocess.run(
        [*on_board.command, "-c", _HEAD + dedent(script), *map(str, models or (board.model,))],
        cwd=CHECKOUT,
        env={**os.environ, **on_board.environment, "REUSEBENCH_LEDGER": str(ledger), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIME_LIMIT_S,
    )
    return Ended(done.returncode, done.stdout, done.stderr, read_ledger(ledger), {})


def _assert_well(ended: Ended) -> None:
    """Every call returned 0, no error was logged, everything was given back, and no job read what was not there."""
    assert ended.code == 0, ended.errors
    assert "E RKNN" not in ended.errors
    results = re.findall(r"^rknn_\w+ (-?\d+)$", ended.output, re.MULTILINE)
    assert results
    assert set(results) == {"0"}
    assert live_bytes(ended.events) == 0
    assert ended.named("create")
    assert {read["state"] for submit in ended.named("submit") for read in submit["reads"]} == {"live"}
    assert not any("walked" in submit for submit in ended.named("submit"))


def test_one_context(board: Board, tmp_path: Path) -> None:
    """The ledger after rknn_init is, to the byte, what the library itself says that it has."""
    script = """
        context = Context(*models())
        print("total", context.sizes()[2])
        for _ in range(50): context.run()
        context.destroy()
    """
    ended = _run(board, script, tmp_path)
    _assert_well(ended)
    created_by_init = [event["bytes"] for event in ended.named("create")]
    total = int(re.findall(r"total (\d+)", ended.output)[0])
    assert total in [sum(created_by_init[:count]) for count in range(2, len(created_by_init) + 1)]
    assert len(ended.named("submit")) == len({(e["task_buffer"], str(e["reads"])) for e in ended.named("submit")})


def test_a_duplicate_reads_the_weights_of_its_parent(board: Board, tmp_path: Path) -> None:
    """Weights are shared, and nothing else is: the duplicate has its own commands, tasks and internal tensors."""
    script = """
        parent = Context(*models()); parent.run()
        other = parent.dup(); other.run()
        parent.destroy(); other.run(); other.destroy()
    """
    ended = _run(board, script, tmp_path)
    _assert_well(ended)
    jobs = {submit["task_buffer"]: submit for submit in ended.named("submit")}
    first, second = jobs.values()
    assert _buffers(first, "0x1110") == _buffers(second, "0x1110")
    assert _buffers(first, "0x0010").isdisjoint(_buffers(second, "0x0010"))
    assert _buffers(first, "0x4020").isdisjoint(_buffers(second, "0x4020"))


def _buffers(submit: dict[str, Any], register: str) -> set[int]:
    return {read["buffer"] for read in submit["reads"] if read["register"] == register}


def test_internal_memory_from_a_dma_heap(board: Board, tmp_path: Path) -> None:
    """A buffer of a dma-heap holds the internal tensors: it is imported, counts once, and jobs read and write it."""
    script = """
        from tests.targets.npu_client import Heap, mapped
        context = Context(*models(), flags=INTERNAL_OUTSIDE)
        size = context.sizes()[1]
        fd = Heap().allocate(size)
        print("inode", os.fstat(fd).st_ino)
        memory = context.set_internal(fd, mapped(fd, size), size)
        context.run()
        context.give_back(memory)
        context.destroy()
        os.close(fd)
    """
    ended = _run(board, script, tmp_path)
    _assert_well(ended)
    # librknnrt 2.3.2 takes its own buffers from the heap too.
    inode = int(re.findall(r"inode (\d+)", ended.output)[0])
    (own,) = (event["buffer"] for event in ended.named("inode") if event["inode"] == inode)
    assert [event["source"] for event in ended.named("create") if event["buffer"] == own] == ["dma_heap"]
    assert [event["buffer"] for event in ended.named("import")].count(own) == 1
    assert any(own in _buffers(submit, "0x4020") for submit in ended.named("submit"))


def test_reading_freed_weights_is_seen(board: Board, tmp_path: Path) -> None:
    """The library lets a slave run after its master has gone, at return code 0; the ledger says what it read."""
    slaves = sorted((_CACHE / "models").glob("tiny-96-seed1-rk3588-weightless-*.rknn"))
    masters = [Path(str(path).replace("-weightless", "")) for path in slaves]
    if board.library.version < "1.5" or not masters or not masters[0].exists():
        pytest.skip("no model with its weightless twin for this library (tiny-96-seed1-rk3588[-weightless]-*.rknn)")
    script = """
        master = Context(models()[0])
        slave = Context(models()[1], SHARED_WEIGHTS, master)
        slave.run()
        master.destroy()
        slave.run()
        slave.destroy()
    """
    ended = _run(board, script, tmp_path, masters[0], slaves[0])
    assert ended.code == 0
    before, after = ended.named("submit")
    assert {read["state"] for read in before["reads"]} == {"live"}
    assert [read["register"] for read in after["reads"] if read["state"] == "dead"] == ["0x1110"]


def test_no_device_leaves_the_host_alone(board: Board, tmp_path: Path) -> None:
    """Without /dev/rknpu the library goes for /dev/dri, as root with mkdir and mknod: the host sees none."""
    before = sorted(Path("/dev/dri").glob("*")), Path("/dev/dri").exists()
    ended = _run(board, "Context(*models())", tmp_path, REUSEBENCH_FAULTS="no-device")
    assert "rknn_init -" in ended.output
    refused = ended.named("refused")
    # As an ordinary user it only looks.
    assert {event["call"] for event in refused} >= ({"mkdir", "open"} if os.geteuid() == 0 else set())
    assert refused
    assert all(event["path"].startswith("/dev/dri") for event in refused)
    assert (sorted(Path("/dev/dri").glob("*")), Path("/dev/dri").exists()) == before


def test_an_old_driver_is_refused_by_the_library(board: Board, tmp_path: Path) -> None:
    """The library asks for a version and believes the answer."""
    ended = _run(board, "Context(*models())", tmp_path, REUSEBENCH_FAULTS="driver=0.5.0")
    assert "rknn_init -" in ended.output
    assert "Mismatch driver version" in ended.errors


def test_memory_that_runs_out_fails_the_init(board: Board, tmp_path: Path) -> None:
    """The library reports the driver's ENOMEM."""
    ended = _run(board, "Context(*models()).destroy()", tmp_path, REUSEBENCH_FAULTS="enomem-after=8192")
    assert re.search(r"rknn_init -\d", ended.output)
    assert {event["fault"] for event in ended.named("fault")} == {"enomem"}


def test_a_failing_submit_fails_the_run(board: Board, tmp_path: Path) -> None:
    """From the one on that was asked for: here the first of the second run, which may be several submits."""
    script = "context = Context(*models()); context.run(); context.infer(); context.destroy()"
    in_a_run = len(_run(board, "Context(*models()).run()", tmp_path).named("submit"))
    ended = _run(board, script, tmp_path, REUSEBENCH_FAULTS=f"submit-error=ETIMEDOUT@{in_a_run + 1}")
    assert re.findall(r"rknn_run (-?\d)", ended.output) == ["0", "-1"]
    assert "failed to submit" in ended.errors


def test_the_mini_runtime(mini_board: Board, tmp_path: Path) -> None:
    """One buffer for everything, addresses relative to it, and I/O memory made by the caller."""
    script = """
        context = Context(*models())
        memories = context.set_io()
        for _ in range(50): context.infer()
        for memory in memories: context.give_back(memory)
        context.destroy()
    """
    ended = _run(mini_board, script, tmp_path)
    _assert_well(ended)
    assert len(ended.named("submit")) == 1


def test_the_guest_takes_nothing_from_the_hosts_python(board: Board, tmp_path: Path) -> None:
    """Variables, packages and compiled files of the host's Python are not its own."""
    (tmp_path / "json.py").write_text("raise SystemExit('the host's')", encoding="ascii")
    script = """
        import json
        print(sys.version_info[0], [path for path in sys.path if "packages" in path], sys.pycache_prefix)
    """
    ended = _run(board, script, tmp_path, PYTHONPATH=str(tmp_path), PYTHONHOME=str(tmp_path))
    assert ended.code == 0, ended.errors
    assert re.fullmatch(rf"3 \[\] {re.escape(str(_CACHE))}.*\n", ended.output)
