"""What is stored of a recording beside the figures of its phases: its facts, its outcome, its trace."""

from __future__ import annotations

import signal
from dataclasses import asdict
from typing import Any

from recorder.phases import Stretch
from recorder.process_tree import Seen
from recorder.recording import Readings, Recording

__all__ = ["facts_of", "outcome_of", "signal_name", "trace_of"]

#: Processes that a result names; the trace has all.
_MOST_PROCESSES = 20
#: Readings of RSS in a trace: 17 minutes, or of more time those that are the highest of their neighbours.
_MOST_READINGS = 20_000


def outcome_of(recording: Recording, killed_for_memory: bool) -> str:
    """Return what became of the program; that the user ended it is no failure."""
    ending = recording.ending
    was_killed = signal.SIGKILL in (ending.signal_number, ending.shell_code - 128)
    if was_killed and killed_for_memory:
        return "out_of_memory"
    if ending.signal_number:
        return "ok" if ending.signal_number == recording.ended_by else "crashed"
    return "failed" if ending.exit_code and not recording.ended_by else "ok"


def facts_of(recording: Recording) -> dict[str, Any]:
    """Return an entry of `repeats` of storage's schema, without the trace."""
    duration_ns = recording.end_ns - recording.begin_ns
    number = recording.ending.signal_number
    highest_first = sorted(recording.processes, key=lambda seen: seen.peak_rss_bytes, reverse=True)
    return {
        "started_at": recording.started_at,
        "duration_ns": duration_ns,
        "exit_code": recording.ending.exit_code,
        "signal": signal_name(number) if number else None,
        "ended_by_user": recording.ended_by is not None,
        "idle_system_memory_bytes": recording.idle_bytes,
        "idle_noise_bytes": recording.idle.memory_noise_bytes,
        "idle_cpu_percent": recording.idle.cpu_percent,
        "recorder_cpu_percent": round(100 * recording.recorder_cpu_ns / max(duration_ns, 1), 3),
        "rss_readings": len(recording.rss.values),
        "process_count": len(recording.processes),
        "processes": [_process(seen, recording.begin_ns) for seen in highest_first[:_MOST_PROCESSES]],
    }


def trace_of(recording: Recording) -> dict[str, Any]:
    """Return the trace in the form that storage.trace documents; times since the start."""
    begin_ns = recording.begin_ns
    return {
        "timeline": _series(_thinned(recording.rss), begin_ns, "rss_bytes"),
        "pss": _series(recording.pss, begin_ns, "pss_bytes"),
        "system": _series(recording.system, begin_ns, "system_memory_bytes"),
        "npu_held": _series(recording.npu, begin_ns, "npu_memory_bytes"),
        "phases": [_phase(stretch, begin_ns) for stretch in recording.stretches],
        "processes": [_process(seen, begin_ns) for seen in recording.processes],
    }


def signal_name(number: int) -> str:
    """Return the name of a signal; most real-time signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _process(seen: Seen, begin_ns: int) -> dict[str, Any]:
    times = {"first_seen_ns": seen.first_seen_ns - begin_ns, "last_seen_ns": seen.last_seen_ns - begin_ns}
    return {**asdict(seen), **times}


def _phase(stretch: Stretch, begin_ns: int) -> dict[str, Any]:
    return {"name": stretch.name, "begin_ns": stretch.begin_ns - begin_ns, "end_ns": stretch.end_ns - begin_ns}


def _series(readings: Readings, begin_ns: int, name: str) -> dict[str, list[int]]:
    return {"times_ns": [time_ns - begin_ns for time_ns in readings.times_ns], name: list(readings.values)}


def _thinned(readings: Readings) -> Readings:
    """Return at most so many readings: of stretches of equal number the highest of each."""
    values, kept = readings.values, Readings()
    size = -(-len(values) // _MOST_READINGS) or 1
    for start in range(0, len(values), size):
        place = max(range(start, min(start + size, len(values))), key=values.__getitem__)
        kept.add(readings.times_ns[place], values[place])
    return kept
