"""MNN's older API: an interpreter holds the file's bytes, each session packs its own weights.

Sessions of several interpreters run at the same time, since runSession releases Python's lock;
those of one interpreter wait for each other. Python has no releaseSession: a session goes with its
interpreter.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import MNN

from reusebench.measured.runtimes.arrays import as_buffer, filled, image_in
from reusebench.measured.runtimes.base import (
    Copies,
    ImageInput,
    InputData,
    NotSupported,
    RuntimeContext,
)
from reusebench.measured.runtimes.mnn.failures import inference_error
from reusebench.measured.runtimes.mnn.options import MnnSettings

__all__ = ["SessionContext"]

#: Code of the memory in Interpreter::SessionInfoCode.
_MEMORY = 0
_MIB = 1 << 20


class SessionContext(RuntimeContext):
    """A session with arrays of its own."""

    def __init__(
        self,
        interpreter: Any,
        settings: MnnSettings,
        fed: Sequence[InputData],
        outputs: Sequence[str],
    ) -> None:
        self.interpreter: Any = interpreter
        self.settings = settings
        self.fed = fed
        self.output_names = outputs
        try:
            self._session: Any = interpreter.createSession(settings.schedule)
        except Exception as error:  # MNN raises no other class
            raise NotSupported("mnn_no_session", error=str(error)) from None
        self._arrays: Dict[str, Any] = {}
        for tensor in fed:
            input_ = interpreter.getSessionInput(self._session, tensor.name)
            interpreter.resizeTensor(input_, tuple(tensor.shape))
            self._arrays[tensor.name] = filled(tensor)
        interpreter.resizeSession(self._session)
        #: MNN's output tensors, and the application's in the order of ONNX.
        self._outputs: List[Tuple[Any, Any]] = []
        by_name = interpreter.getSessionOutputAll(self._session)
        for name in outputs:
            host = MNN.Tensor(by_name[name], MNN.Tensor_DimensionType_Caffe)
            self._outputs.append((by_name[name], host))

    @classmethod
    def load(
        cls,
        model: str,
        settings: MnnSettings,
        fed: Sequence[InputData],
        outputs: Sequence[str],
    ) -> SessionContext:
        """Return the first session of an interpreter of the file."""
        interpreter = MNN.Interpreter(model)
        for hint, value in settings.hints:
            interpreter.setSessionHint(hint, value)
        return cls(interpreter, settings, fed, outputs)

    def dup(self) -> SessionContext:
        """Return another session of the interpreter, which shares only the file's bytes."""
        return SessionContext(self.interpreter, self.settings, self.fed, self.output_names)

    def infer(self) -> None:
        """Write the inputs, which MNN overwrites in every run, run, and copy the outputs."""
        for name, array in self._arrays.items():
            tensor = self.interpreter.getSessionInput(self._session, name)
            tensor.getNumpyData()[...] = array
        if self.interpreter.runSession(self._session):
            raise inference_error()
        for output, host in self._outputs:
            output.copyToHostTensor(host)

    def outputs(self) -> List[memoryview]:
        """Return the application's tensors."""
        return [as_buffer(host.getNumpyData()) for _, host in self._outputs]

    def copies(self) -> Copies:
        """Return the size of every tensor: each is copied once."""
        input_bytes = sum(array.nbytes for array in self._arrays.values())
        output_bytes = sum(output.nbytes for output in self.outputs())
        return Copies(input_bytes, output_bytes)

    def image_input(self) -> ImageInput:
        """Return the application's array."""
        return image_in(self._arrays.values())

    def account(self) -> Dict[str, int]:
        """Return the memory of the session, as MNN reports it."""
        if self.interpreter is None:
            return {}
        size_mib = self.interpreter.getSessionInfo(self._session, _MEMORY)
        return {"session_bytes": round(size_mib * _MIB)}

    def destroy(self) -> None:
        """Drop the interpreter; MNN frees it with all of its sessions, after its last holder."""
        self._outputs = []
        self._arrays = {}
        self._session = self.interpreter = None
