"""The adapter of llama.cpp, on the CPU.

A context is a conversation: a sequence in a llama_context over a loaded model. A dup has a
llama_context of its own over the same model; a sequence shares that of its source.
"""

from __future__ import annotations

import ctypes
from typing import Dict, List, Optional, Sequence

from reusebench.measured.runtimes.base import (
    NO_INPUTS,
    Copies,
    Inputs,
    Interface,
    Memory,
    NotSupported,
    Runtime,
    RuntimeContext,
    Turn,
)
from reusebench.measured.runtimes.language import check_conversation
from reusebench.measured.runtimes.llama_cpp.library import Library
from reusebench.measured.runtimes.llama_cpp.model import Adapter, LoadedModel
from reusebench.measured.runtimes.llama_cpp.native import NativeContext, Session
from reusebench.measured.runtimes.llama_cpp.options import read_options

__all__ = ["LlamaContext", "LlamaCpp", "open_runtime"]


class LlamaContext(RuntimeContext):
    """A conversation, which is one sequence of a llama_context."""

    def __init__(self, native: NativeContext, *, loaded: bool = False) -> None:
        self._native: Optional[NativeContext] = native
        self.session: Session = native.open_session()
        #: Whether it has the llama_context for itself, or was the first to use it.
        self._is_first = self.session.sequence == 0
        self._loaded = loaded
        #: Whether no other context lists the saved state that its turns begin with.
        self._lists_state = False

    @property
    def native(self) -> NativeContext:
        """The llama_context of the conversation."""
        assert self._native is not None
        return self._native

    def restore(self, source: NativeContext) -> None:
        """Begin each turn with the saved state of the source's common tokens."""
        self._lists_state = not source.has_state
        self.session.state = source.common_state()

    def infer(self) -> None:
        """Hold one turn: compute the prompt, then generate."""
        self.native.hold([self.session])

    def outputs(self) -> Sequence[memoryview]:
        """Return the tokens that the last turn generated."""
        return [memoryview(self.session.tokens)] if self._native else []

    def turn(self) -> Optional[Turn]:
        """Return the timing of the last turn."""
        return self.session.turn

    def copies(self) -> Copies:
        """Return the bytes of the tokens that went in and came out."""
        turn = self.session.turn
        if turn is None:
            return Copies(0, 0)
        size = self.session.tokens.itemsize
        given = turn.prompt_tokens + turn.generated_tokens - 1
        return Copies(size * given, size * turn.generated_tokens)

    def account(self) -> Dict[str, int]:
        """Return the bytes of a llama_context, at its first conversation alone."""
        if self._native is None or not self._is_first:
            return {}
        account = self._native.account()
        if not self._loaded:
            account["weights_bytes"] = 0
        if self._lists_state:
            account["prompt_state_bytes"] = ctypes.sizeof(self.session.state)
        return account

    def destroy(self) -> None:
        """Forget the conversation; a llama_context goes with its last one, then the model."""
        if self._native is not None:
            self._native.close_session(self.session)
        self._native = None
        self.session.state = None


class LlamaCpp(Runtime):
    """The loaded library."""

    def __init__(self) -> None:
        self._library = Library()
        self.version = self._library.version

    def interface(self, model: str) -> Interface:
        """Return no tensors: a conversation has tokens."""
        LoadedModel(self._library, model, read_options(()), is_estimate=True)
        return Interface((), (), {})

    def load(
        self,
        model: str,
        prepared: Optional[str],
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> LlamaContext:
        """Return a conversation in a new llama_context over the file's weights."""
        _check_memory(memory)
        loaded = LoadedModel(self._library, model, read_options(memory.options))
        return LlamaContext(NativeContext(loaded, memory), loaded=True)

    def dup(self, source: RuntimeContext, memory: Memory) -> LlamaContext:
        """Return a conversation in a new llama_context over the weights of source."""
        assert isinstance(source, LlamaContext)
        _check_memory(memory)
        return LlamaContext(NativeContext(source.native.model, memory))

    def sequence(self, source: RuntimeContext, memory: Memory) -> LlamaContext:
        """Return a conversation in the next sequence of the source's llama_context."""
        assert isinstance(source, LlamaContext)
        _check_memory(memory)
        return LlamaContext(source.native)

    def shared_prompt(self, source: RuntimeContext, memory: Memory) -> LlamaContext:
        """Return a sequence to which the source's common tokens belong, too."""
        assert isinstance(source, LlamaContext)
        if not source.native.is_unified:
            raise NotSupported("llama_cpp_prompt_needs_unified")
        context = self.sequence(source, memory)
        context.session.shares_prompt = True
        return context

    def restored_prompt(self, source: RuntimeContext, memory: Memory) -> LlamaContext:
        """Return a dup whose turns begin with the saved state of the common tokens."""
        assert isinstance(source, LlamaContext)
        context = self.dup(source, memory)
        context.restore(source.native)
        return context

    def adapter(self, model: str, source: RuntimeContext, memory: Memory) -> LlamaContext:
        """Return a dup with an adapter of its own over the weights."""
        assert isinstance(source, LlamaContext)
        context = self.dup(source, memory)
        context.native.use_adapter(Adapter(source.native.model, model))
        return context

    def infer_together(self, contexts: Sequence[RuntimeContext]) -> None:
        """Hold a turn of each: one batch of all prompts, then one of a token each."""
        sessions: List[Session] = []
        for context in contexts:
            assert isinstance(context, LlamaContext)
            sessions.append(context.session)
        first = contexts[0]
        assert isinstance(first, LlamaContext)
        first.native.hold(sessions)

    def estimate(self, model: str, memory: Memory) -> Dict[str, int]:
        """Return the account of a context whose memory llama.cpp only adds up."""
        _check_memory(memory)
        options = read_options(memory.options)
        loaded = LoadedModel(self._library, model, options, is_estimate=True)
        context = LlamaContext(NativeContext(loaded, memory), loaded=True)
        account = context.account()
        context.destroy()
        return account


def open_runtime() -> Runtime:
    """Return the adapter; only the measured process may call this."""
    return LlamaCpp()


def _check_memory(memory: Memory) -> None:
    """Raise NotSupported for requests that the runtime cannot serve."""
    if memory.internal is not None or "internal" in memory.outside:
        raise NotSupported("llama_cpp_no_shared_scratch")
    check_conversation(memory, "llama.cpp")
