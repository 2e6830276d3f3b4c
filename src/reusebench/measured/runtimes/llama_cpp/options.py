"""Options of llama.cpp in a user's words: NAME=VALUE, by the names of its parameters."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Dict, Optional, Sequence

from reusebench.measured.runtimes.base import NotSupported
from reusebench.measured.runtimes.option_words import member, split, unknown, whole_number

__all__ = ["CACHE_TYPES", "FLASH", "Options", "read_options"]

_TITLE = "llama.cpp"
#: Names of types of the cache, and their numbers (ggml.h, enum ggml_type).
CACHE_TYPES = {
    "f32": 0,
    "f16": 1,
    "bf16": 30,
    "q8_0": 8,
    "q5_1": 7,
    "q5_0": 6,
    "q4_1": 3,
    "q4_0": 2,
    "iq4_nl": 20,
}
_QUANTISED = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
_SWITCH = {"0": 0, "1": 1}
#: Values of llama_flash_attn_type.
FLASH = {"0": 0, "1": 1, "auto": -1}
#: Numbers of llama_context_params that are 1 or more.
_NUMBERS = ("n_batch", "n_ubatch", "n_threads")
_NAMES = (
    "cache_type",
    "cache_type_k",
    "cache_type_v",
    "flash_attn",
    *_NUMBERS,
    "use_mmap",
    "use_mlock",
    "use_extra_bufts",
    "swa_full",
)


@dataclass
class Options:
    """The options of a model and of the contexts over it."""

    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    #: One of FLASH.
    flash_attn: str = "auto"
    use_mmap: bool = True
    use_mlock: bool = False
    #: Whether weights are laid out anew for the processor, in memory of their own.
    use_extra_bufts: bool = True
    #: Whether a cache of a sliding window has all tokens.
    swa_full: bool = True
    n_batch: Optional[int] = None
    n_ubatch: Optional[int] = None
    #: Threads of an inference; None: one for each processor that the process may use.
    n_threads: Optional[int] = None

    def set_context(self, params: Any, sequences: int) -> None:
        """Set the parameters of a context that holds this number of conversations."""
        params.type_k = CACHE_TYPES[self.cache_type_k]
        params.type_v = CACHE_TYPES[self.cache_type_v]
        params.flash_attn_type = FLASH[self.flash_attn]
        params.swa_full = self.swa_full
        if self.n_batch is not None:
            params.n_batch = self.n_batch
        if self.n_ubatch is not None:
            params.n_ubatch = self.n_ubatch
        params.n_threads = self.n_threads or len(os.sched_getaffinity(0))
        params.n_threads_batch = params.n_threads
        # Each conversation needs the logits of its last token alone: by default the scratch memory
        # has room for those of every token of a batch.
        params.n_outputs_max = sequences


def read_options(chosen: Sequence[str]) -> Options:
    """Return the options of a user; raise NotSupported for what llama.cpp does not have."""
    options = Options()
    for option in chosen:
        name = split(option)[0]
        if name not in _NAMES:
            raise unknown(_TITLE, option, _NAMES)
        for field, value in _fields(option).items():
            setattr(options, field, value)
    if options.cache_type_v in _QUANTISED and options.flash_attn == "0":
        raise NotSupported("llama_cpp_needs_flash", type=options.cache_type_v)
    return options


def _fields(option: str) -> Dict[str, Any]:
    """Return the fields of Options that an option sets."""
    name = split(option)[0]
    if name.startswith("cache_type"):
        value = member(_TITLE, option, CACHE_TYPES)
        names = ("cache_type_k", "cache_type_v") if name == "cache_type" else (name,)
        return dict.fromkeys(names, value)
    if name == "flash_attn":
        return {name: member(_TITLE, option, FLASH)}
    if name in _NUMBERS:
        return {name: whole_number(_TITLE, option) or None}
    return {name: bool(_SWITCH[member(_TITLE, option, _SWITCH)])}
