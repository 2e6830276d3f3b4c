"""A llama_context with its sequences, and the turns that conversations hold in it."""

from __future__ import annotations

import ctypes
import time
from array import array
from typing import Any, Dict, List, Optional, Sequence

from reusebench.measured.runtimes.base import AdapterError, Memory, NotSupported, Turn
from reusebench.measured.runtimes.llama_cpp.account import allocated
from reusebench.measured.runtimes.llama_cpp.batch import Batch, Entry
from reusebench.measured.runtimes.llama_cpp.cells import cells_of
from reusebench.measured.runtimes.llama_cpp.failures import context_failure
from reusebench.measured.runtimes.llama_cpp.model import Adapter, LoadedModel
from reusebench.measured.runtimes.prompts import prompt_tokens

__all__ = ["NativeContext", "Session"]

#: Sequence of the context's own conversation.
_FIRST = 0


class Session:
    """One conversation in a llama_context: its sequence, and what its last turn gave."""

    def __init__(self, sequence: int, generated: int) -> None:
        self.sequence = sequence
        #: Whether its prompt begins with the tokens of the first sequence.
        self.shares_prompt = False
        #: Saved state that its turns begin with; None: they compute the common tokens.
        self.state: Any = None
        self.tokens = array("i", bytes(4 * generated))
        self.turn: Optional[Turn] = None


class NativeContext:
    """A llama_context, which goes with the last conversation in it."""

    def __init__(self, model: LoadedModel, memory: Memory) -> None:
        assert memory.conversation is not None
        self.model = model
        self.conversation = memory.conversation
        self.sequences = memory.sequences
        self.is_unified = memory.unified_cache
        self.adapter: Optional[Adapter] = None
        self.handle = self._open(memory)
        self._api = model.library.api
        self._cache = self._api.llama_get_memory(self.handle)
        if not self._cache:
            raise NotSupported("llama_cpp_no_answers", model=model.path)
        self._prompt = prompt_tokens(self.conversation.prompt, model.vocabulary_tokens)
        self._batch = Batch(model.library, self.handle, self.sequences * len(self._prompt))
        #: Saved state of the common tokens, once somebody has asked for it.
        self._state: Any = None
        #: Sequences without a conversation.
        self._free = list(range(memory.sequences))

    def _open(self, memory: Memory) -> Any:
        library = self.model.library
        _check_room(self.model, memory)
        params = library.api.llama_context_default_params()
        params.n_ctx = cells_of(memory)
        params.n_seq_max = memory.sequences
        params.kv_unified = memory.unified_cache
        self.model.options.set_context(params, memory.sequences)
        library.forget_words()
        handle = library.api.llama_init_from_model(self.model.handle, params)
        if not handle:
            raise context_failure(library, self.model.path)
        return handle

    def open_session(self) -> Session:
        """Return another conversation, in the first free sequence."""
        return Session(self._free.pop(0), self.conversation.generated)

    def close_session(self, session: Session) -> None:
        """Forget the tokens of a conversation; the last one takes the context with it."""
        self._free = sorted([*self._free, session.sequence])
        if len(self._free) < self.sequences:
            self._forget(session.sequence)
            return
        self._batch.close()
        self._api.llama_free(self.handle)
        self._state = None
        if self.adapter is not None:
            self.adapter.close()

    def use_adapter(self, adapter: Adapter) -> None:
        """Add an adapter to the weights, in this context alone."""
        self.adapter = adapter
        scales = (ctypes.c_float * 1)(1.0)
        self._api.llama_set_adapters_lora(self.handle, adapter.handles, 1, scales)

    def account(self) -> Dict[str, int]:
        """Return the bytes of each component, those of the model's weights among them."""
        account = allocated(self.model.library, self.handle, self.model.would_map_bytes)
        row_bytes = ctypes.sizeof(ctypes.c_float) * self.model.vocabulary_tokens
        account["outputs_bytes"] = row_bytes * self.sequences
        if self.adapter is not None:
            account["adapters_bytes"] = self.adapter.size_bytes
        return account

    @property
    def has_state(self) -> bool:
        """Whether the state of the common tokens is saved."""
        return self._state is not None

    def common_state(self) -> Any:
        """Return the state of the common tokens, which is computed and saved once."""
        if self._state is None:
            self._forget(_FIRST)
            self._compute_common()
            size = self._api.llama_state_seq_get_size(self.handle, _FIRST)
            self._state = (ctypes.c_uint8 * size)()
            self._api.llama_state_seq_get_data(self.handle, self._state, size, _FIRST)
        return self._state

    def hold(self, sessions: Sequence[Session]) -> None:
        """Hold a turn of each of these conversations, all in the same batches."""
        started = time.perf_counter_ns()
        begins = self._begin(sessions)

        entries: List[Entry] = []
        for session, begin in zip(sessions, begins):
            entries += self._prompt_entries(session.sequence, begin)
        follow = self._batch.compute(entries)
        first_ns = [token.at_ns for token in follow]
        # All generate only once all prompts are computed.
        generation_begin_ns = max(first_ns)
        prompt, generated = self.conversation.prompt, self.conversation.generated
        for number in range(generated):
            entries = []
            for session, (token, _) in zip(sessions, follow):
                session.tokens[number] = token
                entries.append(Entry(token, prompt + number, session.sequence, True))
            if number + 1 < generated:
                follow = self._batch.compute(entries)

        for session, first, last in zip(sessions, first_ns, follow):
            computed = prompt
            if session.shares_prompt or session.state is not None:
                computed -= self.conversation.common
            generation_ns = last.at_ns - generation_begin_ns
            session.turn = Turn(computed, first - started, generated, generation_ns)

    def _begin(self, sessions: Sequence[Session]) -> List[int]:
        """Put what is shared or saved into the cache; return the next position of each turn.

        All else is forgotten: tokens of other conversations in the cache would change the order in
        which a turn is added up.
        """
        common = self.conversation.common
        sharing = [session for session in sessions if session.shares_prompt]
        has_first = any(session.sequence == _FIRST for session in sessions)
        if has_first or not sharing:
            self._api.llama_memory_clear(self._cache, False)
        if sharing:
            self._keep_common()
            for session in sharing:
                self._api.llama_memory_seq_cp(self._cache, _FIRST, session.sequence, 0, common)
        begins = []
        for session in sessions:
            begins.append(common if session.shares_prompt else 0)
            if session.sequence == _FIRST and sharing:
                begins[-1] = common
            if session.state is not None:
                self._restore(session.sequence, session.state)
                begins[-1] = common
        return begins

    def _restore(self, sequence: int, state: Any) -> None:
        size = ctypes.sizeof(state)
        if not self._api.llama_state_seq_set_data(self.handle, state, size, sequence):
            raise AdapterError("llama_cpp_state_refused", model=self.model.path)

    def _keep_common(self) -> None:
        """Forget all but the common tokens of the first sequence, which are computed if need be."""
        for sequence in range(1, self.sequences):
            self._forget(sequence)
        common = self.conversation.common
        self._api.llama_memory_seq_rm(self._cache, _FIRST, common, -1)
        if self._api.llama_memory_seq_pos_max(self._cache, _FIRST) < common - 1:
            self._forget(_FIRST)
            self._compute_common()

    def _compute_common(self) -> None:
        tokens = self._prompt[: self.conversation.common]
        self._batch.compute([Entry(token, number, _FIRST) for number, token in enumerate(tokens)])

    def _prompt_entries(self, sequence: int, begin: int) -> List[Entry]:
        last = len(self._prompt) - 1
        return [
            Entry(self._prompt[position], position, sequence, position == last)
            for position in range(begin, last + 1)
        ]

    def _forget(self, sequence: int) -> None:
        self._api.llama_memory_seq_rm(self._cache, sequence, -1, -1)


def _check_room(model: LoadedModel, memory: Memory) -> None:
    assert memory.conversation is not None
    tokens = memory.conversation.tokens
    if tokens > model.trained_tokens:
        raise AdapterError(
            "conversation_too_long",
            model=model.path,
            tokens=tokens,
            most=model.trained_tokens,
        )
    most = model.library.api.llama_max_parallel_sequences()
    if memory.sequences > most:
        raise NotSupported("llama_cpp_too_many_sequences", sequences=memory.sequences, most=most)
