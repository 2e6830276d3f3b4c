"""The summary of a recording, on standard error: standard output belongs to the program."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tabulate import tabulate

from reusebench.storage.board_storage import board_storage
from reusebench.storage.formatting import doubted, mib, seconds
from reusebench.storage.group_charge import charge_words
from reusebench.storage.measured_figure import DOUBT, Figure
from reusebench.storage.recorded_program import Phase, Program

__all__ = ["print_figures", "print_notice", "print_summary"]

_S = 10**9
_SYSTEM = "system_memory_over_idle_bytes"
_COLUMNS = {
    "application": "application_memory_bytes",
    "highest sum": "application_peak_rss_bytes",
    "largest process": "process_peak_rss_bytes",
    "system over idle": _SYSTEM,
    "NPU": "npu_memory_bytes",
    "highest NPU": "npu_highest_bytes",
    "huge pages": "hugetlb_memory_bytes",
    "files held": "held_memory_bytes",
    "dma-bufs": "dmabuf_memory_bytes",
}
#: Columns that are left out if they are zero: most programs have no such memory.
_RARE = ("hugetlb_memory_bytes", "held_memory_bytes", "dmabuf_memory_bytes")


def print_notice(sentence: str) -> None:
    """Print a sentence of the recorder."""
    print(f"reusebench: {sentence}", file=sys.stderr, flush=True)


def print_summary(program: Program, stored: Path, storage: Path) -> None:
    """Print a line for each phase, notes, and the path of the result."""
    print_figures(program)
    option = "" if storage == board_storage() else f" --storage {storage}"
    print_notice(f"stored in {stored}. The report: reusebench report{option}")


def print_figures(program: Program) -> None:
    """Print a line for each phase, and notes."""
    columns = {head: key for head, key in _COLUMNS.items() if _has_values(program, key)}
    heads = ["phase", "time\ns", *(f"{head}\nMiB" for head in columns)]
    rows = []
    for phase in program.phases:
        duration = _mark_doubt(seconds(Figure.of(phase.durations_ns)), program)
        sizes = [_size(program, phase, key) for key in columns.values()]
        rows.append([phase.name, duration, *sizes])
    alignment = ["left", *["right"] * (len(heads) - 1)]
    table = tabulate(rows, heads, tablefmt="plain", disable_numparse=True, colalign=alignment)
    print(_title(program), table, sep="\n", file=sys.stderr)
    for note in _notes(program):
        print_notice(note)


def _has_values(program: Program, key: str) -> bool:
    if key == _SYSTEM and program.hides_system_memory:
        return False
    for phase in program.phases:
        for value in getattr(phase.memory, key):
            if value or (value is not None and key not in _RARE):
                return True
    return False


def _title(program: Program) -> str:
    last = program.repeats[-1]
    if program.outcome == "out_of_memory" and (last.signal or last.exit_code):
        ending = "killed by the kernel for memory"
    elif program.outcome == "connection_lost":
        ending = "the connection was lost"
    elif last.signal:
        ending = f"ended by {last.signal}"
    elif last.exit_code is None:
        ending = "recorded while it ran"
    else:
        ending = f"exit code {last.exit_code}"
    repeats = f", {len(program.repeats)} repeats" if len(program.repeats) > 1 else ""
    return f"{program.name}: {ending}{repeats}"


def _notes(program: Program) -> Iterator[str]:
    signs = "; ".join(map(str, program.shortage_signs))
    if signs:
        yield (
            f"MEMORY WAS SHORT, do not rely on figures marked {DOUBT}: {signs}. Free memory, and"
            " record again"
        )

    if program.hides_system_memory:
        yield "system memory is left out: other programs moved it by more than this one"

    for remark in program.memory_remarks:
        yield f"{program.name}: {remark}"

    charge = charge_words(repeat.charge for repeat in program.repeats)
    if charge:
        yield str(charge)

    if program.killed:
        yield str(program.killed)

    yield from _notes_on_unread(program)
    yield from _notes_on_marks(program)
    if any(_has_bound(phase) for phase in program.phases):
        yield "≥: the highest that was seen. A spike between two readings may have been higher"

    if program.outcome != "ok":
        outcome = program.outcome.replace("_", " ")
        yield f"outcome {outcome}: its figures are stored, but enter no comparison"


def _notes_on_unread(program: Program) -> Iterator[str]:
    """Yield the processes and phases whose application memory was not read."""
    hidden: set[str] = set()
    for repeat in program.repeats:
        hidden.update(process.name for process in repeat.processes if not process.pss_readable)
    unread = [
        phase.name for phase in program.phases if not any(phase.memory.application_memory_bytes)
    ]
    if hidden:
        names = ", ".join(sorted(hidden))
        if unread:
            yield (
                f"application memory of {', '.join(unread)} cannot be read: {names} protects itself"
                " from this user (set-user-ID, file capabilities or PR_SET_DUMPABLE). Record as"
                " root. Its RSS is in the peaks"
            )
        else:
            yield (
                f"application memory is without {names}: this user may not read its PSS. Its RSS is"
                " in the peaks"
            )
    elif unread:
        yield f"too short for a reading of application memory: {', '.join(unread)}"


def _notes_on_marks(program: Program) -> Iterator[str]:
    """Yield what makes the memory at the end of phases uncertain."""
    passed = [phase for phase in program.phases if phase.memory_bounds]
    if passed:
        ages_ns = [age_ns or 0 for phase in passed for age_ns in phase.reading_ages_ns]
        yield (
            "in brackets: the range of memory at the end, since the program went on at its mark"
            f" and was read up to {max(ages_ns) / _S:.2f} s before. It is exact if the program"
            " reads the answer to its mark (--marker), as `record --header` writes it"
        )
    if any(phase.memory_age_ns for phase in program.phases):
        yield (
            '"s before": memory was last read that long before the end of the phase. It is exact if'
            " the program marks its end (--marker) and reads the answer"
        )


def _size(program: Program, phase: Phase, key: str) -> str:
    """Return a figure of memory. NPU memory is never marked as doubtful: it cannot be evicted."""
    is_npu = key.startswith("npu")
    text = _bound_sign(phase, key) + mib(Figure.of(getattr(phase.memory, key)), is_npu)
    if key == "application_memory_bytes":
        text += _certainty(phase)
    return text if is_npu else _mark_doubt(text, program)


def _certainty(phase: Phase) -> str:
    """Return the range or the age of memory at the end; empty if it is exact."""
    if phase.memory_bounds:
        least, most = phase.memory_bounds
        return f" ({mib(least, spread=False)} ... {mib(most, spread=False)})"
    if phase.memory_age_ns:
        return f" ({phase.memory_age_ns / _S:.2f} s before)"
    return ""


def _mark_doubt(text: str, program: Program) -> str:
    return doubted(text, bool(program.shortage_signs))


def _has_bound(phase: Phase) -> bool:
    return any(_bound_sign(phase, key) for key in _COLUMNS.values())


def _bound_sign(phase: Phase, key: str) -> str:
    """Return the sign before a peak that may not be the highest; empty for an exact figure."""
    values = getattr(phase.memory, key)
    if "peak" not in key or not any(values):
        return ""
    is_exact = all(phase.process_peaks_exact)
    if key.startswith("application"):
        is_exact = is_exact and phase.memory.application_peak_rss_at_most_bytes == values
    return "" if is_exact else "≥ "
