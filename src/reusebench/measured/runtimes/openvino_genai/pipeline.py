"""Conversations as requests of a ContinuousBatchingPipeline, which have blocks of one cache."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import numpy as np
import openvino as ov
import openvino_genai as genai

from reusebench.measured.runtimes.base import AdapterError, Conversation, Memory, NotSupported, Turn
from reusebench.measured.runtimes.language import Generated
from reusebench.measured.runtimes.openvino_genai.model import (
    check_room,
    config_of,
    failure_to_load,
)
from reusebench.measured.runtimes.openvino_genai.options import BLOCK_TOKENS, Options, blocks_of
from reusebench.measured.runtimes.prompts import prompt_tokens

__all__ = ["Pipeline", "Request"]

_NS_PER_US = 1000


class Request(Generated):
    """The conversation of one context."""

    def __init__(self, adapter: Any = None) -> None:
        super().__init__()
        #: None computes with the model as it is.
        self.adapter = adapter


class Pipeline:
    """A pipeline with the weights, scratch memory and the cache of all its conversations."""

    def __init__(self, model: str, memory: Memory, conversation: Conversation) -> None:
        self.options = Options(memory.options)
        self._model = model
        self._conversation = conversation
        if memory.shared_prompts:
            _check_common(conversation)
        check_room(model, conversation.tokens)
        #: Conversations that there is room for.
        self._room = memory.sequences
        #: Conversations whose common tokens are those of the first one.
        self._shared = memory.shared_prompts
        self.requests: List[Request] = []
        self._has_run = False
        self._pipeline: Any = None
        self._open()
        prompt = prompt_tokens(conversation.prompt, self._vocabulary())
        self._prompt = ov.Tensor(np.array([prompt], np.int64))

    def _open(self) -> None:
        scheduler = genai.SchedulerConfig()
        scheduler.enable_prefix_caching = self._shared > 0
        scheduler.num_kv_blocks = blocks_of(self._conversation, self._room, self._shared)
        for name, value in self.options.scheduler.items():
            setattr(scheduler, name, value)
        properties = dict(self.options.properties)
        adapters = [request.adapter for request in self.requests if request.adapter]
        if adapters:
            properties["adapters"] = genai.AdapterConfig(adapters)
        self._pipeline = None  # goes before the next one comes
        path = self._model
        if not path.endswith(".gguf"):
            path = path.rpartition("/")[0] or "."
        try:
            self._pipeline = genai.ContinuousBatchingPipeline(
                path, scheduler, "CPU", properties=properties
            )
        except RuntimeError as error:
            raise failure_to_load(error, self._model, self.options.words) from None

    def _vocabulary(self) -> int:
        size = config_of(self._model).get("vocab_size")
        return size or len(self._pipeline.get_tokenizer().get_vocab())

    def join(self) -> Request:
        """Add a conversation; there is room for those of Memory.sequences."""
        self.requests.append(Request())
        return self.requests[-1]

    def join_with_adapter(self, path: str) -> Request:
        """Make room for one more conversation, which computes with an adapter.

        A pipeline knows its adapters from the beginning, so it is made anew.
        """
        try:
            self.requests.append(Request(genai.Adapter(path)))
        except RuntimeError as error:
            raise AdapterError(
                "openvino_genai_adapter_unreadable", adapter=path, error=str(error)
            ) from None
        self._room += 1
        self._open()
        return self.requests[-1]

    def leave(self, request: Request) -> None:
        """Forget a conversation; the pipeline goes with its last one."""
        self.requests.remove(request)
        if not self.requests:
            self._pipeline = None

    def hold(self, requests: Sequence[Request]) -> None:
        """Hold a turn of these conversations at once; they have equal adapters."""
        configs = [self._generation(request) for request in requests]
        results = self._pipeline.generate([self._prompt] * len(requests), configs)
        computed = self._computed()
        self._has_run = True
        for request, result in zip(requests, results):
            request.take(result.m_generation_ids[0])
            raw = result.perf_metrics.raw_metrics
            request.turn = Turn(
                computed,
                int(raw.m_times_to_first_token[0] * _NS_PER_US),
                len(request.tokens),
                int(sum(raw.m_durations) * _NS_PER_US),
            )

    def _computed(self) -> int:
        """Return the number of tokens of a prompt that are not in the cache from before."""
        prompt = self._conversation.prompt
        if not self._shared or not self._has_run:
            return prompt
        return max(1, prompt - prompt // BLOCK_TOKENS * BLOCK_TOKENS)

    def _generation(self, request: Request) -> Any:
        config = genai.GenerationConfig()
        config.max_new_tokens = self._conversation.generated
        config.ignore_eos = True
        config.set_eos_token_id(0)  # which has to be one, and is ignored
        if any(other.adapter for other in self.requests):
            adapters = [request.adapter] if request.adapter else []
            config.adapters = genai.AdapterConfig(adapters)
        return config

    def account(self) -> Dict[str, int]:
        """Return the size of the cache, of which pages are in memory when they have been used."""
        return {"kv_cache_bytes": int(self._pipeline.get_metrics().kv_cache_size_in_bytes)}


def _check_common(conversation: Conversation) -> None:
    """Raise NotSupported if prefix caching would share more than the common tokens.

    It finds all blocks in which prompts are equal, and those of a plan are equal in whole.
    """
    blocks = conversation.prompt // BLOCK_TOKENS
    if blocks == 0 or blocks != conversation.common // BLOCK_TOKENS:
        raise NotSupported(
            "openvino_genai_shares_more",
            block=BLOCK_TOKENS,
            shared=blocks * BLOCK_TOKENS,
            common=conversation.common,
        )
