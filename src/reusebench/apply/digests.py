"""The digests by which library and hooks know the models of a plan."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

__all__ = ["content_digest", "rknn_digest"]

_Words = npt.NDArray[np.uint64]

#: Bytes of a model that are mixed at once.
_PIECE_BYTES = 1 << 22
_WORD_BYTES = 8
#: Steps from place to place in the two sums of native/apply/models.c.
_STEPS = (0x9E3779B97F4A7C15, 0xD1342543DE82EF95)
_SHIFT = np.uint64(33)
_FACTORS = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
_MODULUS = 1 << 64


def content_digest(content: bytes) -> str:
    """Return the digest of a model's file for the hooks of Python runtimes."""
    return hashlib.sha256(content).hexdigest()[:32]


def rknn_digest(content: bytes) -> str:
    """Return the digest of a model's file as `model_of` of native/apply/models.c has it.

    >>> rknn_digest(b"") == f"{0:032x}"
    True
    """
    sums = [0, 0]
    for start in range(0, len(content), _PIECE_BYTES):
        piece = content[start : start + _PIECE_BYTES]
        words = np.frombuffer(piece + bytes(-len(piece) % _WORD_BYTES), dtype="<u8")
        first = start // _WORD_BYTES + 1
        places = np.arange(first, first + len(words), dtype=np.uint64)
        for index, step in enumerate(_STEPS):
            mixed = _mixed(words ^ places * np.uint64(step))
            sums[index] += int(mixed.sum(dtype=np.uint64))
    ends = np.array([(total + len(content)) % _MODULUS for total in sums], dtype=np.uint64)
    return "".join(f"{end:016x}" for end in _mixed(ends).tolist())


def _mixed(words: _Words) -> _Words:
    for factor in _FACTORS:
        words = np.multiply(words ^ words >> _SHIFT, factor)
    mixed: _Words = words ^ words >> _SHIFT
    return mixed
