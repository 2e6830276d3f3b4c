"""The answer of `reusebench fit` as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from tabulate import tabulate

from reusebench.measured.messages import words
from reusebench.storage.fit_answer import FitAnswer, FitGroup, FitPoint
from reusebench.storage.group_charge import charge_words
from reusebench.storage.result import BUSY_PERCENT

__all__ = ["answer_lines", "mib_text"]

_MIB = 2**20
#: Most layouts of the frontier that are listed.
_MOST_ALTERNATIVES = 8
#: The figure of the process that has a ±.
_WHOLE_PROCESS = "application memory"
#: Figures of the process: title, and name in the answer.
_PROCESS_FIGURES = {
    _WHOLE_PROCESS: "application_memory",
    "over the import": "application_memory_over_baseline",
    "over the import, trimmed": "application_memory_trimmed_over_baseline",
}


def answer_lines(answer: FitAnswer, target: str) -> Iterator[str]:
    """Yield the lines of the answer; `target` is the target's name."""
    memory = "NPU memory" if answer.limit_of == "npu_memory" else "application memory"
    yield f"Without reuse   {_taking(answer.today)} {_size(answer.today)} of {memory}"
    if answer.limit_bytes is not None:
        source = f", left by {answer.limit_source}" if answer.limit_source else ""
        yield f"Limit           {mib_text(answer.limit_bytes)}{source}"
    best = answer.best
    if best is None:
        yield from _too_slow(answer)
        return
    yield from _recommendation(answer, best)
    yield from _frames_lines(answer, best, target)
    if answer.least_bytes is not None:
        gap = max(0.0, best.bytes - answer.least_bytes)
        bound = mib_text(answer.least_bytes)
        yield f"Lower bound     {bound}; the layout takes {mib_text(gap)} more"
    yield from _patch_lines(answer, best)
    charge = charge_words([answer.charge])
    if charge:
        yield f"Container       {charge}"
    applied = answer.applied
    if applied is not None:
        memory = f"{_taking(applied)} {_size(applied)}"
        yield f"Applied         {memory} in a program that nobody changes"
        yield from _layout(applied, answer)
    yield from _components(answer)
    yield from _alternatives(answer)


def _patch_lines(answer: FitAnswer, best: FitPoint) -> Iterator[str]:
    """Yield what a patch to the driver would save."""
    if not answer.patches:
        return
    yield (
        f"With a patch    no layout that exists: if {answer.patches[0].driver} shared weights and"
        f" biases among {_contexts(best)}"
    )
    for patch in answer.patches:
        files = "one open file: one infers at a time"
        if patch.open_files > 1:
            files = f"{patch.open_files} open files: up to {patch.open_files} at once"
        size = mib_text(patch.npu_memory_bytes)
        saved = mib_text(best.bytes - patch.npu_memory_bytes)
        yield f"                {size} with {files}, {saved} less"


def _too_slow(answer: FitAnswer) -> Iterator[str]:
    """Yield the lines for an answer without a layout that is fast enough."""
    most = max(answer.frontier, key=lambda point: point.frames_per_s or 0)
    yield (
        f"No layout has {answer.fps:,.10g} frames per second of each stream; the most is"
        f" {_frames(most)}:"
    )
    yield from _layout(most, answer)


def _recommendation(answer: FitAnswer, best: FitPoint) -> Iterator[str]:
    """Yield the recommended layout, or the smallest one that is fast enough and the largest that
    fits.
    """
    head = "Recommended" if answer.fits else "Smallest"
    yield f"{head:16}{_taking(best)} {_size(best)}{_margin(answer, best)}"
    yield from _layout(best, answer)
    if best.limited_bytes > best.bytes and answer.predicted_npu_peak_bytes is not None:
        most = mib_text(best.limited_bytes)
        yield f"                {most} at most while contexts are made, which the limit must allow"
    limit_bytes = answer.limit_bytes or 0
    within = [point for point in answer.frontier if point.limited_bytes <= limit_bytes]
    if within and best.limited_bytes > limit_bytes:
        yield f"What fits       {_taking(within[-1])} {_size(within[-1])}"
        yield from _layout(within[-1], answer)


def _frames_lines(answer: FitAnswer, best: FitPoint, target: str) -> Iterator[str]:
    if best.frames_per_s is None:
        if answer.fps is not None:
            yield f"Frames          {target} does not compute: --fps was not considered"
        return
    yield f"Frames          {_frames(best)} of all streams, without reuse {_frames(answer.today)}"
    if answer.busy_percent > BUSY_PERCENT:
        unheeded = "" if answer.fps is None else ", and --fps was not considered"
        yield (
            f"                other work took {answer.busy_percent:.0f} % of this machine: do not"
            f" rely on the frames; no layout was refused for them{unheeded}"
        )


def _contexts(point: FitPoint) -> str:
    return "1 context" if point.contexts == 1 else f"{point.contexts} contexts"


def _taking(point: FitPoint) -> str:
    return f"{_contexts(point)} {'takes' if point.contexts == 1 else 'take'}"


def _margin(answer: FitAnswer, point: FitPoint) -> str:
    if answer.limit_bytes is None:
        return ""
    margin = answer.limit_bytes - point.limited_bytes
    measured_bytes = answer.measured_application_memory_bytes
    if answer.limit_of == "npu_memory":
        measured_bytes = answer.measured_npu_peak_bytes
    if margin >= 0 and not answer.fits and measured_bytes is not None:
        return f": does not fit, it took {mib_text(measured_bytes)} when it was measured"
    if margin >= 0:
        return f": fits, {mib_text(margin)} left"
    return f": does not fit, {mib_text(-margin)} too much"


def _layout(point: FitPoint, answer: FitAnswer) -> Iterator[str]:
    for group in point.layout:
        yield f"                {_group(group, answer)}"


def _group(group: FitGroup, answer: FitAnswer) -> str:
    model = f"{group.model}: " if len(answer.models) > 1 else ""
    return model + ", ".join(map(words, group.words))


def _components(answer: FitAnswer) -> Iterator[str]:
    """Yield the table of predicted figures, with measured ones if there are any."""
    shown = _memory_rows(answer)
    if answer.predicted_frames_per_s is not None:
        frames = _compared(answer.predicted_frames_per_s, answer.measured_frames_per_s, 1)
        shown.append(("frames per second", *frames))
    heads = ["MiB", "predicted", "measured", "error"]
    columns = 2 if all(row[2] == "" for row in shown) else 4
    yield ""
    yield tabulate(
        [row[:columns] for row in shown],
        heads[:columns],
        disable_numparse=True,
        colalign=("left", *["right"] * (columns - 1)),
    )


def _memory_rows(answer: FitAnswer) -> list[tuple[str, str, str, str]]:
    """Return the rows of memory that have a prediction."""
    rows: list[tuple[str, float | None, float | None]] = []
    measured = answer.measured_npu_components_bytes or {}
    for component, size in (answer.predicted_npu_components_bytes or {}).items():
        rows.append((component.replace("_", " "), size, measured.get(component)))
    rows.append(("NPU memory", answer.predicted_npu_memory_bytes, answer.measured_npu_memory_bytes))
    rows.append(("its peak", answer.predicted_npu_peak_bytes, answer.measured_npu_peak_bytes))
    for title, name in _PROCESS_FIGURES.items():
        predicted_bytes = getattr(answer, f"predicted_{name}_bytes")
        rows.append((title, predicted_bytes, getattr(answer, f"measured_{name}_bytes")))
    shown = []
    for title, predicted, actual in rows:
        if predicted is not None:
            plus_minus = None
            if title == _WHOLE_PROCESS:
                plus_minus = answer.predicted_application_memory_plus_minus_bytes
            shown.append((title, *_compared(predicted, actual, _MIB, plus_minus)))
    return shown


def _compared(
    predicted: float, measured: float | None, unit: int, plus_minus: float | None = None
) -> tuple[str, str, str]:
    shown = f"{predicted / unit:.2f}"
    if plus_minus is not None:
        shown += f" ±{plus_minus / unit:.2f}"
    if measured is None:
        return shown, "", ""
    error = f"{100 * (predicted - measured) / measured:+.2f} %" if measured else ""
    return shown, f"{measured / unit:.2f}", error


def _alternatives(answer: FitAnswer) -> Iterator[str]:
    """Yield the layouts that no other is better than, in memory and frames."""
    yield "\nLayouts that no other one is better than:"
    step = -(-len(answer.frontier) // _MOST_ALTERNATIVES)
    # The last one, with the most frames, is always shown.
    for point in answer.frontier[::-1][::step][::-1]:
        if point.frames_per_s is not None:
            speed = f"{_frames(point)} frames per second"
        else:
            speed = f"up to {point.lanes} at once" if point.lanes > 1 else "one at a time"
        yield f"{_size(point):>16}  {_contexts(point)}, {speed}"
        yield from _layout(point, answer)


def _size(point: FitPoint) -> str:
    spread = f" ±{point.plus_minus_bytes / _MIB:.1f}" if point.plus_minus_bytes else ""
    return f"{point.bytes / _MIB:.2f}{spread} MiB"


def _frames(point: FitPoint) -> str:
    assert point.frames_per_s is not None
    return f"{point.frames_per_s:.1f} ±{point.frames_per_s_plus_minus or 0:.1f}"


def mib_text(size: float) -> str:
    """Return a size in bytes as MiB with two digits."""
    return f"{size / _MIB:.2f} MiB"
