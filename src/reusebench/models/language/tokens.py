"""The tokenizer of the built-in language models: each byte is a token (byte-level BPE of GPT-2)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reusebench.models.language.shapes import CONTROL_TOKENS

__all__ = ["BOS", "EOS", "UNKNOWN", "byte_characters", "write_tokenizer"]

UNKNOWN = CONTROL_TOKENS.index("<unk>")
BOS = CONTROL_TOKENS.index("<s>")
EOS = CONTROL_TOKENS.index("</s>")

_BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": False,
    "use_regex": False,
}


def byte_characters() -> Iterator[str]:
    """Yield the character that stands for each byte in GPT-2's vocabularies.

    Printable characters of Latin-1 stand for themselves, others for those from 256 on.
    """
    others = 256
    for byte in range(256):
        if 33 <= byte <= 126 or (161 <= byte <= 255 and byte != 173):
            yield chr(byte)
        else:
            yield chr(others)
            others += 1


def write_tokenizer(folder: Path) -> None:
    """Write the tokenizer in the form of Hugging Face's library."""
    control: list[dict[str, Any]] = [
        {
            "id": number,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number, token in enumerate(CONTROL_TOKENS)
    ]
    tokens = (*CONTROL_TOKENS, *byte_characters())
    tokenizer: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": control,
        "normalizer": None,
        "pre_tokenizer": _BYTE_LEVEL,
        "post_processor": None,
        "decoder": _BYTE_LEVEL,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": [],
        },
    }
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": CONTROL_TOKENS[UNKNOWN],
        "bos_token": CONTROL_TOKENS[BOS],
        "eos_token": CONTROL_TOKENS[EOS],
    }
    for name, content in (("tokenizer.json", tokenizer), ("tokenizer_config.json", config)):
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
