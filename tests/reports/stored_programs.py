"""Stored recordings of programs, made from chosen figures in the form that the recorder writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from storage.files import PROGRAMS

from storage.program import PROGRAM_MEMORY, Recorded, build_program
from storage.trace import write_trace
from tests.reports.stored import MACHINE, MIB

_S = 10**9


def repeat(phases: Mapping[str, float], trace: str = "traces/lost.json.gz", npu: bool = False) -> Recorded:
    """Return a repeat in which each phase takes a second and so many MiB of every memory."""
    facts = {
        "started_at": "2026-01-02T03:04:05+00:00",
        "duration_ns": len(phases) * _S,
        "exit_code": 0,
        "signal": None,
        "ended_by_user": False,
        "idle_system_memory_bytes": 500 * MIB,
        "idle_noise_bytes": MIB,
        "idle_cpu_percent": 1.0,
        "recorder_cpu_percent": 0.5,
        "rss_readings": 20,
        "process_count": 1,
        "processes": [
            {
                "pid": 4321,
                "name": "decoder",
                "peak_rss_bytes": round(max(phases.values()) * MIB),
                "first_seen_ns": 0,
                "last_seen_ns": len(phases) * _S,
                "pss_readable": True,
            }
        ],
        "trace": trace,
    }
    return Recorded(facts, {name: _phase(round(mib * MIB), npu) for name, mib in phases.items()})


def program(
    name: str, repeats: Sequence[Recorded], outcome: str = "ok", last: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return a recorded program; `last` is what is otherwise in its last repeat."""
    identity = {"run": f"run-{name}", "name": name, "command": [f"./{name}"], "attached": False, "sample_hz": 20}
    info = build_program(identity, outcome, repeats)
    info["repeats"][-1].update(last or {})
    return info


def trace(storage: Path, name: str, phases: Sequence[str] = ("load", "steady"), npu: bool = False) -> str:
    """Write a trace in which each phase takes a second and 10 MiB more than the one before; return its path."""
    times = [round(number * _S / 4) for number in range(4 * len(phases) + 1)]
    sizes = [(time_ns // _S + 1) * 10 * MIB for time_ns in times]
    marks = [{"name": each, "begin_ns": place * _S, "end_ns": (place + 1) * _S} for place, each in enumerate(phases)]
    held = {"times_ns": times[::2], "npu_memory_bytes": sizes[::2]} if npu else {"times_ns": [], "npu_memory_bytes": []}
    content = {
        "timeline": {"times_ns": times, "rss_bytes": sizes},
        "pss": {"times_ns": times[::2], "pss_bytes": sizes[::2]},
        "system": {"times_ns": times[::2], "system_memory_bytes": sizes[::2]},
        "npu_held": held,
        "phases": marks,
        "processes": [],
    }
    return write_trace(storage, "recorded", name, content)


def write_programs(
    storage: Path, programs: Sequence[dict[str, Any]], number: int = 1, at: str = "2026-01-02T03:04:05"
) -> Path:
    """Write one run's file, and return its path."""
    data = {
        "machine_info": MACHINE,
        "commit_info": {"id": "0123456789abcdef", "dirty": False},
        "benchmarks": [],
        "datetime": f"{at}+00:00",
        "version": "5.3.1",
        PROGRAMS: list(programs),
    }
    path = storage / "Linux-CPython-3.11-64bit" / f"{number:04}_20260102_030405.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data))
    return path


def _phase(size: int, npu: bool) -> dict[str, Any]:
    memory: dict[str, int | None] = dict.fromkeys(PROGRAM_MEMORY, size)
    if not npu:
        memory["npu_memory_bytes"] = None
    return {"duration_ns": _S, "pss_readings": 3, "memory": memory}
