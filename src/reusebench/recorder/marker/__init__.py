"""Helpers with which a program marks its phases, in C and in Python.

`reusebench record --header` prints them, for a copy in the program's sources.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["HEADERS"]

_FOLDER = Path(__file__).parent
#: Key: language; value: the helper's file.
HEADERS = {"c": _FOLDER / "reusebench_phase.h", "python": _FOLDER / "reusebench_phase.py"}
