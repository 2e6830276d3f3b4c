"""The options of contexts of ONNX Runtime GenAI.

Nothing of the runtime is imported: snippets read them, too.
"""

from __future__ import annotations

from typing import Any, Dict, Sequence

from reusebench.measured.runtimes.base import NotSupported
from reusebench.measured.runtimes.option_words import member, split, unknown, whole_number

__all__ = ["Options"]

_TITLE = "ONNX Runtime GenAI"
_BOOLEANS = {"0": False, "1": True}
#: Options of the session that are no text in genai_config.json; a name with a dot is an entry of
#: the session's configuration, which is one.
_SESSION_SWITCHES = ("enable_cpu_mem_arena", "enable_mem_pattern")
_SESSION_NUMBERS = ("inter_op_num_threads", "intra_op_num_threads")
_SESSION_LEVELS = {
    "graph_optimization_level": (
        "ORT_DISABLE_ALL",
        "ORT_ENABLE_BASIC",
        "ORT_ENABLE_EXTENDED",
        "ORT_ENABLE_ALL",
    )
}
#: Options of a generator.
_CHUNK = "chunk_size"
_SHARE_BUFFER = "past_present_share_buffer"
#: Our own: a turn keeps the common tokens of the prompt, which the generator has in its cache.
_REWIND = "rewind_to"
_COMMON = "common"
_VALID = (
    *_SESSION_SWITCHES,
    *_SESSION_NUMBERS,
    *_SESSION_LEVELS,
    "session.NAME",
    _CHUNK,
    _SHARE_BUFFER,
    _REWIND,
)


class Options:
    """The options of a context, as the runtime's own settings."""

    def __init__(self, options: Sequence[str]) -> None:
        #: Member "session_options" of genai_config.json.
        self.session: Dict[str, Any] = {}
        #: Arguments of GeneratorParams.set_search_options().
        self.search: Dict[str, Any] = {}
        self.keeps_common = False
        for option in options:
            self._read(option)

    def check_batch(self) -> None:
        """Raise NotSupported for options that a batch of several conversations cannot have."""
        if self.keeps_common:
            raise NotSupported("ort_genai_batch_in_one_piece", option=f"{_REWIND}={_COMMON}")
        if self.search.get(_CHUNK):
            raise NotSupported("ort_genai_batch_in_one_piece", option=_CHUNK)

    def _read(self, option: str) -> None:
        name, value = split(option)
        if name.startswith("session."):
            self.session[name] = value
        elif name in _SESSION_SWITCHES:
            self.session[name] = _BOOLEANS[member(_TITLE, option, _BOOLEANS)]
        elif name in _SESSION_NUMBERS:
            self.session[name] = whole_number(_TITLE, option)
        elif name in _SESSION_LEVELS:
            self.session[name] = member(_TITLE, option, _SESSION_LEVELS[name])
        elif name == _CHUNK:
            self.search[name] = whole_number(_TITLE, option)
        elif name == _SHARE_BUFFER:
            self.search[name] = _BOOLEANS[member(_TITLE, option, _BOOLEANS)]
        elif name == _REWIND:
            member(_TITLE, option, (_COMMON,))
            self.keeps_common = True
        else:
            raise unknown(_TITLE, option, _VALID)
