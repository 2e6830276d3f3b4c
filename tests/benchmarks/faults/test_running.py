"""Workers may die of their inputs, and are replaced."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.faults.running import run_campaign
from benchmarks.faults.trial import Answer, Kind, Tally, Trial, Wrong, markdown_table
from tests.helpers.support import TIME_LIMIT_S

_INPUTS = 6
_DIES = 2
_HANGS = 3


@dataclass(frozen=True)
class _Scripted:
    #: A file that the hanging input makes when it begins.
    hangs: Path
    #: The inputs that have ended.
    ended: set[int] = field(default_factory=set)

    @property
    def time_limit_s(self) -> float:
        """Zero for the hanging last input, otherwise far longer than any input takes."""
        is_last = self.hangs.exists() and len(self.ended) == _INPUTS - 1
        return 0.0 if is_last else 10 * TIME_LIMIT_S

    def try_input(self, index: int, folder: Path) -> Trial:
        assert folder.is_dir()
        if index == _DIES:
            os._exit(7)
        if index == _HANGS:
            self.hangs.touch()
            time.sleep(600)
        return Trial(index, "an input", Answer.SURVIVED, peak_rss_bytes=index << 20)


def test_every_input_is_tried(tmp_path: Path) -> None:
    """An input that ends its worker is a traceback, one without end a hang; others go on."""
    campaign = _Scripted(tmp_path / "hangs")
    trials = {}
    for trial in run_campaign(campaign, range(_INPUTS), 2, tmp_path):
        trials[trial.index] = trial
        campaign.ended.add(trial.index)
    assert sorted(trials) == [*range(_INPUTS)]
    kinds = {
        index: [wrong.kind for wrong in trial.wrongs]
        for index, trial in trials.items()
        if trial.wrongs
    }
    assert kinds == {_DIES: [Kind.TRACEBACK], _HANGS: [Kind.HANG]}


def test_a_campaign_ends_when_its_time_is_over(tmp_path: Path) -> None:
    """After `seconds` no other input is begun."""
    trials = [*run_campaign(_Scripted(tmp_path / "hangs"), [0] * 100_000, 1, tmp_path, seconds=0.1)]
    assert 0 < len(trials) < 100_000


def test_the_table_counts_what_was_wrong() -> None:
    """A row has the inputs by answer, the trials by kind of fault, and the highest memory."""
    tally = Tally("stored")
    lost = Wrong(Kind.LOST, "a place", "words")
    tally.add(
        [
            Trial(0, "first", Answer.SURVIVED, peak_rss_bytes=3 << 20),
            Trial(1, "next", Answer.REFUSED, (lost,)),
        ]
    )
    table = markdown_table([tally]).splitlines()
    assert table[-1] == "| stored | 2 | 1 | 1 | 0 | 0 | 0 | 1 | 0 | 0 | 3 |"
    assert len({line.count("|") for line in table}) == 1
    assert tally.places_in_words(Path("kept")) == [
        "lost results: a place: 1, first next, kept in kept/stored/1"
    ]
