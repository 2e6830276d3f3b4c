"""The campaign `stored`: mutants of stored files, and what is no file, under every command that
reads.
"""

from __future__ import annotations

import contextlib
import csv
import os
import random
import shutil
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from benchmarks.faults.in_process import peak_rss_bytes, reset_peak, run_command
from benchmarks.faults.mutants import Mutant, make_mutant
from benchmarks.faults.mutation import FORMULA, MARKER
from benchmarks.faults.samples import GOOD, Samples
from benchmarks.faults.trial import Answer, End, Kind, Trial, Wrong

__all__ = ["Stored", "end_wrongs", "file_wrongs"]

#: Of one command over two stored files; hundreds of times what it takes.
_COMMAND_LIMIT_S = 20.0
_PAGE_LIMIT_S = 90.0
#: Pages take a second: every so many inputs.
_PAGE_EVERY = 20
#: The most that a command may have in memory.
_MOST_BYTES = 1 << 30
#: Of the run that has to be shown, the one configuration.
_GOOD_SCENARIO = "no_reuse"
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
#: Control characters of lines and of CSV.
_OF_LINES = "\n\t\r"
#: They turn the direction of what follows.
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_COMPARED = ("text", "md", "csv", "json")
_EXPORTED = ("bencher", "github", "github-bigger", "csv", "jsonl", "trace")


@dataclass(frozen=True)
class Stored:
    """Each input is one file in a storage, beside a good run."""

    samples: Samples
    seed: int
    keep: Path
    time_limit_s: float = 600.0

    def try_input(self, index: int, folder: Path) -> Trial:
        """Write the mutant into a storage, and run the commands over it."""
        self._set_up(folder)
        storage = folder / "storage"
        out = folder / "out"
        os.environ.update(
            XDG_CACHE_HOME=str(folder / "cache"), HOME=str(folder), TMPDIR=str(folder / "tmp")
        )
        mutant = make_mutant(
            self.samples, random.Random(f"stored {self.seed} {index}"), index, self.seed
        )
        mutant.write(storage)
        reset_peak()
        before = _snapshot(folder)
        listed = run_command(("runs", "list", "--storage", str(storage)), _COMMAND_LIMIT_S)
        answer = _answer(mutant, listed)
        wrongs = [*end_wrongs(listed, (0, 1)), *_of_list(answer, listed)]
        for arguments in _commands(index):
            wrongs += self._of_command(arguments, storage, out)
        wrongs += _changed(before, _snapshot(folder))
        if index % _PAGE_EVERY == 0:
            wrongs += self._of_command(("report",), storage, out) + self._of_command(
                ("history",), storage, out
            )
        wrongs += [
            wrong for file in out.rglob("*") if file.is_file() for wrong in file_wrongs(file)
        ]
        wrongs += _of_removal(mutant, storage, answer, folder)
        peak_bytes = peak_rss_bytes()
        if peak_bytes > _MOST_BYTES:
            wrongs.append(Wrong(Kind.FALSE, "memory over the limit", f"{peak_bytes:,} bytes"))
        trial = Trial(index, mutant.about, answer, tuple(dict.fromkeys(wrongs)), peak_bytes)
        if wrongs:
            self._keep(trial, mutant)
        return trial

    def _set_up(self, folder: Path) -> None:
        """Make the storage with the good run and the traces of the sample, and foreign files with
        links to them.
        """
        for name in ("storage", "out", "tmp", "foreign"):
            shutil.rmtree(folder / name, ignore_errors=True)
            (folder / name).mkdir(parents=True)
        shutil.copytree(self.samples.good, folder / "storage", dirs_exist_ok=True)
        foreign = folder / "foreign"
        for name in ("file", "file.json.gz", ".0001.unfinished", "0001_foreign.json"):
            (foreign / name).write_text(name, encoding="utf-8")
            os.utime(foreign / name, (0, 0))
        (folder / "storage" / "traces" / "linked").symlink_to(foreign)
        (folder / "storage" / "linked").symlink_to(foreign)

    def _of_command(self, arguments: Sequence[str], storage: Path, out: Path) -> list[Wrong]:
        """Return what is wrong with the end of a command over the storage."""
        writes = arguments[0] in ("report", "history")
        output = ("--output", str(out)) if writes else ()
        limit_s = _PAGE_LIMIT_S if arguments in (("report",), ("history",)) else _COMMAND_LIMIT_S
        end = run_command((*arguments, "--storage", str(storage), *output), limit_s)
        wrongs = list(end_wrongs(end, (0, 1) if writes or arguments[0] == "runs" else (0, 1, 2)))
        if arguments[0] == "export" and "csv" in arguments:
            wrongs += _of_cells(end.output.splitlines(), "export --format csv")
        return wrongs

    def _keep(self, trial: Trial, mutant: Mutant) -> None:
        folder = self.keep / "stored" / str(trial.index)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.samples.good, folder / "storage")
        mutant.write(folder / "storage")
        (folder / "wrong.txt").write_text(
            trial.in_words(), encoding="utf-8", errors="backslashreplace"
        )


def _commands(index: int) -> Iterator[tuple[str, ...]]:
    yield ("compare", "1", "latest", "--format", _COMPARED[index % len(_COMPARED)])
    yield ("history", "--format", "csv")
    yield ("export", "latest", "--format", _EXPORTED[index % len(_EXPORTED)])
    yield ("runs", "prune", "--keep", "1", "--dry-run")
    yield ("report", "--format", "csv", "--format", "md")


def _answer(mutant: Mutant, listed: End) -> Answer:
    if mutant.name in listed.errors:
        return Answer.REFUSED
    return Answer.SURVIVED if mutant.name in listed.output else Answer.PASSED_OVER


def _of_list(answer: Answer, listed: End) -> Iterator[Wrong]:
    if listed.wrong:
        return
    if GOOD not in listed.output:
        yield Wrong(
            Kind.LOST, "runs list: the good run is not shown", listed.output + listed.errors
        )
    if answer is Answer.REFUSED and listed.code != 1:
        yield Wrong(
            Kind.FALSE, f"runs list: a file is left out with exit code {listed.code}", listed.errors
        )


def end_wrongs(end: End, codes: Sequence[int]) -> Iterator[Wrong]:
    """Yield what no command may do, whatever it reads."""
    if end.wrong:
        yield end.wrong
        return
    if end.code not in codes:
        yield Wrong(Kind.FALSE, f"exit code {end.code}", end.errors)
    for name, text in (("output", end.output), ("errors", end.errors)):
        raw = {letter for letter in text if _is_control(letter)}
        if raw:
            yield Wrong(
                Kind.FALSE,
                f"control characters in the {name}",
                f"{sorted(raw)!r} in {text!r}"[:4000],
            )


def _is_control(letter: str) -> bool:
    return letter in _DIRECTIONS or (
        unicodedata.category(letter) in ("Cc", "Cs") and letter not in _OF_LINES
    )


def _of_removal(mutant: Mutant, storage: Path, answer: Answer, folder: Path) -> Iterator[Wrong]:
    """Remove all runs, and yield what of it is wrong: what was refused has to stay, and what is
    foreign.
    """
    foreign = _snapshot(folder / "foreign")
    end = run_command(
        ("runs", "prune", "--keep", "0", "--named", "--storage", str(storage)), _COMMAND_LIMIT_S
    )
    yield from end_wrongs(end, (0, 1))
    if _snapshot(folder / "foreign") != foreign:
        yield Wrong(Kind.FALSE, "runs prune: foreign files were changed", end.output)
    if answer is Answer.REFUSED and not any(
        mutant.name in path.name for path in storage.rglob("*")
    ):
        yield Wrong(Kind.LOST, "runs prune: a file that could not be read was removed", end.output)


def _snapshot(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return the files below, but for the output and the cache of figures."""
    files = {}
    for parent, _, names in os.walk(folder):
        if Path(parent).relative_to(folder).parts[:1] in (("out",), ("cache",), (".config",)):
            continue
        for name in names:
            path = os.path.join(parent, name)  # noqa: PTH118  names need not be UTF-8
            status = os.lstat(path)
            files[path] = (status.st_mode, status.st_size, status.st_mtime_ns)
    return files


def _changed(
    before: dict[str, tuple[int, int, int]], after: dict[str, tuple[int, int, int]]
) -> list[Wrong]:
    paths = sorted(
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    )
    return (
        [Wrong(Kind.FALSE, "files outside of the output were changed", repr(paths))]
        if paths
        else []
    )


# What was written


def file_wrongs(file: Path) -> Iterator[Wrong]:
    """Yield what is wrong with a page or a table that was made of stored texts."""
    if file.suffix == ".html":
        page = _Page()
        page.feed(file.read_text(encoding="utf-8"))
        page.close()
        if page.markers:
            yield Wrong(Kind.FALSE, f"{file.name}: text became an element", repr(page.markers))
        if not page.is_whole:
            yield Wrong(Kind.FALSE, f"{file.name}: the page is not whole", "")
    elif file.suffix == ".csv":
        with file.open(encoding="utf-8", newline="") as lines:
            yield from _of_cells(lines, file.name)
        if file.name == "comparison.csv" and _GOOD_SCENARIO not in file.read_text(encoding="utf-8"):
            yield Wrong(Kind.LOST, "comparison.csv: the good run is not shown", "")


def _of_cells(lines: Sequence[str] | Iterator[str], name: str) -> Iterator[Wrong]:
    with contextlib.suppress(csv.Error):  # a cell over the reader's limit is no formula
        for row in csv.reader(lines):
            for cell in row:
                if FORMULA in cell and cell.startswith(_FORMULA_SIGNS):
                    yield Wrong(Kind.FALSE, f"{name}: a cell is a formula", cell[:200])


class _Page(HTMLParser):
    """Finds elements and attributes that came out of a stored text."""

    def __init__(self) -> None:
        super().__init__()
        self.markers: list[str] = []
        self.is_whole = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element that no page has."""
        if MARKER in tag or any(MARKER in name for name, _ in attrs):
            self.markers.append(f"<{tag}> at {self.getpos()}")

    def handle_endtag(self, tag: str) -> None:
        """Note the end of the page."""
        self.is_whole = self.is_whole or tag == "html"
