"""The functions of libLiteRt.so that the adapter calls; every call is checked.

Declarations are those of litert/c/*.h, whose sizes the headers assert. A handle frees its object
with the last reference to it, and before the objects that it was made of.
"""

from __future__ import annotations

import ctypes
import os
import re
from ctypes import byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint32, c_void_p
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import ai_edge_litert  # imports nothing but the library

from reusebench.measured.runtimes.base import AdapterError, NotSupported, OutOfMemory
from reusebench.measured.runtimes.library_words import last_words
from reusebench.measured.runtimes.litert.options import INTERPRETER

__all__ = [
    "CPU",
    "Handle",
    "LiteRtLibrary",
    "RankedType",
    "SignatureTensor",
    "refusal",
    "version",
]

#: The CPU in LiteRtHwAccelerators (litert_common.h).
CPU = 1
#: Values of LiteRtStatus that were seen or are to be expected.
_OUT_OF_MEMORY = 2
_FILE = 500
_INVALID_FILE = 501
_STATUSES = {
    1: "invalid argument",
    _OUT_OF_MEMORY: "no memory",
    3: "runtime failure",
    5: "unsupported",
    6: "not found",
    _FILE: "file",
    _INVALID_FILE: "invalid flatbuffer",
    504: "compilation",
}
#: LiteRT's sentences about operators that it does not have; the group is the operator.
_MISSING_OPERATORS = (
    re.compile(r"unresolved custom op: (?P<operator>[^\s|]+?)\.?(?:\s|\||$)"),
    re.compile(r"Select TensorFlow op.* Node number \d+ \((?P<operator>[^)]+)\)"),
    re.compile(r"Didn't find op for builtin opcode '(?P<operator>\w+)' version '\d+'"),
)
#: LiteRT's sentences about files that compiled models do not run, and the class Interpreter does:
#: variable tensors, and outputs whose sizes a run computes.
_FOR_INTERPRETER = re.compile(
    r"Variable tensors not yet supported|Failed to set custom allocation for output tensor"
)
#: Values of LiteRtEnvOptionTag (litert_environment_options.h): a mask of LiteRtHwAccelerators, and
#: a severity.
_AUTO_REGISTER_ACCELERATORS = 24
_MIN_LOGGER_SEVERITY = 25
_ANY_INT = 2
_SEVERITY_ERROR = 3
_MAX_RANK = 8
#: Operators that unpack weights: DEQUANTIZE and DENSIFY of LiteRtOpCode.
_UNPACKING = (6, 124)
#: A line of an error, without the place in LiteRT's sources.
_ERROR_LINE = re.compile(r"^ERROR: (?:\[[\w.]+:\d+\] )?(.+?)\s*$", re.MULTILINE)

#: Oldest version with this API; earlier ones take options and models in other ways.
_OLDEST = (2, 2)

version: str = ai_edge_litert.__version__


class _Any(ctypes.Structure):
    """LiteRtAny of an integer."""

    _fields_ = (("type", c_int), ("value", c_int64))


class _EnvironmentOption(ctypes.Structure):
    """LiteRtEnvOption."""

    _fields_ = (("tag", c_int), ("value", _Any))


class _Layout(ctypes.Structure):
    """LiteRtLayout."""

    _fields_ = (
        ("rank", c_uint, 7),
        ("has_strides", c_uint, 1),
        ("dimensions", c_int32 * _MAX_RANK),
        ("strides", c_uint32 * _MAX_RANK),
    )


class RankedType(ctypes.Structure):
    """LiteRtRankedTensorType: the type of a tensor's elements, and its sizes, -1 for a free one."""

    _fields_ = (("element", c_int), ("layout", _Layout))

    @property
    def sizes(self) -> Tuple[int, ...]:
        """The sizes, from the outermost dimension."""
        return tuple(self.layout.dimensions[: self.layout.rank])

    def resized(self, sizes: Sequence[int]) -> RankedType:
        """Return the same type with other sizes."""
        layout = _Layout(rank=len(sizes), dimensions=(c_int32 * _MAX_RANK)(*sizes))
        return RankedType(self.element, layout)


class SignatureTensor(NamedTuple):
    """An input or output of a model's signature."""

    name: str
    type: RankedType


class Handle:
    """An object of the library, freed with the last reference to this, before what it `holds`."""

    def __init__(self, value: int, free: Any, *holds: Any) -> None:
        self.value = c_void_p(value)
        self._free = free
        self._holds = holds

    def __del__(self) -> None:
        self._free(self.value)


class LiteRtLibrary:
    """The loaded library."""

    def __init__(self) -> None:
        if tuple(map(int, version.split(".")[:2])) < _OLDEST:
            raise NotSupported("litert_too_old", version=version, missing="the C API of 2.2")
        folder = os.path.dirname(ai_edge_litert.__file__)
        self.symbols = ctypes.CDLL(os.path.join(folder, "libLiteRt.so"))

    def function(self, name: str) -> Any:
        """Return a function; raise NotSupported if this version lacks it."""
        if not hasattr(self.symbols, name):
            raise NotSupported("litert_too_old", version=version, missing=name)
        return getattr(self.symbols, name)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that returns a status; raise AdapterError if it reports an error."""
        status = self.function(name)(*arguments)
        if not status:
            return
        error = OutOfMemory if status == _OUT_OF_MEMORY else AdapterError
        reason = _STATUSES.get(status, "LiteRtStatus")
        lines = _error_lines()
        known = refusal(lines)
        if known:
            raise known
        if not lines:
            raise error("litert_call_failed", call=name, status=status, reason=reason)
        raise error(
            "litert_call_failed_with_lines",
            call=name,
            status=status,
            reason=reason,
            lines=lines,
        )

    def made(self, name: str, *arguments: Any) -> int:
        """Return the handle that a function writes into its last argument; its maker keeps it."""
        value = c_void_p()
        self.call(name, *arguments, byref(value))
        assert value.value is not None
        return value.value

    def environment(self, accelerators: int) -> Handle:
        """Return an environment with these LiteRtHwAccelerators alone: each loads a library."""
        settings = (
            (_AUTO_REGISTER_ACCELERATORS, accelerators),
            (_MIN_LOGGER_SEVERITY, _SEVERITY_ERROR),
        )
        options = [_EnvironmentOption(tag, _Any(_ANY_INT, value)) for tag, value in settings]
        array = (_EnvironmentOption * len(options))(*options)
        value = self.made("LiteRtCreateEnvironment", c_int(len(options)), array)
        return Handle(value, self.symbols.LiteRtDestroyEnvironment)

    def model(self, environment: Handle, path: str) -> Handle:
        """Return the model of a file, which it maps."""
        try:
            value = self.made(
                "LiteRtCreateModelFromFile", environment.value, c_char_p(os.fsencode(path))
            )
        except AdapterError as error:
            if error.message.values.get("status") in (_FILE, _INVALID_FILE):
                raise AdapterError("litert_model_unreadable", model=path) from None
            raise
        return Handle(value, self.symbols.LiteRtDestroyModel, environment)

    def tensors(self, model: Handle, side: str) -> List[SignatureTensor]:
        """Return the tensors of one side, "Input" or "Output", of the model's first signature."""
        signature = c_void_p(self.made("LiteRtGetModelSignature", model.value, c_size_t(0)))
        count = c_size_t()
        self.call(f"LiteRtGetNumSignature{side}s", signature, byref(count))
        tensors = []
        for index in range(count.value):
            name = c_char_p()
            kind = RankedType()
            self.call(f"LiteRtGetSignature{side}Name", signature, c_size_t(index), byref(name))
            value = self.made(f"LiteRtGetSignature{side}TensorByIndex", signature, c_size_t(index))
            tensor = c_void_p(value)
            self.call("LiteRtGetRankedTensorType", tensor, byref(kind))
            tensors.append(SignatureTensor((name.value or b"").decode(errors="replace"), kind))
        return tensors

    def unpacks_weights(self, model: Handle) -> bool:
        """Whether an operator unpacks a constant of the main graph: 16-bit or sparse weights."""
        graph = c_void_p(self.made("LiteRtGetModelSubgraph", model.value, c_size_t(0)))
        count = c_size_t()
        code = c_int()
        address = c_void_p()
        size = c_size_t()
        self.call("LiteRtGetNumSubgraphOps", graph, byref(count))
        for index in range(count.value):
            operator = c_void_p(self.made("LiteRtGetSubgraphOp", graph, c_size_t(index)))
            self.call("LiteRtGetOpCode", operator, byref(code))
            if code.value in _UNPACKING:
                tensor = c_void_p(self.made("LiteRtGetOpInput", operator, c_size_t(0)))
                weights = c_void_p(self.made("LiteRtGetTensorWeights", tensor))
                self.call("LiteRtGetWeightsBytes", weights, byref(address), byref(size))
                if size.value:
                    return True
        return False

    def compiled(self, environment: Handle, model: Handle, cpu_options: str, *holds: Any) -> Handle:
        """Return a compiled model; `cpu_options` is TOML, as in litert_cpu_options.cc."""
        options = Handle(self.made("LiteRtCreateOptions"), self.symbols.LiteRtDestroyOptions)
        self.call("LiteRtSetOptionsHardwareAccelerators", options.value, c_int(CPU))
        # The options free the text, with the C library that allocated it.
        libc = ctypes.CDLL(None)
        libc.strdup.restype = c_void_p
        text = c_void_p(libc.strdup(cpu_options.encode()))
        free = ctypes.cast(libc.free, c_void_p)
        of_cpu = c_void_p(self.made("LiteRtCreateOpaqueOptions", c_char_p(b"xnnpack"), text, free))
        self.call("LiteRtAddOpaqueOptions", options.value, of_cpu)
        value = self.made(
            "LiteRtCreateCompiledModel",
            environment.value,
            model.value,
            options.value,
        )
        return Handle(value, self.symbols.LiteRtDestroyCompiledModel, environment, model, *holds)

    def resize(self, compiled: Handle, index: int, sizes: Sequence[int]) -> None:
        """Set the sizes of an input that has free ones."""
        dimensions = (c_int * len(sizes))(*sizes)
        self.call(
            "LiteRtCompiledModelResizeInputTensor",
            compiled.value,
            c_size_t(0),
            c_size_t(index),
            dimensions,
            c_size_t(len(sizes)),
        )

    def output_sizes(self, compiled: Handle, count: int) -> List[Tuple[int, ...]]:
        """Return the sizes of each output, which follow from those of the inputs."""
        layouts = (_Layout * count)()
        self.call(
            "LiteRtGetCompiledModelOutputTensorLayouts",
            compiled.value,
            c_size_t(0),
            c_size_t(count),
            layouts,
            ctypes.c_bool(True),
        )
        return [tuple(layout.dimensions[: layout.rank]) for layout in layouts]

    def managed_buffer(self, environment: Handle, kind: RankedType, size: int) -> Handle:
        """Return a tensor buffer in memory that the library allocates."""
        host = c_int(1)
        value = self.made(
            "LiteRtCreateManagedTensorBuffer",
            environment.value,
            host,
            byref(kind),
            c_size_t(size),
        )
        return Handle(value, self.symbols.LiteRtDestroyTensorBuffer, environment)

    def host_buffer(self, kind: RankedType, array: Any) -> Handle:
        """Return a tensor buffer over an array's memory, which must be aligned to 64 bytes."""
        address = c_void_p(array.ctypes.data)
        size = c_size_t(array.nbytes)
        value = self.made(
            "LiteRtCreateTensorBufferFromHostMemory",
            byref(kind),
            address,
            size,
            None,
        )
        return Handle(value, self.symbols.LiteRtDestroyTensorBuffer, array)

    def address_of(self, buffer: Handle) -> int:
        """Return the address of the buffer's memory."""
        return self.made("LiteRtGetTensorBufferHostMemory", buffer.value)

    def run(self, compiled: Handle, inputs: Any, outputs: Any) -> None:
        """Infer once; `inputs` and `outputs` are arrays of c_void_p, in the signature's order."""
        self.call(
            "LiteRtRunCompiledModel",
            compiled.value,
            c_size_t(0),
            c_size_t(len(inputs)),
            inputs,
            c_size_t(len(outputs)),
            outputs,
        )


def refusal(lines: str) -> Optional[AdapterError]:
    """Return the error that LiteRT's words tell of, if they are known."""
    for pattern in _MISSING_OPERATORS:
        matched = pattern.search(lines)
        if matched:
            operator = matched["operator"]
            return AdapterError("litert_operator_missing", operator=operator, version=version)
    matched = _FOR_INTERPRETER.search(lines)
    if matched:
        return AdapterError("needs_option", option=INTERPRETER, reason=matched[0])
    return None


def _error_lines() -> str:
    """Return the last lines of errors on standard error; empty if it cannot be read."""
    lines = _ERROR_LINE.findall(last_words())
    return " | ".join(dict.fromkeys(lines))
