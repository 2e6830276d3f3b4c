"""Models of ONNX Runtime GenAI: a folder with genai_config.json, and the options of its session."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Sequence

import onnxruntime_genai as og

from reusebench.measured.runtimes.base import AdapterError, NotSupported
from reusebench.measured.runtimes.option_words import member, split, unknown, whole_number

__all__ = ["Options", "open_model", "read_config"]

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


def read_config(model: str) -> Dict[str, Any]:
    """Return the member "model" of genai_config.json; AdapterError if it is no language model's."""
    try:
        with open(model, encoding="utf-8") as file:
            config = json.load(file)["model"]
        file_name = config["decoder"]["filename"]
        fields = [config["vocab_size"], config["context_length"]]
        fields.append(config["decoder"]["num_hidden_layers"])
    except (KeyError, TypeError, ValueError) as error:
        text = str(error) if isinstance(error, ValueError) else f"no {error}"
        raise AdapterError("ort_genai_config_unreadable", model=model, error=text) from None
    decoder = os.path.join(os.path.dirname(model), file_name)
    if not os.path.isfile(decoder):
        raise AdapterError("ort_genai_file_missing", model=model, path=decoder)
    if not all(isinstance(number, int) for number in fields):
        text = "a size is no number"
        raise AdapterError("ort_genai_config_unreadable", model=model, error=text)
    loaded: Dict[str, Any] = config
    return loaded


def open_model(model: str, config: Dict[str, Any], options: Options) -> Any:
    """Return the loaded model of a folder, whose session has the options."""
    # A generator stops at an end-of-text token, and there has to be one: the token that begins a
    # text is none that a model says.
    changes: List[Dict[str, Any]] = [{"model": {"eos_token_id": config.get("bos_token_id") or 0}}]
    changes.append({"model": {"decoder": {"session_options": options.session}}})
    try:
        settings = og.Config(os.path.dirname(model))
        for change in changes:
            settings.overlay(json.dumps(change))
        return og.Model(settings)
    except RuntimeError as error:
        raise AdapterError("ort_genai_load_failed", model=model, error=str(error)) from None


def refuse_more_tokens(model: str, config: Dict[str, Any], tokens: int) -> None:
    """Raise NotSupported if a conversation has more tokens than the model."""
    most = config["context_length"]
    if tokens > most:
        raise NotSupported("conversation_too_long", model=model, tokens=tokens, most=most)
