"""A model's packed weights in files: XNNPACK's weight caches, which all contexts of the model map.

A cache serves the flags of XNNPACK that it was made with: with others XNNPACK takes from it what is
packed alike, packs the rest once more for each context, and says nothing. So there is one for each
choice. It would also serve any model whose tensors have the same numbers and sizes, with the wrong
weights. So it is beside its model, and nowhere else.
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
from typing import Callable, Dict, List

from reusebench.measured.runtimes.base import Allocation, NotSupported
from reusebench.measured.runtimes.litert.options import TRANSIENT, CpuOptions

__all__ = ["WeightCache", "WeightMemory", "prepare", "same_weights"]

_MODEL_FILE = "model.tflite"
#: By the flags of XNNPACK that they are made with.
_CACHE_FILES = {
    CpuOptions().flags: "weights.xnnpack",
    CpuOptions().flags | TRANSIENT: "weights-transient.xnnpack",
}


class WeightCache:
    """The caches of a prepared model, as contexts find them."""

    def __init__(self, prepared: str) -> None:
        self.prepared = prepared

    def path(self, options: CpuOptions) -> str:
        """Return the file that was made for these options; raise NotSupported where none is."""
        if options.flags not in _CACHE_FILES:
            raise NotSupported("litert_flags_not_prepared")
        return os.path.join(os.path.dirname(self.prepared), _CACHE_FILES[options.flags])

    def setting(self, options: CpuOptions) -> str:
        """Return the line of the options that names the cache."""
        return f"weight_cache_file_path = {json.dumps(self.path(options), ensure_ascii=False)}"

    def key(self, options: CpuOptions) -> object:
        """Return what is equal for contexts with the same packed weights in the same memory."""
        return os.path.realpath(self.path(options))

    def allocations(self) -> List[Allocation]:
        """Return the memory of the application that weights are in."""
        return []


class WeightMemory(WeightCache):
    """The same in memory of the application, a memfd: XNNPACK takes no address, but maps a
    descriptor.
    """

    def __init__(self, prepared: str) -> None:
        super().__init__(prepared)
        #: By the flags of XNNPACK.
        self._descriptors: Dict[int, int] = {}

    def setting(self, options: CpuOptions) -> str:
        """Return the line of the options that gives the memory, which is filled for the first
        context.
        """
        if options.flags not in self._descriptors:
            self._descriptors[options.flags] = _memory_of(self.path(options))
        # XNNPACK closes the one that it is given.
        return f"weight_cache_file_descriptor = {os.dup(self._descriptors[options.flags])}"

    def key(self, options: CpuOptions) -> object:
        """Return this memory, whose descriptor no other one has."""
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

    `run` infers with a prepared model and these options: XNNPACK writes a cache where there is
    none. The caches are the same every time, and the same for a network at several resolutions,
    which get one file with several names.
    """
    shutil.rmtree(folder, ignore_errors=True)  # of a preparation that failed
    os.makedirs(folder)
    path = os.path.join(folder, _MODEL_FILE)
    # The model's own pages, which other processes may have mapped, and its inode stays as it is.
    os.symlink(os.path.realpath(model), path)
    for flags, name in _CACHE_FILES.items():
        run(path, CpuOptions(flags=flags))
        own = os.path.join(folder, name)
        if not os.path.exists(own):
            raise NotSupported("litert_nothing_packed")
        _share(own, name)
        _flush_to_disk(own)
    return path


def same_weights(first: str, second: str) -> bool:
    """Whether two prepared models map the same files of packed weights."""
    folders = os.path.dirname(first), os.path.dirname(second)
    return all(
        os.path.samefile(*(os.path.join(folder, name) for folder in folders))
        for name in _CACHE_FILES.values()
    )


def _share(own: str, name: str) -> None:
    """Make the cache another name of an equal one that was made before, of a model in a folder
    beside its own.
    """
    folder = os.path.dirname(own)
    for beside in sorted(os.listdir(os.path.dirname(folder))):
        other = os.path.join(os.path.dirname(folder), beside, name)
        if other != own and os.path.exists(other) and filecmp.cmp(own, other, shallow=False):
            os.unlink(own)
            os.link(other, own)
            return


def _flush_to_disk(path: str) -> None:
    """Have the file on disk before anything is measured: writing it back later would show in system
    memory.
    """
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def _memory_of(path: str) -> int:
    """Return the descriptor of new memory with the content of the file."""
    descriptor = os.memfd_create("weights")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        while os.lseek(descriptor, 0, os.SEEK_CUR) < size:
            os.sendfile(descriptor, file.fileno(), None, size)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
