"""The adapter of MNN, on the CPU, by its Module API, which MNN's manual recommends over Interpreter
and Session.

One inference uses one core. Module.forward keeps Python's lock, so modules of several threads run
in turn; and all modules of a process have their intermediate tensors in one memory, that of its
executor, whether they share it by the plan or not. Sessions of the older API (sessions.py) do
neither: the option api=Interpreter.
"""

from __future__ import annotations

import functools
import mmap
import os
import struct
import zlib
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

import MNN
from MNN import nn

from reusebench.measured.runtimes.arrays import Arrays, ContextOfTensors, SharedArrays
from reusebench.measured.runtimes.base import (
    NO_INPUTS,
    AdapterError,
    DeclaredTensor,
    Inputs,
    Interface,
    Memory,
    NotSupported,
    Runtime,
    RuntimeContext,
    check_host_memory,
    check_options,
)
from reusebench.measured.runtimes.mnn.options import OPTIONS, MnnSettings, settings_of
from reusebench.measured.runtimes.mnn.sessions import SessionContext
from reusebench.measured.runtimes.mnn.tensors import MnnTensors, Signature, fed_inputs, signature_of

__all__ = ["Mnn", "MnnContext", "open_runtime"]

_TITLE = "MNN"
#: Of the name of the file with the weights (mnnconvert --saveExternalData), after that of the
#: model.
_WEIGHTS = ".weight"
#: Of a module that is looked at and not run.
_AS_DECLARED = MnnSettings(rearrange=False)


class ModuleSource(NamedTuple):
    """What a module and its clones are made from."""

    model: str
    settings: MnnSettings


class MnnContext(ContextOfTensors[MnnTensors]):
    """A module with variables of its own."""

    def __init__(
        self,
        module: Any,
        origin: ModuleSource,
        signature: Signature,
        memory: Memory,
        inputs: Inputs,
        arrays: Arrays,
    ) -> None:
        #: None once destroyed.
        self.module: Optional[Any] = module
        self.origin = origin
        self.inputs = inputs
        self._signature = signature
        self._zero_copy = memory.zero_copy
        self._tensors: Optional[MnnTensors] = None
        self._open_tensors(arrays)

    def _open_tensors(self, arrays: Arrays) -> None:
        self._tensors = MnnTensors(
            self.module, self._signature, self.inputs, self._zero_copy, arrays
        )

    def infer(self) -> None:
        """Run the module once."""
        self._tensors.run()  # type: ignore[union-attr]

    def renew_io(self) -> None:
        """Make new variables."""
        self._open_tensors({})

    def destroy(self) -> None:
        """Drop the outputs, which hold MNN's memory too, then the module; weights go with the last
        of its clones.
        """
        self._tensors = None
        self.module = None


class Mnn(Runtime):
    """An imported MNN."""

    version = MNN.version()

    def __init__(self) -> None:
        self._shared_arrays = SharedArrays()
        #: By the path of the file.
        self._signatures: Dict[str, Signature] = {}

    def interface(self, model: str) -> Interface:
        """Return the inputs that the file declares, and the names of its outputs: it shows no sizes
        of these.
        """
        signature = self._signature(model)
        outputs = tuple(DeclaredTensor(name, "", ()) for name in signature.outputs)
        return Interface(
            signature.inputs, outputs, {"version": signature.version} if signature.version else {}
        )

    def load(
        self, model: str, prepared: Optional[str], memory: Memory, inputs: Inputs = NO_INPUTS
    ) -> RuntimeContext:
        """Return a module of the file, or a session of an interpreter of its own."""
        _check_memory(memory)
        settings = settings_of(memory.options)
        if settings.is_interpreter:
            if memory.zero_copy or memory.internal is not None:
                raise NotSupported("mnn_session_memory")
            signature = self._signature(model)
            signature.check_plain()
            return SessionContext.load(
                model, settings, fed_inputs(signature.inputs, inputs), signature.outputs
            )
        module = _load(model, settings)
        signature = self._signature(model, module)
        arrays = self._shared_arrays.of(memory.io)
        return MnnContext(module, ModuleSource(model, settings), signature, memory, inputs, arrays)

    def dup(self, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Return a clone, which shares the packed weights; of a session another one, which shares
        the file's bytes.
        """
        _check_memory(memory)
        if isinstance(source, SessionContext):
            return source.dup()
        assert isinstance(source, MnnContext)
        return self._clone(source, source.origin.model, memory, source.inputs)

    def share_weights(
        self, model: str, source: RuntimeContext, memory: Memory, inputs: Inputs = NO_INPUTS
    ) -> RuntimeContext:
        """Return a clone with inputs of other sizes; both files must be one network but for
        these.
        """
        _check_memory(memory)
        if not isinstance(source, MnnContext):
            raise NotSupported("no_shared_weights", runtime=_TITLE)
        networks = [
            _network_in(path, self._signature(path).inputs) for path in (model, source.origin.model)
        ]
        if networks[0] != networks[1]:
            raise NotSupported("mnn_networks_differ")
        return self._clone(source, model, memory, inputs)

    def shared_context(self, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Return a handle on the same module with variables of its own; outputs are new variables
        anyway.
        """
        _check_memory(memory)
        if not isinstance(source, MnnContext):
            raise NotSupported("no_shared_context", runtime=_TITLE)
        return self._over(source.module, source, source.origin.model, memory, source.inputs)

    def _signature(self, model: str, module: Any = None) -> Signature:
        """Return that of a file; `module` is one of it, where there is one already."""
        if model not in self._signatures:
            self._signatures[model] = signature_of(module or _load(model, _AS_DECLARED))
        return self._signatures[model]

    def _clone(self, source: MnnContext, model: str, memory: Memory, inputs: Inputs) -> MnnContext:
        settings = source.origin.settings
        if not settings.rearrange and not source.outputs():
            source.infer()  # packs the weights; a clone that is made before packs its own
        _runtime_manager(settings)
        assert source.module is not None
        return self._over(source.module.clone(), source, model, memory, inputs)

    def _over(
        self, module: Any, source: MnnContext, model: str, memory: Memory, inputs: Inputs
    ) -> MnnContext:
        arrays = self._shared_arrays.of(memory.io)
        return MnnContext(module, source.origin, self._signature(model), memory, inputs, arrays)


def open_runtime() -> Runtime:
    """Return the adapter: for the measured process only."""
    return Mnn()


def _check_memory(memory: Memory) -> None:
    """Raise NotSupported for what the runtime cannot do; the core is the schedule's concern
    alone.
    """
    if "model" in memory.zero_copy:
        raise NotSupported("mnn_no_external_path")
    check_host_memory(memory, _TITLE)
    check_options(memory, _TITLE, list(OPTIONS))
    if "internal" in memory.outside:
        raise NotSupported("mnn_no_allocator")
    if "weights" in memory.outside:
        raise NotSupported("mnn_keeps_weights")
    if memory.allocator != "create_mem":
        raise NotSupported("mnn_own_memory", allocator=memory.allocator)
    if memory.device is not None or memory.device_io:
        raise NotSupported("mnn_cpu_alone")


def _load(model: str, settings: MnnSettings) -> Any:
    """Return a module of a file; MNN says why it cannot on standard error.

    Without a RuntimeManager it would run on four threads, whatever its argument thread_num says.
    """
    manager = _runtime_manager(settings)
    try:
        return nn.load_module_from_file(
            model, [], [], runtime_manager=manager, rearrange=settings.rearrange
        )
    except SystemError:  # its cause, an Exception, has no reason either
        raise AdapterError("mnn_model_unreadable", model=model) from None


def _runtime_manager(settings: MnnSettings) -> Any:
    """Return MNN's RuntimeManager with these settings, for what is made next.

    Its hints are those of the process, whichever manager they were set by last.
    """
    manager = _new_manager(settings)
    for hint, value in settings.hints:
        manager.set_hint(hint, value)
    return manager


@functools.lru_cache(maxsize=None)  # noqa: UP033  functools.cache needs Python 3.9
def _new_manager(settings: MnnSettings) -> Any:
    """Return one for all modules of these settings; create_runtime_manager never frees the
    dictionary it is given.
    """
    return nn.create_runtime_manager((settings.schedule,))


def _network_in(model: str, inputs: Sequence[DeclaredTensor]) -> Tuple[Tuple[int, int], ...]:
    """Return what two files have in common that are one network at different sizes.

    It is all but the sizes of the inputs and the file's random identifier, and the file with its
    weights, if there is one beside it.
    """
    own = [MNN.get_model_uuid(model).encode()]
    for tensor in inputs:
        sizes = [size if isinstance(size, int) else -1 for size in tensor.dimensions]
        own.append(struct.pack(f"<{1 + len(sizes)}i", len(sizes), *sizes))
    checksums = [_checksum(model, own)]
    if os.path.exists(model + _WEIGHTS):
        checksums.append(_checksum(model + _WEIGHTS, []))
    return tuple(checksums)


def _checksum(path: str, without: Sequence[bytes]) -> Tuple[int, int]:
    """Return the size of a file, and the CRC-32 of all but the last of each of these texts in
    it.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        begin = 0
        checksum = 0
        with memoryview(content) as view:
            for position, size in sorted((content.rfind(piece), len(piece)) for piece in without):
                if position >= begin:
                    checksum = zlib.crc32(view[begin:position], checksum)
                    begin = position + size
            return len(view), zlib.crc32(view[begin:], checksum)
