"""The errors of this package."""

from __future__ import annotations

__all__ = ["ConversionError", "ModelError"]


class ModelError(Exception):
    """A model file cannot be had; its sentence gives the reason, what would be valid, and what to
    do next.
    """


class ConversionError(ModelError):
    """A converter did not make a file; `words` are the step that failed and the library's own last
    words.
    """

    def __init__(self, library: str, file_name: str, words: str) -> None:
        super().__init__(f"{library} could not make {file_name}: {words}")
        self.words = words
