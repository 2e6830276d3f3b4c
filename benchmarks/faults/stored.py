"""The campaign `stored`: every command that reads is run over mutants of stored files."""

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
from benchmarks.faults.readers import reader_wrongs
from benchmarks.faults.samples import GOOD, Samples
from benchmarks.faults.schema_mutants import schema_mutant
from benchmarks.faults.trial import Answer, End, Kind, Trial, Wrong

__all__ = ["Stored", "end_wrongs", "file_wrongs"]

#: Time limit of a command over two stored files, which takes seconds also on a busy machine.
_COMMAND_LIMIT_S = 120.0
#: Pages take a second, so they are made only for every n-th input.
_PAGE_EVERY = 20
#: The same for the figures of mutants by schema, which take half a second.
_FIGURES_EVERY = 20
#: Folder of a worker's storages with each kind of stored value.
_KINDS = "kinds"
#: Upper bound for a command's memory.
_MOST_BYTES = 1 << 30
#: The only configuration of the run that has to be shown.
_GOOD_SCENARIO = "no_reuse"
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
#: Control characters that lines and CSV need.
_ALLOWED_CONTROLS = "\n\t\r"
#: Characters that change the direction of the text behind them.
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_COMPARED = ("text", "markdown", "csv", "json")
_EXPORTED = ("bencher", "github", "github-bigger", "csv", "jsonl", "trace")


@dataclass(frozen=True)
class Stored:
    """The campaign; each input is one file in a storage, beside a good run."""

    samples: Samples
    seed: int
    keep: Path
    time_limit_s: float = 600.0

    def try_input(self, index: int, folder: Path) -> Trial:
        """Write the mutant into a storage, run the commands over it, and check their results."""
        self._set_up(folder)
        storage = folder / "storage"
        out = folder / "out"
        os.environ.update(
            XDG_CACHE_HOME=str(folder / "cache"), HOME=str(folder), TMPDIR=str(folder / "tmp")
        )
        mutant = self._mutant(index, folder / _KINDS)
        mutant.write(storage)
        reset_peak()
        before = _snapshot(folder)
        listed = run_command(("runs", "list", "--storage", str(storage)), _COMMAND_LIMIT_S)
        answer = _answer(mutant, listed)
        wrongs = [*end_wrongs(listed, (0, 1)), *_list_wrongs(answer, listed)]
        for arguments in _commands(index):
            wrongs += self._command_wrongs(arguments, storage, out)
        if mutant.is_of_schema:
            draws = index % _FIGURES_EVERY == 1
            wrongs += reader_wrongs(storage, out, _COMMAND_LIMIT_S, index // 2, draws)
        wrongs += _changed(before, _snapshot(folder))
        if index % _PAGE_EVERY == 0:
            wrongs += self._command_wrongs(("report",), storage, out)
            wrongs += self._command_wrongs(("history",), storage, out)
        for file in out.rglob("*"):
            if file.is_file():
                wrongs += file_wrongs(file)
        wrongs += _removal_wrongs(mutant, storage, answer, folder)
        peak_bytes = peak_rss_bytes()
        if peak_bytes > _MOST_BYTES:
            wrongs.append(Wrong(Kind.FALSE, "memory over the limit", f"{peak_bytes:,} bytes"))
        trial = Trial(index, mutant.about, answer, tuple(dict.fromkeys(wrongs)), peak_bytes)
        if wrongs:
            self._keep(trial, mutant)
        return trial

    def _mutant(self, index: int, kinds: Path) -> Mutant:
        """Return the input: every other one is changed by its schema, the rest in any way."""
        turn, is_of_schema = divmod(index, 2)
        if is_of_schema:
            return schema_mutant(kinds, turn, f"mutant{index}x", self.seed)
        chance = random.Random(f"stored {self.seed} {index}")
        return make_mutant(self.samples, chance, index, self.seed)

    def _set_up(self, folder: Path) -> None:
        """Make the storage with the good run, and foreign files with links to them."""
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

    def _command_wrongs(self, arguments: Sequence[str], storage: Path, out: Path) -> list[Wrong]:
        """Run a command over the storage and return its faults."""
        writes = arguments[0] in ("report", "history")
        output = ("--output", str(out)) if writes else ()
        end = run_command((*arguments, "--storage", str(storage), *output), _COMMAND_LIMIT_S)
        codes = (0, 1) if writes or arguments[0] == "runs" else (0, 1, 2)
        wrongs = list(end_wrongs(end, codes))
        if arguments[0] == "export" and "csv" in arguments:
            wrongs += _cell_wrongs(end.output.splitlines(), "export --format csv")
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
    yield ("report", "--format", "csv", "--format", "markdown")


def _answer(mutant: Mutant, listed: End) -> Answer:
    if mutant.name in listed.errors:
        return Answer.REFUSED
    return Answer.SURVIVED if mutant.name in listed.output else Answer.PASSED_OVER


def _list_wrongs(answer: Answer, listed: End) -> Iterator[Wrong]:
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
    """Yield faults that no command may have, whatever it reads."""
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
    if letter in _DIRECTIONS:
        return True
    return unicodedata.category(letter) in ("Cc", "Cs") and letter not in _ALLOWED_CONTROLS


def _removal_wrongs(mutant: Mutant, storage: Path, answer: Answer, folder: Path) -> Iterator[Wrong]:
    """Remove all runs and yield the faults: refused and foreign files have to stay."""
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
    """Return the files in the folder, except the output, the kinds and the cache of figures."""
    files = {}
    for parent, _, names in os.walk(folder):
        top = Path(parent).relative_to(folder).parts[:1]
        if top in (("out",), ("cache",), (".config",), (_KINDS,)):
            continue
        for name in names:
            path = os.path.join(parent, name)  # noqa: PTH118  names need not be UTF-8
            status = os.lstat(path)
            files[path] = (status.st_mode, status.st_size, status.st_mtime_ns)
    return files


def _changed(
    before: dict[str, tuple[int, int, int]], after: dict[str, tuple[int, int, int]]
) -> list[Wrong]:
    """Return a fault if files differ between two snapshots."""
    if before == after:
        return []
    paths = before.keys() | after.keys()
    changed = sorted(path for path in paths if before.get(path) != after.get(path))
    return [Wrong(Kind.FALSE, "files outside of the output were changed", repr(changed))]


# Written files


def file_wrongs(file: Path) -> Iterator[Wrong]:
    """Yield the faults of a page or a table that was made from stored texts."""
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
            yield from _cell_wrongs(lines, file.name)
        if file.name == "comparison.csv" and _GOOD_SCENARIO not in file.read_text(encoding="utf-8"):
            yield Wrong(Kind.LOST, "comparison.csv: the good run is not shown", "")


def _cell_wrongs(lines: Sequence[str] | Iterator[str], name: str) -> Iterator[Wrong]:
    with contextlib.suppress(csv.Error):  # a cell over the reader's limit is no formula
        for row in csv.reader(lines):
            for cell in row:
                if FORMULA in cell and cell.startswith(_FORMULA_SIGNS):
                    yield Wrong(Kind.FALSE, f"{name}: a cell is a formula", cell[:200])


class _Page(HTMLParser):
    """A parser that finds elements and attributes from stored texts."""

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
