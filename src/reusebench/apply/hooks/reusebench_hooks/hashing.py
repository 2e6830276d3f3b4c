"""Digests of 128 bits without hashlib, whose OpenSSL would add 0.9 MiB to the process."""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # a Python that is not CPython
    from hashlib import blake2b

_BYTES = 16


def new(data: bytes = b"") -> blake2b:
    """Return the hash of the data, to which more can be added."""
    return blake2b(data, digest_size=_BYTES)
