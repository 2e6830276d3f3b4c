"""Boards that a real adb knows, with each form of adbd."""

from __future__ import annotations

import pytest

from tests.helpers.adb_boards import NEW, OLD, UNAUTHORIZED, AdbBoards
from tests.helpers.far_shell import wait_until_gone
from tests.helpers.support import TIME_LIMIT_S, known

pytestmark = pytest.mark.process

_EVERY_BYTE = bytes(range(256)) * 300


def test_a_new_adbd_gives_clean_pipes(adb: AdbBoards) -> None:
    """Every byte comes back as it was sent, standard error apart, with the exit code."""
    adb.connect(NEW)
    done = adb.run("shell", "cat; echo error >&2; exit 7", data=_EVERY_BYTE)
    assert (done.stdout, done.stderr, done.returncode) == (_EVERY_BYTE, b"error\n", 7)


def test_an_old_adbd_gives_a_terminal(adb: AdbBoards) -> None:
    """It echoes, ends lines with CR LF, merges standard error, and has no exit code.

    In raw mode it passes every byte.
    """
    serial = adb.connect(OLD)
    done = adb.run("shell", "read line; echo got $line; echo error >&2; exit 7", data=b"abc\n")
    assert (done.stdout, done.stderr, done.returncode) == (b"abc\r\ngot abc\r\nerror\r\n", b"", 0)
    assert adb.run("-s", serial, "shell", "-T", "true").returncode == 1
    command = ["-s", serial, "shell", f"stty raw -echo; echo raw; head -c {len(_EVERY_BYTE)}"]
    with adb.start(*command) as process:
        assert known(process.stdout).readline() == b"raw\n"
        assert process.communicate(_EVERY_BYTE, TIME_LIMIT_S)[0] == _EVERY_BYTE


@pytest.mark.parametrize("form", [NEW, OLD])
def test_a_pulled_cable_ends_both_sides(adb: AdbBoards, form: str) -> None:
    """The client (adb 1.0.41) ends with exit code 0; its processes on the board get a hangup."""
    serial = adb.connect(form)
    with adb.start("shell", "echo $$; exec sleep 1000") as client:
        pid = int(known(client.stdout).readline())
        adb.disconnect(serial)
        client.wait(TIME_LIMIT_S)
        wait_until_gone(pid)


def test_adb_says_what_it_lacks(adb: AdbBoards) -> None:
    """adb sees no board, one that rejects the host's key, several, or none of the given name."""
    assert b"no devices/emulators found" in adb.run("shell", "true").stderr
    adb.connect(UNAUTHORIZED)
    assert b"device unauthorized." in adb.run("shell", "true").stderr
    adb.connect(NEW)
    assert b"more than one device/emulator" in adb.run("shell", "true").stderr
    assert b"device 'other' not found" in adb.run("-s", "other", "shell", "true").stderr
