"""A small, plain client of Rockchip's C API, for the tests of the virtual board.

It shares nothing with the project's own binding, measured/runtimes/rknn, so that either can be
wrong alone.
"""

from __future__ import annotations

import ctypes as c
import os
import struct
import sys
from pathlib import Path

ALLOCATED_OUTSIDE = 0x10
SHARED_WEIGHTS = 0x20
INTERNAL_OUTSIDE = 0x200

_COUNTS = 0
_INPUT = 1
_OUTPUT = 2
_SIZES = 6
_NATIVE_INPUT = 8
_NATIVE_OUTPUT = 9
_LIBRARY = c.CDLL(os.environ["REUSEBENCH_RKNN_LIBRARY"])


class Attributes(c.Structure):
    """rknn_tensor_attr, with names for the fields that are read."""

    _fields_ = (
        ("index", c.c_uint32),
        ("_dimensions", c.c_uint8 * 324),
        ("elements", c.c_uint32),
        ("size", c.c_uint32),
        ("_formats", c.c_uint8 * 28),
        ("size_with_stride", c.c_uint32),
        ("_rest", c.c_uint8 * 8),
    )


class BoundMemory(c.Structure):
    """rknn_tensor_mem."""

    _fields_ = (
        ("address", c.c_uint64),
        ("physical", c.c_uint64),
        ("fd", c.c_int32),
        ("offset", c.c_int32),
        ("size", c.c_uint32),
        ("flags", c.c_uint32),
        ("private", c.c_uint64),
    )


class Input(c.Structure):
    """rknn_input."""

    _fields_ = (
        ("index", c.c_uint32),
        ("buffer", c.c_void_p),
        ("size", c.c_uint32),
        ("pass_through", c.c_uint8),
        ("type", c.c_int),
        ("format", c.c_int),
    )


class Extension(c.Structure):
    """rknn_init_extend, with a name for the context only."""

    _fields_ = (("context", c.c_size_t), ("_rest", c.c_uint8 * 128))


for _name in ("rknn_create_mem", "rknn_create_mem_from_fd"):
    getattr(_LIBRARY, _name).restype = c.POINTER(BoundMemory)


def call(name: str, *arguments: object) -> int:
    """Call a function of the library and print its name and result."""
    result: int = getattr(_LIBRARY, name)(*arguments)
    print(name, result, flush=True)
    return result


class Context:
    """One context."""

    def __init__(self, model: str, flags: int = 0, master: Context | None = None) -> None:
        data = Path(model).read_bytes() if model else b""
        self._data = c.create_string_buffer(data, len(data))
        self._inputs: list[object] = []
        self.handle = c.c_size_t(0)
        extension = c.byref(Extension(master.handle.value)) if master else None
        if data:
            size = c.c_uint32(len(data))
            self.result = call(
                "rknn_init", c.byref(self.handle), self._data, size, c.c_uint32(flags), extension
            )

    def dup(self) -> Context:
        """Return a duplicate."""
        other = Context("")
        other.result = call("rknn_dup_context", c.byref(self.handle), c.byref(other.handle))
        return other

    def sizes(self) -> tuple[int, ...]:
        """Return the bytes of weights, internal tensors and all NPU memory by the library."""
        buffer = c.create_string_buffer(64)
        _LIBRARY.rknn_query(self.handle, _SIZES, buffer, 64)
        return struct.unpack_from("IIQ", buffer.raw)

    def tensors(self, inputs: bool, native: bool = False) -> list[Attributes]:
        """Return the attributes of the inputs or outputs."""
        counts = (c.c_uint32 * 2)()
        _LIBRARY.rknn_query(self.handle, _COUNTS, counts, 8)
        kinds = (_NATIVE_INPUT, _NATIVE_OUTPUT) if native else (_INPUT, _OUTPUT)
        kind = kinds[0 if inputs else 1]
        tensors = [Attributes(index=index) for index in range(counts[0 if inputs else 1])]
        for tensor in tensors:
            _LIBRARY.rknn_query(self.handle, kind, c.byref(tensor), c.sizeof(tensor))
        return tensors

    def run(self) -> int:
        """Set all inputs to zero and infer."""
        tensors = self.tensors(inputs=True)
        inputs = (Input * len(tensors))()
        for index, tensor in enumerate(tensors):
            buffer = c.create_string_buffer(tensor.elements)
            self._inputs.append(buffer)
            inputs[index] = Input(index, c.addressof(buffer), tensor.elements, 0, 3, 1)
        return call("rknn_inputs_set", self.handle, len(tensors), inputs) or self.infer()

    def infer(self) -> int:
        """Infer with the inputs as they are."""
        return call("rknn_run", self.handle, None)

    def set_io(self) -> list[c._Pointer[BoundMemory]]:
        """Give all inputs and outputs memory in native form, the only form of the mini runtime."""
        memories = []
        for tensor in [
            *self.tensors(inputs=True, native=True),
            *self.tensors(inputs=False, native=True),
        ]:
            memory = self.create_memory(tensor.size_with_stride or tensor.size)
            call("rknn_set_io_mem", self.handle, memory, c.byref(tensor))
            memories.append(memory)
        return memories

    def set_internal(self, fd: int, address: int, size: int) -> c._Pointer[BoundMemory]:
        """Use a buffer from elsewhere for the internal tensors."""
        memory: c._Pointer[BoundMemory] = _LIBRARY.rknn_create_mem_from_fd(
            self.handle, c.c_int32(fd), c.c_void_p(address), c.c_uint32(size), c.c_int32(0)
        )
        # If the lowest bit is set, librknnrt 1.5.2 and 1.6.0 hang on a foreign buffer.
        flags = memory.contents.flags
        memory.contents.flags = memory.contents.flags & ~1
        call("rknn_set_internal_mem", self.handle, memory)
        memory.contents.flags = flags
        return memory

    def create_memory(self, size: int) -> c._Pointer[BoundMemory]:
        """Return new memory; a null pointer if there is none."""
        memory: c._Pointer[BoundMemory] = _LIBRARY.rknn_create_mem(self.handle, c.c_uint32(size))
        return memory

    def give_back(self, memory: c._Pointer[BoundMemory]) -> None:
        """Destroy a memory."""
        call("rknn_destroy_mem", self.handle, memory)

    def destroy(self) -> None:
        """Destroy the context."""
        call("rknn_destroy", self.handle)


def multiply_in_domain(domain: int) -> None:
    """Make and destroy a multiplication of INT8 matrices, 4x64 by 64x32.

    The struct is rknn_matmul_info of librknnrt 2.3.2.
    """
    handle = c.c_size_t(0)
    information = c.create_string_buffer(struct.pack("4i4hi36x", 4, 64, 32, 2, 0, 0, 0, 0, domain))
    call("rknn_matmul_create", c.byref(handle), information, c.create_string_buffer(1024))
    call("rknn_matmul_destroy", handle)


def models() -> list[str]:
    """Return the model files on the command line."""
    return sys.argv[1:]
