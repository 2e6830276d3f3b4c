"""Which mechanisms can apply to a model, on the runtime that reads it, as far as its file shows.

The adapters in runtimes/ refuse the same, in the same words, when they are measured. Here no
runtime is imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Optional

from reusebench.measured.messages import Message
from reusebench.measured.runtimes import RuntimeEntry
from reusebench.measured.runtimes.base import ELEMENT_TYPES, TEXT
from reusebench.models.inspection.contents import Inspection, OnnxFacts, RknnFacts, Tensor

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
#: The domains whose operators ONNX Runtime has.
_DOMAINS = re.compile(
    r"(ai\.onnx\..*|com\.microsoft(\..*)?|com\.ms\.internal\..*|org\.pytorch\.aten)?"
)


@dataclass(frozen=True)
class Mechanism:
    """Whether a mechanism can apply."""

    #: The scenario that measures it, which -k chooses.
    scenario: str
    #: None: unknown.
    applies: Optional[bool]
    #: Why not, or what to know beforehand; empty if there is nothing to say.
    remark: str = ""


_Answer = tuple[Optional[bool], str]
#: By scenario: what differs from "it applies".
_Answers = Mapping[str, _Answer]


def is_fed(tensor: Tensor) -> bool:
    """Whether the harness can feed an input; one of unknown type it can."""
    return tensor.type in (None, *ELEMENT_TYPES)


def hindrances(inspection: Inspection) -> list[str]:
    """Return why the runtime cannot run the model at all, as far as the file shows."""
    facts = inspection.facts
    return list(_onnx_hindrances(inspection, facts)) if isinstance(facts, OnnxFacts) else []


def mechanisms(inspection: Inspection, runtime: RuntimeEntry) -> list[Mechanism]:
    """Return every mechanism of the runtime, of a model that nothing hinders."""
    facts = inspection.facts
    answers: dict[str, _Answer] = {scenario: _no(code) for scenario, code in runtime.lacks}
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
    """Return that it does not apply, in the words of the adapter."""
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
        if (
            not _DOMAINS.fullmatch(operator.domain)
            and (operator.domain, operator.name) not in defined
        ):
            yield (
                f"operator {operator.domain}.{operator.name} is not ONNX Runtime's, and no library"
                " of it is loaded"
            )


def _onnx(inspection: Inspection) -> _Answers:
    answers: dict[str, _Answer] = {}
    if not inspection.weight_bytes:
        answers["full_dup"] = (True, "the file has no weights to share")
    unbound = next(filter(_is_unbound, (*inspection.inputs, *inspection.outputs)), None)
    if unbound:
        answers["zero_copy_io"] = _no(
            "onnx_not_bindable", tensor=unbound.name, type=str(unbound.type)
        )
    return answers


def _is_unbound(tensor: Tensor) -> bool:
    return tensor.type == TEXT or not is_fed(tensor)


def _rknn(facts: RknnFacts) -> _Answers:
    answers: dict[str, _Answer] = {}
    if facts.is_mini:
        answers["full_dup"] = (False, "the mini runtime (librknnmrt) has no rknn_dup_context")
        answers["shared_weights"] = (
            False,
            "the mini runtime (librknnmrt) ignores RKNN_FLAG_SHARE_WEIGHT_MEM",
        )
    elif facts.has_dynamic_shapes:
        # Seen with INT8 at the largest shape (docs/rknn.md).
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
