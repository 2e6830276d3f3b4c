"""MegEngine Lite, of the wheel MegEngine, which there is for Python 3.8 to 3.10."""

from __future__ import annotations

from runtimes.base import Runtime

__all__ = ["open_runtime"]


def open_runtime() -> Runtime:
    """Import MegEngine Lite and return its adapter."""
    from runtimes.megengine_lite.adapter import MegEngineLite

    return MegEngineLite()
