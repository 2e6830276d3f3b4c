"""The guard of the virtual board: no call sees, opens, makes or changes devices of the host."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

from tests.targets.preload_support import RunOnBoard, run_client

pytestmark = pytest.mark.process

#: No machine has files with these names, so a guard that fails does no damage.
_NODE = "/dev/dri/reusebench-test"
#: Opening these opens the virtual board's own devices.
_PLAYED = ("/dev/dma_heap/reusebench-test", "/dev/rk_dma_heap/reusebench-test")
_OPENING = re.compile(r"(__)?open(at)?(64)?(_2)?\(|creat(64)?\(")

#: Every guarded function of the C library with arguments; P stands for the path, O for another
#: path, D for the folder that relative paths start from, B for a buffer for results.
_CALLS = """
    access(P,0) eaccess(P,0) euidaccess(P,0) faccessat(D,P,0,0) chdir(P)
    readlink(P,B,9) readlinkat(D,P,B,9)
    open(P,0) open(P,66,384) open64(P,0) openat(D,P,0) openat64(D,P,66,384)
    creat(P,384) creat64(P,384)
    __open_2(P,0) __open64_2(P,0) __openat_2(D,P,0) __openat64_2(D,P,0)
    stat(P,B) stat64(P,B) lstat(P,B) lstat64(P,B) fstatat(D,P,B,0) fstatat64(D,P,B,0)
    statx(D,P,0,0,B)
    __xstat(1,P,B) __xstat64(1,P,B) __lxstat(1,P,B) __lxstat64(1,P,B)
    __fxstatat(1,D,P,B,0) __fxstatat64(1,D,P,B,0)
    mkdir(P,448) mkdirat(D,P,448) mkfifo(P,384) mkfifoat(D,P,384)
    mknod(P,4480,0) mknodat(D,P,4480,0)
    __xmknod(0,P,4480,B) __xmknodat(0,D,P,4480,B) chmod(P,448) lchmod(P,448) fchmodat(D,P,448,0)
    chown(P,0,0) lchown(P,0,0) fchownat(D,P,0,0,0) truncate(P,0) truncate64(P,0)
    utimes(P,0) utimensat(D,P,0,0)
    unlink(P) unlinkat(D,P,0) remove(P) rmdir(P) symlink(O,P) symlinkat(O,D,P)
    rename(P,O) rename(O,P) renameat(D,P,D,O) renameat(D,O,D,P)
    renameat2(D,P,D,O,0) renameat2(D,O,D,P,0)
    link(P,O) link(O,P) linkat(D,P,D,O,0) linkat(D,O,D,P,0) scandir(P,B,0,0) scandir64(P,B,0,0)
"""
#: The same for functions that return a pointer.
_POINTER_CALLS = "opendir(P) fopen(P,M) fopen64(P,M) freopen(P,M,S) freopen64(P,M,S)"

#: Calls that bypass the C library, by their numbers on x86-64.
_RAW_CALLS = """
    syscall(2,P,66,384) syscall(257,D,P,0) syscall(437,D,P,B,24) syscall(85,P,384) syscall(21,P,0)
    syscall(269,D,P,0) syscall(439,D,P,0,0) syscall(4,P,B) syscall(6,P,B) syscall(262,D,P,B,0)
    syscall(332,D,P,0,0,B) syscall(80,P) syscall(83,P,448) syscall(258,D,P,448)
    syscall(133,P,4480,0)
    syscall(259,D,P,4480,0) syscall(90,P,448) syscall(268,D,P,448)
    syscall(92,P,0,0) syscall(94,P,0,0)
    syscall(260,D,P,0,0,0) syscall(87,P) syscall(263,D,P,0) syscall(84,P) syscall(82,P,O)
    syscall(82,O,P) syscall(264,D,P,D,O) syscall(264,D,O,D,P) syscall(316,D,O,D,P,0) syscall(86,P,O)
    syscall(86,O,P) syscall(265,D,O,D,P,0) syscall(88,O,P) syscall(266,O,D,P) syscall(89,P,B,9)
    syscall(267,D,P,B,9) syscall(76,P,0) syscall(280,D,P,0,0)
"""

#: Makes one of these calls and prints its name, -1 for a failure, and the error.
_TRY = """
    import ctypes
    PLAIN = ctypes.CDLL("libc.so.6")
    P, O, M, D = {path!r}.encode(), {other!r}.encode(), b"r", -100
    B = ctypes.create_string_buffer(512)
    for call in {calls!r}.split():
        name = call.partition("(")[0]
        if not hasattr(PLAIN, name):
            continue  # this C library has no such function
        function = LIBC[name]
        function.restype = {restype}
        ctypes.set_errno(0)
        arguments = eval(call[len(name):-1] + ",)", dict(P=P, O=O, M=M, D=D, B=B, S=None))
        print(name, function(*arguments), errno.errorcode.get(ctypes.get_errno()))
"""


@pytest.mark.parametrize(
    ("calls", "restype", "failure"),
    [
        pytest.param(_CALLS, "ctypes.c_int", "-1", id="functions"),
        pytest.param(
            _POINTER_CALLS, "ctypes.c_void_p", "None", id="functions that return a pointer"
        ),
        pytest.param(
            _RAW_CALLS,
            "ctypes.c_int",
            "-1",
            id="system calls",
            marks=pytest.mark.skipif(
                platform.machine() != "x86_64", reason="the numbers are those of x86-64"
            ),
        ),
    ],
)
def test_every_call_is_answered_as_if_there_were_nothing(
    on_board: RunOnBoard, tmp_path: Path, calls: str, restype: str, failure: str
) -> None:
    """ENOENT, an event with the call's name, and no trace on the host; also for root."""
    other = tmp_path / "other"
    other.touch()
    for node in (_NODE, *_PLAYED):
        refused_calls = calls.split()
        if node in _PLAYED:
            refused_calls = [call for call in refused_calls if not _OPENING.match(call)]
        words = " ".join(refused_calls)
        ended = on_board(_TRY.format(path=node, other=str(other), calls=words, restype=restype))
        lines = [line.split() for line in ended.output.splitlines()]
        assert len(lines) > 3
        assert {(result, error) for _, result, error in lines} == {(failure, "ENOENT")}
        refused = ended.named("refused")
        assert [event["call"] for event in refused] == [name for name, _, _ in lines]
        assert {event["path"] for event in refused} == {node}
        assert not Path(node).exists()
        assert other.exists()


def test_what_the_board_plays_is_opened_and_no_more(on_board: RunOnBoard) -> None:
    """All functions that open files give the board's devices; the folder of heaps is not listed."""
    script = """
        heap = "/dev/../dev/rk_dma_heap/rk-dma-heap-cma"
        for path in ("/dev/rknpu", "/dev/dma_heap/system", heap):
            opens = "open", "open64", "__open_2", "__open64_2"
            fds = [LIBC[name](path.encode(), os.O_RDWR) for name in opens]
            opens = "openat", "openat64", "__openat_2"
            fds += [LIBC[name](-100, path.encode(), os.O_RDWR) for name in opens]
            print(*(os.readlink(f"/proc/self/fd/{fd}").split()[0] for fd in fds))
            print(os.path.exists(path), os.access(path, os.F_OK))
        for folder in ("/dev/dma_heap", "/dev/rk_dma_heap/"):
            for call in (os.listdir, os.scandir, os.stat, lambda path: os.open(path, os.O_RDONLY)):
                try: call(folder)
                except FileNotFoundError: print("none")
    """
    lines = on_board(script).output.splitlines()
    opened = [" ".join(["/memfd:" + name] * 7) for name in ("rknpu", "dma_heap", "dma_heap")]
    assert lines[:6:2] == opened
    assert lines[1:6:2] == ["False False"] * 3
    assert lines[6:] == ["none"] * 8


def test_no_way_of_writing_the_path_leads_there(on_board: RunOnBoard, tmp_path: Path) -> None:
    """Dots, slashes, links to /dev, and paths relative to the current folder or to an open one."""
    (tmp_path / "link").symlink_to("/dev")
    script = f"""
        os.chdir({str(tmp_path)!r})
        paths = ["/dev/dri", "/dev/dri/", "/dev//dri", "//dev/./dri/.", "/dev/../dev//dri",
            "/dev/shm/../dri", "/dev/dri/by-path/../../dri", "/proc/self/root/dev/dri",
            "link/dri", "../" * 12 + "dev/dri"]
        for path in paths:
            print(os.path.exists(path))
            try: os.listdir(path)
            except FileNotFoundError: print("none")
        folder = os.open("/dev", os.O_RDONLY)
        for path in ("dri", "../dev/dri"):
            try: os.mkdir(path, dir_fd=folder)
            except FileNotFoundError: print("none")
        os.chdir("/dev")
        print(os.access("dri/card0", os.F_OK))
    """
    ended = on_board(script)
    assert ended.output == "False\nnone\n" * 10 + "none\nnone\nFalse\n"
    paths = [event["path"].rstrip("/") for event in ended.named("refused")]
    assert paths == ["/dev/dri"] * 22 + ["/dev/dri/card0"]


def test_neighbours_are_not_guarded(on_board: RunOnBoard, tmp_path: Path) -> None:
    """Longer names, and the same name elsewhere; lines of the ledger stay JSON for any name."""
    (tmp_path / "dev/dri").mkdir(parents=True)
    script = f"""
        elsewhere = {str(tmp_path)!r} + "/dev/dri"
        names = ("/dev/drive", "/dev/dri2", "/dev/rknpu0", elsewhere, "/dev/null")
        print(*map(os.path.exists, names))
        for name in ('"', '\\\\', '\\n', '\\xfc'): os.path.exists("/dev/dri/a" + name)
        os.path.exists("/dev/dri/" + "x/" * 2000)
    """
    ended = on_board(script)
    assert ended.output == "False False False True True\n"
    assert [event["path"] for event in ended.named("refused")[:3]] == ["/dev/dri/a?"] * 3


def test_links_to_nodes_lead_nowhere(on_board: RunOnBoard, tmp_path: Path) -> None:
    """A link elsewhere may be made, but following it to an existing node is refused."""
    if not Path("/dev/dri").exists():
        pytest.skip("this machine has no /dev/dri to lead to")
    (tmp_path / "link").symlink_to("/dev/dri")
    assert on_board(f"print(os.path.exists({str(tmp_path / 'link')!r}))").output == "False\n"


def test_there_is_no_guard_without_a_virtual_board(preload: Path, tmp_path: Path) -> None:
    """On a real board the runtime needs these devices."""
    ended = run_client("os.path.exists('/dev/dri')", preload, tmp_path / "ledger.jsonl")
    assert [event["event"] for event in ended.events] == ["start"]
    assert (ended.events[0]["mode"], ended.events[0]["chip"]) == ("pass-through", None)
