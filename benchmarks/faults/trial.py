"""The result of one injected fault, and the table of many."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["ENDS", "Answer", "End", "Kind", "Tally", "Trial", "Wrong", "markdown_table"]

MIB = 2**20


class Answer(enum.Enum):
    """The product's answer to an input."""

    #: The input is shown or measured as if it were sound.
    SURVIVED = "survived"
    #: A message names the input, and the exit code is not 0.
    REFUSED = "refused"
    #: Neither: the input has become somebody else's file.
    PASSED_OVER = "passed over"


class Kind(enum.Enum):
    """Kinds of faults of the product; the values are the heads of the table."""

    TRACEBACK = "tracebacks"
    HANG = "hangs"
    LOST = "lost results"
    LEFTOVER = "left behind"
    #: The answer is wrong: exit code, unescaped text, memory over the limit, changed foreign file.
    FALSE = "false answers"


@dataclass(frozen=True)
class Wrong:
    """A fault of the product."""

    kind: Kind
    #: Place of the fault, such as the last line of a traceback. Faults at one place count as one.
    place: str
    #: Details.
    words: str


@dataclass(frozen=True)
class Trial:
    """One input that was tried."""

    index: int
    #: Short description of the input.
    about: str
    answer: Answer
    wrongs: tuple[Wrong, ...] = ()
    #: Highest RSS of a process of the product; 0 if it was not read.
    peak_rss_bytes: int = 0

    def in_words(self) -> str:
        """Return the description and all faults as a text."""
        parts = [f"{wrong.kind.value}: {wrong.place}\n{wrong.words}" for wrong in self.wrongs]
        return "\n\n".join((self.about, *parts)) + "\n"


@dataclass(frozen=True)
class End:
    """The end of a command of the product."""

    code: int
    output: str
    errors: str
    #: A traceback or a hang.
    wrong: Wrong | None = None


#: Exit codes that commands/__init__.py documents, and the codes of Ctrl-C and of a closed pipe.
ENDS = frozenset((0, 1, 2, 130, 141))


@dataclass
class Tally:
    """The sums of a campaign."""

    campaign: str
    answers: Counter[Answer] = field(default_factory=Counter)
    #: Trials by kind of fault; a trial counts once per kind.
    kinds: Counter[Kind] = field(default_factory=Counter)
    places: dict[tuple[Kind, str], list[Trial]] = field(default_factory=dict)
    peak_rss_bytes: int = 0

    def add(self, trials: Iterable[Trial]) -> None:
        """Count trials."""
        for trial in trials:
            self.answers[trial.answer] += 1
            self.kinds.update({wrong.kind for wrong in trial.wrongs})
            self.peak_rss_bytes = max(self.peak_rss_bytes, trial.peak_rss_bytes)
            for wrong in trial.wrongs:
                self.places.setdefault((wrong.kind, wrong.place), []).append(trial)

    @property
    def tried(self) -> int:
        """Number of inputs tried."""
        return sum(self.answers.values())

    def cells(self) -> list[str]:
        """Return the row of the table."""
        counts = [
            self.tried,
            *(self.answers[answer] for answer in Answer),
            *(self.kinds[kind] for kind in Kind),
        ]
        peak = f"{self.peak_rss_bytes / MIB:,.0f}" if self.peak_rss_bytes else "-"
        return [self.campaign, *(f"{count:,}" for count in counts), peak]

    def places_in_words(self, keep: Path) -> list[str]:
        """Return a line for each place of a fault, the most frequent first."""
        lines = []
        for (kind, place), trials in sorted(self.places.items(), key=lambda item: -len(item[1])):
            kept = keep / self.campaign / str(trials[0].index)
            lines.append(
                f"{kind.value}: {place}: {len(trials)}, first {trials[0].about}, kept in {kept}"
            )
        return lines


def markdown_table(tallies: Sequence[Tally]) -> str:
    """Return the table in the form of docs/evidence/faults.md."""
    heads = [
        "campaign",
        "inputs",
        *(answer.value for answer in Answer),
        *(kind.value for kind in Kind),
        "peak RSS, MiB",
    ]
    rows = [heads, ["---", *["---:"] * (len(heads) - 1)], *(tally.cells() for tally in tallies)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
