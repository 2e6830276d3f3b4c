"""The adapter of Teflon, Mesa's delegate for LiteRT, on the mainline drivers of NPUs.

A context is LiteRT's class Interpreter with the delegate, as in applications: its wheel exports no
C API that takes a delegate. The delegate takes the operators that Mesa's driver knows, and LiteRT's
own kernels infer the rest on the CPU, with one thread.

Each delegate opens the device for itself. A load has a delegate of its own, as in a program that
loads each model by itself; a dup is another interpreter with the delegate of its source, so both
have one open file. Mesa makes all buffers again for each interpreter, with either.
"""

from __future__ import annotations

import threading
from typing import Any, Optional

import ai_edge_litert
import numpy as np
from ai_edge_litert.interpreter import load_delegate

from reusebench.measured.runtimes.arrays import ContextOfTensors
from reusebench.measured.runtimes.base import (
    ELEMENT_TYPES,
    NO_INPUTS,
    AdapterError,
    Inputs,
    Interface,
    Memory,
    NotSupported,
    Placement,
    Runtime,
    RuntimeContext,
)
from reusebench.measured.runtimes.litert.interpreters import (
    InterpreterTensors,
    check_sizes,
    checked,
    interface_of,
    opened,
    prepared_tensors,
)
from reusebench.measured.runtimes.teflon import device
from reusebench.measured.runtimes.teflon.library_file import (
    LIBRARY_VARIABLE,
    find_library,
    version_of,
)
from reusebench.measured.runtimes.teflon.placement import Delegation

__all__ = ["TeflonContext", "TeflonRuntime", "open_runtime"]

_TITLE = "Teflon"
#: Types of the elements of tensors on the NPU.
_TYPES_OF_NPU = ("int8", "uint8")


class _Delegated:
    """An interpreter with its delegate, of one context or several threads."""

    def __init__(self, model: str, delegate: Any, memory: Memory, inputs: Inputs) -> None:
        self.model = model
        self.given = inputs
        self.delegate = delegate
        self.interpreter = opened(model, memory, [delegate])
        self._delegation = Delegation(self.interpreter)
        self._check_types()
        # LiteRT gives the delegate its operators when it makes the interpreter. Mesa keeps their
        # sizes if an input is resized later, without an error.
        check_sizes(self.interpreter, inputs)
        self.tensors = prepared_tensors(model, self.interpreter, inputs, memory.zero_copy)
        #: Held during an inference, with the tensors of one thread.
        self.lock = threading.Lock()

    def placement(self) -> Placement:
        """Return which operators the delegate has taken."""
        return self._delegation.placement(self.interpreter)

    def _check_types(self) -> None:
        """Raise NotSupported if the NPU got tensors that Mesa does not understand.

        Its driver rocket takes convolutions without a look at the type of their elements (26.1.6):
        floats are read as bytes, and outputs are wrong without an error.
        """
        written = self._delegation.written()
        for tensor in self.interpreter.get_tensor_details():
            kind = np.dtype(tensor["dtype"]).name
            if tensor["index"] in written and kind not in _TYPES_OF_NPU:
                raise NotSupported("teflon_not_quantised", tensor=tensor["name"], type=kind)


class TeflonContext(ContextOfTensors[InterpreterTensors]):
    """An interpreter with tensors of its own."""

    def __init__(self, delegated: _Delegated, tensors: InterpreterTensors, memory: Memory) -> None:
        self._delegated: Optional[_Delegated] = delegated
        self._tensors = tensors
        self._memory = memory

    @property
    def delegated(self) -> _Delegated:
        """The live interpreter."""
        assert self._delegated is not None
        return self._delegated

    def infer(self) -> None:
        """Send the inputs, infer, fetch the outputs."""
        assert self._tensors is not None
        delegated = self.delegated
        with delegated.lock:
            self._tensors.run(lambda: checked(delegated.model, delegated.interpreter.invoke))

    def placement(self) -> Placement:
        """Return which operators the delegate has taken."""
        return self.delegated.placement()

    def renew_io(self) -> None:
        """Make new arrays, and fill them or the tensors in place again."""
        delegated = self.delegated
        self._tensors = InterpreterTensors(
            delegated.interpreter, delegated.given, self._memory.zero_copy
        )

    def destroy(self) -> None:
        """Drop the tensors and the interpreter, which goes with its last holder."""
        self._tensors = None
        self._delegated = None


class TeflonRuntime(Runtime):
    """The delegate's library, which is loaded with the first context."""

    def __init__(self) -> None:
        library = find_library()
        if library is None:
            raise AdapterError("teflon_library_missing", variable=LIBRARY_VARIABLE)
        self._library = library
        try:
            self._mesa = version_of(library)
        except OSError as error:
            words = error.strerror or str(error)
            raise AdapterError("teflon_not_loaded", library=library, lines=words) from None
        self.version = f"{self._mesa or ''} (LiteRT {ai_edge_litert.__version__})".strip()

    def interface(self, model: str) -> Interface:
        """Return the tensors of the file's first signature; the delegate does not change them."""
        interface = interface_of(model)
        for tensor in interface.inputs + interface.outputs:
            if tensor.type not in ELEMENT_TYPES:
                raise AdapterError("litert_tensor_type", tensor=tensor.name, type=tensor.type)
        return interface

    def load(
        self,
        model: str,
        prepared: Optional[str],
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> TeflonContext:
        """Return an interpreter of the file with a delegate of its own."""
        _check_memory(memory)
        return _context(model, self._delegate(), memory, inputs)

    def dup(self, source: RuntimeContext, memory: Memory) -> TeflonContext:
        """Return another interpreter of the same file, with the delegate of source."""
        assert isinstance(source, TeflonContext)
        _check_memory(memory)
        first = source.delegated
        return _context(first.model, first.delegate, memory, first.given)

    def share_weights(
        self,
        model: str,
        source: RuntimeContext,
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> TeflonContext:
        """Refuse: the delegate makes the weights of each interpreter again."""
        raise NotSupported("teflon_own_weights")

    def shared_context(self, source: RuntimeContext, memory: Memory) -> TeflonContext:
        """Return a handle on the same interpreter, with arrays of its own."""
        assert isinstance(source, TeflonContext)
        _check_memory(memory)
        if memory.zero_copy:
            raise NotSupported("teflon_one_set_of_tensors")
        delegated = source.delegated
        tensors = InterpreterTensors(delegated.interpreter, delegated.given)
        return TeflonContext(delegated, tensors, memory)

    def _delegate(self) -> Any:
        """Return a new delegate, which opens the device."""
        try:
            return load_delegate(self._library)
        except OSError as error:  # no library, or one that the loader does not take
            raise AdapterError(
                "teflon_not_loaded", library=self._library, lines=str(error)
            ) from None
        except ValueError:  # the library's word for a delegate that it does not make
            message = device.reason(self._mesa)
            raise AdapterError(message.code, **message.values) from None


def open_runtime() -> Runtime:
    """Return the adapter; only the measured process may call this."""
    return TeflonRuntime()


def _context(model: str, delegate: Any, memory: Memory, inputs: Inputs) -> TeflonContext:
    delegated = _Delegated(model, delegate, memory, inputs)
    return TeflonContext(delegated, delegated.tensors, memory)


def _check_memory(memory: Memory) -> None:
    """Raise NotSupported for requests that Mesa cannot serve; the kernel chooses a core."""
    if memory.internal is not None:
        raise NotSupported("teflon_own_internal")
    if memory.outside:
        raise NotSupported("teflon_own_buffers")
    if memory.io is not None:
        raise NotSupported("teflon_one_set_of_tensors")
    if memory.device is not None or memory.device_io or "native_output" in memory.zero_copy:
        raise NotSupported("teflon_copies_tensors")
    if "model" in memory.zero_copy:
        raise NotSupported("no_model_in_place", runtime=_TITLE)
