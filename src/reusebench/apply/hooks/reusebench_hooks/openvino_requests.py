"""Requests and queues of OpenVINO's compiled models, which may be one with others.

The runtime calls all callbacks of a compiled model in one thread. A callback that waits for a
request of another caller would wait for itself there. So functions of the program run in a thread
of their caller, and a queue, which the runtime has in C++, gets a compiled model of its own.
"""

from __future__ import annotations

import time
import weakref
from typing import Any, Callable, Optional

from reusebench_hooks import heap, settings
from reusebench_hooks.callbacks import Callbacks, CallbackThread
from reusebench_hooks.digests import Digests
from reusebench_hooks.patching import Call, note_on, patch
from reusebench_hooks.report import Report
from reusebench_hooks.turns import Turns

#: Attribute of a compiled model and of its requests.
USE = "_reusebench_use"
_CALLBACKS = "_reusebench_callbacks"


class Use:
    """A compiled model, as one caller has it."""

    def __init__(self, name: str) -> None:
        #: Name of the model, for digests.
        self.name = name
        #: Callers with the same native object; None if it is the caller's own.
        self.group: Any = None
        #: The native object, for other callers.
        self.native: Any = None
        #: Compiled model that makes the requests; None if it is the caller's.
        self.engine: Any = None
        self.thread = CallbackThread()
        #: Whether the caller's model was read and not used, so that freed memory is left.
        self.leaves_garbage = False
        self._make_own: Optional[Call] = None

    def be_shared(self, group: Any, make_own: Call) -> None:
        """Be one with the group; `make_own` returns an own copy of the compiled model."""
        self.group = group
        self._make_own = make_own

    def leave(self, compiled: Any) -> Any:
        """Share no longer; return the compiled model to use from now on."""
        group = self.group
        if group is None or self._make_own is None:
            return self.engine or compiled
        with group.lock:
            if group.leave(self) or self.engine is not None:
                self.engine = self._make_own(compiled)
            self.group = self.native = None
        return self.engine or compiled

    def leave_if_alone(self) -> bool:
        """Share no longer if nobody else has the native object yet; whether this was so."""
        group = self.group
        if group is None:
            return False
        with group.lock:
            if len(group.callers()) > 1 or self.engine is not None:
                return False
            group.leave(self)
            self.group = self.native = None
        return True


class Requests:
    """Infer requests that take turns, and whose outputs get digests."""

    def __init__(self, openvino: Any, report: Report, turns: Turns, digests: Digests) -> None:
        self._openvino = openvino
        self._report = report
        self._turns = turns
        self._digests = digests

    def patch(self) -> None:
        """Let the classes of requests and queues do so."""
        compiled, request = self._openvino.CompiledModel, self._openvino.InferRequest
        self._set_native_callback = request.set_callback
        queue = self._openvino.AsyncInferQueue
        patch(compiled, "__init__", self._wrap_compiled)
        patch(compiled, "create_infer_request", self._create)
        patch(request, "get_compiled_model", self._compiled_of)
        patch(request, "infer", self._infer)
        patch(request, "set_callback", self._set_callback)
        patch(queue, "__init__", self._make_queue)
        if settings.WITH_DIGESTS:
            patch(queue, "set_callback", self._set_queue_callback)
        if not settings.IS_OFF:
            patch(compiled, "release_memory", self._release_memory)
            patch(request, "wait", self._wait)
            patch(request, "wait_for", self._wait_for)

    # Compiled models

    def _wrap_compiled(
        self, original: Call, compiled: Any, other: Any, *arguments: Any, **named: Any
    ) -> None:
        original(compiled, other, *arguments, **named)
        use = note_on(other, USE)
        if use is not None:
            setattr(compiled, USE, use)

    def _compiled_of(self, original: Call, request: Any) -> Any:
        compiled = original(request)
        setattr(compiled, USE, note_on(request, USE))
        return compiled

    def _create(self, original: Call, compiled: Any) -> Any:
        use = note_on(compiled, USE)
        if use is not None and use.leaves_garbage:
            heap.give_back()
            use.leaves_garbage = False
        request = original(compiled if use is None or use.engine is None else use.engine)
        setattr(request, USE, use)
        if use is not None and use.group is not None:
            _use_own_inputs(request)
        if settings.WITH_DIGESTS and use is not None:
            self._set_native_callback(request, self._with_digest(use, request, _nothing), None)
        return request

    def _release_memory(self, original: Call, compiled: Any) -> None:
        """Release memory, unless others compute with it now: for them it would be an error."""
        use = note_on(compiled, USE)
        if use is None or use.group is None:
            original(compiled)
            return
        try:
            original(use.engine or compiled)
        except RuntimeError:
            if len(use.group.callers()) == 1:
                raise

    # Requests

    def _infer(self, original: Call, request: Any, *arguments: Any, **named: Any) -> Any:
        use = note_on(request, USE)
        if use is None:
            return original(request, *arguments, **named)
        if use.group is None:
            outputs = original(request, *arguments, **named)
        else:
            with self._turns:
                outputs = original(request, *arguments, **named)
        self._add_digest(use, request)
        return outputs

    def _set_callback(self, original: Call, request: Any, callback: Any, userdata: Any) -> None:
        use = note_on(request, USE)
        if use is None:
            original(request, callback, userdata)
            return
        group = use.group
        if use.leave_if_alone():
            self._report.shares_no_more("context", group.name)
            self._report.left_alone("callbacks")
        function = callback
        if settings.WITH_DIGESTS:
            function = self._with_digest(use, request, callback)
        if use.group is not None:
            callbacks = Callbacks(use.thread)
            setattr(request, _CALLBACKS, callbacks)
            function = callbacks.handing_over(function)
        original(request, function, userdata)

    def _with_digest(self, use: Use, request: Any, callback: Call) -> Call:
        found = weakref.ref(request)  # the request holds its callback

        def call(data: Any) -> None:
            self._add_digest(use, found())
            callback(data)

        return call

    def _wait(self, original: Call, request: Any) -> Any:
        result = original(request)
        callbacks = note_on(request, _CALLBACKS)
        if callbacks is not None:
            callbacks.wait()
        return result

    def _wait_for(self, original: Call, request: Any, timeout: int) -> Any:
        end_s = time.monotonic() + timeout / 1000
        callbacks = note_on(request, _CALLBACKS)
        return original(request, timeout) and (callbacks is None or callbacks.wait_until(end_s))

    # Queues

    def _make_queue(
        self, original: Call, queue: Any, model: Any, *arguments: Any, **named: Any
    ) -> None:
        use = note_on(model, USE)
        if use is not None and use.group is not None:
            model = self._own(use, use.group, model)
        original(queue, model, *arguments, **named)
        setattr(queue, USE, use)
        if settings.WITH_DIGESTS:
            queue.set_callback(_nothing)

    def _own(self, use: Use, group: Any, compiled: Any) -> Any:
        try:
            own = use.leave(compiled)
        except RuntimeError:
            self._report.failed("import_model")
            return compiled
        self._report.shares_no_more("context", group.name)
        self._report.left_alone("async_queue")
        return own

    def _set_queue_callback(
        self, original: Call, queue: Any, callback: Callable[[Any, Any], Any]
    ) -> None:
        use = note_on(queue, USE)

        def call(request: Any, userdata: Any) -> None:
            if use is not None:
                self._add_digest(use, request)
            callback(request, userdata)

        original(queue, call)

    # Digests

    def _add_digest(self, use: Use, request: Any) -> None:
        if not settings.WITH_DIGESTS:
            return
        try:
            self._digests.add(use.name, map(_values, request.output_tensors))
        except Exception:  # a tensor of a kind that has no digest
            self._report.failed("digest")


def _use_own_inputs(request: Any) -> None:
    """Have the graph read inputs of free sizes where the request has them.

    Otherwise it reads them where the last request had them, and the runtime copies them there: into
    an array of another caller, if that was used in place (2026.4).
    """
    for index, port in enumerate(request.model_inputs):
        if port.get_partial_shape().is_dynamic:
            request.set_input_tensor(index, request.get_input_tensor(index))


def _values(tensor: Any) -> Any:
    kind = tensor.get_element_type().get_type_name()
    return tensor.str_data if kind == "string" else tensor.data


def _nothing(*_: Any) -> None:
    """Do nothing, as a callback of the program."""
