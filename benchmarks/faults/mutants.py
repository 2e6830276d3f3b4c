"""Mutants of stored files: changed files, and paths that are no regular files."""

from __future__ import annotations

import functools
import gzip
import json
import os
import random
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.mutation import mutated_bytes, mutated_json
from benchmarks.faults.samples import Samples

__all__ = ["Mutant", "make_mutant"]

_MIB = 1 << 20
#: Kinds of mutants with their relative frequency.
_SHARES = {
    "run": 10,
    "trace": 4,
    "run bytes": 2,
    "trace bytes": 2,
    "fit": 1,
    "no run": 1,
    "no trace": 1,
    "name": 1,
}
#: Contents that a decompression bomb repeats.
_BOMB_TEXTS = (
    bytes(16 * _MIB),
    b"[" * _MIB,
    b"[[],[]," * _MIB,
    b'{"a":' * _MIB,
    b"0," * _MIB,
    b" " * (16 * _MIB),
)
_BOMB_MEMBERS = 256
#: Size of a sparse file, which takes no room.
_SPARSE_BYTES = 6 << 30

_Write = Callable[[Path], None]


@dataclass(frozen=True)
class Mutant:
    """A mutant for a storage."""

    #: Description of the change.
    about: str
    #: Part of the mutant's file name, which no other file has.
    name: str
    #: Writes the mutant, and its other files, into a storage.
    write: _Write
    #: Whether a stored value was changed within its type, so that readers may have to show it.
    is_of_schema: bool = False


def make_mutant(samples: Samples, chance: random.Random, index: int, seed: int) -> Mutant:
    """Return a mutant of one of the samples."""
    (kind,) = chance.choices(list(_SHARES), list(_SHARES.values()))
    name = f"mutant{index}x"
    run = chance.choice(sorted(samples.storage.glob("[!f]*/0*.json")))
    content = run.read_bytes()
    target = Path(run.parent.name) / f"{index % 9000 + 2:04}_{name}.json"
    if kind == "run":
        content, about = mutated_json(json.loads(content), chance, seed)
        return Mutant(f"run: {about}", name, _with_traces(samples, _writer(target, content)))
    if kind == "run bytes":
        content, about = mutated_bytes(content, chance)
        return Mutant(
            f"bytes of a run: {about}", name, _with_traces(samples, _writer(target, content))
        )
    if kind == "fit":
        (answer,) = samples.storage.glob("fit/answer-*.json")
        content, about = mutated_json(json.loads(answer.read_bytes()), chance, seed)
        return Mutant(
            f"answer of fit: {about}", name, _writer(Path("fit", f"answer-{name}.json"), content)
        )
    if kind == "no run":
        label, make = chance.choice(list(_NO_FILES.items()))
        return Mutant(f"{label} as a run", name, lambda storage: _made(storage / target, make))
    if kind == "name":
        text = f"{index % 9000 + 2:04}_{name}{chance.choice(_NAMES)}.json"
        return Mutant(
            f"a run's name {text!r}",
            name,
            _with_traces(samples, _writer(target.with_name(text), content)),
        )
    return _trace_mutant(samples, chance, kind, name, run, target, seed)


def _trace_mutant(
    samples: Samples,
    chance: random.Random,
    kind: str,
    name: str,
    run: Path,
    target: Path,
    seed: int,
) -> Mutant:
    """Return a run with its own folder of traces, one of them changed."""
    own = f"traces/{name}"
    run_text = run.read_text()
    folders = {path.parent for path in samples.storage.glob("traces/*/*.gz")}
    (folder,) = (folder for folder in folders if folder.name in run_text)
    content = run.read_bytes().replace(f"traces/{folder.name}/".encode(), f"{own}/".encode())
    trace = chance.choice(sorted(folder.iterdir()))
    change: Callable[[Path], None]
    if kind == "no trace":
        about, change = chance.choice(list(_NO_FILES.items()))
    elif kind == "trace bytes":
        changed, about = mutated_bytes(trace.read_bytes(), chance)
        change = functools.partial(_write, content=changed)
    else:
        document = json.loads(gzip.decompress(trace.read_bytes()))
        changed, about = mutated_json(document, chance, seed)
        change = functools.partial(_write, content=gzip.compress(changed, 1))

    def write(storage: Path) -> None:
        _writer(target, content)(storage)
        shutil.copytree(folder, storage / own, dirs_exist_ok=True)
        (storage / own / trace.name).unlink()
        change(storage / own / trace.name)

    return Mutant(f"trace: {about}", name, write)


def _writer(relative: Path, content: bytes) -> _Write:
    def write(storage: Path) -> None:
        path = storage / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    return write


def _with_traces(samples: Samples, write: _Write) -> _Write:
    """Return a writer that also writes the traces that the run names."""

    def write_both(storage: Path) -> None:
        write(storage)
        shutil.copytree(samples.storage / "traces", storage / "traces", dirs_exist_ok=True)

    return write_both


def _made(path: Path, make: Callable[[Path], None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)


# Paths that are no regular files, or have no end


def _bind_socket(path: Path) -> None:
    folder = os.open(path.parent, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            # The path of a socket may have at most 107 characters.
            server.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _write_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(_SPARSE_BYTES)


def _write_unreadable(path: Path) -> None:
    path.write_text("{}", encoding="utf-8")
    path.chmod(0)


def _write_bomb(path: Path, text: int) -> None:
    with path.open("wb") as file:
        for _ in range(_BOMB_MEMBERS):
            file.write(_bomb_member(text))


@functools.cache
def _bomb_member(text: int) -> bytes:
    return gzip.compress(_BOMB_TEXTS[text])


_NO_FILES: dict[str, Callable[[Path], None]] = {
    "a named pipe": os.mkfifo,
    "a socket": _bind_socket,
    "a folder": Path.mkdir,
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a link to /dev/stdin": lambda path: path.symlink_to("/dev/stdin"),
    "a link to a foreign file": lambda path: path.symlink_to(path.parents[2] / "foreign" / "file"),
    "an empty file": Path.touch,
    "a file of 6 GiB": _write_sparse,
    "an unreadable file": _write_unreadable,
    "a text": functools.partial(_write, content=b"no JSON and no archive"),
    **{
        f"a bomb of {text[:7]!r}": functools.partial(_write_bomb, text=index)
        for index, text in enumerate(_BOMB_TEXTS)
    },
}
#: Endings of hostile file names.
_NAMES = (
    "\x1b[2J",
    "\n",
    "\udcff\udc80",
    "[bold red]",
    "=1+1",
    "<faultmarker>",
    "\u202e",
    "'\"`$(x)",
    "é中\U0001f600",
    "a" * 200,
)
