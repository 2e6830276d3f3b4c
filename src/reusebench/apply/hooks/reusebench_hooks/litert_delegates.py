"""XNNPACK's delegates of libLiteRt.so, which the wheel has beside its interpreter.

The interpreter makes a delegate of its own without a weight cache. The library makes equal ones, of
the same sources, that map packed weights from a file; but it makes them for compiled models only.
So a compiled model of one operator is begun once, which shows the table of functions that a
delegate needs, and is then refused its delegate.
"""

from __future__ import annotations

import ctypes
import json
import os
from ctypes import CFUNCTYPE, POINTER, byref, c_bool, c_char_p, c_int, c_size_t, c_void_p
from typing import Any, List

#: LiteRtHwAccelerators: the CPU.
_CPU = 1
#: LiteRtEnvOptionTag: a mask of accelerators to register, and the severity of log lines.
_ACCELERATORS, _SEVERITY = 24, 25
_ERRORS_ALONE = 3
_INTEGER = 2
_REFUSED = 1
#: LiteRtAcceleratorDefV1, as this module reads it.
_MAJOR_VERSION = 1
#: Flags of the interpreter's own delegate: TfLiteXNNPackDelegateOptionsDefault().
_FLAGS = 0x1 | 0x2 | 0x8
#: A model of one operator, RELU, for one number.
_TINY = bytes.fromhex(
    "1800000054464c3300000e00140010000c000800000004000e000000100000001c000000d000000003000000"
    "0100000008000000040004000400000001000000100000000c00140010000c00080004000c00000010000000"
    "3c0000004000000044000000010000001000000000000a000c000000080004000a000000080000000c000000"
    "0100000001000000010000000000000001000000010000000100000000000000020000003000000004000000"
    "e4ffffff080000000c000000010000007900000001000000010000000c000c0008000000000004000c000000"
    "080000000c0000000100000078000000010000000100000001000000100000000c000c000b00000000000400"
    "0c0000001300000000000013"
)

_CreateDelegate = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p, POINTER(c_void_p))
_GetName = CFUNCTYPE(c_int, c_void_p, POINTER(c_char_p))
_GetVersion = CFUNCTYPE(c_int, c_void_p, POINTER(c_int * 3))
_GetNumber = CFUNCTYPE(c_int, c_void_p, POINTER(c_int))
_GetFlag = CFUNCTYPE(c_int, c_void_p, POINTER(c_bool))


class _Any(ctypes.Structure):
    _fields_ = (("type", c_int), ("value", ctypes.c_int64))


class _EnvironmentOption(ctypes.Structure):
    _fields_ = (("tag", c_int), ("value", _Any))


class _Definition(ctypes.Structure):
    """LiteRtAcceleratorDefV1 up to create_delegate."""

    _fields_ = (
        ("struct_size", ctypes.c_uint16),
        ("major_version", ctypes.c_uint16),
        ("minor_version", ctypes.c_uint16),
        ("reserved", ctypes.c_uint16),
        ("others", c_void_p * 4),
        ("create_delegate", _CreateDelegate),
    )


class Delegate:
    """A delegate, which has to live longer than the interpreter that it is given to."""

    def __init__(self, library: Any, wrapper: c_void_p, address: int) -> None:
        self._library = library
        self._wrapper = wrapper
        self.address = address

    def destroy(self) -> None:
        """Free the delegate, when the interpreter has gone."""
        self._library.LiteRtDestroyDelegateWrapper(self._wrapper)


class Delegates:
    """The library, which makes delegates; raises if it is another one than is known."""

    def __init__(self, folder: str) -> None:
        self._library = ctypes.CDLL(os.path.join(folder, "libLiteRt.so"))
        symbol = "LiteRtStaticLinkedAcceleratorCpuDef"
        self._definition = POINTER(_Definition).in_dll(self._library, symbol).contents
        if self._definition.major_version != _MAJOR_VERSION:
            raise OSError("libLiteRt.so makes delegates in another way")
        self._environment = self._new_environment(_CPU)
        self._cpu = self._made("LiteRtGetAccelerator", self._environment, c_size_t(0))
        #: Table of functions for delegates.
        self._context = 0
        self._find_context()

    def make(self, threads: int, cache: str) -> Delegate:
        """Return a delegate that maps the file of packed weights, or writes it if it is missing."""
        path = json.dumps(cache, ensure_ascii=False)
        options = self._options(
            f"num_threads = {threads}\nflags = {_FLAGS}\nweight_cache_file_path = {path}\n"
        )
        wrapper = c_void_p()
        status = self._definition.create_delegate(
            self._context, self._environment, self._cpu, options, byref(wrapper)
        )
        self._library.LiteRtDestroyOptions(options)
        if status:
            raise OSError(f"create_delegate: {status}")
        address = self._made("LiteRtUnwrapDelegate", wrapper)
        return Delegate(self._library, wrapper, address.value or 0)

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise OSError(f"{name}: {status}")

    def _made(self, name: str, *arguments: Any) -> c_void_p:
        made = c_void_p()
        self._call(name, *arguments, byref(made))
        return made

    def _new_environment(self, accelerators: int) -> c_void_p:
        settings = ((_ACCELERATORS, accelerators), (_SEVERITY, _ERRORS_ALONE))
        options = [_EnvironmentOption(tag, _Any(_INTEGER, value)) for tag, value in settings]
        array = (_EnvironmentOption * len(options))(*options)
        return self._made("LiteRtCreateEnvironment", c_int(len(options)), array)

    def _options(self, text: str) -> c_void_p:
        options = self._made("LiteRtCreateOptions")
        self._call("LiteRtSetOptionsHardwareAccelerators", options, c_int(_CPU))
        # The options free the text, with the C library that allocated it.
        libc = ctypes.CDLL(None)
        libc.strdup.restype = c_void_p
        copy = c_void_p(libc.strdup(text.encode()))
        free = ctypes.cast(libc.free, c_void_p)
        of_cpu = self._made("LiteRtCreateOpaqueOptions", c_char_p(b"xnnpack"), copy, free)
        self._call("LiteRtAddOpaqueOptions", options, of_cpu)
        return options

    def _find_context(self) -> None:
        environment = self._new_environment(0)
        callbacks = self._register(environment)
        buffer = ctypes.create_string_buffer(_TINY, len(_TINY))
        size = c_size_t(len(_TINY))
        model = self._made("LiteRtCreateModelFromBuffer", environment, buffer, size)
        options = self._options("")
        compiled = c_void_p()
        create = self._library.LiteRtCreateCompiledModel
        if not create(environment, model, options, byref(compiled)):
            self._library.LiteRtDestroyCompiledModel(compiled)
        self._library.LiteRtDestroyOptions(options)
        self._library.LiteRtDestroyModel(model)
        self._library.LiteRtDestroyEnvironment(environment)
        del callbacks
        if not self._context:
            raise OSError("libLiteRt.so asked for no delegate")

    def _register(self, environment: c_void_p) -> List[Any]:
        """Register an accelerator that refuses; return the functions that have to stay."""

        def create(context: int, *_: Any) -> int:
            self._context = context
            return _REFUSED

        def name(_: int, value: Any) -> int:
            value[0] = b"Refusing"
            return 0

        def version(_: int, value: Any) -> int:
            value[0][:] = 1, 0, 0
            return 0

        def hardware(_: int, value: Any) -> int:
            value[0] = _CPU
            return 0

        def is_compiler(_: int, value: Any) -> int:
            value[0] = True
            return 0

        setters = {
            "LiteRtSetAcceleratorGetName": _GetName(name),
            "LiteRtSetAcceleratorGetVersion": _GetVersion(version),
            "LiteRtSetAcceleratorGetHardwareSupport": _GetNumber(hardware),
            "LiteRtSetIsAcceleratorDelegateResponsibleForJitCompilation": _GetFlag(is_compiler),
            "LiteRtSetDelegateFunction": _CreateDelegate(create),
        }
        accelerator = self._made("LiteRtCreateAccelerator")
        for setter, function in setters.items():
            self._call(setter, accelerator, function)
        self._call("LiteRtRegisterAccelerator", environment, accelerator, None, None)
        return list(setters.values())
