"""An aarch64 machine of folders: programs of it run on this machine's kernel."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from reusebench.targets.errors import TargetError

__all__ = ["Machine"]

#: The first bytes of an aarch64 program, and the bits of them that count: qemu's own registration,
#: with the flags that have the kernel open the emulator at once (F), hand it the program's
#: descriptor (O), and take rights from the program (C).
_REGISTRATION = (
    r":aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
    r":\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
    r":{emulator}:OCF"
)
#: A user namespace has a binfmt_misc of its own from this version of Linux on.
_LINUX = (6, 7)
#: Runs in namespaces of its own: what it mounts ends with it. $1 is the registration or empty.
_ENTER = """\
set -e
if [ -n "$1" ]; then
    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
    printf %s "$1" > /proc/sys/fs/binfmt_misc/register
fi
for name in proc sys dev; do
    mkdir -p "$2/$name"
    mount --rbind "/$name" "$2/$name"
done
mount --bind "$3" "$2/checkout"
mount -o remount,bind,ro "$2/checkout"
root=$2
shift 3
exec chroot "$root" /usr/bin/env -i "$@"
"""


class Machine:
    """The files of a machine, entered by an ordinary user."""

    def __init__(self, root: Path, emulator: Path | None, checkout: Path) -> None:
        """Check that this machine's kernel can run it; a TargetError says what it lacks."""
        self._root = root
        self._checkout = checkout
        self._registration = ""
        if emulator is not None:
            self._registration = _REGISTRATION.replace("{emulator}", str(emulator))
            _check_kernel()
        for name in ("checkout", "home"):
            (root / name).mkdir(exist_ok=True)

    def path(self, path: str) -> Path:
        """Return this machine's path of a file of the machine."""
        return self._root / path.lstrip("/")

    def run(self, command: Sequence[str], time_limit_s: float) -> subprocess.CompletedProcess[str]:
        """Run a program of the machine in the checkout, and return its output, errors included.

        Raises subprocess.TimeoutExpired.
        """
        variables = {
            "PATH": "/usr/bin:/bin",
            "HOME": "/home",
            "LANG": "C.UTF-8",
            "TMPDIR": "/home",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return subprocess.run(
            [
                *("unshare", "--map-root-user", "--user", "--mount", "--pid", "--fork"),
                *("--mount-proc", "--kill-child", "sh", "-c", _ENTER, "sh"),
                *(self._registration, str(self._root), str(self._checkout)),
                *("--chdir=/checkout", *(f"{name}={value}" for name, value in variables.items())),
                *command,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=time_limit_s,
        )


def _check_kernel() -> None:
    version = re.match(r"(\d+)\.(\d+)", platform.release())
    if version and tuple(map(int, version.groups())) < _LINUX:
        raise TargetError(
            f"this machine's Linux is {platform.release()}; an ordinary user's namespace can"
            " register an emulator from 6.7 on. Run this on an aarch64 machine"
        )
