"""The error of this package."""

from __future__ import annotations

__all__ = ["SamplerError"]


class SamplerError(Exception):
    """This machine cannot be measured as it is; the sentence says what it lacks and what to do."""
