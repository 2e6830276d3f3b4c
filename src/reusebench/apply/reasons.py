"""Why something was left alone: the codes of library and hooks, and sentences for the user."""

from __future__ import annotations

__all__ = ["REASONS", "sentence_for"]

#: Key: the code in the report line; value: what it is, and what to do if anything.
REASONS: dict[str, str] = {
    "off": "REUSEBENCH_APPLY_OFF is set; unset it to share memory",
}


def sentence_for(code: str) -> str:
    """Return the sentence for a code; for that of another version, its words."""
    return REASONS.get(code, code.replace("_", " "))
