"""Rockchip's own libraries on the installed virtual board.

The tests need the libraries in reusebench/rknn in the user's cache, under any file name, models
next to them or in reusebench/models, and `reusebench board install` done for each library.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import pytest

from reusebench.system.cache import cache_root
from reusebench.targets.chips import MINI_RUNTIME, RUNTIME
from reusebench.targets.machine import Reach
from reusebench.targets.rknn_library import RknnLibrary, find_libraries
from reusebench.targets.sandbox import sandbox_problem
from reusebench.targets.vboard.bytecode import ensure_bytecode
from reusebench.targets.vboard.catalogue import rknn_board, rknn_system
from reusebench.targets.vboard.emulator import is_needed
from tests.helpers.support import CHECKOUT, TIME_LIMIT_S
from tests.targets.preload_support import Ended, live_bytes, read_ledger

pytestmark = pytest.mark.process

# Read when the tests are collected, before any test has a cache of its own.
_CACHE = cache_root()
#: Earlier versions of librknnrt only take models of their time.
_NEWER = "1.5"
_HEAD = "import os, sys, ctypes\nfrom tests.targets.rknn_client import *\n"


class Board(NamedTuple):
    """A library, a chip that it runs on, and a model that it takes."""

    library: RknnLibrary
    chip: str
    model: Path


def _libraries(kind: str) -> list[Any]:
    """Return the libraries of a kind; versions before the newest are slow variants."""
    folder = _CACHE / "rknn"
    libraries = (
        [one for one in find_libraries([folder]) if one.kind == kind] if folder.is_dir() else []
    )
    params = []
    for library in libraries:
        marks = [] if library.version == libraries[-1].version else [pytest.mark.slow]
        params.append(
            pytest.param(library, id=f"{library.version}-{library.architecture}", marks=marks)
        )
    reason = f"no {kind} in {folder}: put Rockchip's library there, under any name"
    return params or [pytest.param(None, marks=pytest.mark.skip(reason=reason))]


def _board(library: RknnLibrary, chip: str) -> Board:
    missing = rknn_board(library).missing_parts()
    if missing:
        pytest.skip(
            f"the virtual board is not installed for {library.path.name}: {', '.join(missing)}"
            " missing"
        )
    older = sorted((_CACHE / "rknn").glob(f"*{chip}*.rknn"))
    newer = sorted((_CACHE / "models").glob(f"tiny-64-*-{chip}-*.rknn"))
    models = [*older, *newer] if library.version < _NEWER else [*newer, *older]
    if not models:
        pytest.skip(
            f"no model for {chip} in {_CACHE / 'models'} or {_CACHE / 'rknn'}"
            f" (tiny-64-*-{chip}-*.rknn)"
        )
    return Board(library, chip, models[0])


@pytest.fixture(scope="module", params=_libraries(RUNTIME))
def board(request: pytest.FixtureRequest) -> Board:
    """Return each librknnrt on an RK3588."""
    return _board(request.param, "rk3588")


@pytest.fixture(scope="module")
def parent_and_dup(board: Board, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Return the run of a context and its dup in a guest.

    The host's Python has a `json` of its own.
    """
    folder = tmp_path_factory.mktemp("run")
    (folder / "json.py").write_text("raise SystemExit('the host's')")
    script = """
        import json
        parent = Context(*models())
        print("total", parent.sizes()[2])
        for _ in range(20): parent.run()
        other = parent.dup(); other.run()
        parent.destroy(); other.run(); other.destroy()
        packages = [path for path in sys.path if "packages" in path]
        print("python", sys.version_info[0], packages, sys.pycache_prefix)
    """
    return _run(board, script, folder, PYTHONPATH=str(folder), PYTHONHOME=str(folder))


def _run(
    board: Board,
    script: str,
    folder: Path,
    *models: Path,
    words: Sequence[str] = (),
    **variables: str,
) -> Ended:
    virtual = rknn_board(board.library, board.chip)
    on_board = virtual.guest()
    ledger = folder / "ledger.jsonl"
    ledger.unlink(missing_ok=True)
    files = [str(path) for path in models or (board.model,)]
    command, environment = virtual.machine().confine(
        (*on_board.command, "-c", _HEAD + dedent(script), *files, *words),
        {**on_board.environment, "REUSEBENCH_LEDGER": str(ledger), **variables},
        Reach((str(CHECKOUT / "tests"), *files)),
    )
    done = subprocess.run(
        command,
        cwd=CHECKOUT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIME_LIMIT_S,
    )
    return Ended(done.returncode, done.stdout, done.stderr, read_ledger(ledger), {})


def _assert_well(ended: Ended) -> None:
    """Check that all calls succeeded, all memory is back, and all reads are of live memory."""
    assert ended.code == 0, ended.errors
    assert "E RKNN" not in ended.errors
    assert set(re.findall(r"^rknn_\w+ (-?\d+)$", ended.output, re.MULTILINE)) == {"0"}
    assert live_bytes(ended.events) == 0
    assert ended.named("create")
    states: set[str] = set()
    for submit in ended.named("submit"):
        states.update(read["state"] for read in submit["reads"])
        assert "walked" not in submit
    assert states == {"live"}


def _buffers(submit: dict[str, Any], register: str) -> set[int]:
    return {read["buffer"] for read in submit["reads"] if read["register"] == register}


def _assert_sources(board: Board, created: list[dict[str, Any]], imported: list[int]) -> None:
    """Check that librknnrt 2 takes buffers from a dma-heap, if there is one, and imports them."""
    takes_heap = board.library.version >= "2"
    assert {event["source"] for event in created} == {"dma_heap" if takes_heap else "rknpu"}
    assert imported == ([event["buffer"] for event in created] if takes_heap else [])


def test_the_ledger_is_the_librarys_own_total(board: Board, parent_and_dup: Ended) -> None:
    """It is the same to the byte after rknn_init; equal jobs are written once."""
    _assert_well(parent_and_dup)
    created = parent_and_dup.named("create")
    _assert_sources(board, created, [event["buffer"] for event in parent_and_dup.named("import")])
    sizes = [event["bytes"] for event in created]
    total = int(re.findall(r"total (\d+)", parent_and_dup.output)[0])
    assert total in [sum(sizes[:count]) for count in range(2, len(sizes) + 1)]
    submits = parent_and_dup.named("submit")
    assert len(submits) == len(
        {(submit["task_buffer"], str(submit["reads"])) for submit in submits}
    )


def test_a_duplicate_reads_the_weights_of_its_parent(parent_and_dup: Ended) -> None:
    """Only weights are shared: the dup has its own commands, tasks and internal tensors."""
    jobs = {submit["task_buffer"]: submit for submit in parent_and_dup.named("submit")}
    first, second = jobs.values()
    assert _buffers(first, "0x1110") == _buffers(second, "0x1110")
    assert _buffers(first, "0x0010").isdisjoint(_buffers(second, "0x0010"))
    assert _buffers(first, "0x4020").isdisjoint(_buffers(second, "0x4020"))


def test_the_guest_takes_nothing_from_the_hosts_python(parent_and_dup: Ended) -> None:
    """Variables, packages and bytecode of the host's Python are not used."""
    assert re.search(
        rf"^python 3 \[\] {re.escape(str(_CACHE))}", parent_and_dup.output, re.MULTILINE
    )


def test_internal_memory_from_a_dma_heap(board: Board, tmp_path: Path) -> None:
    """A buffer of a dma-heap holds the internal tensors: it counts once, and jobs use it."""
    script = """
        from tests.targets.npu_client import LIBC, Heap, mapped
        context = Context(*models(), flags=INTERNAL_OUTSIDE)
        size = context.sizes()[1]
        fd = Heap().allocate(size)
        print("inode", os.fstat(fd).st_ino)
        address = mapped(fd, size)
        memory = context.set_internal(fd, address, size)
        context.run()
        context.give_back(memory)
        context.destroy()
        os.close(fd)
        LIBC.munmap(address, size)
    """
    ended = _run(board, script, tmp_path)
    _assert_well(ended)
    inode = int(re.findall(r"inode (\d+)", ended.output)[0])
    (internal,) = (event["buffer"] for event in ended.named("inode") if event["inode"] == inode)
    (created,) = (event for event in ended.named("create") if event["buffer"] == internal)
    assert created["source"] == "dma_heap"
    imported = [event["buffer"] for event in ended.named("import")]
    assert imported.count(internal) == 1
    assert any(internal in _buffers(submit, "0x4020") for submit in ended.named("submit"))
    others = [event for event in ended.named("create") if event["buffer"] != internal]
    _assert_sources(board, others, [buffer for buffer in imported if buffer != internal])


def test_reading_freed_weights_is_seen(board: Board, tmp_path: Path) -> None:
    """The library runs a slave without its master, with return code 0; the ledger shows it."""
    slaves = sorted((_CACHE / "models").glob("tiny-96-seed1-rk3588-weightless-*.rknn"))
    masters = [Path(str(path).replace("-weightless", "")) for path in slaves]
    if board.library.version < _NEWER or not masters or not masters[0].exists():
        pytest.skip(
            "no model with its weightless twin for this library"
            " (tiny-96-seed1-rk3588[-weightless]-*.rknn)"
        )
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
    """Without /dev/rknpu the library tries /dev/dri, as root with mknod; the host has none."""
    before = sorted(Path("/dev/dri").glob("*")), Path("/dev/dri").exists()
    ended = _run(board, "Context(*models())", tmp_path, REUSEBENCH_FAULTS="no-device")
    assert "rknn_init -" in ended.output
    refused = ended.named("refused")
    # An ordinary user's process only looks.
    assert {event["call"] for event in refused} >= (
        {"mkdir", "open"} if os.geteuid() == 0 else set()
    )
    assert refused
    assert all(event["path"].startswith("/dev/dri") for event in refused)
    assert (sorted(Path("/dev/dri").glob("*")), Path("/dev/dri").exists()) == before


@pytest.mark.skipif(sandbox_problem() is not None, reason="no sandbox here")
def test_the_guest_reaches_nothing_of_the_host(board: Board, tmp_path: Path) -> None:
    """Calls that no preload library answers reach no user files, devices, network or processes."""
    (tmp_path / "secret").touch()
    (tmp_path / "ledger").mkdir()
    script = """
        import socket
        def attempt(function, *arguments):
            try: function(*arguments)
            except OSError as error: print("attempt", error.errno)
            else: print("attempt done")
        secret, port, harness = sys.argv[2:]
        for path in (secret, "/dev/tty", "/etc/passwd", f"/proc/{harness}/maps"):
            attempt(os.stat, path)
        attempt(socket.create_connection, ("127.0.0.1", int(port)))
        attempt(os.kill, int(harness), 0)
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = (str(tmp_path / "secret"), str(server.getsockname()[1]), str(os.getpid()))
        ended = _run(board, script, tmp_path / "ledger", words=words)
    errors = (*(errno.ENOENT,) * 4, errno.ENETUNREACH, errno.ESRCH)
    assert [line.split()[1] for line in ended.output.splitlines()] == [
        str(error) for error in errors
    ], ended.errors


@pytest.mark.skipif(sandbox_problem() is not None, reason="no sandbox here")
def test_no_code_is_left_for_later_processes(board: Board, tmp_path: Path) -> None:
    """Files that a process writes among the bytecode or sources of its Python are not kept."""
    script = """
        import json, pathlib
        written = 0
        for module in (json.__cached__, json.__file__, __import__("tests").__path__[0] + "/new.py"):
            try: pathlib.Path(module).write_bytes(b"planted")
            except OSError: continue
            written += 1
        print("written", written)
    """
    if is_needed(board.library.architecture):
        ensure_bytecode(rknn_system(board.library.architecture), lambda _: None)
    ended = _run(board, script, tmp_path)
    assert "written 0" in ended.output, ended.errors


def test_the_library_believes_the_board(
    board: Board, parent_and_dup: Ended, tmp_path: Path
) -> None:
    """An old driver and a lack of memory fail the init; a submit that fails fails its run."""
    old = _run(board, "Context(*models())", tmp_path, REUSEBENCH_FAULTS="driver=0.5.0")
    assert "rknn_init -" in old.output
    assert "Mismatch driver version" in old.errors
    full = _run(board, "Context(*models()).destroy()", tmp_path, REUSEBENCH_NPU_MEMORY="8192")
    assert re.search(r"rknn_init -\d", full.output)
    assert {event["fault"] for event in full.named("fault")} == {"enomem"}
    task_buffers = [submit["task_buffer"] for submit in parent_and_dup.named("submit")]
    submits_of_a_run = task_buffers.count(task_buffers[0])
    script = "context = Context(*models()); context.run(); context.infer(); context.destroy()"
    fault = f"submit-error=ETIMEDOUT@{submits_of_a_run + 1}"
    failed = _run(board, script, tmp_path, REUSEBENCH_FAULTS=fault)
    assert re.findall(r"rknn_run (-?\d)", failed.output) == ["0", "-1"]
    assert "failed to submit" in failed.errors


def test_models_are_in_the_first_domain_alone(board: Board, tmp_path: Path) -> None:
    """When its 4 GiB are full, the next buffer fails, and the library tries no other domain."""
    script = """
        context = Context(*models())
        made = [context.create_memory(700 << 20) for _ in range(6)]
        print("made", *map(bool, made))
        for memory in made[:5]: context.give_back(memory)
        context.destroy()
    """
    ended = _run(board, script, tmp_path)
    assert "made True True True True True False" in ended.output
    assert [event["domain"] for event in ended.named("fault")] == [0]
    assert {event["domain"] for event in ended.named("map")} == {0}


def test_a_matrix_multiplication_names_its_domain(board: Board, tmp_path: Path) -> None:
    """Its field reaches the driver with every buffer."""
    if board.library.version < "2":
        pytest.skip(f"librknnrt {board.library.version} knows no domains")
    ended = _run(board, "multiply_in_domain(5)", tmp_path)
    assert "rknn_matmul_create 0" in ended.output
    assert {event["domain"] for event in ended.named("map")} == {5}


@pytest.mark.parametrize("library", _libraries(MINI_RUNTIME))
def test_the_mini_runtime(library: RknnLibrary, tmp_path: Path) -> None:
    """One buffer for everything, addresses relative to it, and I/O memory made by the caller."""
    script = """
        context = Context(*models())
        memories = context.set_io()
        for _ in range(50): context.infer()
        for memory in memories: context.give_back(memory)
        context.destroy()
    """
    ended = _run(_board(library, "rv1106"), script, tmp_path)
    _assert_well(ended)
    assert len(ended.named("submit")) == 1
