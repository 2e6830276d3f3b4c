"""Models of ONNX Runtime GenAI: a folder with genai_config.json."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List

import onnxruntime_genai as og

from reusebench.measured.runtimes.base import AdapterError, NotSupported
from reusebench.measured.runtimes.onnxruntime_genai.options import Options

__all__ = ["open_model", "read_config", "refuse_more_tokens"]


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
