"""The mechanisms that can apply to a model on the runtime that reads it, as far as its file shows.

The adapters of the runtimes refuse the same mechanisms with the same messages when they are
measured. This module imports no runtime.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Optional

from reusebench.measured.messages import Message
from reusebench.measured.runtimes import RuntimeEntry
from reusebench.measured.runtimes.base import ELEMENT_TYPES, TEXT
from reusebench.models.inspection.contents import (
    GgufFacts,
    Inspection,
    OnnxFacts,
    RknnFacts,
    Tensor,
)

__all__ = ["Mechanism", "hindrances", "is_fed", "mechanisms"]

#: The scenario that measures each mechanism (scenarios/catalogue.py).
_SCENARIOS = (
    "full_dup",
    "shared_context",
    "internal_reuse",
    "shared_weights",
    "external_weights",
    "external_internal",
    "external_memory",
    "zero_copy_io",
    "device_io",
)
#: The same for language models.
_LANGUAGE_SCENARIOS = (
    "sessions_contexts",
    "sessions_sequences",
    "sessions_unified",
    "sessions_shared_prompt",
    "sessions_restored_prompt",
    "sessions_adapters",
)
#: Domains of the operators that ONNX Runtime has.
_DOMAINS = re.compile(
    r"(ai\.onnx\..*|com\.microsoft(\..*)?|com\.ms\.internal\..*|org\.pytorch\.aten)?"
)


@dataclass(frozen=True)
class Mechanism:
    """A mechanism of memory reuse, and whether it can apply."""

    #: The scenario that measures it, which -k chooses.
    scenario: str
    #: None: unknown.
    applies: Optional[bool]
    #: The reason if it does not apply, or a caution; may be empty.
    remark: str = ""


#: Whether a mechanism applies, and a remark.
_Answer = tuple[Optional[bool], str]
#: Answers by scenario; a mechanism without an answer applies.
_Answers = Mapping[str, _Answer]


def is_fed(tensor: Tensor) -> bool:
    """Whether the harness can feed an input; True if the type is unknown."""
    return tensor.type in (None, *ELEMENT_TYPES)


def hindrances(inspection: Inspection) -> list[str]:
    """Return the reasons for which the runtime cannot run the model, as far as the file shows."""
    facts = inspection.facts
    found = list(inspection.hindrances)
    if isinstance(facts, OnnxFacts):
        found += _onnx_hindrances(inspection, facts)
    return found


def mechanisms(inspection: Inspection, runtime: RuntimeEntry) -> list[Mechanism]:
    """Return every mechanism of the runtime for a model that it can run."""
    facts = inspection.facts
    answers: dict[str, _Answer] = {scenario: _no(code) for scenario, code in runtime.lacks}
    if isinstance(facts, GgufFacts):
        answers = {**_gguf(facts), **answers}
        return [Mechanism(name, *answers.get(name, (True, ""))) for name in _LANGUAGE_SCENARIOS]
    if "shared_weights" not in answers:
        answers["shared_weights"] = (
            True,
            "between files of one network at several resolutions (--resolution)",
        )
    if isinstance(facts, OnnxFacts):
        answers.update(_onnx(inspection))
    elif isinstance(facts, RknnFacts):
        answers.update(_rknn(facts))
    else:
        answers.update({scenario: _no(code) for scenario, code in facts.lacks})
    return [Mechanism(scenario, *answers.get(scenario, (True, ""))) for scenario in _SCENARIOS]


def _no(code: str, **values: str) -> tuple[bool, str]:
    """Return the answer that a mechanism does not apply, with the adapter's message."""
    return False, str(Message(code, values))


def _onnx_hindrances(inspection: Inspection, facts: OnnxFacts) -> Iterator[str]:
    for file in facts.external_files:
        if file.size_bytes is None:
            yield f"{file.name}, the file with weights, is not beside the model"
        elif file.size_bytes < file.needed_bytes:
            yield f"{file.name} has {file.size_bytes:,} bytes, and {file.needed_bytes:,} are needed"
    for tensor in inspection.inputs:
        if not is_fed(tensor):
            yield str(Message("onnx_input_type", {"tensor": tensor.name, "type": str(tensor.type)}))
    defined = {(function.domain, function.name) for function in facts.functions}
    for operator in inspection.operators or ():
        if _DOMAINS.fullmatch(operator.domain) or (operator.domain, operator.name) in defined:
            continue
        yield (
            f"operator {operator.domain}.{operator.name} is not ONNX Runtime's, and no library"
            " of it is loaded"
        )


def _onnx(inspection: Inspection) -> _Answers:
    answers: dict[str, _Answer] = {}
    if not inspection.weight_bytes:
        answers["full_dup"] = (True, "the file has no weights to share")
    for tensor in (*inspection.inputs, *inspection.outputs):
        if tensor.type == TEXT or not is_fed(tensor):
            answers["zero_copy_io"] = _no(
                "onnx_not_bindable", tensor=tensor.name, type=str(tensor.type)
            )
            break
    return answers


def _rknn(facts: RknnFacts) -> _Answers:
    answers: dict[str, _Answer] = {}
    if facts.is_mini:
        answers["full_dup"] = (False, "the mini runtime (librknnmrt) has no rknn_dup_context")
        answers["shared_weights"] = (
            False,
            "the mini runtime (librknnmrt) ignores RKNN_FLAG_SHARE_WEIGHT_MEM",
        )
    elif facts.has_dynamic_shapes:
        # Seen with INT8 at the largest shape (docs/reference/runtimes/rknn.md).
        answers["full_dup"] = (
            True,
            "with dynamic shapes a run may read memory that is no buffer: see the findings",
        )
        answers["shared_weights"] = (
            False,
            "dynamic shapes: this one file has all resolutions over its weights",
        )
    if facts.lacks_weights:
        for scenario in _SCENARIOS:
            if scenario != "shared_weights":
                answers.setdefault(scenario, (False, "its weights were left out"))
        answers["shared_weights"] = (True, "as the slave: --resolution FILE,WEIGHTLESS")
    return answers


def _gguf(facts: GgufFacts) -> _Answers:
    answers: dict[str, _Answer] = {
        "sessions_adapters": (True, "with adapters of this model (--adapter FILE[,MERGED])")
    }
    if not facts.kv_cache:
        state = "the file tells of no keys and values; a recurrent model keeps a state instead"
        for scenario in ("sessions_unified", "sessions_shared_prompt"):
            answers[scenario] = (None, state)
    return answers
