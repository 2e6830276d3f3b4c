"""MNN's older API: an interpreter holds the bytes of the file, each session of it packs weights of
its own.

Sessions of several interpreters run at the same time, since runSession releases Python's lock;
those of one interpreter wait for each other. Python has no releaseSession: a session goes with its
interpreter.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import MNN

from reusebench.measured.runtimes.arrays import as_buffer, filled, image_in
from reusebench.measured.runtimes.base import (
    AdapterError,
    Copies,
    ImageInput,
    InputData,
    NotSupported,
    RuntimeContext,
)
from reusebench.measured.runtimes.mnn.options import MnnSettings

__all__ = ["SessionContext"]

#: Interpreter::SessionInfoCode.
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
        #: MNN's tensors, and the application's, which are in the order of ONNX.
        outputs_of = interpreter.getSessionOutputAll(self._session)
        self._outputs = [(outputs_of[name], _host_tensor(outputs_of[name])) for name in outputs]

    @classmethod
    def load(
        cls, model: str, settings: MnnSettings, fed: Sequence[InputData], outputs: Sequence[str]
    ) -> SessionContext:
        """Return the first session of an interpreter of the file."""
        interpreter = MNN.Interpreter(model)
        for hint, value in settings.hints:
            interpreter.setSessionHint(hint, value)
        return cls(interpreter, settings, fed, outputs)

    def dup(self) -> SessionContext:
        """Return a further session of the interpreter, which shares the bytes of the file alone."""
        return SessionContext(self.interpreter, self.settings, self.fed, self.output_names)

    def infer(self) -> None:
        """Write the inputs, which MNN overwrites in every run, run, and copy the outputs."""
        for name, array in self._arrays.items():
            self.interpreter.getSessionInput(self._session, name).getNumpyData()[...] = array
        if self.interpreter.runSession(self._session):
            raise AdapterError("mnn_inference_failed")
        for output, host in self._outputs:
            output.copyToHostTensor(host)

    def outputs(self) -> List[memoryview]:
        """Return the application's tensors."""
        return [as_buffer(host.getNumpyData()) for _, host in self._outputs]

    def copies(self) -> Copies:
        """Return every tensor once."""
        inputs = self._arrays.values()
        outputs = self.outputs()
        return Copies(
            sum(array.nbytes for array in inputs), sum(output.nbytes for output in outputs)
        )

    def image_input(self) -> ImageInput:
        """Return the application's array."""
        return image_in(self._arrays.values())

    def account(self) -> Dict[str, int]:
        """Return what MNN says the session takes."""
        if self.interpreter is None:
            return {}
        return {
            "session_bytes": round(self.interpreter.getSessionInfo(self._session, _MEMORY) * _MIB)
        }

    def destroy(self) -> None:
        """Let go of the interpreter, which MNN frees, with all of its sessions, when nobody holds
        it.
        """
        self._outputs = []
        self._arrays = {}
        self._session = self.interpreter = None


def _host_tensor(tensor: Any) -> Any:
    """Return a tensor of the application like that of a session."""
    return MNN.Tensor(tensor, MNN.Tensor_DimensionType_Caffe)
