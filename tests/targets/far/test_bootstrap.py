"""The start from a shell to the reader: architecture, folder, and possible problems."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from reusebench.targets.errors import TargetError
from reusebench.targets.far.bootstrap import FolderCandidate, Mount, Survey, choose_folder
from reusebench.targets.far.connection import connect
from reusebench.targets.far.pushed_files import FarFiles
from tests.helpers.far_shell import TERMINAL, connected, shell_at

pytestmark = pytest.mark.process

_ROOM = 1 << 30


@pytest.fixture(autouse=True)
def _own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))


def _survey(
    *mounts: str, machine: str = "armv7l", bits: int = 32, **candidates: FolderCandidate
) -> Survey:
    lines = tuple(Mount.parse(f"{mount} 0 0") for mount in mounts)
    return Survey(machine, bits, lines, tuple(candidates.values()))


def _candidate(
    path: str, writable: bool = True, used: bool = False, free_bytes: int | None = _ROOM
) -> FolderCandidate:
    return FolderCandidate(path, path, writable, used, free_bytes)


@pytest.mark.parametrize(
    ("machine", "bits", "architecture"),
    [
        ("armv7l", 32, "armhf"),
        ("armv7l", 0, "armhf"),
        ("aarch64", 64, "aarch64"),
        ("aarch64", 0, "aarch64"),
        # A 32-bit user space on a 64-bit kernel, as many boards have.
        ("aarch64", 32, "armhf"),
        ("armv8l", 32, "armhf"),
        ("x86_64", 64, "x86_64"),
    ],
)
def test_the_architecture_is_that_of_programs(machine: str, bits: int, architecture: str) -> None:
    """The reader matches the word size of the shell."""
    assert _survey(machine=machine, bits=bits).architecture == architecture


@pytest.mark.parametrize(
    ("machine", "bits"), [("riscv64", 64), ("x86_64", 32), ("mips", 32), ("", 0), ("armv6l", 32)]
)
def test_a_machine_without_a_reader(machine: str, bits: int) -> None:
    """The sentence names the machines with a reader."""
    with pytest.raises(TargetError, match="made for aarch64, ARMv7"):
        _ = _survey(machine=machine, bits=bits).architecture


def test_the_first_folder_that_can_be_used() -> None:
    """Folders in memory, read-only, noexec, not writable or full are skipped."""
    survey = _survey(
        "/dev/root / ext4 ro,relatime",
        "/dev/ubi0 /home ubifs rw",
        "tmpfs /tmp tmpfs rw",
        "/dev/zram1 /mnt/sdcard ext4 rw",
        "/dev/sda1 /data vfat rw,noexec",
        "/dev/mmcblk0p8 /userdata ext4 rw",
        full=_candidate("/home/.cache", free_bytes=1000),
        read_only=_candidate("/var/tmp"),
        memory=_candidate("/tmp"),
        compressed=_candidate("/mnt/sdcard"),
        no_programs=_candidate("/data/local/tmp"),
        foreign=_candidate("/userdata/root", writable=False),
        good=_candidate("/userdata"),
    )
    assert choose_folder(survey, None) == "/userdata/reusebench-board"


def test_a_folder_that_was_used_stays() -> None:
    """Files in it need not be pushed again, however little room remains."""
    survey = _survey(
        "/dev/root / ext4 rw",
        first=_candidate("/root/.cache"),
        used=_candidate("/oem", used=True, free_bytes=1000),
    )
    assert choose_folder(survey, None) == "/oem/reusebench-board"


def test_an_overlay_is_where_its_upper_folder_is() -> None:
    """An overlay in memory is memory; an overlay on flash is not."""
    mounts = ("tmpfs /rw tmpfs rw", "/dev/mtd /flash ubifs rw")
    memory, flash = (
        f"overlay / overlay rw,lowerdir=/rom,upperdir={upper}/up,workdir=/x"
        for upper in ("/rw", "/flash")
    )
    candidate = _candidate("/userdata")
    assert (
        choose_folder(_survey(flash, *mounts, one=candidate), None) == "/userdata/reusebench-board"
    )
    with pytest.raises(TargetError, match="/userdata is in memory"):
        choose_folder(_survey(memory, *mounts, one=candidate), None)


def test_every_refusal_is_told() -> None:
    """If no folder can be used, each is named with its reason."""
    survey = _survey(
        "/dev/root / ext4 rw",
        "none /var/tmp tmpfs rw",
        missing=FolderCandidate("/userdata", "", False, False, None),
        memory=_candidate("/var/tmp"),
        full=_candidate("/oem", free_bytes=3 << 20),
    )
    with pytest.raises(
        TargetError,
        match=r"/userdata does not exist; /var/tmp is in memory.*; /oem has only 3.0 MiB",
    ):
        choose_folder(survey, None)


def test_a_mount_with_blanks() -> None:
    """The kernel writes spaces as octal escapes."""
    assert Mount.parse(r"/dev/sda1 /media/a\040disk vfat rw 0 0").point == "/media/a disk"


@pytest.mark.parametrize("before", ["", TERMINAL], ids=["pipe", "terminal"])
def test_a_second_session_finds_the_reader(tmp_path: Path, before: str) -> None:
    """The reader is pushed once, complete and executable, below the home's cache."""
    home = tmp_path / "a home"
    home.mkdir()
    changed = []
    for _ in range(2):
        with connected(home, before) as connection:
            assert connection.folder == str(home / ".cache" / "reusebench-board")
            assert connection.architecture == {"armv7l": "armhf"}.get(
                platform.machine(), platform.machine()
            )
            (program,) = Path(connection.folder).iterdir()
            changed.append(program.stat().st_mtime_ns)
    assert changed[0] == changed[1]


def test_half_a_reader_is_pushed_again(tmp_path: Path) -> None:
    """A reader that was pushed only in part is pushed again."""
    with connected(tmp_path) as connection:
        (program,) = Path(connection.folder).iterdir()
    content = program.read_bytes()
    program.rename(f"{program}.new")
    Path(f"{program}.new").write_bytes(content[:1000])
    with connected(tmp_path):
        assert program.read_bytes() == content


def test_a_given_folder(tmp_path: Path) -> None:
    """The user's folder is used; a missing one is not created."""
    with connected(tmp_path):
        connection = connect("pipe:sh", print, str(tmp_path))
        assert connection.folder == str(tmp_path / "reusebench-board")
        connection.close()
        with pytest.raises(TargetError, match=r"none does not exist.*give another"):
            connect("pipe:sh", print, str(tmp_path / "none"))


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no /dev/shm")
def test_a_folder_in_memory_is_refused() -> None:
    """Files pushed there would add to the measured memory."""
    with pytest.raises(TargetError, match="/dev/shm is in memory"):
        connect("pipe:sh", print, "/dev/shm")


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("pipe:no-such-program", "no program no-such-program"),
        ("pipe:false", "`false` ended \\(exit code 1\\)"),
        ("pipe:sh -c 'echo the words >&2; exit 4'", "exit code 4\\): the words"),
        (
            f"pipe:{sys.executable} -c 'import time; print(\"login:\", flush=True); time.sleep(9)'",
            "gave no shell.*login:",
        ),
    ],
)
def test_what_is_no_shell(target: str, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence has the command's last words; nothing is waited for without a limit."""
    monkeypatch.setattr("reusebench.targets.far.bootstrap._SHELL_LIMIT_S", 0.5)
    monkeypatch.setattr("reusebench.targets.far.bootstrap._SLOWEST_BYTES_PER_S", 10_000)
    monkeypatch.setattr("reusebench.targets.far.channel._END_S", 0.5)
    with pytest.raises(TargetError, match=sentence):
        connect(target, print)


def test_our_folder_is_nobody_elses(tmp_path: Path) -> None:
    """Programs and models are there for one user alone, whatever the umask."""
    with connected(tmp_path) as connection:
        folder = Path(connection.folder)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o755)  # as earlier versions made it
    with connected(tmp_path) as connection:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("kind", ["link", "foreign"])
def test_a_folder_that_somebody_else_made(tmp_path: Path, kind: str) -> None:
    """A folder that others can change is refused: they could change the programs in it."""
    with connected(tmp_path) as connection:
        folder = Path(connection.folder)
    if kind == "link":
        folder.rename(folder.with_name("other"))
        folder.symlink_to("other")
    elif os.geteuid() == 0:
        os.chown(folder, 12345, 12345)
    else:
        pytest.skip("only root can make a folder another user's")
    with pytest.raises(
        TargetError, match=r"is a link, or belongs to another user.*--folder FOLDER"
    ):
        connect(shell_at(tmp_path), print)


def test_a_reader_that_cannot_run(tmp_path: Path) -> None:
    """If the reader is of another machine, for example, the sentence has the shell's words."""
    with connected(tmp_path) as connection:
        (program,) = Path(connection.folder).iterdir()
    program.write_bytes(b"\x7fELF\x01\x01\x01" + bytes(9) + b"\x02\x00\xff\xff" + bytes(100))
    with pytest.raises(TargetError, match=r"did not start: .*(Exec format error|cannot execute)"):
        connect(shell_at(tmp_path), print)


#: A shell whose home is an overlay on a small, hidden disk in memory: for the harness a full disk.
_SMALL_DISK = """
mkdir low disk home && mount -t tmpfs -o size={size} none disk && mkdir disk/up disk/work &&
mount -t overlay none -o lowerdir=low,upperdir=disk/up,workdir=disk/work home &&
umount -l disk && exec sh
"""


def _small_disk(folder: Path, size: str) -> str:
    if not shutil.which("unshare"):
        pytest.skip("no unshare")
    script = folder / "small-disk"
    script.write_text(f"cd {folder}\n{_SMALL_DISK.format(size=size)}", encoding="utf-8")
    test = subprocess.run(
        ["unshare", "-Urm", "sh", script], input=b"echo mounted", capture_output=True, check=False
    )
    for name in ("low", "disk", "home"):
        (folder / name).rmdir()
    if test.stdout != b"mounted\n":
        pytest.skip(f"no overlay in a user namespace here: {test.stderr.decode()}")
    return f"pipe:unshare -Urm sh {script}"


def test_a_full_disk_while_the_reader_is_pushed(tmp_path: Path) -> None:
    """The sentence says what could not be written to which folder, and what is free."""
    target = _small_disk(tmp_path, "4k")
    with pytest.raises(
        TargetError, match=r"the reader \(\d+ KiB\) cannot be written to .*KiB are free"
    ):
        connect(target, print, str(tmp_path / "home"))


def test_a_full_disk_while_a_file_is_pushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room is checked beforehand; a disk that fills up meanwhile is reported the same way.

    Nothing is left there.
    """
    connection = connect(_small_disk(tmp_path, "512k"), print, str(tmp_path / "home"))
    files = FarFiles(connection)
    model = tmp_path / "model"
    model.write_bytes(os.urandom(1 << 20))
    with pytest.raises(
        TargetError, match=r"no room for model: 1.0 MiB are needed in .*, 0.\d MiB are free"
    ):
        files.push(model)
    before = files.free_bytes()
    monkeypatch.setattr(FarFiles, "free_bytes", lambda _: 1 << 30)
    with pytest.raises(TargetError, match="no room for model"):
        files.push(model)
    monkeypatch.undo()
    assert files.free_bytes() >= before - (16 << 10)
    connection.close()
