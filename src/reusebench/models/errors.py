"""The errors of this package."""

from __future__ import annotations

__all__ = ["ConversionError", "ModelError"]


class ModelError(Exception):
    """A model file is not available; the message has the reason, valid values and the next step."""


class ConversionError(ModelError):
    """A converter made no file; `words` has the failed step and the library's last message."""

    def __init__(self, library: str, file_name: str, words: str) -> None:
        super().__init__(f"{library} could not make {file_name}: {words}")
        self.words = words
