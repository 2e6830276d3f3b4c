"""The table of trials on a terminal, line by line as they are done."""

from __future__ import annotations

from storage.mechanisms import Trial

__all__ = ["TrialLines"]

_KIB, _MIB = 2**10, 2**20
_WIDTHS = (28, 16, 34)
_REASON_CHARACTERS = 200


class TrialLines:
    """Writes each line to standard output as soon as it is known."""

    def begin(self, runtime: str, target: str) -> None:
        """Write the runtime and the columns."""
        _write(f"{runtime}, --target {target}")
        _write_row("mechanism", "here", "memory saved", "remark")

    def tell(self, trial: Trial) -> None:
        """Write what came of one mechanism."""
        _write_row(trial.scenario, trial.verdict.replace("_", " "), _saving(trial), _remark(trial))

    def cannot_try(self, runtime: str, reason: str) -> None:
        """Write why not."""
        _write(f"{runtime} is not tried: {reason}")


def _saving(trial: Trial) -> str:
    if trial.saved_bytes is None or not trial.whole_bytes:
        return ""
    # What is rounded to nothing has no sign.
    saved, percent = round(trial.saved_bytes / _MIB, 1) + 0.0, round(100 * trial.saved_bytes / trial.whole_bytes)
    npu = " (NPU)" if trial.memory == "npu" else ""
    return f"{saved:.1f} of {trial.whole_bytes / _MIB:.1f} MiB, {percent} %{npu}"


def _remark(trial: Trial) -> str:
    """Return the reason on one line; of a combination, what it is of."""
    if trial.combined:
        return " + ".join(trial.combined)
    if trial.copies_avoided_bytes and not trial.reason:
        return f"an inference copies {trial.copies_avoided_bytes / _KIB:.0f} KiB less"
    reason = " ".join(trial.reason.split())
    return reason if len(reason) <= _REASON_CHARACTERS else f"{reason[:_REASON_CHARACTERS]} ..."


def _write_row(*columns: str) -> None:
    *cells, last = columns
    _write("".join(f"{cell:<{width}}" for cell, width in zip(cells, _WIDTHS)) + last)


def _write(line: str) -> None:
    print(line.rstrip(), flush=True)
