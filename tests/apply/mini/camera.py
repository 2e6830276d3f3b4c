"""A program for RV1103 and RV1106 that knows nothing of reuse: camera.py MODEL..., a context each.

It prints the sizes that it is told, and ends the first context before the others.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

from reusebench.measured.runtimes.rknn.attributes import Attributes
from reusebench.measured.runtimes.rknn.binding import Binding

_UINT8 = 3
_NHWC = 1


class App:
    """A context with memory for its tensors."""

    def __init__(self, binding: Binding, path: str) -> None:
        self._binding = binding
        self._context = binding.init(bytearray(Path(path).read_bytes()), 0, None)
        attributes = Attributes(binding, self._context, False)
        self._inputs = attributes.inputs(native=True)
        for attribute in self._inputs:
            attribute.type, attribute.fmt = _UINT8, _NHWC
        self._memories = []
        for attribute in [*self._inputs, *attributes.outputs(native=True)]:
            memory = binding.create_mem(self._context, attribute.size_with_stride)
            binding.set_io_mem(self._context, memory, attribute)
            self._memories.append(memory)

    def sizes(self) -> tuple[int, int, int]:
        """Return the sizes of memory that the runtime tells."""
        sizes = self._binding.mem_size(self._context)
        return (
            sizes.total_weight_size,
            sizes.total_internal_size,
            sizes.total_dma_allocated_size,
        )

    def run(self) -> list[str]:
        """Run on a fixed input; return the outputs."""
        inputs = self._memories[: len(self._inputs)]
        for memory in inputs:
            ctypes.memset(memory.contents.virt_addr, 7, memory.contents.size)
        self._binding.run(self._context)
        outputs = self._memories[len(self._inputs) :]
        return [ctypes.string_at(memory.contents.virt_addr, 16).hex() for memory in outputs]

    def end(self) -> None:
        """End the context."""
        for memory in self._memories:
            self._binding.destroy_mem(self._context, memory)
        self._binding.destroy(self._context)


binding = Binding("librknnmrt.so")
apps = [App(binding, path) for path in sys.argv[1:]]
for app in apps:
    print(app.sizes(), app.run())
for number, app in enumerate(apps):
    app.end()
    print(number, [later.run() for later in apps[number + 1 :]])
