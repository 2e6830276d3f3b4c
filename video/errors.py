"""The error of this package (standard library only, Python 3.8)."""

from __future__ import annotations

__all__ = ["VideoError"]


class VideoError(Exception):
    """A video cannot be made or described; the sentence says why, and what to do next."""
