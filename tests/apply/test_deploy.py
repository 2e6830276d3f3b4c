"""The folder for production: complete, movable, and never in place of a user's files."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from reusebench.apply import deploy as deploying
from reusebench.apply.deploy import deploy
from reusebench.apply.errors import ApplyError
from reusebench.apply.placeholder import placeholder
from reusebench.apply.settings import HOOKS, ApplySettings
from reusebench.targets.programs import APPLY, UCLIBC

_LIBRARY_BY_PLATFORM = "lib/$PLATFORM/reusebench_apply.so"


@pytest.fixture(autouse=True)
def _library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a small library in place of compiled ones."""
    library = tmp_path / "compiled.so"
    library.write_bytes(placeholder("aarch64"))
    monkeypatch.setattr(deploying, "compiled_library", lambda *_: library)
    monkeypatch.setattr(deploying, "_oldest_glibc", lambda _: "2.17")


def _deploy(folder: Path, *forms: str, at_once: int | None = None, plan: str | None = None) -> None:
    deploy(folder, forms, ApplySettings(at_once=at_once), lambda _: None, plan)


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_it_has_library_hooks_and_settings(tmp_path: Path) -> None:
    """The programs of both architectures find a library; the hooks are those of reusebench."""
    folder = tmp_path / "out" / "applied"
    _deploy(folder, "aarch64", at_once=2)
    names = _names(folder)
    assert {"lib/aarch64/reusebench_apply.so", "lib/v8l/reusebench_apply.so"} < names
    hooks = {f"hooks/{path.relative_to(HOOKS)}" for path in HOOKS.rglob("*.py")}
    assert hooks < names
    assert "REUSEBENCH_APPLY_AT_ONCE=2" in (folder / "apply.env").read_text().splitlines()
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["files"].keys() == names - {"manifest.json"}
    assert manifest["oldest_glibc"] == {"aarch64": "2.17"}
    assert os.access(folder / "run-applied", os.X_OK)


def test_hooks_run_on_python_3_8() -> None:
    """Production may have an older Python than reusebench."""
    for path in HOOKS.rglob("*.py"):
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))


def test_lines_for_systemd_and_docker(tmp_path: Path) -> None:
    """Docker and compose replace $PLATFORM, unless it is escaped; systemd does not."""
    folder = tmp_path / "applied"
    _deploy(folder, "armhf", at_once=3, plan="reusebench-apply-plan 1\n")
    systemd = (folder / "systemd.conf").read_text().splitlines()
    assert f'Environment="LD_PRELOAD={folder}/{_LIBRARY_BY_PLATFORM}"' in systemd
    assert f'Environment="REUSEBENCH_APPLY_PLAN={folder}/plan"' in systemd
    docker = (folder / "Dockerfile.part").read_text().splitlines()
    image = "/opt/reusebench-apply"
    assert f"COPY applied {image}" in docker
    assert f"ENV PYTHONPATH={image}/hooks${{PYTHONPATH:+:$PYTHONPATH}}" in docker
    preload = f"{image}/lib/\\$PLATFORM/reusebench_apply.so"
    assert f"ENV LD_PRELOAD=${{LD_PRELOAD:+$LD_PRELOAD:}}{preload}" in docker
    assert "ENV REUSEBENCH_APPLY_AT_ONCE=3" in docker
    compose = (folder / "compose.yaml").read_text()
    assert f'LD_PRELOAD: "{image}/lib/$$PLATFORM/reusebench_apply.so"' in compose


def test_without_a_library_only_python_is_reached(tmp_path: Path) -> None:
    """On a PC there is no RKNN, and nothing is preloaded."""
    _deploy(tmp_path / "applied")
    for name in ("systemd.conf", "Dockerfile.part", "compose.yaml"):
        assert "LD_PRELOAD=" not in (tmp_path / "applied" / name).read_text()
    assert not (tmp_path / "applied" / "lib").exists()


def test_uclibc_has_the_library_alone(tmp_path: Path) -> None:
    """Its loader replaces nothing, and such systems have no Python."""
    _deploy(tmp_path / "applied", UCLIBC)
    assert f"lib/{APPLY.main}" in _names(tmp_path / "applied")
    assert not (tmp_path / "applied" / "hooks").exists()
    with pytest.raises(ApplyError, match="has a folder of its own"):
        _deploy(tmp_path / "applied", UCLIBC, "armhf")


def test_a_folder_of_an_earlier_call_is_renewed(tmp_path: Path) -> None:
    """Files that are not needed any more go, and bytecode of Python stays in no way."""
    folder = tmp_path / "applied"
    _deploy(folder, "aarch64")
    (folder / "hooks" / "__pycache__").mkdir()
    (folder / "hooks" / "__pycache__" / "sitecustomize.cpython-311.pyc").touch()
    _deploy(folder)
    assert not (folder / "lib").exists()
    _deploy(folder, "armhf")
    assert (folder / "lib").is_dir()


@pytest.mark.parametrize("name", ["mine.txt", "apply.env", "lib/link", "hooks/mine.py"])
def test_a_file_of_the_user_is_never_replaced(name: str, tmp_path: Path) -> None:
    """A new file, a changed one, or a link; everything stays as it is."""
    folder = tmp_path / "applied"
    _deploy(folder, "aarch64")
    if name.endswith("link"):
        (folder / name).symlink_to("/etc/passwd")
    else:
        (folder / name).write_text("mine")
    before = _names(folder)
    with pytest.raises(ApplyError, match=r"was not written by .*, or was changed since"):
        _deploy(folder)
    assert _names(folder) == before
    assert (folder / name).is_symlink() or (folder / name).read_text() == "mine"


def test_other_folders_are_refused(tmp_path: Path) -> None:
    """A folder with something in it, a file, and names that LD_PRELOAD cannot have."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "manifest.json").write_text('{"made_by": "another", "files": {}}')
    (tmp_path / "full" / "a").touch()
    with pytest.raises(ApplyError, match="was not written by"):
        _deploy(tmp_path / "full")
    with pytest.raises(ApplyError, match="is a file"):
        _deploy(tmp_path / "full" / "a")
    with pytest.raises(ApplyError, match="letters, digits"):
        _deploy(tmp_path / "with space")
    with pytest.raises(ApplyError, match="cannot be written"):
        _deploy(Path("/proc/nowhere"))


@pytest.mark.process
def test_the_wrapper_runs_a_program_wherever_the_folder_is(tmp_path: Path) -> None:
    """It tries the library before, keeps what is set already, and passes the exit code."""
    _deploy(tmp_path / "first", "aarch64", at_once=2)
    folder = tmp_path / "moved"
    (tmp_path / "first").rename(folder)
    show = 'echo "$LD_PRELOAD $PYTHONPATH $REUSEBENCH_APPLY_AT_ONCE"; exit 4'

    def run(**variables: str) -> tuple[int, str, str]:
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to(folder / "run-applied")
        environment = {"PATH": os.environ["PATH"], **variables}
        command = [str(tmp_path / "link"), "sh", "-c", show]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    for platform in ("x86_64", "haswell", "xeon_phi"):
        (folder / "lib" / platform).mkdir()
        (folder / "lib" / platform / APPLY.main).write_bytes(placeholder("x86_64"))
    library = folder / _LIBRARY_BY_PLATFORM
    assert run() == (4, f"{library} {folder}/hooks 2\n", "")
    kept = {"PYTHONPATH": "/mine", "REUSEBENCH_APPLY_AT_ONCE": "1", "LD_PRELOAD": "libc.so.6"}
    assert run(**kept) == (4, f"libc.so.6:{library} {folder}/hooks:/mine 1\n", "")
    assert run(REUSEBENCH_APPLY_OFF="1") == (4, "  \n", "")

    shutil.rmtree(folder / "lib")
    (folder / "lib" / "x86_64").mkdir(parents=True)
    (folder / "lib" / "x86_64" / APPLY.main).write_text("no library")
    code, output, errors = run()
    assert (code, output) == (4, f" {folder}/hooks 2\n")
    assert errors.startswith("run-applied: RKNN is left alone: ERROR: ld.so: object")


@pytest.mark.process
def test_systemd_takes_the_lines(tmp_path: Path) -> None:
    """It knows every key, and every specifier in the values."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze (Debian: apt install systemd)")
    unit = tmp_path / "camera.service"
    unit.write_text("[Service]\nExecStart=/bin/true\n")
    _deploy(tmp_path / "applied", "aarch64", at_once=2)
    settings = tmp_path / "camera.service.d" / "applied.conf"
    settings.parent.mkdir()
    shutil.copy(tmp_path / "applied" / "systemd.conf", settings)
    command = ["systemd-analyze", "verify", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert str(settings) not in done.stderr
