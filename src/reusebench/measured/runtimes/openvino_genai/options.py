"""The options of contexts of OpenVINO GenAI, and the blocks of their cache.

Nothing of the runtime is imported: snippets read them, too.
"""

from __future__ import annotations

from typing import Any, Dict, Sequence

from reusebench.measured.runtimes.base import Conversation, NotSupported
from reusebench.measured.runtimes.option_words import member, split, whole_number

__all__ = ["BLOCK_TOKENS", "SCHEDULER", "TITLE", "Options", "blocks_of"]

TITLE = "OpenVINO GenAI"
#: Tokens of a block of the cache on the CPU.
BLOCK_TOKENS = 32
#: Properties of every compiled model. float32, because newer CPUs would compute in bfloat16; a
#: cache of float16, which is the default of llama.cpp, too.
_PROPERTIES: Dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f16"}
#: Properties by which OpenVINO writes files.
_WRITES = ("CACHE_DIR", "enable_save_ov_model")
_BOOLEANS = {"0": False, "1": True}
#: Members of SchedulerConfig; all other options are properties of the compiled model.
_SCHEDULER_NUMBERS = ("max_num_batched_tokens", "max_num_seqs")
_SCHEDULER_SWITCHES = ("dynamic_split_fuse",)
SCHEDULER = (*_SCHEDULER_NUMBERS, *_SCHEDULER_SWITCHES)


class Options:
    """The options of a context: properties of the compiled model, and the scheduler's members."""

    def __init__(self, options: Sequence[str]) -> None:
        self.words = tuple(options)
        self.properties = dict(_PROPERTIES)
        self.scheduler: Dict[str, Any] = {}
        for option in options:
            name, value = split(option)
            if name in _WRITES:
                raise NotSupported("option_writes", runtime=TITLE, option=option)
            if name in _SCHEDULER_NUMBERS:
                self.scheduler[name] = whole_number(TITLE, option)
            elif name in _SCHEDULER_SWITCHES:
                self.scheduler[name] = _BOOLEANS[member(TITLE, option, _BOOLEANS)]
            else:
                self.properties[name] = value

    def refuse_scheduler(self) -> None:
        """Raise NotSupported for options that a context without a scheduler does not have."""
        for option in self.words:
            if split(option)[0] in self.scheduler:
                raise NotSupported("openvino_genai_no_scheduler", option=option)


def blocks_of(conversation: Conversation, conversations: int, sharing: int) -> int:
    """Return the blocks of a cache with room for conversations.

    `sharing` of them have their common blocks from another one.
    """
    each = -(-conversation.tokens // BLOCK_TOKENS)
    return conversations * each - sharing * (conversation.common // BLOCK_TOKENS)
