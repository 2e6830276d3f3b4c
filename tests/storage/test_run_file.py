"""Files of runs: read, or reported with the reason; written whole or not at all."""

from __future__ import annotations

import copy
import errno
import json
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest
from pytest_benchmark.utils import get_machine_id

from reusebench.storage import run_file
from reusebench.storage.board_storage import board_name
from reusebench.storage.result import Result
from reusebench.storage.run_file import (
    CUT_OFF,
    FINISHED,
    NO_END,
    PROGRAMS,
    RUNNING,
    WITHOUT_SPEED,
    BadFile,
    RunWriter,
    StoredRun,
    is_written,
    read_run_file,
    read_storage,
    run_number,
    save_run,
)
from tests.reports.stored import FAILED, changed, even, result, write_run
from tests.reports.stored_programs import Repeat, program

pytestmark = pytest.mark.process

#: A user who is neither root nor the owner of anything.
_NOBODY = 65534
_PYTHON = "Linux-CPython-3.11-64bit"


@pytest.fixture(scope="module")
def info(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Return a result as a session stores it."""
    return result(tmp_path_factory.mktemp("traces"), "no_reuse", even(3))


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory, info: Result) -> bytes:
    """Return a run's file as it should be."""
    return write_run(tmp_path_factory.mktemp("made"), [info]).read_bytes()


@pytest.fixture
def document(content: bytes) -> dict[str, Any]:
    """Return a run as pytest-benchmark makes it."""
    parsed: dict[str, Any] = json.loads(content)
    return parsed


def _put(storage: Path, name: str, content: bytes | dict[str, Any], python: str = _PYTHON) -> Path:
    path = storage / python / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def _runs(storage: Path) -> list[StoredRun]:
    """Return the runs of the storage, in which every file can be read."""
    files = list(read_storage(storage))
    assert [str(file) for file in files if isinstance(file, BadFile)] == []
    return [file for file in files if isinstance(file, StoredRun)]


def _files_beside_runs(storage: Path) -> list[Path]:
    return [path for path in storage.iterdir() if path.is_file()]


# Reading


def test_a_storage_is_read_in_the_order_of_its_numbers(
    tmp_path: Path, info: Result, content: bytes
) -> None:
    """Results with latencies and without are read, and the runs of all Pythons."""
    assert list(read_storage(tmp_path)) == list(read_storage(tmp_path / "missing")) == []
    failed = changed(info, outcome="crashed", failure=FAILED)
    write_run(tmp_path, [info, failed], 2)
    _put(tmp_path, "10000_x.json", content)
    _put(tmp_path, "9999_x.json", content, python="Linux-CPython-3.9-64bit")
    runs = _runs(tmp_path)
    assert [run_number(run.path) for run in runs] == [2, 9999, 10000]
    run = runs[0]
    assert (run.recorded_at, run.board, run.commit.id) == (
        "2026-01-02T03:04:05+00:00",
        "board-123456",
        None,
    )
    assert [stored.info for stored in run.results] == [info, failed]
    assert run.is_finished


@pytest.mark.parametrize("extra", [{}, {"schema": 7}, [], {"schema": "theirs-1"}])
def test_results_of_others_are_passed_over(
    tmp_path: Path, document: dict[str, Any], extra: Any
) -> None:
    """A storage may hold results of other benchmarks, which are neither results nor mistakes."""
    theirs = {"name": "test_sort", "extra_info": extra, "stats": {"median": 1}}
    _put(tmp_path, "0001_theirs.json", {**document, "benchmarks": [theirs], PROGRAMS: [extra]})
    _put(tmp_path, "0002_both.json", {**document, "benchmarks": [theirs, *document["benchmarks"]]})
    (run,) = _runs(tmp_path)
    assert [stored.info.scenario for stored in run.results] == ["no_reuse"]


def _with(*keys: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return a function that sets the value under these keys of a document."""

    def change(document: dict[str, Any]) -> None:
        inner: Any = document
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value

    return change


#: Figures of two streams; a plan without a schedule has none.
_STREAMS_RUN = {
    **dict.fromkeys(("all", "stages_ns", "cpu", "machine", "series")),
    "seconds": 1.0,
    "interrupted": False,
    "streams": (
        [{"due": 1, "done": 1, "dropped": 0, "missed": 0, "per_s": 1.0, "latency_ns": None}] * 2
    ),
}
_INFO = ("benchmarks", 0, "extra_info")
_OF_ANOTHER_FORM = (
    "its format is reusebench-result-1, and this version reads reusebench-result-2,"
    " reusebench-program-2: use the version that wrote it, or measure again; it is left out. Move"
    " it away or delete it"
)
_PROGRAM = msgspec.to_builtins(program("pipeline", [Repeat({"run": 10})]))


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (
            _with(*_INFO, "schema", value="reusebench-result-1"),
            "file_schema_unknown",
            _OF_ANOTHER_FORM,
        ),
        (_with(*_INFO, "outcome", value=None), "file_invalid", "`$.outcome`"),
        (_with(*_INFO, "streams", value=0), "file_invalid", "`int` >= 1 - at `$.streams`"),
        (
            _with(*_INFO, "memory", value={}),
            "file_invalid",
            "missing required field `application_memory_bytes`",
        ),
        (
            _with(*_INFO, "memory", "npu_memory_bytes", value=[1, "2"]),
            "file_invalid",
            "npu_memory_bytes[1]`",
        ),
        (
            _with(*_INFO, "frames", value=[_STREAMS_RUN] * 3),
            "file_invalid",
            "streams has lists of [2] values, valid: [0]",
        ),
        (
            _with(*_INFO, "plan", "contexts", 0, "core", value="x"),
            "file_invalid",
            "`$.plan.contexts[0].core`",
        ),
        (_with(WITHOUT_SPEED, value=[{}]), "file_invalid", "missing required field `extra_info`"),
        (
            _with(PROGRAMS, value=[{**_PROGRAM, "schema": "reusebench-program-9"}]),
            "file_schema_unknown",
            "program-9",
        ),
        (_with(PROGRAMS, value=[{**_PROGRAM, "repeats": 7}]), "file_invalid", "`$.repeats`"),
        (_with("benchmarks", value=None), "file_invalid", "`$.benchmarks`"),
        (
            _with("machine_info", "reusebench", value={}),
            "file_invalid",
            "missing required field `board`",
        ),
        (_with("machine_info", value={}), "file_invalid", "missing required field `reusebench`"),
        (_with("datetime", value=None), "file_invalid", "`$.datetime`"),
        (_with("datetime", value="yesterday"), "file_damaged", "yesterday"),
    ],
)
def test_a_run_of_another_form_is_a_bad_file(
    tmp_path: Path,
    document: dict[str, Any],
    change: Callable[[dict[str, Any]], None],
    code: str,
    words: str,
) -> None:
    """The reason has a code, the place in the file, and the problem."""
    change(document)
    path = _put(tmp_path, "0001_x.json", document)
    (file,) = read_storage(tmp_path)
    assert isinstance(file, BadFile)
    assert file.reason.code == code
    assert words in str(file)
    assert str(file).startswith(f"{path}: ")
    assert str(file).endswith("Move it away or delete it")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "file_damaged"),
        (b"\x00\x01 no JSON", "file_damaged"),
        (b"\xff\xfe{}", "file_damaged"),
        (b'{"machine_info": ' + b"[" * 100_000, "file_damaged"),
        (b"[]", "file_invalid"),
        (b'{"name": "package"}', "file_invalid"),
        (None, "file_unreadable"),
    ],
    ids=range(7),
)
def test_what_is_no_run_is_a_bad_file(tmp_path: Path, content: bytes | None, code: str) -> None:
    """Any bytes are handled; if a file cannot be opened, the reason is the system's."""
    path = _put(tmp_path, "0001_x.json", content or b"")
    if content is None:
        path.unlink()
        path.mkdir()
    (file,) = read_storage(tmp_path)
    assert isinstance(file, BadFile)
    assert file.reason.code == code
    assert content is not None or file.reason.values == {
        "error": "it is a folder; a regular file is needed"
    }


def test_a_file_that_a_power_cut_has_damaged(tmp_path: Path, content: bytes) -> None:
    """A file that is cut off, or ends in zeros, is reported; the runs around it are read."""
    ends = [round(len(content) * part / 20) for part in range(20)] + [1, len(content) - 1]
    damaged = [content[:4096] + bytes(512) + content[4608:]]
    for end in ends:
        damaged += [content[:end], content[:end] + bytes(len(content) - end)]
    _put(tmp_path, "0001_a.json", content)
    _put(tmp_path, f"{len(damaged) + 2:04}_c.json", content)
    for number, cut in enumerate(damaged, start=2):
        _put(tmp_path, f"{number:04}_b.json", cut)
    first, *bad_files, last = read_storage(tmp_path)
    assert isinstance(first, StoredRun)
    assert isinstance(last, StoredRun)
    assert [isinstance(file, BadFile) and file.reason.code for file in bad_files] == [
        "file_damaged"
    ] * len(damaged)


def test_what_is_no_regular_file_is_not_waited_for(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pipes, devices and endless files are reported with their kind; other runs are read."""
    monkeypatch.setattr(run_file, "MOST_RUN_BYTES", len(content))
    _put(tmp_path, "0001_x.json", content)
    folder = tmp_path / "python"
    folder.mkdir()
    os.mkfifo(folder / "0002_fifo.json")
    (folder / "0003_zero.json").symlink_to("/dev/zero")
    (folder / "0004_loop.json").symlink_to("0004_loop.json")
    with (folder / "0005_large.json").open("wb") as large:
        large.truncate(len(content) + 1)
    run, *bad_files = read_storage(tmp_path)
    assert isinstance(run, StoredRun)
    reasons = ("a named pipe", "a device", "Too many levels", f"more than {len(content):,} bytes")
    for file, reason in zip_longest(bad_files, reasons):
        assert reason in str(file)


def test_figures_that_are_not_of_their_repeats(tmp_path: Path, document: dict[str, Any]) -> None:
    """Lists of the wrong length are damage: no table could be made of them."""
    for number, change in enumerate(
        (
            _with("benchmarks", 0, "extra_info", "memory", "npu_memory_bytes", value=[1]),
            _with("benchmarks", 0, "extra_info", "repeats", value=[]),
            _with("benchmarks", 0, "extra_info", "memory", "context_memory_bytes", value=[[1]] * 3),
            _with("benchmarks", 0, "extra_info", "models", value=[]),
            _with("benchmarks", 0, "extra_info", "outcome", value="fine"),
            _with("benchmarks", 0, "extra_info", "speed", "model_latency_ns", value=[[]] * 3),
        ),
        start=1,
    ):
        changed_document = copy.deepcopy(document)
        change(changed_document)
        _put(tmp_path, f"{number:04}_x.json", changed_document)
    files = list(read_storage(tmp_path))
    assert [isinstance(file, BadFile) and file.reason.code for file in files] == [
        "file_invalid"
    ] * 6


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("2026-01-02T03:04:05.500000+00:00", "2026-01-02T03:04:05.500000+00:00"),
        ("2026-01-02T03:04:05", "2026-01-02T03:04:05"),
        ("2026-01-02T03:04:05+09:00", "2026-01-01T18:04:05+00:00"),
        ("0001-01-01T00:00:00+12:00", None),
        ("9999-12-31T23:59:59-12:00", None),
    ],
)
def test_moments_are_of_utc(
    tmp_path: Path, document: dict[str, Any], stored: str, shown: str | None
) -> None:
    """Times of any zone become UTC; a time that no calendar has is damage."""
    _put(tmp_path, "0001_x.json", {**document, "datetime": stored})
    (file,) = read_storage(tmp_path)
    if shown is None:
        assert isinstance(file, BadFile)
    else:
        assert isinstance(file, StoredRun)
        assert file.recorded_at == shown


def test_the_order_is_that_of_the_numbers(tmp_path: Path, document: dict[str, Any]) -> None:
    """A wrong clock does not make a run older, and its date counts as unknown."""
    for number, date in enumerate(
        ("2026-01-01", "1970-01-01", "2026-01-03", "2026-01-01", "2026-01-03"), start=1
    ):
        _put(tmp_path, f"{number:04}_x.json", {**document, "datetime": f"{date}T12:00:00+00:00"})
    runs = _runs(tmp_path)
    assert [run_number(run.path) for run in sorted(runs, key=lambda run: run.order)] == [
        1,
        2,
        3,
        4,
        5,
    ]
    assert [run.is_dated for run in runs] == [True, False, True, False, True]


def test_a_name_of_lines_has_a_number_too(tmp_path: Path, document: dict[str, Any]) -> None:
    """Names with line breaks are read and shown in one line, and their numbers are taken."""
    _put(tmp_path, "0007_two\nlines\x1b[2J.json", document)
    _put(tmp_path, os.fsdecode(b"0008_\xff.json"), document)
    assert [run.file_name for run in _runs(tmp_path)] == [
        "0007_two\\nlines\\x1b[2J.json",
        "0008_\\udcff.json",
    ]
    assert run_number(save_run(tmp_path, document, "next")) == 9


def test_a_folder_that_may_not_be_read(document: dict[str, Any]) -> None:
    """The folder is reported; without its numbers no new number is given."""
    # Not tmp_path, whose parents are closed to other users.
    with tempfile.TemporaryDirectory() as name:
        storage = Path(name)
        _put(storage, "0001_x.json", document)
        hidden = _put(storage, "0002_x.json", document, python="hidden").parent
        hidden.chmod(0)
        storage.chmod(0o777)

        def refuse() -> None:
            os.setuid(_NOBODY)
            _, bad_file = sorted(read_storage(storage), key=lambda file: isinstance(file, BadFile))
            assert isinstance(bad_file, BadFile)
            assert (bad_file.path, bad_file.reason.values) == (
                hidden,
                {"error": "Permission denied"},
            )
            with pytest.raises(PermissionError):
                save_run(storage, document, "next")

        if os.getuid() == 0:
            assert os.waitpid(_fork(refuse), 0)[1] == 0


# Writing


def test_a_run_is_where_pytest_benchmark_would_put_it(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    """Folder and name are pytest-benchmark's; the content is complete; no other file is left."""
    storage = tmp_path / "new" / "storage"
    path = save_run(storage, document, "mine")
    assert path == storage / get_machine_id() / "0001_mine.json"  # type: ignore[no-untyped-call]
    assert json.loads(path.read_bytes()) == document
    assert path.stat().st_size < len(json.dumps(document))
    assert list(storage.iterdir()) == [path.parent]


def test_what_json_has_no_form_for(tmp_path: Path) -> None:
    """Any parameter of another test is stored as pytest-benchmark stores it."""
    path = save_run(tmp_path, {"params": {"of": errno}}, "mine")
    assert json.loads(path.read_bytes())["params"]["of"].startswith(
        "UNSERIALIZABLE[<module 'errno'"
    )


@pytest.mark.parametrize(
    "name", ["", "a/b", "a:b", "*", "n" * 300, "two\nlines", "\x1b[2J", "\udcff"]
)
def test_a_name_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    """An invalid name is refused with the valid form, and nothing is written."""
    with pytest.raises(
        ValueError,
        match="cannot be the name of a run; valid: 1 to 200 bytes of printable UTF-8, none of",
    ):
        save_run(tmp_path, {}, name)
    assert list(tmp_path.iterdir()) == []


def test_numbers_go_on_over_all_pythons_and_past_9999(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    """A number is unique in the storage; pytest-benchmark's own count ends at four digits."""
    for name in ("9999_last.json", "notes.json", "12345.json"):
        _put(tmp_path, name, b"{}", python="Linux-CPython-3.9-64bit")
    assert [save_run(tmp_path, document, "x").name for _ in range(2)] == [
        "10000_x.json",
        "10001_x.json",
    ]


def test_a_run_that_grows_is_one_file(tmp_path: Path, document: dict[str, Any]) -> None:
    """A growing run keeps its number, and is marked as unfinished until its end."""
    growing = RunWriter(tmp_path, "growing")
    for count in range(1, 4):
        path = growing.write(
            {**document, "benchmarks": document["benchmarks"] * count}, finished=False
        )
        save_run(tmp_path, document, "other")
        run = _runs(tmp_path)[0]
        assert (run.path, run.path.name, run.is_finished) == (path, "0001_growing.json", False)
        assert len(run.results) == count
    assert growing.write(document) == path
    assert [(run.path.name, run.is_finished) for run in _runs(tmp_path)] == [
        ("0001_growing.json", True),
        *((f"{number:04}_other.json", True) for number in (2, 3, 4)),
    ]


def test_the_end_of_a_run_is_told(tmp_path: Path, document: dict[str, Any]) -> None:
    """While its writer lives it is being measured; then it was cut off, or on another machine."""
    document["machine_info"]["reusebench"]["board"] = board_name()
    growing = RunWriter(tmp_path, "growing")
    growing.write(document, finished=False)
    (run,) = _runs(tmp_path)
    assert (run.end, run.outcome_of("cut_off"), run.outcome_of("ok")) == (RUNNING, RUNNING, "ok")
    elsewhere = RunWriter(tmp_path, "elsewhere")
    document["machine_info"]["reusebench"]["board"] = "another"
    elsewhere.write(document, finished=False)
    for writer in (growing, elsewhere):
        assert writer._held is not None
        os.close(writer._held)
    save_run(tmp_path, document, "whole")
    assert [run.end for run in _runs(tmp_path)] == [CUT_OFF, NO_END, FINISHED]


def _fork(work: Callable[[], object]) -> int:
    """Run `work` in a child process and return its id; the exit code is 0 if nothing was raised."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
        os._exit(0)
    finally:
        os._exit(1)


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path, document: dict[str, Any]) -> None:
    """Every run gets its own number, whether names are equal or not."""
    names = ["same", "same", "other", "third"]

    def save_many(name: str) -> None:
        for _ in range(12):
            save_run(tmp_path, {**document, "writer": name}, name)

    writers = [_fork(partial(save_many, name)) for name in names]
    assert [os.waitpid(pid, 0)[1] for pid in writers] == [0] * 4
    assert [run_number(run.path) for run in _runs(tmp_path)] == list(range(1, 49))
    written = Counter(json.loads(path.read_bytes())["writer"] for path in tmp_path.glob("*/*.json"))
    assert written == {"same": 24, "other": 12, "third": 12}
    assert _files_beside_runs(tmp_path) == []


def test_a_number_that_another_writer_has_just_used(
    tmp_path: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer may begin and end between listing the numbers and claiming one."""
    looks = iter([set[int]()])
    look = run_file._numbers
    save_run(tmp_path, document, "first")
    monkeypatch.setattr(run_file, "_numbers", lambda storage: next(looks, look(storage)))
    assert run_number(save_run(tmp_path, document, "second")) == 2
    assert _files_beside_runs(tmp_path) == []


def _write_and_die(writer: RunWriter, document: dict[str, Any], line: int) -> None:
    """Write, and be killed after `line` lines of the module."""
    lines = iter(range(line))

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != run_file.__file__:
            return None
        if event == "line" and next(lines, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    writer.write(document)


@pytest.mark.parametrize("is_there", [False, True], ids=["first write", "later write"])
def test_a_session_that_is_killed_while_it_writes(
    tmp_path: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """A kill at any line leaves the old or the new run, and the next number is free."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # the kernel keeps what a killed process wrote
    further = {**document, "benchmarks": document["benchmarks"] * 2}
    before = [(1, False)] * is_there
    after = [(2, True)]
    states = []
    for line in range(1000):
        storage = tmp_path / str(line)
        writer = RunWriter(storage, "mine")
        if is_there:
            writer.write(document, finished=False)
        status = os.waitpid(_fork(partial(_write_and_die, writer, further, line)), 0)[1]
        states.append([(len(run.results), run.is_finished) for run in _runs(storage)])
        save_run(storage, document, "next")
        assert len({run_number(path) for path in storage.glob("*/*.json")}) == len(states[-1]) + 1
        if status == 0:
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
    assert states == [before] * states.count(before) + [after] * states.count(after)
    assert min(states.count(before), states.count(after)) > 5


@pytest.mark.parametrize("write_first", [False, True])
def test_a_disk_that_is_full(
    tmp_path: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch, write_first: bool
) -> None:
    """The error is the system's; no partial file is left, and the former run stays."""

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    writer = RunWriter(tmp_path, "mine")
    before = [writer.write(document, finished=False).read_bytes()] if write_first else []
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="No space left on device"):
            writer.write({**document, "more": 1})
    assert [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()] == before
    assert writer.write(document).name == "0001_mine.json"


def test_a_run_is_on_the_disk_before_its_name_is(
    tmp_path: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Content, name and folders are synchronised in this order, as far as the file system can.

    A power cut loses what was not synchronised: content without a name, or a name without content.
    """
    synchronised: list[object] = []
    rename = Path.rename

    def fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").resolve()
        if not path.is_dir():
            synchronised.append(path.read_bytes())
            return
        synchronised.append(path)
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    def renamed(source: Path, target: Path) -> Path:
        synchronised.append("name")
        return rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", renamed)
    storage = tmp_path / "new" / "board"
    writer = RunWriter(storage, "mine")
    path = writer.write(document)
    content = path.read_bytes()
    assert synchronised == [content, "name", path.parent, storage, storage.parent, tmp_path]
    synchronised.clear()
    writer.write(document)
    assert synchronised == [content, "name", path.parent, storage]
    assert isinstance(read_run_file(path), StoredRun)


def test_a_run_that_is_measured_has_a_writer(tmp_path: Path, document: dict[str, Any]) -> None:
    """A run counts as written until it is finished, or its session has ended in any way."""
    read, write = os.pipe()

    def measure() -> None:
        RunWriter(tmp_path, "x").write(document, finished=False)
        os.write(write, b"1")
        signal.pause()

    session = _fork(measure)
    os.read(read, 1)
    (path,) = tmp_path.glob("*/*.json")
    name = path.relative_to(tmp_path).as_posix()
    assert is_written(tmp_path, name)
    os.kill(session, signal.SIGKILL)
    os.waitpid(session, 0)
    assert not is_written(tmp_path, name)
    for descriptor in (read, write):
        os.close(descriptor)
    writer = RunWriter(tmp_path, "y")
    name = writer.write(document, finished=False).relative_to(tmp_path).as_posix()
    assert is_written(tmp_path, name)
    writer.write(document)
    assert not is_written(tmp_path, name)
