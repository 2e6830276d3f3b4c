"""`reusebench models inspect`: a model file's content, assumed inputs and applicable mechanisms."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Optional, Union

import click
from tabulate import tabulate

from reusebench.commands.gguf_text import gguf_facts, kv_cache_table
from reusebench.commands.options import PATH
from reusebench.commands.reply import give, json_option
from reusebench.commands.results import InspectionResult
from reusebench.measured.runtimes import RUNTIMES, RuntimeEntry
from reusebench.measured.runtimes.base import InputData
from reusebench.models.inputs.candidates import candidates, shape_text
from reusebench.models.inspection import inspect
from reusebench.models.inspection.applicability import hindrances, is_fed, mechanisms
from reusebench.models.inspection.contents import (
    GgufFacts,
    Inspection,
    OnnxFacts,
    Operator,
    RknnFacts,
    Tensor,
    Weights,
)
from reusebench.system.files import printable

__all__ = ["inspect_model"]

#: Characters of a line.
_WIDTH = 110
#: Characters before a mechanism's remark.
_REMARK_INDENT = len("external_internal  applies  ")
#: Rows of inputs or outputs that are shown at most.
_ROWS = 24
#: Tensors that differ only in the numbers of their names become one row from this count on.
_ALIKE = 4
_NUMBER = re.compile(r"\d+")
#: Characters of a free size's name that is shown.
_LONGEST_NAME = 30
_UNKNOWN = "unknown"
_ANSWERS = {True: "yes", False: "no", None: _UNKNOWN}
#: Stands between an operator and its count, so that no line ends there: textwrap ignores no-break
#: spaces, and never breaks at this character.
_NO_BREAK = "\0"


@click.command("inspect")
@click.argument("file", type=PATH)
@json_option
def inspect_model(file: Path) -> None:
    """Show a model file's content, assumed inputs and applicable mechanisms.

    FILE is of a runtime's own kind: .onnx, .rknn, .param, .mnn, .tflite, .xml, .mge or .gguf. The
    model is not run, and its runtime need not be installed; for .mge MegEngine is.
    """
    inspection = inspect(file)
    (runtime,) = (entry for entry in RUNTIMES if entry.reader and entry.suffix == file.suffix)
    give(_result(inspection, runtime), _lines(inspection, runtime))


def _lines(inspection: Inspection, runtime: RuntimeEntry) -> Iterator[str]:
    yield printable("\n\n".join(_parts(inspection, runtime)), keep="\n")


def _assumed(inspection: Inspection) -> list[InputData]:
    """Return the values that would be tried first, for the inputs that can be fed."""
    fed = {tensor.name for tensor in inspection.inputs if is_fed(tensor)}
    (first, *_) = candidates(inspection.interface, {}, inspection.file)
    return [tensor for tensor in first if tensor.name in fed]


def _result(inspection: Inspection, runtime: RuntimeEntry) -> InspectionResult:
    shown = asdict(inspection)
    obstacles = list(hindrances(inspection))
    shown.update(
        weight_bytes=inspection.weight_bytes,
        assumed=[_assumed_fields(tensor) for tensor in _assumed(inspection)],
        runtime=runtime.name,
        hindrances=obstacles,
        mechanisms=[],
    )
    if not obstacles:
        shown["mechanisms"] = [asdict(one) for one in mechanisms(inspection, runtime)]
    return InspectionResult(**shown)


def _assumed_fields(tensor: InputData) -> dict[str, object]:
    """Return the fields for JSON; a value of null means noise."""
    return {
        "name": tensor.name,
        "shape": tensor.shape,
        "assumed_dimensions": tensor.assumed,
        "doubtful_dimensions": tensor.doubtful,
        "value": tensor.value,
    }


def _parts(inspection: Inspection, runtime: RuntimeEntry) -> Iterator[str]:
    """Yield the paragraphs."""
    yield _table(_facts(inspection), ("file", inspection.file))
    if isinstance(inspection.facts, GgufFacts):
        sizes, heads = kv_cache_table(inspection.facts)
        if sizes:
            yield _table(sizes, heads, ("left", "right", "right"))
    else:
        yield from _interface(inspection)
    if inspection.weights is not None:
        yield _weights(inspection.weights)
    if inspection.operators is not None:
        yield _operators(inspection.operators)
    obstacles = hindrances(inspection)
    if obstacles:
        yield _wrapped(f"{runtime.title} cannot run it: {'; '.join(obstacles)}.")
        return
    rows = []
    for mechanism in mechanisms(inspection, runtime):
        remark = _wrapped(mechanism.remark, _REMARK_INDENT)
        rows.append((mechanism.scenario, _ANSWERS[mechanism.applies], remark))
    yield _table(rows, (f"on {runtime.title}", "applies", ""))


def _interface(inspection: Inspection) -> Iterator[str]:
    """Yield the paragraphs on inputs and outputs."""
    assumed = _assumed(inspection)
    yield _tensors(
        "input", inspection.inputs, {tensor.name: _assumed_text(tensor) for tensor in assumed}
    )
    if any(tensor.assumed for tensor in assumed):
        yield (
            "--shape NAME=SIZES gives another shape, --inputs FILE.npz values. If it does not run,"
            " others are tried."
        )
    doubtful = [tensor.name for tensor in assumed if tensor.doubtful]
    if doubtful:
        yield _wrapped(
            f"The shape of {', '.join(doubtful)} is a guess: nothing in the file tells what is"
            " counted. Give the shape that you deploy."
        )
    yield _tensors("output", inspection.outputs, {})


def _table(
    rows: Iterable[Sequence[object]],
    heads: Sequence[str],
    alignment: Optional[Sequence[str]] = None,
) -> str:
    return tabulate(list(rows), heads, tablefmt="plain", disable_numparse=True, colalign=alignment)


def _facts(inspection: Inspection) -> Iterator[tuple[str, str]]:
    yield "size", f"{_mib(inspection.size_bytes)} MiB"
    facts = inspection.facts
    if isinstance(facts, OnnxFacts):
        lines = _onnx_facts(facts, {operator.domain for operator in inspection.operators or ()})
    elif isinstance(facts, RknnFacts):
        lines = _rknn_facts(facts)
    elif isinstance(facts, GgufFacts):
        lines = gguf_facts(facts)
    else:
        lines = iter(facts.lines.items())
    for head, text in lines:
        if text:
            yield head, _wrapped(text, len("functions  "))
    if inspection.varying:
        names = ", ".join(inspection.varying)
        text = f"differ from inference to inference, and are not compared: {names}"
        yield "outputs", _wrapped(text, len("functions  "))


def _onnx_facts(facts: OnnxFacts, domains: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the lines; only domains with operators in the model are listed."""
    opsets = [
        f"{domain or 'opset'} {version}"
        for domain, version in facts.opsets.items()
        if domain in domains
    ]
    yield "format", ", ".join((f"ONNX, IR version {facts.ir_version}", *opsets))
    yield "made by", facts.producer
    yield "metadata", ", ".join(facts.metadata)
    yield "quantised", ", ".join(facts.quantised)
    yield (
        "subgraphs",
        ", ".join(f"{count} in {operator}" for operator, count in facts.subgraphs.items()),
    )
    functions = [
        f"{_full_name(entry.domain, entry.name)} ({entry.operators} operators)"
        for entry in facts.functions
    ]
    yield "functions", ", ".join(functions)
    for file in facts.external_files:
        size = "missing" if file.size_bytes is None else f"{_mib(file.size_bytes)} MiB"
        yield "weights in", f"{file.name}, {size}"


def _rknn_facts(facts: RknnFacts) -> Iterator[tuple[str, str]]:
    mini = ", for the mini runtime: shows neither operators nor weights" if facts.is_mini else ""
    yield "format", f"RKNN{mini}"
    yield "chip", ", ".join(facts.platforms)
    compiler = f", compiler {facts.compiler_version}" if facts.compiler_version else ""
    source = facts.source or "an unknown format"
    yield "made by", f"rknn-toolkit2 {facts.toolkit_version}{compiler}, from {source}"
    shapes = {True: "dynamic", False: "static", None: "unknown whether dynamic"}
    yield "shapes", shapes[facts.has_dynamic_shapes]
    yield "weights", "left out (remove_weight)" if facts.lacks_weights else ""


def _assumed_text(tensor: InputData) -> str:
    values = {None: "noise", 0: "zeros", 1: "ones"}.get(tensor.value, str(tensor.value))
    return f"{shape_text(tensor.shape)}, {values}" if tensor.assumed else values


def _tensors(head: str, tensors: Sequence[Tensor], assumed: Mapping[str, str]) -> str:
    """Return the table; tensors that differ only in the numbers of their names are one row."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for tensor in tensors:
        cells = _cells(tensor, assumed)
        pattern = _NUMBER.sub("#", tensor.name)
        groups.setdefault((pattern, *cells), []).append(tensor.name)
    rows: list[tuple[str, ...]] = []
    for (_, *others), names in groups.items():
        shown = names if len(names) < _ALIKE else [f"{names[0]} to {names[-1]}, {len(names)}"]
        rows += [(name, *others) for name in shown]
    hidden = len(rows) - _ROWS
    heads = [head, "type", "shape", "in memory", "assumed"]
    # The last two columns are shown only if they have content.
    used = [index for index in range(len(heads)) if index < 3 or any(row[index] for row in rows)]
    table = [[row[index] for index in used] for row in rows[:_ROWS]]
    if hidden > 0:
        table.append([f"and {hidden} more: --json"])
    return _table(table, [heads[index] for index in used])


def _cells(tensor: Tensor, assumed: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns after the name."""
    layout = tensor.layout or ""
    # The toolkit writes NCHW also for tensors with fewer dimensions.
    if len(layout) != len(tensor.dimensions or ()):
        layout = ""
    return tensor.type or _UNKNOWN, _shape_text(tensor), layout, assumed.get(tensor.name, "")


def _shape_text(tensor: Tensor) -> str:
    if tensor.shapes:
        return " or ".join(map(shape_text, tensor.shapes))
    if tensor.dimensions is None:
        return _UNKNOWN if is_fed(tensor) else ""
    return " x ".join(map(_size_text, tensor.dimensions)) or "scalar"


def _size_text(size: Union[int, str]) -> str:
    """Return a size, or the name of a free one unless it is a long formula of other names."""
    text = str(size)
    return text if 0 < len(text) <= _LONGEST_NAME else "?"


def _weights(weights: Sequence[Weights]) -> str:
    if not weights:
        return "weights: none"
    rows = [(entry.type or _UNKNOWN, entry.tensors, _mib(entry.size_bytes)) for entry in weights]
    if len(rows) > 1:
        tensors = sum(entry.tensors for entry in weights)
        size_bytes = sum(entry.size_bytes for entry in weights)
        rows.append(("all", tensors, _mib(size_bytes)))
    return _table(rows, ("weights", "tensors", "MiB"), ("left", "right", "right"))


def _operators(operators: Sequence[Operator]) -> str:
    names = [
        f"{_full_name(entry.domain, entry.name)}{_NO_BREAK}{entry.count}" for entry in operators
    ]
    text = f"operators: {sum(entry.count for entry in operators)}"
    return _wrapped(", ".join((text, *names))).replace(_NO_BREAK, " ")


def _full_name(domain: str, name: str) -> str:
    return f"{domain}.{name}" if domain else name


def _wrapped(text: str, indent: int = 0) -> str:
    return textwrap.fill(text, _WIDTH - indent, break_long_words=False, break_on_hyphens=False)


def _mib(size_bytes: int) -> str:
    if not size_bytes:
        return "0"
    return f"{size_bytes / 2**20:.2f}" if size_bytes >= 2**20 / 200 else "<0.01"
