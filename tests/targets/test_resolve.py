"""The way from --target to a runtime's target, or to an error."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from reusebench.measured.runtimes import find_runtime
from reusebench.system.cache import cache_root
from reusebench.system.package import START
from reusebench.targets import interpreters, resolve
from reusebench.targets.errors import RuntimeMissing, TargetError
from reusebench.targets.machine import LOCAL
from reusebench.targets.programs import PRELOAD
from reusebench.targets.resolve import Selection, parse_target
from reusebench.targets.rknn_library import architecture_of_this_python
from reusebench.targets.vboard.catalogue import rocket_board
from reusebench.targets.vboard.loading import Guest
from reusebench.targets.vboard.virtual_board import VirtualBoard
from tests.helpers.support import own_environment
from tests.targets.library_files import write_library

_DRIVER = (str(START),)
_ONNXRUNTIME = find_runtime("onnxruntime")
_MEGENGINE_LITE = find_runtime("megengine_lite")
_RKNN = find_runtime("rknn")
_TEFLON = find_runtime("teflon")
#: A module that every Python has.
_ANYWHERE = replace(_ONNXRUNTIME, name="anywhere", module="json")
_NOWHERE = replace(_ONNXRUNTIME, name="nowhere", module="no_such_module")


pytestmark = [pytest.mark.process, pytest.mark.usefixtures("own_cache")]


def _own_library(path: Path) -> Path:
    return write_library(path, architecture=architecture_of_this_python() or "")


def _install_boards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every virtual board complete, with `python` as its Python."""
    monkeypatch.setattr(VirtualBoard, "missing_parts", lambda _: [])
    monkeypatch.setattr(VirtualBoard, "guest", lambda *_: Guest(("python",), {}))
    monkeypatch.setattr(VirtualBoard, "machine", lambda _: LOCAL)
    monkeypatch.setattr(resolve, "ensure_bytecode", lambda *_: None)


def test_this_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's absolute path is in a variable; the target computes and keeps no ledger."""
    target = parse_target(Selection("python"), _ONNXRUNTIME)
    assert (target.name, target.command) == ("python", (sys.executable, *_DRIVER))
    assert target.environment == {}
    assert (target.keeps_ledger, target.computes) == (False, True)
    assert target.architecture == architecture_of_this_python()
    library = _own_library(tmp_path / "library.so")
    monkeypatch.chdir(tmp_path)
    for path in (library, Path("library.so")):
        assert parse_target(Selection("python", path), _RKNN).environment == {
            "REUSEBENCH_RKNN_LIBRARY": str(library)
        }


def test_another_interpreter(tmp_path: Path) -> None:
    """It is named by its path; a link stays a link, as a virtual environment requires."""
    link = tmp_path / "python-link"
    link.symlink_to(sys.executable)
    target = parse_target(Selection(f"python:{link}"), _ANYWHERE)
    assert (target.name, target.command) == (f"python:{link}", (str(link), *_DRIVER))


def test_a_runtime_with_an_environment_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this interpreter lacks the runtime, its environment's is used, also on a board."""
    own = tmp_path / "own" / "python"
    monkeypatch.setattr(interpreters, "available", lambda _: False)
    monkeypatch.setattr(interpreters, "_own_environment", own_environment("megengine_lite", own))
    target = parse_target(Selection("python"), _MEGENGINE_LITE)
    assert (target.name, target.command) == ("python", (str(own), *_DRIVER))
    target = parse_target(Selection("board"), _MEGENGINE_LITE)
    assert (target.name, target.command, target.keeps_ledger) == (
        "board",
        (str(own), *_DRIVER),
        False,
    )
    monkeypatch.setattr(
        interpreters, "_own_environment", own_environment("megengine_lite", own, is_installed=False)
    )
    with pytest.raises(
        RuntimeMissing,
        match=r"^--runtime megengine_lite is not here: .*reusebench models install megengine",
    ):
        parse_target(Selection("python"), _MEGENGINE_LITE)


def test_another_interpreter_must_have_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only that interpreter counts, not this one or the runtime's own environment."""
    monkeypatch.setattr(
        interpreters, "_own_environment", own_environment("nowhere", Path(sys.executable))
    )
    words = (
        f"--runtime nowhere: the Python of --target python:{sys.executable} has no module"
        " no_such_module. Name another"
    )
    with pytest.raises(RuntimeMissing, match=re.escape(words)):
        parse_target(Selection(f"python:{sys.executable}"), _NOWHERE)
    assert (
        parse_target(Selection(f"python:{sys.executable}"), _ANYWHERE).command[0] == sys.executable
    )


def test_rockchips_runtime_is_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any interpreter has it if the user names the library, or if one is installed."""
    monkeypatch.setattr(interpreters, "available", lambda _: False)
    for text in ("python", f"python:{sys.executable}"):
        parse_target(Selection(text, _own_library(tmp_path / "library.so")), _RKNN)
        with pytest.raises(RuntimeMissing, match=r"^--runtime rknn"):
            parse_target(Selection(text), _RKNN)
    monkeypatch.setattr(interpreters, "available", lambda _: True)
    assert parse_target(Selection("python"), _RKNN).command[0] == sys.executable


def test_the_virtual_board_has_one_runtime() -> None:
    """Another runtime cannot be there, whatever else is wrong."""
    for text, entry, words in (
        ("vboard:rk3588", _ONNXRUNTIME, "--runtime onnxruntime: vboard:rk3588 has RKNN only"),
        ("vboard:rk3588", _TEFLON, "--runtime teflon: vboard:rk3588 has RKNN only"),
        ("vboard:rocket", _RKNN, "--runtime rknn: vboard:rocket has Teflon only"),
        ("vboard:rocket", _ONNXRUNTIME, "vboard:rocket has Teflon only. Leave out --runtime"),
    ):
        with pytest.raises(RuntimeMissing, match=re.escape(words)):
            parse_target(Selection(text), entry)


def test_the_virtual_board_of_the_mainline_driver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is an RK3588 with Mesa's library and a limit of memory, and takes no library."""
    with pytest.raises(
        TargetError,
        match=r"vboard:rocket is not ready \(the preload library for aarch64, the rocket-aarch64"
        r" system.* missing\)\. Install it: reusebench board install --target vboard:rocket$",
    ):
        parse_target(Selection("vboard:rocket"), _TEFLON)
    _install_boards(monkeypatch)
    target = parse_target(Selection("vboard:rocket", npu_memory_bytes=2**29), _TEFLON)
    assert (target.name, target.chip, target.architecture) == ("vboard:rocket", "rk3588", "aarch64")
    assert (target.keeps_ledger, target.computes, target.npu_memory_limit_bytes) == (
        True,
        False,
        2**29,
    )
    library = write_library(tmp_path / "library.so")
    with pytest.raises(TargetError, match="vboard:rocket runs Mesa's library, not Rockchip's"):
        parse_target(Selection("vboard:rocket", library), _TEFLON)


def test_the_variables_of_the_mainline_driver() -> None:
    """The preload library is told which driver it is; the adapter is told where the library is."""
    variables = rocket_board().variables(2**29)
    assert variables["REUSEBENCH_BOARD"] == "rocket"
    assert variables["REUSEBENCH_NPU_MEMORY"] == "536870912"
    assert variables["REUSEBENCH_TEFLON_LIBRARY"].endswith("/usr/lib/teflon/libteflon.so")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (None, "there is no such program"),
        ("#!/bin/sh\nexit 1\n", "it is not Python 3.8 or later"),
        ("#!/nowhere/python\n", r"it does not run \(.*\)"),
    ],
)
def test_an_interpreter_that_is_none(tmp_path: Path, script: str | None, reason: str) -> None:
    """It is tried before anything is measured."""
    path = tmp_path / "python"
    if script:
        path.write_text(script, encoding="ascii")
        path.chmod(0o755)
    with pytest.raises(
        TargetError, match=rf"--target python:.*: {reason}\. Give the path of a Python 3\.8"
    ):
        parse_target(Selection(f"python:{path}"), _ONNXRUNTIME)


@pytest.mark.parametrize(
    "text", ["", "pyhton", "vboard", "vboard:", "python:", "board:rk3588", ":", "local"]
)
def test_unknown_targets(text: str) -> None:
    """The error lists the valid ones."""
    with pytest.raises(
        TargetError, match="valid: python, python:PATH, vboard:CHIP, vboard:rocket,"
    ):
        parse_target(Selection(text), _ONNXRUNTIME)


def test_the_library_is_read_first(tmp_path: Path) -> None:
    """This does not depend on the target."""
    for text in ("python", "vboard:rk3588", "board"):
        with pytest.raises(TargetError, match=r"--rknn-library .*none: it does not exist"):
            parse_target(Selection(text, tmp_path / "none"), _RKNN)


def test_a_library_of_another_architecture(tmp_path: Path) -> None:
    """This Python cannot load it; the virtual board can."""
    other = write_library(tmp_path / "library.so", "librknnmrt", architecture="armhf")
    if architecture_of_this_python() == "armhf":
        pytest.skip("this Python is for armhf itself")
    with pytest.raises(TargetError, match="--target vboard:CHIP, with CHIP one of rv1103, rv1106"):
        parse_target(Selection("python", other), _RKNN)
    with pytest.raises(TargetError, match="it is for armhf, and this Python is for"):
        parse_target(Selection(f"python:{sys.executable}", other), _RKNN)


def test_a_virtual_board_is_emulated_where_its_processor_is_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A library for this machine's processor runs without an emulator."""
    _install_boards(monkeypatch)
    other = "aarch64" if architecture_of_this_python() == "armhf" else "armhf"
    for architecture, emulated in ((architecture_of_this_python() or "", False), (other, True)):
        library = write_library(tmp_path / f"{architecture}.so", architecture=architecture)
        target = parse_target(Selection("vboard:rk3588", library), _RKNN)
        assert (target.emulated, target.computes, target.architecture) == (
            emulated,
            False,
            architecture,
        )
    assert not parse_target(Selection("python"), _ONNXRUNTIME).emulated


def test_a_limit_of_npu_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The virtual board and its target have it in bytes; other targets cannot be limited."""
    monkeypatch.setattr(VirtualBoard, "missing_parts", lambda _: [])
    library = _own_library(tmp_path / "library.so")
    target = parse_target(Selection("vboard:rk3588", library, 2**29), _RKNN)
    assert (target.environment["REUSEBENCH_NPU_MEMORY"], target.npu_memory_limit_bytes) == (
        "536870912",
        2**29,
    )
    assert (
        "REUSEBENCH_NPU_MEMORY"
        not in parse_target(Selection("vboard:rk3588", library), _RKNN).environment
    )
    for text in ("python", "board"):
        with pytest.raises(
            TargetError,
            match=r"^--npu-memory is .*: add --target vboard:CHIP, or leave --npu-memory",
        ):
            parse_target(Selection(text, library, 2**29), _RKNN)


def test_targets_that_are_not_ready(tmp_path: Path) -> None:
    """The errors about a virtual board's chips and parts, and a board's ledger, have commands."""
    library = write_library(tmp_path / "library.so", "librknnrt")
    for text, path, sentence in (
        (
            "vboard:rk9999",
            library,
            r"there is no chip 'rk9999' whose .*; valid for the virtual board: rk3562, .*rocket",
        ),
        (
            "vboard:rk3576",
            library,
            r"librknnrt 1\.6\.0 does not know rk3576: take 2\.0\.0 or later$",
        ),
        ("vboard:rv1106", library, "this is librknnrt, and rv1106 needs librknnmrt"),
        ("vboard:rk3588", None, r"name its file with --rknn-library FILE \(librknnrt\.so "),
        (
            "vboard:rk3588",
            library,
            f"preload library for armhf.*reusebench board install --rknn-library {library}$",
        ),
        ("board", _own_library(tmp_path / "own.so"), r"reusebench board install-ledger$"),
    ):
        with pytest.raises(TargetError, match=sentence):
            parse_target(Selection(text, path), _RKNN)


def test_a_virtual_board_finds_a_library(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The newest here for the chip that the board is ready for, or the one in the variable."""
    folder = cache_root() / "rknn"
    folder.mkdir(parents=True)
    for version in ("1.5.2", "1.6.0", "2.3.2"):
        write_library(folder / f"{version}.so", version=version)
    write_library(folder / "mini.so", "librknnmrt", "2.3.2")
    _install_boards(monkeypatch)

    def chosen() -> str:
        seen: list[VirtualBoard] = []
        monkeypatch.setattr(VirtualBoard, "machine", lambda board: seen.append(board))
        parse_target(Selection("vboard:rk3588"), _RKNN)
        return seen[0].library.stem

    assert chosen() == "2.3.2"
    assert capsys.readouterr().err == f"--rknn-library {folder / '2.3.2.so'}: librknnrt 2.3.2\n"
    monkeypatch.setattr(
        VirtualBoard, "missing_parts", lambda board: ["qemu"] * (board.library.stem == "2.3.2")
    )
    assert chosen() == "1.6.0"
    monkeypatch.setattr(VirtualBoard, "missing_parts", lambda _: ["qemu"])
    with pytest.raises(TargetError, match=r"board install --rknn-library .*/2\.3\.2\.so$"):
        chosen()

    monkeypatch.setattr(VirtualBoard, "missing_parts", lambda _: [])
    monkeypatch.setenv("REUSEBENCH_RKNN_LIBRARY", str(folder / "1.5.2.so"))
    assert chosen() == "1.5.2"


def test_a_board(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This interpreter, with the preload library before all other preloaded ones."""
    preload = PRELOAD.path(architecture_of_this_python() or "")
    preload.parent.mkdir(parents=True)
    preload.touch()
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    monkeypatch.setattr(resolve, "chip_of", lambda _: "rk3588")
    target = parse_target(Selection("board", _own_library(tmp_path / "library.so")), _RKNN)
    assert (target.name, target.command, target.chip) == (
        "board",
        (sys.executable, *_DRIVER),
        "rk3588",
    )
    assert (target.keeps_ledger, target.computes) == (True, True)
    assert target.environment["LD_PRELOAD"] == str(preload)
    assert target.environment["REUSEBENCH_RKNN_LIBRARY"] == str(tmp_path / "library.so")
    monkeypatch.setenv("LD_PRELOAD", "/usr/lib/other.so")
    target = parse_target(Selection("board", tmp_path / "library.so"), _RKNN)
    assert target.environment["LD_PRELOAD"] == f"{preload}:/usr/lib/other.so"


def test_a_board_keeps_a_ledger(
    preload: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The target's process writes it from its start."""
    installed = PRELOAD.path(architecture_of_this_python() or "")
    installed.parent.mkdir(parents=True)
    installed.symlink_to(preload)
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    target = parse_target(Selection("board", _own_library(tmp_path / "library.so")), _RKNN)
    ledger = tmp_path / "ledger.jsonl"
    environment = {**os.environ, **target.environment, "REUSEBENCH_LEDGER": str(ledger)}
    subprocess.run(
        target.command,
        env=environment,
        cwd=target.folder,
        input=b"",
        check=False,
        capture_output=True,
    )
    assert '"mode":"pass-through"' in ledger.read_text(encoding="ascii")
