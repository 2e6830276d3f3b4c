"""One XNNPACK delegate for several compiled models, which share its intermediate tensors.

A delegate has one workspace and a lock, so its models run in turn. Every compiled model asks the
accelerators of its environment for a delegate. The application registers an accelerator of its own
here. That asks the library's own accelerator once for each group of contexts, and returns its
delegate every time. (In C++, with the sources of LiteRT, it is one TfLiteXNNPackDelegateCreate, and
ModifyGraphWithDelegate of several interpreters.)
"""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, byref, c_bool, c_char_p, c_int, c_size_t, c_uint16, c_void_p
from typing import Any, Hashable, Optional
from weakref import WeakValueDictionary

from reusebench.measured.runtimes.base import NotSupported
from reusebench.measured.runtimes.litert.binding import CPU, Handle, LiteRtLibrary, version

__all__ = ["SharedDelegates"]

#: Functions of LiteRtAcceleratorDef and LiteRtSet* (litert/c/internal/litert_accelerator_*.h); all
#: return a status, 0 for success.
_CreateDelegate = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p, POINTER(c_void_p))
_GetName = CFUNCTYPE(c_int, c_void_p, POINTER(c_char_p))
_GetVersion = CFUNCTYPE(c_int, c_void_p, POINTER(c_int * 3))
_GetHardware = CFUNCTYPE(c_int, c_void_p, POINTER(c_int))
_GetFlag = CFUNCTYPE(c_int, c_void_p, POINTER(c_bool))
_Delete = CFUNCTYPE(None, c_void_p)
_DEFINITION_MAJOR = 1


class _Definition(ctypes.Structure):
    """LiteRtAcceleratorDefV1 up to create_delegate."""

    _fields_ = (
        ("struct_size", c_uint16),
        ("major_version", c_uint16),
        ("minor_version", c_uint16),
        ("reserved", c_uint16),
        ("others", c_void_p * 4),
        ("create_delegate", _CreateDelegate),
    )


@_GetName  # type: ignore[untyped-decorator]
def _get_name(_accelerator: int, name: Any) -> int:
    name[0] = b"SharedDelegate"
    return 0


@_GetVersion  # type: ignore[untyped-decorator]
def _get_version(_accelerator: int, api_version: Any) -> int:
    api_version[0][:] = 1, 0, 0
    return 0


@_GetHardware  # type: ignore[untyped-decorator]
def _get_hardware(_accelerator: int, hardware: Any) -> int:
    hardware[0] = CPU
    return 0


@_GetFlag  # type: ignore[untyped-decorator]
def _is_jit(_accelerator: int, flag: Any) -> int:
    flag[0] = True
    return 0


@_Delete  # type: ignore[untyped-decorator]
def _keep(_delegate: int) -> None:
    """Keep the delegate that a compiled model gives back: others use it."""


class _Group:
    """The delegate of contexts that share an internal memory; they hold it."""

    delegate: Optional[Handle] = None


class SharedDelegates:
    """An environment whose compiled models get the delegate of their group."""

    def __init__(self, library: LiteRtLibrary, cpu_environment: Handle) -> None:
        """`cpu_environment` must have the library's own accelerator."""
        self._library = library
        symbol = "LiteRtStaticLinkedAcceleratorCpuDef"
        self._definition = POINTER(_Definition).in_dll(library.symbols, symbol).contents
        if self._definition.major_version != _DEFINITION_MAJOR:
            raise NotSupported("litert_too_old", version=version, missing="LiteRtAcceleratorDefV1")
        self._cpu_environment = cpu_environment
        cpu = library.made("LiteRtGetAccelerator", cpu_environment.value, c_size_t(0))
        self._cpu = c_void_p(cpu)
        self._groups: WeakValueDictionary[Hashable, _Group] = WeakValueDictionary()
        #: Group of the compiled model that is being made.
        self._current: Optional[_Group] = None
        self._environment = library.environment(0)
        self._create_delegate = _CreateDelegate(self._give_delegate)
        accelerator = c_void_p(library.made("LiteRtCreateAccelerator"))
        library.call("LiteRtSetAcceleratorGetName", accelerator, _get_name)
        library.call("LiteRtSetAcceleratorGetVersion", accelerator, _get_version)
        library.call("LiteRtSetAcceleratorGetHardwareSupport", accelerator, _get_hardware)
        library.call(
            "LiteRtSetIsAcceleratorDelegateResponsibleForJitCompilation", accelerator, _is_jit
        )
        library.call("LiteRtSetDelegateFunction", accelerator, self._create_delegate)
        # The environment frees the accelerator.
        library.call("LiteRtRegisterAccelerator", self._environment.value, accelerator, None, None)

    def __contains__(self, group: Hashable) -> bool:
        """Whether the group has its delegate already."""
        return group in self._groups

    def compiled(self, group: Hashable, model: Handle, cpu_options: str) -> Handle:
        """Return a compiled model with the group's delegate; only the first one's options count."""
        current = self._current = self._groups.setdefault(group, _Group())
        try:
            return self._library.compiled(self._environment, model, cpu_options, current)
        finally:
            self._current = None

    def _give_delegate(
        self,
        context: int,
        _environment: int,
        _accelerator: int,
        options: int,
        wrapper: Any,
    ) -> int:
        assert self._current is not None
        if self._current.delegate is None:
            made = c_void_p()
            status = self._definition.create_delegate(
                context,
                self._cpu_environment.value,
                self._cpu,
                options,
                byref(made),
            )
            if status:
                return int(status)
            assert made.value is not None
            free = self._library.function("LiteRtDestroyDelegateWrapper")
            self._current.delegate = Handle(made.value, free)
        delegate = self._library.made("LiteRtUnwrapDelegate", self._current.delegate.value)
        wrap = self._library.function("LiteRtWrapDelegate")
        return int(wrap(c_void_p(delegate), _keep, wrapper))
