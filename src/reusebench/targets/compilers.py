"""C compilers: this machine's own, otherwise one from PyPI that is removed afterwards."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from reusebench.system import processes
from reusebench.system.cache import OwnFolder
from reusebench.system.package import python_command
from reusebench.targets.errors import TargetError
from reusebench.targets.rknn_library import architecture_of_this_python

__all__ = [
    "ARCHITECTURES",
    "Compiler",
    "compiler_for",
    "find_compiler",
    "missing_package",
]

_TRIPLES = {
    "armhf": "arm-linux-gnueabihf",
    "aarch64": "aarch64-linux-gnu",
    "x86_64": "x86_64-linux-gnu",
}
ARCHITECTURES = tuple(_TRIPLES)
#: Oldest GNU C library that compiled programs run on: Debian 10's. It is also the first one that
#: has all functions that they use.
_GLIBC = "2.28"
#: The pinned version with the hashes of its files (make pins).
_ZIGLANG = Path(__file__).with_name("ziglang.txt")


@dataclass(frozen=True)
class Compiler:
    """A command that compiles C for one architecture."""

    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)

    def compile(self, arguments: list[str]) -> None:
        """Run the compiler; raise TargetError with its last line if it fails."""
        done = processes.run(
            [*self.command, *arguments], environment={**os.environ, **self.environment}
        )
        if done.returncode:
            last_words = done.stderr.strip().rpartition("\n")[2] or "it printed nothing"
            raise TargetError(f"{Path(self.command[0]).name} could not compile it: {last_words}")


def find_compiler(architecture: str) -> Compiler | None:
    """Return a compiler of this machine for the architecture, or None."""
    names = [f"{_TRIPLES[architecture]}-gcc"]
    if architecture == architecture_of_this_python():
        names = ["cc", "gcc", "clang", *names]
    for name in names:
        path = shutil.which(name)
        if path:
            return Compiler((path,))
    return None


def missing_package(architecture: str) -> str:
    """Return the Debian package of a compiler for the architecture."""
    if architecture == architecture_of_this_python():
        return "gcc"
    return f"gcc-{_TRIPLES[architecture]}"


def compiler_for(architecture: str, show_step: Callable[[str], None]) -> Compiler:
    """Return this machine's compiler for the architecture, otherwise Zig's."""
    own = find_compiler(architecture)
    if own is not None:
        return own
    if not _ziglang.cache_info().currsize:
        show_step("fetching a C compiler (ziglang, from PyPI, 90 MB; removed afterwards)")
    try:
        package = _ziglang().path
    except TargetError as error:
        raise TargetError(
            f"{error}. Install one (Debian: apt install {missing_package(architecture)}) and try"
            " again"
        ) from None
    caches = dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), str(package / "cache"))
    triple = f"{_TRIPLES[architecture]}.{_GLIBC}"
    command = python_command("ziglang", "cc", "-target", triple)
    return Compiler(tuple(command), {"PYTHONPATH": str(package), **caches})


@functools.lru_cache(maxsize=1)
def _ziglang() -> OwnFolder:
    """Install the Zig compiler into a folder of 400 MB, which goes when this process ends."""
    folder = OwnFolder()
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--target", str(folder.path)]
    checked = ["--only-binary", ":all:", "--require-hashes", "--requirement", str(_ZIGLANG)]
    done = processes.run(python_command("pip", "install", *options, *checked))
    if done.returncode:
        folder.close()
        last_words = done.stderr.strip().rpartition("\n")[2]
        raise TargetError(f"no C compiler: pip could not install ziglang ({last_words})")
    return folder
