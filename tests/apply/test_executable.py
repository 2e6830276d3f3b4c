"""What the kernel executes for a command, and sentences for what it does not."""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from reusebench.apply import executable
from reusebench.apply.elf import ElfFile, read_elf
from reusebench.apply.errors import ApplyError
from reusebench.apply.executable import (
    Executable,
    check_machine,
    find_executable,
    not_started,
)

_PYTHON = Path(sys.executable)


def _script(path: Path, first_line: str) -> Path:
    path.write_text(f"{first_line}\n")
    path.chmod(0o755)
    return path


def _found(*command: object, path: Path | str = "/usr/bin:/bin") -> Executable:
    return find_executable([str(word) for word in command], {"PATH": str(path)})


def _error(*command: object, path: Path | str = "/usr/bin:/bin") -> tuple[int, str]:
    with pytest.raises(ApplyError) as raised:
        _found(*command, path=path)
    return raised.value.exit_code, str(raised.value)


def test_a_program_is_found_by_its_path_or_name() -> None:
    """It is linked dynamically; nobody has to give its architecture."""
    by_name, by_path = _found("sh", "-c", "true"), _found("/bin/sh")
    assert by_name.path.samefile(by_path.path)
    assert by_name.words == ("sh", "-c", "true")
    assert by_name.architecture == _found(_PYTHON).architecture
    assert not by_name.is_static
    assert by_name.c_library == "glibc"
    assert not by_name.is_linked_with_rknn


def test_what_cannot_be_executed(tmp_path: Path) -> None:
    """The exit codes are those of shells."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("text")
    _script(tmp_path / "script", "#!/no/interpreter -x")
    code, sentence = _error("none")
    assert (code, sentence) == (
        127,
        "none: there is no such command. Give its path, or a name that is in PATH",
    )
    assert _error("")[0] == 127
    assert _error("./none")[0] == 127
    code, sentence = _error(tmp_path / "folder")
    assert (code, sentence) == (126, f"{tmp_path / 'folder'} is a folder. Give a program in it")
    code, sentence = _error("text", path=tmp_path)
    assert (code, "(chmod +x)" in sentence) == (126, True)
    code, sentence = _error(tmp_path / "script")
    assert (code, "its interpreter /no/interpreter is not there" in sentence) == (127, True)


def test_a_later_folder_of_the_path_has_the_program(tmp_path: Path) -> None:
    """As in execvp, a folder or a file that may not be executed is passed over."""
    (tmp_path / "sh").mkdir()
    assert _found("sh", path=f"{tmp_path}:/usr/bin:/bin").path.samefile("/bin/sh")


def test_the_kernel_executes_the_interpreter_of_a_script(tmp_path: Path) -> None:
    """Also the one that env finds, and that of an interpreter that is a script itself."""
    plain = _script(tmp_path / "plain", f"#!{_PYTHON} -E")
    assert _found(plain, "a").words == (str(_PYTHON), "-E", str(plain), "a")
    by_env = _script(tmp_path / "by_env", "#!/usr/bin/env -S LANG=C sh -e")
    assert _found(by_env, "a").words == ("sh", "-e", str(by_env), "a")
    assert _found(by_env).path.samefile("/bin/sh")
    nested = _script(tmp_path / "nested", f"#!{plain}")
    assert _found(nested).path == _PYTHON
    endless = _script(tmp_path / "endless", f"#!{tmp_path / 'endless'}")
    assert _found(endless).file is None


@pytest.mark.parametrize(
    ("options", "option"),
    [
        (["app.py", "-E"], None),
        (["-E", "app.py"], "E"),
        (["-uIB", "app.py"], "I"),
        (["-W", "-E", "app.py"], None),
        (["-WE", "-X", "dev", "-S", "-m", "app"], "S"),
        (["-c", "pass", "-E"], None),
        (["-m", "app", "-I"], None),
        (["--check-hash-based-pycs", "-"], None),
        (["-", "-E"], None),
    ],
)
def test_a_python_that_takes_no_hooks(options: Sequence[str], option: str | None) -> None:
    """Options behind the program are the program's."""
    assert _found(_PYTHON, *options).python_option() == option
    assert _found("sh", *options).python_option() is None


def test_rights_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Setuid counts for another user's file; a script's own does not count."""
    program = tmp_path / "program"
    program.write_bytes(Path("/bin/true").read_bytes())
    program.chmod(stat.S_ISUID | 0o755)
    assert not _found(program).has_rights
    script = _script(tmp_path / "script", "#!/bin/sh")
    script.chmod(stat.S_ISUID | 0o755)
    monkeypatch.setattr(os, "geteuid", lambda: program.stat().st_uid + 1)
    assert _found(program).has_rights
    assert not _found(script).has_rights


def test_an_errno_is_a_sentence() -> None:
    """The kernel alone knows which formats it executes."""
    assert not_started("x", errno.ENOENT).exit_code == 127
    refused = not_started("x", errno.ENOEXEC)
    assert refused.exit_code == 126
    assert "must be made for this machine" in str(refused)


def _elf(machine: int, bits: int, loader: bytes = b"", needed: bytes = b"") -> bytes:
    """Return a program with one segment of each kind, at the address of its place."""
    header, segment = ("<HHIQQQIHHHHHH", "<IIQQQQQQ") if bits == 2 else ("<HHIIIIIHHHHHH", "<8I")
    size, count = struct.calcsize(segment), 3
    table = 16 + struct.calcsize(header)
    names = table + count * size
    dynamic = names + len(loader) + len(needed) + 2
    entries = [(1, 1 + len(loader)), (5, names), (0, 0)] if needed else [(0, 0)]
    tags = b"".join(struct.pack("<QQ" if bits == 2 else "<II", *entry) for entry in entries)
    kinds = [(1, 0, dynamic), (3, names, len(loader) + 1), (2, dynamic, len(tags))]
    if not loader:
        kinds[1] = (4, 0, 0)
    segments = b""
    for kind, place, length in kinds:
        fields = (kind, 4, place, place, 0, length, length, 1)
        if bits == 1:
            fields = (kind, place, place, 0, length, length, 4, 1)
        segments += struct.pack(segment, *fields)
    start = b"\x7fELF" + bytes((bits, 1, 1)) + bytes(9)
    fixed = struct.pack(header, 2, machine, 1, 0, table, 0, 0, table, size, count, 0, 0, 0)
    return start + fixed + segments + loader + b"\0" + needed + b"\0" + tags


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            _elf(183, 2, b"/lib/ld-linux-aarch64.so.1", b"librknnrt.so"),
            ElfFile("aarch64", "/lib/ld-linux-aarch64.so.1", ("librknnrt.so",)),
        ),
        (
            _elf(40, 1, b"/lib/ld-uClibc.so.0", b"librknnmrt.so"),
            ElfFile("armhf", "/lib/ld-uClibc.so.0", ("librknnmrt.so",)),
        ),
        (_elf(62, 2), ElfFile("x86_64", None, ())),
        (_elf(243, 2, b"/lib/ld.so"), ElfFile(None, "/lib/ld.so", ())),
        (_elf(183, 2, b"/lib/ld-linux-aarch64.so.1")[:100], None),
        (b"\x7fELF\x02\x02" + bytes(100), ElfFile(None, None, ())),
        (b"#!/bin/sh\n", None),
        (b"", None),
    ],
)
def test_files_tell_loader_and_libraries(
    content: bytes, expected: ElfFile | None, tmp_path: Path
) -> None:
    """A static program has no loader; a damaged file is none."""
    file = tmp_path / "program"
    file.write_bytes(content)
    assert read_elf(file) == expected


def test_a_damaged_file_is_no_program(tmp_path: Path) -> None:
    """Whatever byte is wrong, nothing but None or other values comes of it."""
    whole = _elf(183, 2, b"/lib/ld-linux-aarch64.so.1", b"librknnrt.so")
    file = tmp_path / "program"
    for place in range(0, len(whole), 3):
        file.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
        read_elf(file)
        file.write_bytes(whole[:place])
        read_elf(file)


def test_a_program_for_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told before anything is compiled for it, unless the kernel has an emulator."""
    program = tmp_path / "program"
    program.write_bytes(_elf(183, 2, b"/lib/ld-linux-aarch64.so.1"))
    program.chmod(0o755)
    monkeypatch.setattr(executable, "_EMULATED", tmp_path / "binfmt")
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="aarch64"))
    check_machine(_found(program))
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="x86_64"))
    with pytest.raises(ApplyError, match="is for aarch64, and this machine is x86_64") as raised:
        check_machine(_found(program))
    assert raised.value.exit_code == 126
    (tmp_path / "binfmt").mkdir()
    (tmp_path / "binfmt" / "qemu-aarch64").touch()
    check_machine(_found(program))
