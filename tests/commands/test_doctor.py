"""`reusebench doctor`: the working parts of this machine, and remedies for the others."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import onnxruntime
import pytest

from reusebench.commands import doctor
from reusebench.harness import extras
from reusebench.measured.runtimes import RuntimeEntry, find_runtime
from reusebench.measured.runtimes.device_nodes import Node
from reusebench.measured.runtimes.rknn import library_file
from reusebench.measured.runtimes.rknn.library_file import LIBRARY_VARIABLE
from reusebench.targets import interpreters
from tests.helpers.support import CHECKOUT, Ended, Reusebench, own_environment
from tests.targets.library_files import write_library

pytestmark = pytest.mark.process

_HERE = RuntimeEntry(
    "here", "Here", "tests.helpers.scripted_driver", "json", "pip install here", "cpu", (".here",)
)
_MISSING = RuntimeEntry(
    "missing",
    "Missing",
    "reusebench.measured.runtimes.missing",
    "no_such_module",
    "pip install missing==1",
    "cpu",
    (".missing",),
)
_BROKEN = RuntimeEntry(
    "broken", "Broken", "no_such_package.adapter", "json", "pip install broken", "npu", (".broken",)
)


@pytest.fixture
def doctor_of(monkeypatch: pytest.MonkeyPatch, reusebench: Reusebench) -> Callable[..., Ended]:
    """Return doctor_of(entries...): the command with only these runtimes."""

    def run(*entries: RuntimeEntry) -> Ended:
        monkeypatch.setattr(doctor, "RUNTIMES", entries)
        monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
        return reusebench("doctor")

    return run


def row(done: Ended, name: str) -> tuple[str, str]:
    """Return the cells of the row of that name: whether it is here, and the remark."""
    (line,) = (line for line in done.out.splitlines() if line.startswith(f"{name}  "))
    is_here, _, remark = line.removeprefix(name).strip().partition("  ")
    return is_here, remark.strip()


def test_what_is_here(reusebench: Reusebench) -> None:
    """This Python, each runtime with its version, targets, converters and sources of figures; the
    exit code is 0.
    """
    done = reusebench("doctor")
    assert (done.exit_code, done.err) == (0, "")
    assert done.out.startswith("reusebench ")
    assert f"({sys.executable})" in done.out.splitlines()[0]
    assert row(done, "onnxruntime") == ("yes", f"version {onnxruntime.__version__}")
    assert row(done, "python")[0] == "yes"
    for name in (
        "megengine_lite",
        "rknn",
        "board",
        "rknn-toolkit2 2.5.0",
        "MegEngine 1.13.0",
        "/proc/meminfo",
    ):
        assert row(done, name)[0] in ("yes", "no")


def test_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reusebench: Reusebench
) -> None:
    """Each extra, target and converter that is not here stands with the command that brings it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setitem(extras.EXTRAS, "streams", ("av", "no_such_module"))
    done = reusebench("doctor")
    is_here, remark = row(done, "streams")
    assert is_here == "no"
    assert remark == "streams of video; no_such_module missing: pip install no_such_module"
    for name, command in (
        ("rknn-toolkit2 2.5.0", "reusebench models install rknn-toolkit (about 1.5 GB)"),
        ("MegEngine 1.13.0", "reusebench models install megengine (about 1.8 GB)"),
        ("board", "reusebench board install-ledger"),
    ):
        is_here, remark = row(done, name)
        assert is_here == "no"
        assert remark.endswith(f": {command}")
    assert row(done, "sandbox")[0] == "no"
    assert "reusebench board install" in row(done, "sandbox")[1]
    boards = [line for line in done.out.splitlines() if line.startswith("vboard:CHIP")]
    assert len(boards) == 2
    assert all(line.endswith(": reusebench board install --rknn-library FILE") for line in boards)


def test_what_is_not_made_for_this_machine(
    monkeypatch: pytest.MonkeyPatch, reusebench: Reusebench
) -> None:
    """The remark names the machines; nothing that would fail is advised."""
    monkeypatch.setattr("platform.machine", lambda: "armv7l")
    monkeypatch.setattr(
        "reusebench.targets.interpreters.available", lambda entry: entry.name != "megengine_lite"
    )
    done = reusebench("doctor")
    assert row(done, "MegEngine 1.13.0") == ("no", "makes .mge files, on x86-64 alone")
    assert row(done, "megengine_lite") == ("no", "it is made for x86-64 alone")


def test_a_runtime_that_does_not_work(doctor_of: Callable[..., Ended]) -> None:
    """The row of a missing or broken runtime has the remedy; the exit code is 1 if none works."""
    done = doctor_of(_MISSING, _BROKEN, _HERE)
    assert done.exit_code == 0
    assert row(done, "missing") == ("no", "pip install missing==1")
    assert row(done, "here") == ("yes", "version 1.2.3")
    is_here, remark = row(done, "broken")
    assert is_here == "no"
    reason = (
        "installed, but cannot be imported: ModuleNotFoundError: No module named 'no_such_package'"
    )
    assert remark.startswith(reason)
    assert remark.endswith("Install it again: pip install broken")
    assert doctor_of(_MISSING).exit_code == 1


def test_rockchips_runtime_is_here_where_its_library_is(
    doctor_of: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without a library the option is named; a file that is none is a sentence, without a
    traceback.
    """
    rknn = find_runtime("rknn")
    monkeypatch.setattr(library_file, "_FOLDERS", ())
    monkeypatch.delenv(LIBRARY_VARIABLE, raising=False)
    done = doctor_of(rknn)
    assert done.exit_code == 1
    assert row(done, "rknn") == ("no", rknn.install)
    text = tmp_path / "notes.txt"
    text.write_text("no library")
    monkeypatch.setenv(LIBRARY_VARIABLE, str(text))
    is_here, remark = row(doctor_of(rknn), "rknn")
    assert is_here == "no"
    assert remark.startswith(f"{text}: it is no shared library")


def test_rockchips_library_without_an_npu(
    doctor_of: Callable[..., Ended],
    rknn_double: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its library loads, and runs nothing without the NPU's driver: how to get it; with a node that
    opens it runs.
    """
    monkeypatch.setenv(
        LIBRARY_VARIABLE,
        str(rknn_double("librknnrt version: 2.3.2 (429f97ae6b@2025-04-09T09:09:27)")),
    )
    monkeypatch.setattr(doctor, "device_nodes", list)
    done = doctor_of(find_runtime("rknn"))
    is_here, remark = row(done, "rknn")
    assert (done.exit_code, is_here) == (1, "no")
    version = "version 2.3.2 (429f97ae6b@2025-04-09T09:09:27)"
    assert remark.startswith(
        f"{version} is here, and runs nothing: this kernel has no driver of Rockchip's NPU: "
    )
    assert remark.endswith("The virtual board needs no NPU: --target vboard:CHIP")
    monkeypatch.setattr(doctor, "device_nodes", lambda: [Node("/dev/rknpu", errno.EACCES)])
    assert (
        "is here, and runs nothing: this user may not open /dev/rknpu"
        in row(doctor_of(find_runtime("rknn")), "rknn")[1]
    )
    monkeypatch.setattr(
        doctor,
        "device_nodes",
        lambda: [Node("/dev/dri/card1", errno.EACCES), Node("/dev/rknpu", 0)],
    )
    assert row(doctor_of(find_runtime("rknn")), "rknn") == ("yes", version)


@pytest.fixture
def on_rk3588(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return on_rk3588(nodes, driver version): the machine is a board whose NPU has these."""

    def play(nodes: Sequence[Node], driver: str | None) -> None:
        monkeypatch.setattr(doctor, "chip_of", lambda _: "rk3588")
        monkeypatch.setattr(doctor, "has_rknpu", lambda _: True)
        monkeypatch.setattr(doctor, "device_nodes", lambda: list(nodes))
        monkeypatch.setattr(doctor, "rknpu_driver_version", lambda _: driver)

    return play


def test_the_npu_of_a_board(
    on_rk3588: Callable[..., None],
    doctor_of: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The driver, against what the library takes, and who may open which node, with the remedy."""
    monkeypatch.setenv(
        LIBRARY_VARIABLE, str(write_library(tmp_path / "lib.so", "librknnrt", "2.3.2"))
    )
    on_rk3588([Node("/dev/dri/card1", 0), Node("/dev/dri/renderD129", errno.EACCES)], "0.9.8")
    done = doctor_of(_HERE)
    assert row(done, "driver") == ("yes", "version 0.9.8; librknnrt 2.3.2 takes 0.7.0 and later")
    assert row(done, "/dev/dri/card1") == ("yes", "this user may open it")
    is_here, remark = row(done, "/dev/dri/renderD129")
    assert is_here == "no"
    assert remark.startswith(
        "this user may not open /dev/dri/renderD129, which the NPU's library needs. "
    )
    on_rk3588([Node("/dev/rknpu", 0)], "0.6.4")
    is_here, remark = row(doctor_of(_HERE), "driver")
    assert is_here == "no"
    assert remark.startswith("the NPU's driver 0.6.4 is older than 0.7.0, ")


def test_the_npu_of_a_board_that_shows_little(
    on_rk3588: Callable[..., None],
    doctor_of: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A version that only root sees, a file that is no library, and a kernel without the driver."""
    monkeypatch.setenv(LIBRARY_VARIABLE, str(tmp_path))
    on_rk3588([Node("/dev/rknpu", 0)], None)
    assert row(doctor_of(_HERE), "driver") == ("yes", "its version is shown to root alone")
    on_rk3588([Node("/dev/rknpu", 0)], "0.9.8")
    assert row(doctor_of(_HERE), "driver") == ("yes", "version 0.9.8")
    on_rk3588([], None)
    is_here, remark = row(doctor_of(_HERE), "device")
    assert is_here == "no"
    assert remark.startswith("this kernel has no driver of Rockchip's NPU")


def test_a_machine_without_an_npu(
    doctor_of: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is said of one."""
    monkeypatch.setattr(doctor, "chip_of", lambda _: None)
    monkeypatch.setattr(doctor, "has_rknpu", lambda _: False)
    monkeypatch.setattr("reusebench.commands.mainline_npu.mainline_npus", lambda _: [])
    assert "\nNPU " not in doctor_of(_HERE).out


_REINSTALL = "Install it again: pip install missing==1"


@pytest.mark.parametrize(
    ("script", "is_here", "remark"),
    [
        # The import's own output does not matter.
        (
            (
                'echo "loaded plugins"; echo "reusebench-versions 3.10.13 1.13.0"; echo "said at'
                ' the end"'
            ),
            "yes",
            "version 1.13.0, in an environment of its own: Python 3.10.13 ({python})",
        ),
        (
            "echo one >&2; echo two >&2; exit 1",
            "no",
            f"installed, but cannot be imported: two. {_REINSTALL}",
        ),
        (
            "exit 3",
            "no",
            f"installed, but cannot be imported: its process ended with 3. {_REINSTALL}",
        ),
    ],
)
def test_a_runtime_in_an_environment_of_its_own(
    doctor_of: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    script: str,
    is_here: str,
    remark: str,
) -> None:
    """Its own interpreter, which is named, reads the version; its last line is the reason if it
    fails.
    """
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    python.chmod(0o755)
    monkeypatch.setattr(interpreters, "available", lambda _: False)
    monkeypatch.setattr(interpreters, "_own_environment", own_environment("missing", python))
    assert row(doctor_of(_MISSING), "missing") == (is_here, remark.format(python=python))
