"""The adapter of ONNX Runtime GenAI, on the CPU.

A context is a Generator, which has the cache of one conversation, over a Model, which has weights
and scratch memory. A dup is another Generator over the same Model. Sequences are the rows of one
Generator: a batch, which has a cache of equal parts and advances together.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import onnxruntime_genai as og

from reusebench.measured.runtimes.base import (
    NO_INPUTS,
    AdapterError,
    Conversation,
    Copies,
    Inputs,
    Interface,
    Memory,
    NotSupported,
    Runtime,
    RuntimeContext,
    Turn,
)
from reusebench.measured.runtimes.language import Generated, check_conversation, hold_turn
from reusebench.measured.runtimes.onnxruntime_genai.model import (
    open_model,
    read_config,
    refuse_more_tokens,
)
from reusebench.measured.runtimes.onnxruntime_genai.options import Options
from reusebench.measured.runtimes.prompts import prompt_tokens

__all__ = ["OnnxRuntimeGenAi", "OnnxRuntimeGenAiContext", "open_runtime"]

_TITLE = "ONNX Runtime GenAI"


class LoadedModel:
    """A model with its weights, and the adapters (LoRA) that were added to it."""

    def __init__(self, model: str, options: Options) -> None:
        self.path = model
        self.config = read_config(model)
        self.options = options
        self.model: Any = open_model(model, self.config, options)
        self._adapters: Any = None

    def add_adapter(self, path: str) -> Any:
        """Load an adapter, unless it is, and return the object that holds all of them."""
        if self._adapters is None:
            self._adapters = og.Adapters(self.model)
        try:
            self._adapters.load(path, path)
        except RuntimeError as error:
            if "already loaded" not in str(error):
                raise AdapterError(
                    "ort_genai_adapter_unreadable", adapter=path, error=str(error)
                ) from None
        return self._adapters


class Batch:
    """A Generator: the cache of conversations that advance together, one or several."""

    def __init__(self, loaded: LoadedModel, memory: Memory, conversation: Conversation) -> None:
        refuse_more_tokens(loaded.path, loaded.config, conversation.tokens)
        if memory.sequences > 1:
            loaded.options.check_batch()
        self.loaded = loaded
        self.conversation = conversation
        self.size = memory.sequences
        #: One per conversation that has joined.
        self.rows: List[Generated] = []
        #: Tokens of the prompt that stay in the cache from turn to turn.
        self._kept = 0
        if loaded.options.keeps_common:
            self._kept = min(conversation.common, conversation.prompt - 1)
        prompt = prompt_tokens(conversation.prompt, loaded.config["vocab_size"])
        self._prompt = np.array(prompt, np.int32)
        self._generator = self._new_generator()

    def _new_generator(self) -> Any:
        parameters = og.GeneratorParams(self.loaded.model)
        search = {
            "batch_size": self.size,
            "do_sample": False,
            "max_length": self.conversation.tokens,
            "min_length": 0,
            "num_beams": 1,
            "repetition_penalty": 1.0,
        }
        parameters.set_search_options(**{**search, **self.loaded.options.search})
        return og.Generator(self.loaded.model, parameters)

    def use_adapter(self, path: str) -> None:
        """Compute with an adapter."""
        try:
            self._generator.set_active_adapter(self.loaded.add_adapter(path), path)
        except RuntimeError as error:
            raise AdapterError(
                "ort_genai_adapter_unreadable", adapter=path, error=str(error)
            ) from None

    def join(self) -> Generated:
        """Add a conversation."""
        self.rows.append(Generated())
        return self.rows[-1]

    def hold(self) -> None:
        """Hold a turn of every conversation."""
        generator = self._generator
        kept = min(self._kept, generator.token_count())
        rest = self._prompt[kept:]

        def step(number: int) -> Any:
            if number == 0:
                generator.rewind_to(kept)
                generator.append_tokens(np.tile(rest, (self.size, 1)))
            generator.generate_next_token()
            return generator.get_next_tokens().tolist()

        hold_turn(self.rows, len(rest), self.conversation.generated, step)

    def cache_bytes(self) -> int:
        """Return the size of the cache as it is now.

        Two tensors per layer; reading one copies it.
        """
        names = self.loaded.config["decoder"].get("inputs", {})
        name = names.get("past_key_names", "past_key_values.%d.key") % 0
        layers = self.loaded.config["decoder"]["num_hidden_layers"]
        return int(2 * layers * self._generator.get_input(name).nbytes)


class OnnxRuntimeGenAiContext(RuntimeContext):
    """A conversation: a Generator of its own, or a row of one."""

    def __init__(self, batch: Batch) -> None:
        self.batch: Optional[Batch] = batch
        self._is_first = not batch.rows
        self._generated = batch.join()

    def infer(self) -> None:
        """Hold one turn; all conversations of a batch hold theirs."""
        assert self.batch is not None
        self.batch.hold()

    def outputs(self) -> Sequence[memoryview]:
        """Return the tokens that the last turn generated."""
        return self._generated.views() if self.batch else []

    def turn(self) -> Optional[Turn]:
        """Return the timing of the last turn."""
        return self._generated.turn

    def copies(self) -> Copies:
        """Return the bytes of the tokens that went in and came out."""
        return self._generated.copies()

    def account(self) -> Dict[str, int]:
        """Return the size of the cache; the runtime tells nothing of weights and scratch."""
        if self.batch is None or not self._is_first:
            return {}
        return {"kv_cache_bytes": self.batch.cache_bytes()}

    def destroy(self) -> None:
        """Drop the Generator with its last conversation, and the Model with its last Generator."""
        self.batch = None


class OnnxRuntimeGenAi(Runtime):
    """The imported ONNX Runtime GenAI."""

    version = og.__version__

    def interface(self, model: str) -> Interface:
        """Return no tensors: a conversation has tokens."""
        read_config(model)
        return Interface((), (), {})

    def load(
        self,
        model: str,
        prepared: Optional[str],
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> OnnxRuntimeGenAiContext:
        """Return a conversation in a new Generator over a new Model."""
        conversation = _conversation_of(memory)
        loaded = LoadedModel(model, Options(memory.options))
        return OnnxRuntimeGenAiContext(Batch(loaded, memory, conversation))

    def dup(self, source: RuntimeContext, memory: Memory) -> OnnxRuntimeGenAiContext:
        """Return a conversation in a new Generator over the Model of source."""
        loaded = _batch_of(source).loaded
        return OnnxRuntimeGenAiContext(Batch(loaded, memory, _conversation_of(memory)))

    def sequence(self, source: RuntimeContext, memory: Memory) -> OnnxRuntimeGenAiContext:
        """Return a conversation in the next row of the source's Generator."""
        _conversation_of(memory)
        return OnnxRuntimeGenAiContext(_batch_of(source))

    def shared_prompt(self, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Refuse: each row of a batch has the whole prompt in its own part."""
        raise NotSupported("ort_genai_no_shared_prompt")

    def restored_prompt(self, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Refuse: the state of a cache can neither be taken out nor put in."""
        raise NotSupported("ort_genai_no_state")

    def adapter(
        self, model: str, source: RuntimeContext, memory: Memory
    ) -> OnnxRuntimeGenAiContext:
        """Return a dup that computes with an adapter."""
        context = self.dup(source, memory)
        assert context.batch is not None
        context.batch.use_adapter(model)
        return context

    def infer_together(self, contexts: Sequence[RuntimeContext]) -> None:
        """Hold a turn of all rows of a batch at once."""
        contexts[0].infer()


def open_runtime() -> Runtime:
    """Return the adapter; only the measured process may call this."""
    return OnnxRuntimeGenAi()


def _batch_of(context: RuntimeContext) -> Batch:
    assert isinstance(context, OnnxRuntimeGenAiContext)
    assert context.batch is not None
    return context.batch


def _conversation_of(memory: Memory) -> Conversation:
    """Return the conversation; raise NotSupported for requests that the runtime cannot serve."""
    if memory.unified_cache:
        raise NotSupported("ort_genai_no_unified_cache")
    return check_conversation(memory, _TITLE)
