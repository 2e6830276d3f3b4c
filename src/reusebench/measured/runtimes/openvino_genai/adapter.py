"""The adapter of OpenVINO GenAI, on the CPU.

A context is a conversation of a ContinuousBatchingPipeline, which LLMPipeline is, too, with blocks
of the cache for its tokens. A pipeline has a compiled model of its own. Sequences are further
requests of one pipeline: they have blocks of one cache, and prefix caching shares those in which
prompts are equal. A dup has no class in OpenVINO GenAI: contexts that share weights so are infer
requests of OpenVINO over one compiled model.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

# isort: off
import reusebench.measured.runtimes.openvino  # noqa: F401  keeps the converter out of the import

# isort: on
import openvino as ov
import openvino_genai as genai

from reusebench.measured.runtimes.base import (
    NO_INPUTS,
    Conversation,
    Copies,
    Inputs,
    Interface,
    Memory,
    NotSupported,
    Preparation,
    Runtime,
    RuntimeContext,
    Turn,
)
from reusebench.measured.runtimes.language import Generated, check_conversation
from reusebench.measured.runtimes.openvino_genai.model import check_file, is_gguf
from reusebench.measured.runtimes.openvino_genai.options import TITLE, Options
from reusebench.measured.runtimes.openvino_genai.pipeline import Pipeline, Request
from reusebench.measured.runtimes.openvino_genai.requests import CompiledDecoder, DecoderRequest

__all__ = ["OpenVinoGenAi", "open_runtime"]


class _Context(RuntimeContext):
    """A conversation of either kind."""

    _generated: Optional[Generated]

    def outputs(self) -> Sequence[memoryview]:
        """Return the tokens that the last turn generated."""
        return self._generated.views() if self._generated else []

    def turn(self) -> Optional[Turn]:
        """Return the timing of the last turn."""
        return self._generated.turn if self._generated else None

    def copies(self) -> Copies:
        """Return the bytes of the tokens that went in and came out."""
        return self._generated.copies() if self._generated else Copies(0, 0)


class PipelineContext(_Context):
    """A request of a pipeline."""

    def __init__(self, pipeline: Pipeline, request: Request) -> None:
        self.pipeline = pipeline
        self._is_first = len(pipeline.requests) == 1
        self._generated: Optional[Request] = request

    @property
    def request(self) -> Request:
        """The request, until destroy()."""
        assert self._generated is not None
        return self._generated

    def infer(self) -> None:
        """Hold one turn."""
        self.pipeline.hold([self.request])

    def account(self) -> Dict[str, int]:
        """Return the size of the cache; the first conversation of a pipeline has all of it."""
        return self.pipeline.account() if self._generated and self._is_first else {}

    def destroy(self) -> None:
        """Leave the pipeline, which goes with its last conversation."""
        if self._generated is not None:
            self.pipeline.leave(self._generated)
        self._generated = None


class RequestContext(_Context):
    """An infer request over a compiled model."""

    def __init__(self, request: DecoderRequest) -> None:
        self._generated: Optional[DecoderRequest] = request
        #: Saved state of the common tokens, for others; None until one asks.
        self.common_state: Optional[List[Any]] = None
        #: Whether no other context lists the saved state that its turns begin with.
        self.lists_state = False

    @property
    def request(self) -> DecoderRequest:
        """The request, until destroy()."""
        assert self._generated is not None
        return self._generated

    def infer(self) -> None:
        """Hold one turn."""
        self.request.hold()

    def account(self) -> Dict[str, int]:
        """Return the saved state; OpenVINO tells nothing of the cache, which grows with use."""
        if self._generated is None or not self.lists_state or self._generated.state is None:
            return {}
        return {"prompt_state_bytes": sum(int(part.nbytes) for part in self._generated.state)}

    def destroy(self) -> None:
        """Drop the request; the compiled model goes with its last one."""
        self._generated = None


class OpenVinoGenAi(Runtime):
    """The imported OpenVINO GenAI."""

    version = genai.__version__.split("-")[0]

    def __init__(self) -> None:
        self._core = ov.Core()

    def interface(self, model: str) -> Interface:
        """Return no tensors: a conversation has tokens."""
        check_file(self._core, model)
        return Interface((), (), {})

    def prepare(
        self,
        model: str,
        digest: str,
        folder: str,
        alive: Callable[[], None],
        inputs: Inputs = NO_INPUTS,
    ) -> Preparation:
        """Return the model itself, which requests of OpenVINO run as it is."""
        if is_gguf(model):
            raise NotSupported("openvino_genai_gguf_needs_pipeline")
        return Preparation(model)

    def load(
        self,
        model: str,
        prepared: Optional[str],
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> RuntimeContext:
        """Return a conversation in a new pipeline; in a request if others share its weights."""
        conversation = _conversation_of(memory)
        if prepared is None:
            pipeline = Pipeline(model, memory, conversation)
            return PipelineContext(pipeline, pipeline.join())
        decoder = CompiledDecoder(self._core, prepared, Options(memory.options))
        return RequestContext(DecoderRequest(decoder, conversation))

    def dup(self, source: RuntimeContext, memory: Memory) -> RequestContext:
        """Return a conversation in another request over the compiled model of source."""
        if not isinstance(source, RequestContext):
            raise NotSupported("openvino_genai_pipeline_compiles")
        conversation = _conversation_of(memory)
        return RequestContext(DecoderRequest(source.request.decoder, conversation))

    def sequence(self, source: RuntimeContext, memory: Memory) -> PipelineContext:
        """Return a conversation in the pipeline of source."""
        _conversation_of(memory)
        assert isinstance(source, PipelineContext)
        return PipelineContext(source.pipeline, source.pipeline.join())

    def shared_prompt(self, source: RuntimeContext, memory: Memory) -> PipelineContext:
        """Return the same: the pipeline finds the blocks in which prompts are equal."""
        return self.sequence(source, memory)

    def restored_prompt(self, source: RuntimeContext, memory: Memory) -> RequestContext:
        """Return a dup whose turns begin with the saved state of the common tokens."""
        context = self.dup(source, memory)
        assert isinstance(source, RequestContext)
        context.lists_state = source.common_state is None
        if source.common_state is None:
            source.common_state = source.request.common_state()
        context.request.state = source.common_state
        return context

    def adapter(self, model: str, source: RuntimeContext, memory: Memory) -> PipelineContext:
        """Return a conversation in the pipeline of source that computes with an adapter."""
        _conversation_of(memory)
        assert isinstance(source, PipelineContext)
        return PipelineContext(source.pipeline, source.pipeline.join_with_adapter(model))

    def infer_together(self, contexts: Sequence[RuntimeContext]) -> None:
        """Hold a turn of all requests of a pipeline at once."""
        first = contexts[0]
        if not isinstance(first, PipelineContext):
            first.infer()
            return
        requests: List[Request] = []
        for context in contexts:
            assert isinstance(context, PipelineContext)
            requests.append(context.request)
        first.pipeline.hold(requests)


def open_runtime() -> Runtime:
    """Return the adapter; only the measured process may call this."""
    return OpenVinoGenAi()


def _conversation_of(memory: Memory) -> Conversation:
    """Return the conversation; raise NotSupported for requests that the runtime cannot serve."""
    if memory.sequences > 1 and not memory.unified_cache:
        raise NotSupported("openvino_genai_one_cache")
    return check_conversation(memory, TITLE)
