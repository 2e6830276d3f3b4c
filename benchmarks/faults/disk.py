"""The campaign `disk`: changes of files fail, as on a disk that is full or breaks."""

from __future__ import annotations

import errno
import functools
import random
import shutil
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.after import (
    after_session,
    is_whole_page,
    keep_sandbox,
    page_wrongs,
    stored_names,
)
from benchmarks.faults.samples import Samples, record_command, reusebench, session_command
from benchmarks.faults.sandbox import Sandbox, compile_preloaded
from benchmarks.faults.trial import Answer, Kind, Trial, Wrong

__all__ = ["FAILING_WRITES", "Disk", "counted"]

FAILING_WRITES = Path(__file__).with_name("failing_writes.c")
#: Size of the counter: the number of changes, and the bytes printed when the first change failed.
_COUNTER_BYTES = 16
_ERRORS = (errno.ENOSPC, errno.ENOSPC, errno.ENOSPC, errno.EIO, errno.EDQUOT)
_COMMAND_LIMIT_S = 90.0
#: Commands to run; the session comes more often, since it writes most.
_COMMANDS = (
    "session",
    "report",
    "session",
    "export",
    "session",
    "record",
    "prune",
    "models build",
    "history",
)
_SESSION = ("partial_dup", "full_dup_internal_reuse")


@dataclass(frozen=True)
class Disk:
    """The campaign; each input is a command and the number of the change that fails."""

    samples: Samples
    seed: int
    keep: Path
    time_limit_s: float = 600.0

    def try_input(self, index: int, folder: Path) -> Trial:
        """Run a command on a disk that fails."""
        chance = random.Random(f"disk {self.seed} {index}")
        name = _COMMANDS[index % len(_COMMANDS)]
        changes = _changes_of(self, name, folder)
        at = (_ordinal(index) + self.seed) % changes
        number = chance.choice(_ERRORS)
        is_once = chance.random() < 0.3
        sandbox = Sandbox(folder / str(index)).make()
        code = self._run(
            name, sandbox, folder, {"AT": at + 1, "ERRNO": number, "ONCE": int(is_once)}
        )
        wrongs = list(self._end_wrongs(name, sandbox, code))
        may_lose = 0
        if code:
            may_lose = 1 if is_once else len(_SESSION)
        wrongs += after_session(sandbox, self.samples, may_lose, counted(_counter(folder))[1])
        about = (
            f"{errno.errorcode[number]}{' once' * is_once} at change {at + 1} of {changes} of"
            f" {name}"
        )
        trial = Trial(index, about, Answer.REFUSED if code else Answer.SURVIVED, tuple(wrongs))
        keep_sandbox(sandbox, trial, self.keep / "disk")
        return trial

    def _run(
        self, name: str, sandbox: Sandbox, folder: Path, values: Mapping[str, int]
    ) -> int | None:
        """Run the command with the library that lets changes fail."""
        if name in ("prune", "report"):
            shutil.copytree(self.samples.good, sandbox.storage, dirs_exist_ok=True)
        if name == "report":
            shutil.copytree(self.samples.page, sandbox.disk / "out")
        _counter(folder).write_bytes(bytes(_COUNTER_BYTES))
        variables = {f"FAULTS_{key}": str(value) for key, value in values.items()}
        variables |= {
            "FAULTS_REMOVING": str(int(name == "prune")),
            "FAULTS_FOLDER": f"{sandbox.disk}/",
            "FAULTS_COUNTER": str(_counter(folder)),
            "FAULTS_OUTPUT": str(sandbox.folder / "output"),
            "LD_PRELOAD": str(compile_preloaded(FAILING_WRITES, folder)),
        }
        return sandbox.run(self._command(name, sandbox), _COMMAND_LIMIT_S, variables)

    def _command(self, name: str, sandbox: Sandbox) -> list[str]:
        good = str(self.samples.good)
        out = str(sandbox.disk / "out")
        if name == "session":
            chosen = " or ".join(f"{scenario}]" for scenario in _SESSION)
            return session_command(self.samples.model, sandbox.storage, "-k", chosen)
        if name == "record":
            return record_command(sandbox)
        arguments = {
            "report": ("report", "--storage", good, "--output", out),
            "history": ("history", "--storage", good, "--output", out),
            "export": ("export", "latest", "--format", "jsonl", "--storage", good, "--output", out),
            "prune": ("runs", "prune", "--keep", "0", "--named", "--storage", str(sandbox.storage)),
            "models build": ("models", "build", "tiny", "--height", "64"),
        }[name]
        return reusebench(*arguments)

    def _end_wrongs(self, name: str, sandbox: Sandbox, code: int | None) -> Iterator[Wrong]:
        """Yield the faults in the end of a command."""
        output = sandbox.output()
        if code is None:
            yield Wrong(Kind.HANG, f"{name} does not end", output)
            return
        if code < 0 or (code and not output.strip()):
            yield Wrong(Kind.FALSE, f"{name} ends with {code} and no word", output)
        if name == "report":
            yield from page_wrongs(sandbox.disk / "out", self.samples.page)
        if code == 0:
            yield from (
                Wrong(Kind.FALSE, f"{name}: exit code 0, and {what}", output)
                for what in self._missing(name, sandbox)
            )

    def _missing(self, name: str, sandbox: Sandbox) -> Iterator[str]:
        """Yield the missing results of a command that ended well."""
        out = sandbox.disk / "out"
        if name in ("session", "record"):
            wanted = {"program"} if name == "record" else set(_SESSION)
            for scenario in sorted(wanted - stored_names(sandbox.storage)):
                yield f"{scenario} is not stored"
        elif name == "prune":
            yield from ("a run is still there" for _ in sandbox.storage.glob("*/0*.json"))
        elif name == "export":
            if not out.is_file() or not out.read_bytes().endswith(b"}\n"):
                yield "the export is not whole"
        elif name == "models build":
            built = Path(sandbox.output().splitlines()[-1])
            if not built.is_file() or built.read_bytes() != self.samples.model.read_bytes():
                yield "the model is not whole"
        else:
            yield from _page_problems(out)


def _page_problems(folder: Path) -> Iterator[str]:
    pages = [*folder.glob("*.html")]
    if not pages:
        yield "there is no page"
    for page in pages:
        if not is_whole_page(page):
            yield f"{page.name} is half a page"


def _ordinal(index: int) -> int:
    """Return the number of earlier inputs with the same command; that change fails."""
    rounds, place = divmod(index, len(_COMMANDS))
    return rounds * _COMMANDS.count(_COMMANDS[place]) + _COMMANDS[:place].count(_COMMANDS[place])


@functools.cache
def _changes_of(campaign: Disk, name: str, folder: Path) -> int:
    """Return the number of changes that the command makes if none fails."""
    sandbox = Sandbox(folder / f"counting-{name.replace(' ', '-')}").make()
    code = campaign._run(name, sandbox, folder, {"AT": 0, "ERRNO": 0, "ONCE": 0})
    if code != 0:
        raise RuntimeError(f"{name} ends with {code} where no change fails:\n{sandbox.output()}")
    shutil.rmtree(sandbox.folder)
    return counted(_counter(folder))[0]


def _counter(folder: Path) -> Path:
    return folder / "counter"


def counted(counter: Path) -> tuple[int, int]:
    """Return the library's counts: changes, and bytes printed when the first one failed."""
    changes, printed_bytes = struct.unpack("=2q", counter.read_bytes())
    return changes, printed_bytes
