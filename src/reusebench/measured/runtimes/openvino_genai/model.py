"""Model files of OpenVINO GenAI, and OpenVINO's words as errors."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Sequence

import openvino as ov

from reusebench.measured.runtimes.base import AdapterError, NotSupported
from reusebench.measured.runtimes.openvino_genai.options import SCHEDULER, TITLE
from reusebench.measured.runtimes.option_words import refused, split, unknown

__all__ = [
    "check_file",
    "check_room",
    "config_of",
    "failure_to_load",
    "is_gguf",
    "read_decoder",
]

_GGUF = ".gguf"
_GGUF_MAGIC = b"GGUF"
#: Inputs and outputs of every language model that OpenVINO's exporters write.
_IDS = "input_ids"
_LOGITS = "logits"


def is_gguf(model: str) -> bool:
    """Whether the file is one that OpenVINO GenAI converts when it loads it."""
    return model.endswith(_GGUF)


def check_file(core: Any, model: str) -> None:
    """Raise AdapterError, with the file's name, if it is no language model."""
    if is_gguf(model):
        with open(model, "rb") as file:
            if file.read(len(_GGUF_MAGIC)) != _GGUF_MAGIC:
                raise AdapterError("openvino_genai_no_gguf", path=model)
        return
    config_of(model)
    read_decoder(core, model)


def read_decoder(core: Any, model: str) -> Any:
    """Return the model of a file; raise AdapterError if it is no language model."""
    try:
        read = core.read_model(model)
    except RuntimeError as error:
        raise failure_to_load(error, model) from None
    names = [port.get_any_name() for port in (*read.inputs, *read.outputs)]
    if _IDS not in names or _LOGITS not in names or not read.get_sinks():
        raise AdapterError("openvino_genai_no_decoder", model=model)
    return read


def config_of(model: str) -> Dict[str, Any]:
    """Return config.json beside a model; empty for a GGUF file, which has none."""
    if is_gguf(model):
        return {}
    path = os.path.join(os.path.dirname(model), "config.json")
    try:
        with open(path, encoding="utf-8") as file:
            config: Dict[str, Any] = json.load(file)
        if not isinstance(config["vocab_size"], int):
            raise ValueError("vocab_size is no number")
    except (KeyError, OSError, TypeError, ValueError) as error:
        raise AdapterError("openvino_genai_no_config", model=model, error=str(error)) from None
    return config


def check_room(model: str, tokens: int) -> None:
    """Raise NotSupported if a conversation has more tokens than the model."""
    most = config_of(model).get("max_position_embeddings")
    if most is not None and tokens > most:
        raise NotSupported("conversation_too_long", model=model, tokens=tokens, most=most)


def failure_to_load(error: RuntimeError, model: str, options: Sequence[str] = ()) -> AdapterError:
    """Return the error for OpenVINO's words: the option that they name, or the model."""
    text = _last_words(str(error))
    for option in options:
        name, value = split(option)
        if f"Unsupported property {name}" in text:
            return unknown(TITLE, option, [*_writable(), *SCHEDULER])
        # Some sentences have the value alone.
        if name in text or text.endswith(f"from string {value}"):
            return refused(TITLE, option, text)
    return AdapterError("openvino_genai_load_failed", model=model, error=text)


def _writable() -> List[str]:
    """Return the names of the properties that an application may set."""
    supported = ov.Core().get_property("CPU", "SUPPORTED_PROPERTIES")
    return sorted(str(name) for name, access in supported.items() if "W" in str(access))


def _last_words(text: str) -> str:
    """Return OpenVINO's sentence, without the places in its sources."""
    lines: List[str] = []
    for line in text.splitlines():
        if line.strip() and not line.startswith(("Exception from ", "Check ")):
            lines.append(line.strip())
    return " ".join(lines) or text
