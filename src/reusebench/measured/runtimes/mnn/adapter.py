"""The adapter of MNN, on the CPU, through its Module API.

MNN's manual recommends it over Interpreter and Session. One inference uses one core. Module.forward
keeps Python's lock, so modules of several threads run in turn. All modules of a process have their
intermediate tensors in one memory, that of its executor, whether the plan shares it or not.
Sessions of the older API (sessions.py) do neither: the option api=Interpreter.
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
)
from reusebench.measured.runtimes.mnn.failures import check_weights
from reusebench.measured.runtimes.mnn.options import MnnSettings, settings_of
from reusebench.measured.runtimes.mnn.sessions import SessionContext
from reusebench.measured.runtimes.mnn.tensors import MnnTensors, Signature, fed_inputs, signature_of

__all__ = ["Mnn", "MnnContext", "open_runtime"]

_TITLE = "MNN"
#: Suffix of the file with the weights (mnnconvert --saveExternalData), after the name of the model.
_WEIGHTS = ".weight"
#: Settings of a module that is inspected and not run.
_AS_DECLARED = MnnSettings(rearrange=False)


class ModuleSource(NamedTuple):
    """The file and the settings that a module and its clones are made from."""

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
            self.module,
            self._signature,
            self.inputs,
            self._zero_copy,
            arrays,
        )

    def infer(self) -> None:
        """Run the module once."""
        assert self._tensors is not None
        self._tensors.run()

    def renew_io(self) -> None:
        """Make new variables."""
        self._open_tensors({})

    def destroy(self) -> None:
        """Drop the outputs, which hold MNN's memory, then the module; its last clone has the
        weights.
        """
        self._tensors = None
        self.module = None


class Mnn(Runtime):
    """The imported MNN."""

    version = MNN.version()

    def __init__(self) -> None:
        self._shared_arrays = SharedArrays()
        #: Signatures by the path of the file.
        self._signatures: Dict[str, Signature] = {}

    def interface(self, model: str) -> Interface:
        """Return the inputs that the file declares, and its outputs, whose sizes are unknown."""
        signature = self._signature(model)
        # MNN reads the weights to pack them, and goes on without them if the file is missing.
        _load(model, settings_of(()))
        check_weights(model)
        outputs = tuple(DeclaredTensor(name, "", ()) for name in signature.outputs)
        metadata = {}
        if signature.version:
            metadata["version"] = signature.version
        return Interface(signature.inputs, outputs, metadata)

    def load(
        self,
        model: str,
        prepared: Optional[str],
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> RuntimeContext:
        """Return a module of the file, or a session of an interpreter of its own."""
        _check_memory(memory)
        settings = settings_of(memory.options)
        if settings.is_interpreter:
            if memory.zero_copy or memory.internal is not None:
                raise NotSupported("mnn_session_memory")
            signature = self._signature(model)
            signature.check_plain()
            data = fed_inputs(signature.inputs, inputs)
            return SessionContext.load(model, settings, data, signature.outputs)

        module = _load(model, settings)
        signature = self._signature(model, module)
        arrays = self._shared_arrays.of(memory.io)
        return MnnContext(module, ModuleSource(model, settings), signature, memory, inputs, arrays)

    def dup(self, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Return a clone, which shares packed weights; another session shares the file's bytes."""
        _check_memory(memory)
        if isinstance(source, SessionContext):
            return source.dup()
        assert isinstance(source, MnnContext)
        return self._clone(source, source.origin.model, memory, source.inputs)

    def share_weights(
        self,
        model: str,
        source: RuntimeContext,
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> RuntimeContext:
        """Return a clone with inputs of other sizes; both files must be one network otherwise."""
        _check_memory(memory)
        if not isinstance(source, MnnContext):
            raise NotSupported("no_shared_weights", runtime=_TITLE)
        if self._network_of(model) != self._network_of(source.origin.model):
            raise NotSupported("mnn_networks_differ")
        return self._clone(source, model, memory, inputs)

    def shared_context(self, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Return a handle on the same module with variables of its own; outputs are new anyway."""
        _check_memory(memory)
        if not isinstance(source, MnnContext):
            raise NotSupported("no_shared_context", runtime=_TITLE)
        return self._over(source.module, source, source.origin.model, memory, source.inputs)

    def _signature(self, model: str, module: Any = None) -> Signature:
        """Return the signature of a file; `module` is made of it, if there is one already."""
        if model not in self._signatures:
            self._signatures[model] = signature_of(module or _load(model, _AS_DECLARED))
        return self._signatures[model]

    def _network_of(self, model: str) -> Tuple[Tuple[int, int], ...]:
        return _network_in(model, self._signature(model).inputs)

    def _clone(self, source: MnnContext, model: str, memory: Memory, inputs: Inputs) -> MnnContext:
        settings = source.origin.settings
        if not settings.rearrange and not source.outputs():
            source.infer()  # packs the weights; a clone that is made earlier packs its own
        _runtime_manager(settings)
        assert source.module is not None
        return self._over(source.module.clone(), source, model, memory, inputs)

    def _over(
        self,
        module: Any,
        source: MnnContext,
        model: str,
        memory: Memory,
        inputs: Inputs,
    ) -> MnnContext:
        arrays = self._shared_arrays.of(memory.io)
        return MnnContext(module, source.origin, self._signature(model), memory, inputs, arrays)


def open_runtime() -> Runtime:
    """Return the adapter; only the measured process may call this."""
    return Mnn()


def _check_memory(memory: Memory) -> None:
    """Raise NotSupported for requests that the runtime cannot serve; the schedule sees to cores."""
    if "model" in memory.zero_copy:
        raise NotSupported("mnn_no_external_path")
    check_host_memory(memory, _TITLE)
    if "internal" in memory.outside:
        raise NotSupported("mnn_no_allocator")
    if "weights" in memory.outside:
        raise NotSupported("mnn_keeps_weights")
    if memory.allocator != "create_mem":
        raise NotSupported("mnn_own_memory", allocator=memory.allocator)
    if memory.device is not None or memory.device_io:
        raise NotSupported("mnn_cpu_alone")


def _load(model: str, settings: MnnSettings) -> Any:
    """Return a module of a file; if MNN fails, the reason is on standard error.

    Without a RuntimeManager it would run on four threads, whatever its argument thread_num says.
    """
    manager = _runtime_manager(settings)
    try:
        return nn.load_module_from_file(
            model,
            [],
            [],
            runtime_manager=manager,
            rearrange=settings.rearrange,
        )
    except SystemError:  # its cause, an Exception, has no reason either
        raise AdapterError("mnn_model_unreadable", model=model) from None


def _runtime_manager(settings: MnnSettings) -> Any:
    """Return MNN's RuntimeManager with these settings, for the next module.

    Its hints are those of the process: the last manager that set them wins.
    """
    manager = _new_manager(settings)
    for hint, value in settings.hints:
        manager.set_hint(hint, value)
    return manager


@functools.lru_cache(maxsize=None)  # noqa: UP033  functools.cache needs Python 3.9
def _new_manager(settings: MnnSettings) -> Any:
    """Return one manager for all modules of these settings: the call leaks its dictionary."""
    return nn.create_runtime_manager((settings.schedule,))


def _network_in(model: str, inputs: Sequence[DeclaredTensor]) -> Tuple[Tuple[int, int], ...]:
    """Return checksums that two files have in common if they are one network at different sizes.

    They leave out the sizes of the inputs and the file's random identifier, and include the file of
    the weights, if there is one beside the model.
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
    """Return the size of a file, and the CRC-32 without the last of each of these texts."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        begin = 0
        checksum = 0
        with memoryview(content) as view:
            pieces = sorted((content.rfind(piece), len(piece)) for piece in without)
            for position, size in pieces:
                if position >= begin:
                    checksum = zlib.crc32(view[begin:position], checksum)
                    begin = position + size
            return len(view), zlib.crc32(view[begin:], checksum)
