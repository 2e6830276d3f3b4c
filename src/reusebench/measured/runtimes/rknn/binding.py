"""Rockchip's C API through ctypes, each call checked by return code and the library's output.

The library reports some failures only on its standard error or output, in lines with "E RKNN", and
returns 0. Such a line counts as a failure of the call during which it was written.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_uint32, c_uint64, c_void_p
from typing import Any, Callable, List, Optional, TypeVar, Union

from reusebench.measured.messages import Message
from reusebench.measured.runtimes.base import AdapterError, NotSupported, OutOfMemory
from reusebench.measured.runtimes.rknn.abi import (
    ERRORS,
    FLAG_MODEL_BUFFER_ZERO_COPY,
    MEM_FLAG_ALLOC_NO_CONTEXT,
    QUERY_IN_OUT_NUM,
    QUERY_INPUT_DYNAMIC_RANGE,
    QUERY_MEM_SIZE,
    QUERY_SDK_VERSION,
    InitExtend,
    InputOutputNumber,
    InputRange,
    MemSize,
    RknnContext,
    SdkVersion,
    TensorAttr,
    TensorMem,
)

__all__ = ["Binding", "Memory", "call_failed", "error_lines"]

#: A pointer to rknn_tensor_mem, owned by the library.
Memory = Any

_Struct = TypeVar("_Struct", bound=ctypes.Structure)

#: A line as "E RKNN: [10:01:02.345] failed to ...", or the mini runtime's "E RKNN".
_ERROR_LINE = re.compile(r"^(?:\x1b\[[0-9;]*m)*E RKNN[^\n]*", re.MULTILINE)
#: Time that librknnrt puts before the words of a line.
_TIME = re.compile(r"\[\d\d:\d\d:\d\d\.\d+\] ")
_LINE_BUFFERED = 1
#: Code of the error of a call whose library wrote nothing.
_FAILED_WITHOUT_LINES = "rknn_call_failed"

#: Causes (runtimes.rknn.diagnosis) that are a lack of memory.
_LACK_OF_MEMORY = ("rknn_out_of_memory", "rknn_no_contiguous_memory", "rknn_iommu_domain_full")

_PROTOTYPES = {
    "rknn_init": (c_int, [POINTER(RknnContext), c_void_p, c_uint32, c_uint32, POINTER(InitExtend)]),
    "rknn_dup_context": (c_int, [POINTER(RknnContext), POINTER(RknnContext)]),
    "rknn_destroy": (c_int, [RknnContext]),
    "rknn_query": (c_int, [RknnContext, c_int, c_void_p, c_uint32]),
    "rknn_inputs_set": (c_int, [RknnContext, c_uint32, c_void_p]),
    "rknn_run": (c_int, [RknnContext, c_void_p]),
    "rknn_outputs_get": (c_int, [RknnContext, c_uint32, c_void_p, c_void_p]),
    "rknn_set_input_shapes": (c_int, [RknnContext, c_uint32, c_void_p]),
    "rknn_set_core_mask": (c_int, [RknnContext, c_int]),
    "rknn_create_mem": (POINTER(TensorMem), [RknnContext, c_uint32]),
    "rknn_create_mem2": (POINTER(TensorMem), [RknnContext, c_uint64, c_uint64]),
    "rknn_create_mem_from_fd": (
        POINTER(TensorMem),
        [RknnContext, c_int32, c_void_p, c_uint32, c_int32],
    ),
    "rknn_create_mem_from_phys": (POINTER(TensorMem), [RknnContext, c_uint64, c_void_p, c_uint32]),
    "rknn_destroy_mem": (c_int, [RknnContext, POINTER(TensorMem)]),
    "rknn_set_weight_mem": (c_int, [RknnContext, POINTER(TensorMem)]),
    "rknn_set_internal_mem": (c_int, [RknnContext, POINTER(TensorMem)]),
    "rknn_set_io_mem": (c_int, [RknnContext, POINTER(TensorMem), POINTER(TensorAttr)]),
    "rknn_mem_sync": (c_int, [RknnContext, POINTER(TensorMem), c_int]),
}


class Binding:
    """The functions of one loaded library."""

    def __init__(self, path: str) -> None:
        _flush_lines_as_they_come()
        self._library = ctypes.CDLL(path)

    def init(self, model: bytearray, flags: int, master: Optional[int]) -> int:
        """Return a context of a model file's content; over the weights of master if given."""
        address = ctypes.addressof((ctypes.c_char * len(model)).from_buffer(model))
        extend = None if master is None else InitExtend(ctx=master)
        return self._init(address, len(model), flags, extend)

    def init_in_place(self, model: Memory, size: int, flags: int) -> int:
        """Return a context whose weights and register commands stay in memory of create_model_mem.

        Each such memory serves one context: a second one would put its own addresses into the
        register commands.
        """
        memory = model.contents
        extend = InitExtend(
            real_model_size=size, model_buffer_fd=memory.fd, model_buffer_flags=memory.flags
        )
        return self._init(memory.virt_addr, size, flags | FLAG_MODEL_BUFFER_ZERO_COPY, extend)

    def _init(self, address: int, size: int, flags: int, extend: Optional[InitExtend]) -> int:
        context = RknnContext(0)
        try:
            self._call("rknn_init", byref(context), address, size, flags, extend and byref(extend))
        except AdapterError as error:
            # A failed init may leave memory and a context behind. Without memory for internal
            # tensors librknnrt 1.6.0 and 2.3.2 leave a context that crashes in rknn_destroy.
            if context.value and not isinstance(error, OutOfMemory):
                self.destroy(context.value)
            raise
        return int(context.value)

    def dup(self, source: int) -> int:
        """Return another context over the weights of source."""
        context = RknnContext(0)
        self._call("rknn_dup_context", byref(RknnContext(source)), byref(context))
        return int(context.value)

    def destroy(self, context: int) -> None:
        """Release the context; every memory made for it must have been destroyed before."""
        self._call("rknn_destroy", context)

    def numbers(self, context: int) -> InputOutputNumber:
        """Return the numbers of inputs and outputs of the model."""
        return self._query(context, QUERY_IN_OUT_NUM, InputOutputNumber())

    def attribute(self, context: int, command: int, index: int) -> TensorAttr:
        """Return the attributes of one tensor, by the query command of its kind."""
        return self._query(context, command, TensorAttr(index=index))

    def input_range(self, context: int, index: int) -> InputRange:
        """Return the shapes that an input may have; AdapterError if no shapes are dynamic."""
        return self._query(context, QUERY_INPUT_DYNAMIC_RANGE, InputRange(index=index))

    def set_input_shapes(self, context: int, attributes: Any) -> None:
        """Set the input shapes to the dimensions in an array of abi.TensorAttr for all inputs."""
        self._call("rknn_set_input_shapes", context, len(attributes), byref(attributes))

    def mem_size(self, context: int) -> MemSize:
        """Return the library's own account of the context, in bytes."""
        return self._query(context, QUERY_MEM_SIZE, MemSize())

    def sdk_version(self, context: int) -> SdkVersion:
        """Return the versions of the library and of the kernel driver."""
        return self._query(context, QUERY_SDK_VERSION, SdkVersion())

    def inputs_set(self, context: int, inputs: Any) -> None:
        """Copy the inputs, an array of abi.RknnInput, in."""
        self._call("rknn_inputs_set", context, len(inputs), byref(inputs))

    def run(self, context: int) -> None:
        """Run one inference and wait for it."""
        self._call("rknn_run", context, None)

    def outputs_get(self, context: int, outputs: Any) -> None:
        """Copy the outputs into the buffers of an array of abi.RknnOutput."""
        self._call("rknn_outputs_get", context, len(outputs), byref(outputs), None)

    def set_core_mask(self, context: int, mask: int) -> None:
        """Bind the context to NPU cores."""
        self._call("rknn_set_core_mask", context, mask)

    def create_mem(self, context: int, size: int) -> Memory:
        """Return memory that the library allocates."""
        return self._create("rknn_create_mem", context, size)

    def create_model_mem(self, size: int) -> Memory:
        """Return memory for a model file, before there is a context of it."""
        try:
            return self._create("rknn_create_mem2", 0, size, MEM_FLAG_ALLOC_NO_CONTEXT)
        except AdapterError as error:
            if error.message.code != _FAILED_WITHOUT_LINES:
                raise
            # librknnmrt 2.3.2 has the function, but gives no memory without a context, and does not
            # say so.
            raise NotSupported("rknn_no_model_memory") from None

    def create_mem_from_fd(self, context: int, fd: int, address: int, size: int) -> Memory:
        """Return the memory behind a file descriptor, mapped at the address."""
        return self._create("rknn_create_mem_from_fd", context, fd, address, size, 0)

    def create_mem_from_phys(self, context: int, physical: int, address: int, size: int) -> Memory:
        """Return the memory at a physical address, mapped at the address."""
        return self._create("rknn_create_mem_from_phys", context, physical, address, size)

    def destroy_mem(self, context: int, memory: Memory) -> None:
        """Release memory; the context may be destroyed afterwards, not before."""
        self._call("rknn_destroy_mem", context, memory)

    def set_weight_mem(self, context: int, memory: Memory) -> None:
        """Put the context's weights into this memory."""
        self._call("rknn_set_weight_mem", context, memory)

    def set_internal_mem(self, context: int, memory: Memory) -> None:
        """Let the context keep its internal tensors in this memory."""
        self._call("rknn_set_internal_mem", context, memory)

    def set_io_mem(self, context: int, memory: Memory, attribute: TensorAttr) -> None:
        """Let the context read or write the tensor of these attributes in this memory."""
        self._call("rknn_set_io_mem", context, memory, byref(attribute))

    def mem_sync(self, context: int, memory: Memory, mode: int) -> None:
        """Synchronise the CPU's caches with the memory; the library has the call from 1.6.0 on."""
        if hasattr(self._library, "rknn_mem_sync"):
            self._call("rknn_mem_sync", context, memory, mode)

    def _query(self, context: int, command: int, info: _Struct) -> _Struct:
        self._call("rknn_query", context, command, byref(info), ctypes.sizeof(info))
        return info

    def _create(self, name: str, *arguments: Any) -> Memory:
        written = _written_bytes()
        memory = self._function(name)(*arguments)
        lines = _error_lines(written)
        if not memory or lines:
            raise call_failed(name, -1 if not memory else 0, lines)
        return memory

    def _call(self, name: str, *arguments: Any) -> None:
        written = _written_bytes()
        code = self._function(name)(*arguments)
        lines = _error_lines(written)
        if code or lines:
            raise call_failed(name, code, lines)

    def _function(self, name: str) -> Any:
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise NotSupported("rknn_function_missing", function=name) from None
        if function.argtypes is None:
            function.restype, function.argtypes = _PROTOTYPES[name]
        return function


def _cause(words: str) -> Optional[Message]:
    try:
        # Imported only now: it adds nothing as long as no call fails.
        from reusebench.measured.runtimes.rknn.diagnosis import cause_of
    except OSError as error:  # a module is a file, which takes a descriptor as well
        if error.errno != errno.EMFILE:
            raise
        return Message("rknn_descriptors_used_up")
    return cause_of(words)


def call_failed(
    call: str,
    code: int,
    lines: List[str],
    cause_of: Callable[[str], Optional[Message]] = _cause,
) -> AdapterError:
    """Return the error of a call: its meaning, if that is known, and the library's own lines."""
    name: Union[Message, str] = Message("rknn_success_with_error")
    if code:
        name = ERRORS.get(code, Message("rknn_unknown_code"))
    if not lines:
        return AdapterError(_FAILED_WITHOUT_LINES, call=call, code=code, name=name)
    # If several threads run the same job it fails in each, so each line is given once.
    without_times = [_TIME.sub("", line) for line in lines]
    words = " | ".join(dict.fromkeys(without_times))
    # Queries also ask whether a model has something; if not, there is nothing to explain.
    cause = None if call == "rknn_query" else cause_of(words)
    if cause:
        error = OutOfMemory if cause.code in _LACK_OF_MEMORY else AdapterError
        return error(
            "rknn_call_explained",
            cause=cause,
            call=call,
            code=code,
            name=name,
            lines=words,
        )
    return AdapterError("rknn_call_failed_with_lines", call=call, code=code, name=name, lines=words)


def _flush_lines_as_they_come() -> None:
    """Make the C library write each line of standard output at once, even into a file."""
    c_library = ctypes.CDLL(None)
    c_library.setvbuf(
        c_void_p.in_dll(c_library, "stdout"),
        c_char_p(None),
        c_int(_LINE_BUFFERED),
        ctypes.c_size_t(0),
    )


def _written_bytes() -> Optional[int]:
    """Return the size of standard error so far; None if it is no file (run by hand)."""
    status = os.fstat(2)
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _error_lines(written: Optional[int]) -> List[str]:
    """Return the library's error lines after the first `written` bytes."""
    if written is None:
        return []
    size = os.fstat(2).st_size
    if size == written:
        return []
    return error_lines(os.pread(2, size - written, written).decode(errors="replace"))


def error_lines(text: str) -> List[str]:
    """Return the lines by which the library reports an error, without colours."""
    lines = _ERROR_LINE.findall(text)
    return [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in lines]
