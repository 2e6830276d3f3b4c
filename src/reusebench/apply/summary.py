"""What was shared, what it saved, and what was left alone and why: lines for the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from reusebench.apply.executable import Executable
from reusebench.apply.outcome import Outcome
from reusebench.apply.reasons import sentence_for
from reusebench.apply.report import ProcessReport, totals
from reusebench.apply.settings import PREFIX

__all__ = ["remarks", "report_lines"]

#: Key: kind of what contexts share, in a report; value: words for it.
_KINDS = {
    "weights": "weights",
    "internal": "internal memory",
    "context": "one instance per model",
    "arena": "one arena",
    "prepared": "prepared weights",
    "weight_cache": "packed weights",
    "delegate": "one delegate",
}
_TITLES = {
    "rknn": "RKNN",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "litert": "LiteRT",
}
#: Processes of a runtime that are told one by one.
_MOST_PROCESSES = 4
_MIB = 2**20
_NOTHING = (
    "nothing was shared: no process has reported the use of librknnrt or librknnmrt, or in Python"
    " of ONNX Runtime, OpenVINO or LiteRT"
)
_NOT_REACHED = (
    "reached are programs that load Rockchip's library, and Python from 3.8 on without -E, -I or"
    " -S; not other languages' use of ONNX Runtime, OpenVINO or LiteRT, frozen Python programs,"
    " containers and services"
)


def report_lines(reports: Sequence[ProcessReport]) -> Iterator[str]:
    """Yield the lines of each process and runtime; many processes of a runtime are told as one."""
    for runtime in dict.fromkeys(report.runtime for report in reports):
        of_runtime = [report for report in reports if report.runtime == runtime]
        if len(of_runtime) > _MOST_PROCESSES:
            yield from _lines(of_runtime, f"{len(of_runtime)} processes")
            continue
        for report in of_runtime:
            yield from _lines([report], f"process {report.process}")


def _lines(reports: Sequence[ProcessReport], processes: str) -> Iterator[str]:
    total = totals(reports)
    runtime, version = reports[0].runtime, reports[0].version
    title = _TITLES.get(runtime, runtime) + (f" {version}" if version else "")
    contexts = _counted(total.contexts, "context")
    models = _counted(max(report.models for report in reports), "model")
    most_at_once = max(report.most_at_once for report in reports)

    at_once = f", at most {most_at_once} ran at once" if most_at_once else ""
    yield f"{title}, {processes}: {contexts} of {models}{at_once}"
    yield f"  shared: {_shared(total.shared)}"
    if any(total.saved_bytes.values()):
        yield f"  saved: {_saved(total.saved_bytes)}"
    for code, count in total.left_alone.items():
        yield f"  left alone, {count}: {sentence_for(code)}"
    for call, count in total.failures.items():
        yield f"  {call} failed, {count}: the program got its contexts as without apply"


def _shared(shared: Mapping[str, int]) -> str:
    parts = [
        f"{_KINDS.get(kind, kind)} by {_counted(count, 'context')}"
        for kind, count in shared.items()
        if count
    ]
    return ", ".join(parts) or "nothing"


def _saved(saved_bytes: Mapping[str, int]) -> str:
    parts = [f"{_KINDS.get(kind, kind)} {size / _MIB:.2f}" for kind, size in saved_bytes.items()]
    return f"{sum(saved_bytes.values()) / _MIB:.2f} MiB of NPU memory ({', '.join(parts)})"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def remarks(
    reports: Sequence[ProcessReport],
    executable: Executable,
    outcome: Outcome,
    environment: Mapping[str, str],
) -> list[str]:
    """Return sentences on why there is no report, or one may be missing."""
    name = Path(executable.words[0]).name
    if outcome.signal_name:
        return [
            f"{name} was ended by {outcome.signal_name}: a process that is killed reports nothing"
        ]
    if reports:
        return []
    if environment.get(f"{PREFIX}OFF"):
        return [sentence_for("off")]
    return [_NOTHING, *(list(_hindrances(executable, name)) or [_NOT_REACHED])]


def _hindrances(executable: Executable, name: str) -> Iterator[str]:
    """Yield why a program cannot be reached; programs that it starts may be."""
    option = executable.python_option()
    if option:
        yield (
            f"{name} was started with -{option}, with which Python takes no hooks from PYTHONPATH."
            " Leave it out to share memory in it"
        )
    if executable.has_rights:
        yield (
            f"{name} is setuid, setgid or has capabilities: the loader takes no library from"
            " LD_PRELOAD then. Start what it starts, as the user who has the rights"
        )
    elif executable.is_static:
        yield (
            f"{name} is static: there is no loader that takes a library for RKNN. Link it"
            " dynamically to share memory in it"
        )
    elif executable.c_library not in ("glibc", "uclibc"):
        yield (
            f"{name} has another C library than glibc or uClibc, for which Rockchip's libraries and"
            " ours are not made"
        )
