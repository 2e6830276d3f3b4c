"""Whether a program gives the same when it is applied: outputs of models, and standard output."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from reusebench.apply.comparison.runs import Run, Side

__all__ = [
    "DIFFERENT",
    "EQUAL",
    "NOT_COMPUTED",
    "UNKNOWN",
    "VARIES",
    "Finding",
    "compare_models",
    "compare_text",
    "digests_of",
]

EQUAL = "equal"
DIFFERENT = "different"
#: What is compared varies by itself, or there is nothing to compare.
UNKNOWN = "unknown"
#: Some of it varies by itself, and all else is equal.
VARIES = "varies"
#: The virtual board computes nothing.
NOT_COMPUTED = "not computed"

_BITS = 128
#: The log of Rockchip's library: a line for each context that it loads itself. Its errors count,
#: without their time.
_LOGGED = re.compile(rb"[DIVW] RKNN: \[")
_ERROR_TIME = re.compile(rb"(?<=^E RKNN: )\[[^]]*\]")
_NUMBER = re.compile(rb"\d+(\.\d+)?")
#: Characters of a line that are shown.
_LONGEST_LINE = 80


@dataclass(frozen=True)
class Finding:
    """The result of a comparison of outputs, and the words for it."""

    result: str
    words: str


@dataclass(frozen=True)
class _Outputs:
    """All outputs of a model."""

    runs: int
    sum: int


def digests_of(run: Run) -> dict[str, _Outputs]:
    """Return the outputs of each model, over all processes of a run."""
    outputs: dict[str, _Outputs] = {}
    for report in run.reports:
        for model, digest in report.digests.items():
            before = outputs.get(model, _Outputs(0, 0))
            total = (before.sum + int(digest.sum, 16)) % (1 << _BITS)
            outputs[model] = _Outputs(before.runs + digest.runs, total)
    return outputs


def compare_models(as_is: Side, applied: Side, computes: bool) -> Finding:
    """Compare the outputs of all inferences by their digests."""
    if not (as_is.checked and applied.checked):
        return Finding(UNKNOWN, "outputs of models were not compared")
    before = [digests_of(run) for run in as_is.checked]
    after = digests_of(applied.checked[0])
    if not before[0] and not after:
        return Finding(UNKNOWN, _unseen_words(applied.checked[0]))
    if not computes:
        before = [_without_values(outputs) for outputs in before]
        after = _without_values(after)
    if before[0] == after:
        return Finding(EQUAL if computes else NOT_COMPUTED, _equal_words(after, computes))
    if any(other != before[0] for other in before[1:]):
        return Finding(UNKNOWN, _varying_words(before, after))
    return Finding(DIFFERENT, f"outputs differ: {'; '.join(_differences(before[0], after))}")


def _unseen_words(run: Run) -> str:
    if run.recording.is_cut and not run.reports:
        return (
            "outputs of models are not known: SIGTERM ended the program, which must end by itself"
            " then (exit) to report them"
        )
    return "no outputs of models were seen"


def _without_values(outputs: Mapping[str, _Outputs]) -> dict[str, _Outputs]:
    return {model: _Outputs(each.runs, 0) for model, each in outputs.items()}


def _equal_words(outputs: Mapping[str, _Outputs], computes: bool) -> str:
    runs = sum(each.runs for each in outputs.values())
    models = f"{len(outputs)} model{'s' if len(outputs) != 1 else ''}"
    if computes:
        return f"outputs bit-equal ({runs} runs of {models})"
    return (
        f"{runs} runs of {models} on each side; the virtual board computes nothing, so that outputs"
        " are to be compared on a board"
    )


def _varying_words(before: Sequence[Mapping[str, _Outputs]], after: Mapping[str, _Outputs]) -> str:
    counts = [sum(each.runs for each in outputs.values()) for outputs in (*before, after)]
    if len(set(counts)) > 1:
        *as_is, applied = counts
        return (
            "outputs are not compared: the number of runs follows the program's timing"
            f" ({' and '.join(map(str, as_is))} as it is, {applied} applied)"
        )
    return "outputs are not compared: as it is, the program gives others each time"


def _differences(before: Mapping[str, _Outputs], after: Mapping[str, _Outputs]) -> Iterator[str]:
    for model in dict.fromkeys((*before, *after)):
        one = before.get(model, _Outputs(0, 0))
        other = after.get(model, _Outputs(0, 0))
        if one.runs != other.runs:
            yield f"{model}: {one.runs} runs as it is, {other.runs} applied"
        elif one.sum != other.sum:
            yield f"{model}: other values in {one.runs} runs"


def compare_text(as_is: Side, applied: Side, are_models_equal: bool) -> Finding:
    """Compare standard output by bytes; lines that vary by themselves are left out.

    So is the log of Rockchip's library. If the outputs of models are equal, other numbers in a line
    do not tell of a mistake.
    """
    before = [_printed(run) for run in as_is.all_runs]
    after = [_printed(run) for run in applied.all_runs]
    if not (before and after):
        return Finding(UNKNOWN, "standard output was not compared")
    lengths = {len(lines) for lines in before}
    if len(lengths) > 1:
        return Finding(
            UNKNOWN, "standard output has another number of lines each time, also as it is"
        )
    varying = {number for number, lines in enumerate(zip(*before)) if len(set(lines)) > 1}
    for lines in after:
        different = _different_lines(before[0], lines, varying)
        if different:
            return _difference(different, are_models_equal)
    if varying:
        rest = lengths.pop() - len(varying)
        words = f"standard output varies by itself in {_counted(len(varying))}"
        if rest:
            words += f", and is equal in the {'others' if rest > 1 else 'other one'}"
        return Finding(VARIES, words)
    return Finding(EQUAL, "standard output equal")


def _printed(run: Run) -> list[bytes]:
    """Return the lines of the program itself, and errors of Rockchip's library."""
    lines = []
    for line in run.output.splitlines():
        if not _LOGGED.match(line):
            lines.append(_ERROR_TIME.sub(b"", line))
    return lines


def _different_lines(
    before: Sequence[bytes], after: Sequence[bytes], varying: set[int]
) -> list[tuple[bytes, bytes]]:
    pairs = []
    for number, (one, other) in enumerate(zip_longest(before, after, fillvalue=b"")):
        if one != other and number not in varying:
            pairs.append((one, other))
    return pairs


def _difference(pairs: Sequence[tuple[bytes, bytes]], are_models_equal: bool) -> Finding:
    one, other = pairs[0]
    words = (
        f"standard output differs in {_counted(len(pairs))}: {_shown(one)!r} as it is,"
        f" {_shown(other)!r} applied"
    )
    in_numbers = all(_NUMBER.sub(b"", one) == _NUMBER.sub(b"", other) for one, other in pairs)
    if in_numbers and are_models_equal:
        return Finding(UNKNOWN, f"{words}. They are other numbers alone")
    return Finding(DIFFERENT, words)


def _counted(lines: int) -> str:
    return f"{lines} line{'s' if lines != 1 else ''}"


def _shown(line: bytes) -> str:
    text = line.decode(errors="replace")
    return text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}..."
