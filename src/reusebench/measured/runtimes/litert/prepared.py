"""Packed weights of a model in files: XNNPACK's weight caches, which all contexts of the model map.

A cache is good for the flags of XNNPACK that it was made with. With others, XNNPACK takes what is
packed alike from it, packs the rest once more for each context, and says nothing. So there is a
cache for each choice. A cache would also be taken for any model whose tensors have the same numbers
and sizes, with the wrong weights. So it is beside its model, and nowhere else.
"""

from __future__ import annotations

import json
import os
import shutil
from typing import Callable, Dict, List

from reusebench.measured.runtimes.base import Allocation, NotSupported
from reusebench.measured.runtimes.litert.options import TRANSIENT, CpuOptions
from reusebench.measured.runtimes.prepared_files import flush_to_disk, share_equal_file

__all__ = ["WeightCache", "WeightMemory", "prepare", "same_weights"]

_MODEL_FILE = "model.tflite"
#: Names of the caches, by the flags of XNNPACK that they are made with.
_CACHE_FILES = {
    CpuOptions().flags: "weights.xnnpack",
    CpuOptions().flags | TRANSIENT: "weights-transient.xnnpack",
}


class WeightCache:
    """The caches of a prepared model, as contexts find them."""

    def __init__(self, prepared: str) -> None:
        self.prepared = prepared

    def path(self, options: CpuOptions) -> str:
        """Return the cache for these options; raise NotSupported if none was made."""
        if options.flags not in _CACHE_FILES:
            raise NotSupported("litert_flags_not_prepared")
        return os.path.join(os.path.dirname(self.prepared), _CACHE_FILES[options.flags])

    def setting(self, options: CpuOptions) -> str:
        """Return the line of the options that names the cache."""
        return f"weight_cache_file_path = {json.dumps(self.path(options), ensure_ascii=False)}"

    def key(self, options: CpuOptions) -> object:
        """Return a key that contexts with the same packed weights in the same memory have in
        common.
        """
        return os.path.realpath(self.path(options))

    def allocations(self) -> List[Allocation]:
        """Return the application's memory for weights."""
        return []


class WeightMemory(WeightCache):
    """The caches in the application's memory, a memfd, because XNNPACK maps descriptors only."""

    def __init__(self, prepared: str) -> None:
        super().__init__(prepared)
        #: Descriptors, by the flags of XNNPACK.
        self._descriptors: Dict[int, int] = {}

    def setting(self, options: CpuOptions) -> str:
        """Return the line of the options that gives the memory, filled for the first context."""
        if options.flags not in self._descriptors:
            self._descriptors[options.flags] = _memory_of(self.path(options))
        # XNNPACK closes the descriptor that it is given.
        return f"weight_cache_file_descriptor = {os.dup(self._descriptors[options.flags])}"

    def key(self, options: CpuOptions) -> object:
        """Return this object: no other one has its memory."""
        return self

    def allocations(self) -> List[Allocation]:
        """Return the memory."""
        sizes = [os.fstat(descriptor).st_size for descriptor in self._descriptors.values()]
        return [Allocation("weights", size, 0) for size in sizes]

    def __del__(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)


def prepare(model: str, folder: str, run: Callable[[str, CpuOptions], None]) -> str:
    """Return the model's file in the folder, with its weight caches beside it.

    `run` infers with a prepared model and options: XNNPACK writes a cache if there is none. The
    caches are the same every time. They are the same for a network at several resolutions, so these
    get one file with several names.
    """
    shutil.rmtree(folder, ignore_errors=True)  # a failed preparation may have left it
    os.makedirs(folder)
    path = os.path.join(folder, _MODEL_FILE)
    # A link keeps the model's inode and pages, which other processes may have mapped.
    os.symlink(os.path.realpath(model), path)
    for flags, name in _CACHE_FILES.items():
        run(path, CpuOptions(flags=flags))
        own = os.path.join(folder, name)
        if not os.path.exists(own):
            raise NotSupported("litert_nothing_packed")
        share_equal_file(folder, name)
    flush_to_disk(folder)
    return path


def same_weights(first: str, second: str) -> bool:
    """Whether two prepared models map the same files of packed weights."""
    for name in _CACHE_FILES.values():
        cache = os.path.join(os.path.dirname(first), name)
        if not os.path.samefile(cache, os.path.join(os.path.dirname(second), name)):
            return False
    return True


def _memory_of(path: str) -> int:
    """Return the descriptor of new memory with the content of the file."""
    descriptor = os.memfd_create("weights")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        while os.lseek(descriptor, 0, os.SEEK_CUR) < size:
            os.sendfile(descriptor, file.fileno(), None, size)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
