"""The start of the reader from a shell on the board: survey, choice of a folder, push."""

from __future__ import annotations

import posixpath
import re
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reusebench.targets.errors import ConnectionLost, TargetError
from reusebench.targets.far.channel import Channel

__all__ = ["MARKER", "FolderCandidate", "Mount", "Survey", "begin_reader", "choose_folder", "probe"]

#: First output of the reader (native/reader/main.c).
MARKER = b"\x01\x02reusebench reader\x02\x01\n"

#: Folders for files on a board, best first, each with the folder that must exist for it.
_CANDIDATES = (
    ('"$HOME"/.cache', '"$HOME"'),
    ("/userdata", "/userdata"),
    ("/data/local/tmp", "/data/local/tmp"),
    ("/oem", "/oem"),
    ("/mnt/sdcard", "/mnt/sdcard"),
    ("/var/tmp", "/var/tmp"),
)
#: Folder for everything that is pushed. It has no other name of this project, since the board may
#: be a PC with its own cache or checkout.
_FOLDER = "reusebench-board"
#: Room for a small board's model, driver and libraries. A folder with less is used only if the user
#: names it.
_ROOM_BYTES = 8 << 20
#: File systems, and prefixes of devices, whose files would add to the measured memory.
_MEMORY_FILE_SYSTEMS = {"tmpfs", "ramfs", "rootfs", "devtmpfs"}
_MEMORY_DEVICES = ("/dev/ram", "/dev/zram")
#: Time for a login: a connection's time-out and a slow board's shell.
_SHELL_LIMIT_S = 40.0
#: Lower bound of a shell's speed. A shell that edits lines on a terminal echoes them as it reads:
#: under emulation at 1,500 bytes per second.
_SLOWEST_BYTES_PER_S = 200
#: Longest line: old shells read up to 1024 bytes, terminals 4096.
_LINE_BYTES = 900
#: Content in such a line; one more byte takes 4, and the command around the content up to 200.
_PART_BYTES = _LINE_BYTES - 4 - 200

# Every answer is a line @NAME VALUE@. The commands contain @''%s, so that a terminal's echo of them
# is no answer. They use nothing that BusyBox or Android's shell may lack, except df, without which
# the free space is unknown.
_PROBE = r"""
PS1= PS2=
t() { printf '@''%s %s@\n' "$1" "$2"; }
t machine "$(uname -m)"
IFS= read -r h < /proc/$$/exe || IFS= read -r h < /bin/sh
case "$h" in ?ELF"$(printf '\001')"*) t bits 32;; ?ELF"$(printf '\002')"*) t bits 64;; esac
while IFS= read -r m; do t mount "$m"; done < /proc/mounts
c() { s=missing; p=; [ -d "$2" ] && s=kept && p=$(cd "$2" && pwd -P) && [ -w "$2" ] && s=writable
u=new; [ -w "$1/$f" ] && [ -O "$1/$f" ] && u=used
t folder "$s|$u|$(df -k "$2" 2>/dev/null | tail -n 1)|$p|$1"; }
"""
#: Makes the folder private, and refuses one that somebody else made: programs are run from it, and
#: models are in it.
_MAKE_FOLDER = r"""
o() { [ ! -h "$f" ] && [ -O "$f" ]; }
(umask 077; mkdir -p "$f") && if o; then chmod 700 "$f"; t folder ours; else t folder others; fi
"""
_ANSWER = re.compile(r"@(\w+) (.*)@\r*$")
_DF_AVAILABLE = re.compile(r"(\d+)\s+\d+%\s")


@dataclass(frozen=True)
class Mount:
    """A line of /proc/mounts."""

    device: str
    point: str
    file_system: str
    options: tuple[str, ...]

    @classmethod
    def parse(cls, line: str) -> Mount:
        """Return the mount of a line, in which spaces are octal escapes."""
        device, escaped_point, file_system, options = line.split(" ")[:4]
        point = re.sub(r"\\(\d{3})", lambda escape: chr(int(escape[1], 8)), escaped_point)
        return cls(device, point, file_system, tuple(options.split(",")))

    def option(self, name: str) -> str:
        """Return the value of an option; empty if it has none."""
        for option in self.options:
            key, _, value = option.partition("=")
            if key == name:
                return value
        return ""


@dataclass(frozen=True)
class FolderCandidate:
    """A folder that could hold the project's folder."""

    path: str
    #: Path without symbolic links, of the folder or of its parent; empty if neither exists.
    real_path: str
    writable: bool
    #: Whether the project's folder is already in it.
    used: bool
    #: None if the board has no df.
    free_bytes: int | None

    @classmethod
    def parse(cls, answer: str) -> FolderCandidate:
        """Return the candidate from an answer of the probe."""
        state, used, room, real_path, path = answer.split("|", 4)
        available = _DF_AVAILABLE.search(room + " ")
        free_bytes = int(available[1]) * 1024 if available else None
        return cls(path, real_path, state == "writable", used == "used", free_bytes)


@dataclass(frozen=True)
class Survey:
    """The answers of the probe."""

    machine: str
    #: Word size of the shell's program, and so of other programs; 0 if it is unknown.
    bits: int
    mounts: tuple[Mount, ...]
    candidates: tuple[FolderCandidate, ...]

    @property
    def architecture(self) -> str:
        """The architecture of the user space; TargetError if there is no reader for it.

        A 32-bit user space may run on a 64-bit kernel.
        """
        if self.machine in ("aarch64", "arm64", "armv8l"):
            is_long = self.bits == 64 or (not self.bits and self.machine != "armv8l")
            return "aarch64" if is_long else "armhf"
        if self.machine.startswith("armv7"):
            return "armhf"
        if self.machine in ("x86_64", "amd64") and self.bits != 32:
            return "x86_64"
        width = f" with programs of {self.bits} bits" if self.bits else ""
        raise TargetError(
            f"the board's machine is {self.machine or 'unknown'}{width}; the reader is made for"
            " aarch64, ARMv7 (armhf) and x86_64"
        )

    def mount_of(self, path: str) -> Mount | None:
        """Return the mount of a path: the last of those with the longest mount point."""
        best = None
        for mount in self.mounts:
            inside = mount.point == "/" or path == mount.point or path.startswith(mount.point + "/")
            if inside and (best is None or len(mount.point) >= len(best.point)):
                best = mount
        return best


class _Shell:
    """The board's shell.

    Every method raises ConnectionLost if it ends, and TargetError if there is none.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._read = b""

    def ask(self, script: str) -> list[tuple[str, str]]:
        """Run the commands; return their answers as (name, value)."""
        self._channel.write(f"{script}\nt end end\n".encode())
        answers: list[tuple[str, str]] = []
        deadline = time.monotonic() + _SHELL_LIMIT_S + len(script) / _SLOWEST_BYTES_PER_S
        while True:
            for line in self._lines(deadline):
                match = _ANSWER.search(line)
                if match and match[1] == "end":
                    return answers
                if match:
                    answers.append((match[1], match[2]))

    def run_reader(self, program: str) -> bytes:
        """Turn the shell into the reader; return the reader's first output."""
        self._channel.write(f"exec {shlex.quote(program)}\n".encode())
        deadline = time.monotonic() + _SHELL_LIMIT_S
        try:
            while MARKER not in self._read:
                self._wait(deadline)
        except ConnectionLost as error:
            raise TargetError(
                f"{error}. The reader ({program}) did not start: {self._last_line()}"
            ) from None
        return self._read.partition(MARKER)[2]

    def _lines(self, deadline_s: float) -> Iterator[str]:
        while b"\n" not in self._read:
            self._wait(deadline_s)
        lines, _, self._read = self._read.rpartition(b"\n")
        yield from lines.decode(errors="replace").split("\n")

    def _wait(self, deadline_s: float) -> None:
        data = self._channel.read(max(0.0, deadline_s - time.monotonic()))
        self._read += data
        if not data:
            name = self._channel.transport.name
            raise TargetError(
                f"{name} gave no shell within {_SHELL_LIMIT_S:g} s, but {self._last_line()}; "
                f"does `{' '.join(self._channel.transport.command)}` give one?"
            )

    def _last_line(self) -> str:
        words = self._read.decode(errors="replace").strip() or self._channel.words
        return repr(words.rpartition("\n")[2][-200:]) if words else "no word"


def probe(channel: Channel, folder: str | None) -> Survey:
    """Return the survey of the board; `folder` is the user's choice, if any."""
    candidates = [(shlex.quote(folder),) * 2] if folder else _CANDIDATES
    checks = "\n".join(f"c {path} {parent}" for path, parent in candidates)
    answers = _Shell(channel).ask(f"f={_FOLDER}\n{_PROBE}{checks}")
    values = dict(answers)
    return Survey(
        values.get("machine", ""),
        int(values.get("bits", 0)),
        tuple(Mount.parse(value) for name, value in answers if name == "mount"),
        tuple(FolderCandidate.parse(value) for name, value in answers if name == "folder"),
    )


def choose_folder(survey: Survey, given: str | None) -> str:
    """Return the folder for pushed files; raise TargetError with the reason against each."""
    refusals = []
    usable = []
    for candidate in survey.candidates:
        reason = _reason_against(survey, candidate, 0 if given else _ROOM_BYTES)
        if reason:
            refusals.append(f"{candidate.path} {reason}")
        else:
            usable.append(candidate)
    if not usable:
        remedy = "give another" if given else "give one that can be used"
        raise TargetError(
            f"nothing can be pushed to the board: {'; '.join(refusals)}. Pushed files must be on a"
            f" disk, since files in memory would add to the measured memory: {remedy} (--folder"
            " FOLDER of `reusebench board add`)"
        )
    # The folder that is already used stays. Pushed files take room, and would otherwise drive the
    # next session to another folder.
    best = next((candidate for candidate in usable if candidate.used), usable[0])
    return posixpath.join(best.path, _FOLDER)


def _reason_against(survey: Survey, candidate: FolderCandidate, room_bytes: int) -> str | None:  # noqa: PLR0911 one for each reason
    """Return the reason against the folder; None if it is usable."""
    if not candidate.real_path:
        return "does not exist"
    mount = survey.mount_of(candidate.real_path)
    if mount and "ro" in mount.options:
        return "is on a file system that is mounted read-only"
    if not candidate.writable:
        return "is not writable for this user"
    if mount and _is_memory(survey, mount):
        return f"is in memory ({mount.file_system})"
    if mount and "noexec" in mount.options:
        return "lets no program run (it is mounted noexec)"
    if candidate.used or candidate.free_bytes is None or candidate.free_bytes >= room_bytes:
        return None
    return f"has only {candidate.free_bytes / 2**20:.1f} MiB free"


def _is_memory(survey: Survey, mount: Mount) -> bool:
    """Whether files there are kept in memory; an overlay's files are in its upper folder."""
    upper = mount.option("upperdir") if mount.file_system == "overlay" else ""
    below = survey.mount_of(upper) if upper else None
    if below and below != mount:
        return _is_memory(survey, below)
    return mount.file_system in _MEMORY_FILE_SYSTEMS or mount.device.startswith(_MEMORY_DEVICES)


def begin_reader(channel: Channel, folder: str, program: Path) -> bytes:
    """Push the reader if it is missing, and turn the shell into it; return its first output."""
    shell = _Shell(channel)
    path = posixpath.join(folder, program.parent.name)
    quoted = shlex.quote(path)
    script = f"f={shlex.quote(folder)}\n{_MAKE_FOLDER}[ -x {quoted} ] && t reader there"
    answers = dict(shell.ask(script))

    if "folder" not in answers:
        raise TargetError(
            f"{channel.transport.name}: the folder {folder} cannot be made:"
            f" {channel.words or 'no reason'}"
        )
    if answers["folder"] != "ours":
        raise TargetError(
            f"{channel.transport.name}: the folder {folder} is a link, or belongs to another user,"
            " who could change what is run from it: remove it, or give another (--folder FOLDER of"
            " `reusebench board add`)"
        )
    if "reader" not in answers:
        _push(shell, channel, program.read_bytes(), path)
    return shell.run_reader(path)


def _push(shell: _Shell, channel: Channel, content: bytes, path: str) -> None:
    """Write a program with commands that every shell has. It appears whole or not at all."""
    # The temporary name is this shell's own: an interrupted shell may still be writing.
    lines = [f'n={shlex.quote(path)}.new.$$; e=0; : > "$n" || e=1']
    lines += [f"printf '{part}' >> \"$n\" || e=1" for part in _octal(content)]
    lines.append(
        f'[ $e = 0 ] && chmod 755 "$n" && mv "$n" {shlex.quote(path)} && t pushed yes || rm -f "$n"'
    )
    folder = posixpath.dirname(path)
    lines.append(f't room "$(df -k {shlex.quote(folder)} 2>/dev/null | tail -n 1)"')
    answers = dict(shell.ask("\n".join(lines)))
    if "pushed" not in answers:
        available = _DF_AVAILABLE.search(answers["room"] + " ")
        room = f"; {int(available[1])} KiB are free there" if available else ""
        error_line = channel.words.rpartition("\n")[2]
        reason = f" ({error_line})" if error_line else ""
        raise TargetError(
            f"{channel.transport.name}: the reader ({len(content) / 1024:.0f} KiB) cannot be"
            f" written to {folder}{room}{reason}"
        )


def _octal(content: bytes) -> Iterator[str]:
    """Yield the content as printf formats for single quotes, each short enough for a line."""
    part = ""
    for byte in content:
        letter = chr(byte)
        is_plain = letter.isascii() and letter.isalnum()
        part += letter if is_plain else f"\\{byte:03o}"
        if len(part) > _PART_BYTES:
            yield part
            part = ""
    yield part
