"""The results that a fleet's board lacks: configurations that other boards of the run have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from reusebench.harness.measuring.result_building import Provenance, build_result
from reusebench.measured.messages import Message
from reusebench.storage.result import Result
from reusebench.storage.run_file import encoded
from reusebench.targets.outcome import Failure

__all__ = ["BOARD_PARAMETER", "Entry", "Lacking", "missing_entries", "text_of"]

#: An entry of pytest-benchmark by key, each value as JSON.
Entry = dict[str, msgspec.Raw]
#: Parameter of tests: the name of the board.
BOARD_PARAMETER = "reusebench_board"
_NAMES = ("name", "fullname")


class Lacking(NamedTuple):
    """A board that lacks results."""

    #: Its name in the names of tests.
    label: str
    target: str
    #: Its name in results.
    board: str
    reason: str


def missing_entries(by_label: dict[str, list[Entry]], lacking: Lacking) -> Iterator[Entry]:
    """Yield a result with the reason for each test that another board has and this one lacks."""
    own = by_label.get(lacking.label, ())
    known = {text_of(entry, "fullname") for entry in own}
    for label, entries in by_label.items():
        for like in entries:
            entry = _of_board(like, label, lacking)
            name = text_of(entry, "fullname")
            if name not in known:
                known.add(name)
                yield entry


def text_of(entry: Entry, key: str) -> str:
    """Return a text of an entry."""
    return msgspec.json.decode(entry[key], type=str)


def _of_board(like: Entry, label: str, lacking: Lacking) -> Entry:
    """Return the entry of the same test of another board, without figures."""
    params = msgspec.json.decode(like["params"], type=dict[str, Any])
    params[BOARD_PARAMETER] = lacking.label
    entry = {"group": like["group"], "params": msgspec.Raw(encoded(params))}
    for key in _NAMES:
        # The board is the first parameter.
        name = text_of(like, key).replace(f"[{label}", f"[{lacking.label}", 1)
        entry[key] = msgspec.Raw(encoded(name))
    result = msgspec.json.decode(like["extra_info"], type=Result)
    entry["extra_info"] = msgspec.Raw(encoded(_missing(result, lacking)))
    return entry


def _missing(like: Result, lacking: Lacking) -> Result:
    provenance = Provenance(
        plan=like.plan,
        target=lacking.target,
        streams=like.streams,
        contexts=like.contexts,
        model_files=like.model_files,
        run=like.run,
        runtime_version=None,
        python_version=None,
        board=lacking.board,
    )
    failure = Failure("not_measured", "prepare", None, Message("text", {"text": lacking.reason}))
    return build_result(provenance, [], failure)
