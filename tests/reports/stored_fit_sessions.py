"""Made answers of `reusebench fit --sessions`."""

from __future__ import annotations

from typing import Any

from reusebench.measured.messages import Message
from reusebench.storage.fit_sessions import SessionPoint, SessionsAnswer
from tests.reports.stored import MIB
from tests.reports.stored_sessions import CONVERSATION, SESSIONS

__all__ = ["made_point", "sessions_answer"]


def made_point(kind: str, peak_mib: float, *options: str, **changes: Any) -> SessionPoint:
    """Return a layout with this peak, which is a fiftieth unsure; `changes` are other fields."""
    values = {"count": SESSIONS, "common": CONVERSATION.common}
    fields: dict[str, Any] = {
        "kind": kind,
        "options": options,
        "words": Message(f"fit_sessions_{kind}", values),
        "kv_bytes": 180 * MIB,
        "bytes": (peak_mib - 10) * MIB,
        "peak_bytes": peak_mib * MIB,
        "limited_bytes": 1.02 * peak_mib * MIB,
        "further_bytes": 46.0 * MIB,
        "tokens_per_s": 10.0,
        "alone_tokens_per_s": 40.0,
        "prompts_s": 2.5,
        "has_equal_tokens": True,
    }
    return SessionPoint(**{**fields, **changes})


def sessions_answer(**changes: Any) -> SessionsAnswer:
    """Return an answer that recommends sequences within 400 MiB; `changes` are other fields."""
    today = made_point("contexts", 500)
    best = made_point("sequences", 350, tokens_per_s=20.0)
    small = made_point(
        "unified",
        200,
        "cache_type=q4_0",
        kv_bytes=48 * MIB,
        tokens_per_s=15.0,
        has_equal_tokens=False,
    )
    fields: dict[str, Any] = {
        "recorded_at": "2026-11-30T12:00:00+00:00",
        "runtime": "llama_cpp",
        "runtime_version": "1.2.3",
        "target": "python",
        "model": "chat",
        "sessions": SESSIONS,
        "conversation": CONVERSATION,
        "tokens_per_s": None,
        "limit_bytes": 400 * MIB,
        "fits": True,
        "recommended": None,
        "predicted_kv_bytes": best.kv_bytes,
        "predicted_application_memory_bytes": round(best.bytes),
        "predicted_peak_bytes": round(best.peak_bytes),
        "predicted_peak_plus_minus_bytes": 7 * MIB,
        "predicted_tokens_per_s": best.tokens_per_s,
        "today": today,
        "best": best,
        "candidates": (small, best, today),
        "busy_percent": 0.0,
    }
    return SessionsAnswer(**{**fields, **changes})
