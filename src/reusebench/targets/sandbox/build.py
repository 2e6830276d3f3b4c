"""Where the compiled sandbox is, how it is made, and whether the kernel lets this user have one."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable
from pathlib import Path

from reusebench.system.cache import locked, scratch_folder
from reusebench.system.package import NATIVE
from reusebench.targets.compilers import Compiler, compiler_for, fingerprint
from reusebench.targets.folders import root
from reusebench.targets.rknn_library import architecture_of_this_python

__all__ = ["compile_sandbox", "ensure_sandbox", "new_root", "refusal", "sandbox_program"]

_SOURCES = NATIVE / "sandbox"
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-s")
_TIME_LIMIT_S = 20


def sandbox_program() -> Path:
    """Return where the program of these sources is, or would be."""
    return root() / "sandbox" / fingerprint(_FLAGS, _SOURCES) / "sandbox"


def new_root(program: Path) -> Path:
    """Return the empty folder over which the program makes its root."""
    return program.with_name("root")


def ensure_sandbox(show_step: Callable[[str], None]) -> None:
    """Compile the program where it is missing, and this machine's processor is one that there are
    compilers for.
    """
    architecture = architecture_of_this_python()
    if architecture is None or sandbox_program().is_file():
        return
    with (
        locked(root() / "sandbox"),
        scratch_folder(root()) as space,
    ):
        compiler = compiler_for(architecture, show_step)
        show_step("compiling the sandbox")
        new = space / "new"
        folder = sandbox_program().parent
        (new / "root").mkdir(parents=True)
        compile_sandbox(compiler, new / "sandbox")
        folder.parent.mkdir(exist_ok=True)
        if not folder.exists():
            new.rename(folder)


def compile_sandbox(compiler: Compiler, program: Path) -> None:
    """Compile the program to that path."""
    compiler.compile([*_FLAGS, "-o", str(program), *map(str, sorted(_SOURCES.glob("*.c")))])


def refusal() -> str | None:
    """Return why programs cannot be confined here; None if they can. It is tried once."""
    if not sandbox_program().is_file():
        return "the sandbox is not compiled yet: reusebench board install --rknn-library FILE"
    return _refusal_of(sandbox_program(), new_root(sandbox_program()))


@functools.lru_cache(maxsize=1)
def _refusal_of(program: Path, folder: Path) -> str | None:
    command = [str(program), str(folder), "--"]
    try:
        done = subprocess.run(
            command, cwd="/", capture_output=True, text=True, check=False, timeout=_TIME_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stderr.strip() or None
