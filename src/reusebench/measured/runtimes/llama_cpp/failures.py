"""The reason for which llama.cpp refuses a file or a context: by its words and the file's head."""

from __future__ import annotations

import os
import re
import struct
from typing import Optional

from reusebench.measured.runtimes.base import AdapterError, OutOfMemory
from reusebench.measured.runtimes.llama_cpp.library import Library

__all__ = ["adapter_failure", "context_failure", "model_failure"]

#: Phrases of the library for a lack of memory.
_NO_MEMORY = (
    "insufficient memory",
    "failed to allocate",
    "unable to allocate",
    "annot allocate memory",
    "bad_alloc",
)
#: Phrases for a file that ends before its header or its tensors do.
_CUT_SHORT = (
    "failed to read key-value",
    "failed to read tensor",
    "failed to read header",
    "not within the file bounds",
    "failed to seek",
)
_MAGIC = b"GGUF"
#: Versions that llama.cpp reads.
_VERSIONS = (2, 3)
#: Head of every file: the magic, its version, the number of tensors.
_HEAD = struct.Struct("<4sIQ")
#: More is a version whose bytes are in the other order.
_MOST_VERSIONS = 0xFFFF
_ARCHITECTURE = re.compile(r"unknown model architecture: '(.*?)'")
_KEY = re.compile(r"key not found in model: (\S+?)(;|$)")
_PART = re.compile(r"^(.*)-\d{5}-of-(\d{5})\.gguf$")
_MISSING_PART = re.compile(r"failed to load GGUF split from (.*?)(;|$)")


def model_failure(library: Library, path: str) -> AdapterError:
    """Return the error for a model file that the library does not load."""
    words = library.words()
    if any(phrase in words for phrase in _NO_MEMORY):
        return OutOfMemory("llama_cpp_no_memory_for_model", model=path, error=library.reason())
    return _file_failure(path) or _parts_failure(path, words) or _failure_by(library, path, words)


def adapter_failure(library: Library, path: str, model: str) -> AdapterError:
    """Return the error for an adapter that the library does not load over a model."""
    words = library.words()
    if any(phrase in words for phrase in _NO_MEMORY):
        return OutOfMemory("llama_cpp_no_memory_for_model", model=path, error=library.reason())
    if "expect general.type to be 'adapter'" in words:
        return AdapterError("llama_cpp_no_adapter", adapter=path)
    if "maybe wrong base model" in words:
        return AdapterError("llama_cpp_adapter_of_other", adapter=path, model=model)
    return _file_failure(path) or _failure_by(library, path, words)


def context_failure(library: Library, path: str) -> AdapterError:
    """Return the error for a context that the library does not make of a model."""
    words = library.words()
    kind = OutOfMemory if any(phrase in words for phrase in _NO_MEMORY) else AdapterError
    return kind("llama_cpp_no_context", model=path, error=library.reason())


def _file_failure(path: str) -> Optional[AdapterError]:
    """Return the error that the head of a file shows; None if it is as it should be."""
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD.size)
    except OSError as error:
        return AdapterError("llama_cpp_unreadable", path=path, error=error.strerror or str(error))
    if not head.startswith(_MAGIC):
        return AdapterError("llama_cpp_no_gguf", path=path)
    if len(head) < _HEAD.size:
        return AdapterError("llama_cpp_cut_short", path=path)
    _, version, tensors = _HEAD.unpack(head)
    if version not in _VERSIONS:
        return _version_failure(path, version)
    return None if tensors else AdapterError("llama_cpp_vocabulary_alone", path=path)


def _version_failure(path: str, version: int) -> AdapterError:
    if version > _MOST_VERSIONS:
        return AdapterError("llama_cpp_big_endian", path=path)
    valid = ", ".join(map(str, _VERSIONS))
    return AdapterError("llama_cpp_other_version", path=path, version=version, valid=valid)


def _parts_failure(path: str, words: str) -> Optional[AdapterError]:
    """Return the error about the parts of a file; None if it has no parts, or all of them."""
    part = _PART.match(path)
    if part is None:
        return None
    first = f"{part.group(1)}-00001-of-{part.group(2)}.gguf"
    if "must be loaded with the first split" in words:
        return AdapterError("llama_cpp_not_first_part", path=path, first=os.path.basename(first))
    missing = _MISSING_PART.search(words)
    if missing:
        name = os.path.basename(missing.group(1))
        return AdapterError(
            "llama_cpp_part_missing", path=path, part=name, parts=int(part.group(2))
        )
    return None


def _failure_by(library: Library, path: str, words: str) -> AdapterError:
    """Return the error that the library's words tell of."""
    if any(phrase in words for phrase in _CUT_SHORT):
        return AdapterError("llama_cpp_cut_short", path=path)
    architecture = _ARCHITECTURE.search(words)
    if architecture:
        return AdapterError(
            "llama_cpp_architecture",
            path=path,
            architecture=architecture.group(1),
            version=library.version,
        )
    key = _KEY.search(words)
    if key:
        return AdapterError("llama_cpp_key_missing", path=path, key=key.group(1))
    return AdapterError("llama_cpp_refused", path=path, error=library.reason())
