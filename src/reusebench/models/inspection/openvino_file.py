"""Reads .xml files of OpenVINO (its intermediate representation) without OpenVINO.

The weights are in another file, which is not read. The text is read in pieces, whatever its size,
and entities that it defines are not expanded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional, Union
from xml.parsers import expat

from reusebench.measured.runtimes.base import BFLOAT16, TEXT
from reusebench.models.errors import ModelError
from reusebench.models.inspection.contents import Inspection, Operator, OtherFacts, Tensor, Weights
from reusebench.system.files import open_regular

__all__ = ["read"]

#: OpenVINO's names of types, in attributes of operators and ports.
_TYPE = re.compile(r"(f|fp|i|u)(\d+)")
_NUMBERS = {"f": "float", "fp": "float", "i": "int", "u": "uint"}
_OTHER_TYPES = {"bf16": BFLOAT16, "boolean": "bool", "bool": "bool", "string": TEXT}
#: Operators with random results, or that change a variable which stays until the next inference.
_VARYING = ("Assign", "Multinomial", "RandomUniform")
#: Domains of the operators that OpenVINO has; "" stands for its numbered sets.
_DOMAINS = ("", "experimental", "extension", "ie_internal_opset", "type_relaxed_opset", "util")
#: Separator of a port's names; a comma inside a name has a backslash before it.
_BETWEEN_NAMES = re.compile(r"(?<!\\),")
#: Path of the model's own layers; layers of control flow have longer paths.
_OWN_LAYER = ["net", "layers", "layer"]

#: Upper bound for the characters of a number of 64 bits.
_LONGEST_NUMBER = 40


class _NoModel(Exception):
    """The text is not a model of OpenVINO."""


@dataclass
class _Port:
    number: str
    names: list[str]
    type: Optional[str]
    sizes: list[Union[int, str]] = field(default_factory=list)


@dataclass
class _Layer:
    attributes: Mapping[str, str]
    is_own: bool
    data: Mapping[str, str] = field(default_factory=dict)
    ports: list[_Port] = field(default_factory=list)


class _Reader:
    """A reader, with the contents of the file read so far."""

    def __init__(self) -> None:
        self.format = ""
        self.made_by = ""
        self.inputs: list[Tensor] = []
        #: Number of uses, by domain and name.
        self.operators: Counter[tuple[str, str]] = Counter()
        #: Types of constants, by their position and size; several operators may use one constant.
        self.constants: dict[tuple[int, int], Optional[str]] = {}
        self._results: list[_Layer] = []
        #: Names of output ports, by the ids of layer and port.
        self._names: dict[tuple[str, str], list[str]] = {}
        #: Ids of the layer and port that a layer reads, by the id of the reading layer.
        self._sources: dict[str, tuple[str, str]] = {}
        self._path: list[str] = []
        self._layers: list[_Layer] = []
        self._text = ""

    def read(self, path: Path) -> None:
        """Read the file; raise _NoModel, ExpatError or ValueError if it is another or damaged."""
        parser = expat.ParserCreate()
        parser.StartDoctypeDeclHandler = _refuse
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._character
        with open_regular(path) as file:
            parser.ParseFile(file)

    def outputs(self) -> tuple[Tensor, ...]:
        """Return the outputs; older files name them by the port that they read."""
        tensors = []
        for layer in self._results:
            number = layer.attributes.get("id", "")
            names = _names(layer.attributes.get("output_names", ""))
            if not names:
                source = self._sources.get(number, ("", ""))
                names = self._names.get(source, [])
            name = min(names, default=layer.attributes.get("name", ""))
            port = layer.ports[0] if layer.ports else _Port("", [], None)
            tensors.append(Tensor(name, port.type, tuple(port.sizes)))
        return tuple(tensors)

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if not self._path and tag != "net":
            raise _NoModel(tag)
        self._path.append(tag)
        self._text = ""
        if self._path == ["net"]:
            self.format = f"OpenVINO IR, version {int(attributes['version'])}"
        elif self._path[:2] == ["net", "rt_info"]:
            self._note_maker(tag, attributes)
        elif tag == "layer":
            self._layers.append(_Layer(attributes, self._path == _OWN_LAYER))
        elif self._path == ["net", "edges", "edge"]:
            source = (attributes["from-layer"], attributes["from-port"])
            self._sources[attributes["to-layer"]] = source
        elif self._layers and tag == "data" and self._path[-2] == "layer":
            self._layers[-1].data = attributes
        elif self._layers and tag == "port":
            names = _names(attributes.get("names", ""))
            element_type = _type(attributes.get("precision", ""))
            self._layers[-1].ports.append(_Port(attributes["id"], names, element_type))

    def _end(self, tag: str) -> None:
        self._path.pop()
        if tag == "dim" and self._layers and self._layers[-1].ports:
            size = int(self._text)
            self._layers[-1].ports[-1].sizes.append(size if size >= 0 else "")
        elif tag == "layer":
            self._add(self._layers.pop())

    def _character(self, text: str) -> None:
        if self._path[-1] == "dim" and len(self._text) < _LONGEST_NUMBER:
            self._text += text

    def _note_maker(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Note the OpenVINO that wrote the file; the tag depends on its version."""
        words = f"{tag} {attributes.get('name', '')}"
        if "Runtime" in words and "value" in attributes:
            self.made_by = f"OpenVINO {attributes['value']}"

    def _add(self, layer: _Layer) -> None:
        """Add a completely read layer to the contents."""
        kind = layer.attributes["type"]
        if kind == "Const":
            offset = int(layer.data["offset"])
            size = int(layer.data["size"])
            if offset < 0 or size < 0:
                raise ValueError((offset, size))
            self.constants[offset, size] = _type(layer.data["element_type"])
        elif kind not in ("Parameter", "Result"):
            domain = layer.attributes.get("version", "")
            if domain.startswith("opset"):
                domain = ""
            self.operators[domain, kind] += 1
        if not layer.is_own:
            return

        names = []
        for port in layer.ports:
            self._names[layer.attributes["id"], port.number] = port.names
            names += port.names
        if kind == "Parameter":
            name = min(names, default=layer.attributes.get("name", ""))
            element_type = _type(layer.data["element_type"])
            self.inputs.append(Tensor(name, element_type, _shape(layer.data["shape"])))
        elif kind == "Result":
            self._results.append(layer)


def read(path: Path) -> Inspection:
    """Return the contents of the file; raise ModelError if it is no complete OpenVINO model."""
    reader = _Reader()
    try:
        reader.read(path)
    except (_NoModel, expat.ExpatError, ValueError, LookupError):
        reader.format = ""
    if not (reader.format and (reader.inputs or reader.operators or reader.constants)):
        raise ModelError(
            f"{path} is not a model of OpenVINO (.xml), or is damaged. Export or copy it again"
        )
    counts: Counter[Optional[str]] = Counter()
    sizes: Counter[Optional[str]] = Counter()
    for (_, size), kind in reader.constants.items():
        counts[kind] += 1
        sizes[kind] += size
    return Inspection(
        file=str(path),
        size_bytes=path.stat().st_size,
        inputs=tuple(reader.inputs),
        outputs=reader.outputs(),
        weights=tuple(Weights(kind, counts[kind], size) for kind, size in sizes.most_common()),
        operators=tuple(
            Operator(domain, name, count)
            for (domain, name), count in reader.operators.most_common()
        ),
        facts=OtherFacts(
            {
                "format": reader.format,
                "made by": reader.made_by,
                "weights in": _weight_file_text(path, reader.constants),
            }
        ),
        varying=tuple(name for _, name in reader.operators if name in _VARYING),
        hindrances=tuple(_hindrances(path, reader)),
    )


def _refuse(*_: Any) -> None:
    """Refuse a text that defines entities: no model does."""
    raise _NoModel("doctype")


def _hindrances(path: Path, reader: _Reader) -> Iterator[str]:
    """Yield the reasons for which OpenVINO cannot run the model."""
    problem = _problem_of_weights(path, reader.constants)
    if problem:
        yield f"{path.with_suffix('.bin').name}, the file with weights, {problem}"
    for domain, name in reader.operators:
        if domain not in _DOMAINS:
            yield f"operator {domain}.{name} is not OpenVINO's, and no library of it is loaded"


def _weight_file_text(path: Path, constants: Iterable[tuple[int, int]]) -> str:
    """Return the weight file's name and problem; empty if the model needs no weights."""
    constants = list(constants)
    if not _needed_bytes(constants):
        return ""
    name = path.with_suffix(".bin").name
    problem = _problem_of_weights(path, constants)
    return f"{name}, which {problem}" if problem else name


def _problem_of_weights(path: Path, constants: Iterable[tuple[int, int]]) -> str:
    """Return the problem of the weight file; empty if it is whole, or not needed."""
    needed_bytes = _needed_bytes(constants)
    file = path.with_suffix(".bin")
    if not needed_bytes:
        return ""
    if not file.is_file():
        return "is not beside the model"
    size_bytes = file.stat().st_size
    if size_bytes < needed_bytes:
        return f"is cut short: {size_bytes:,} of {needed_bytes:,} bytes"
    return ""


def _needed_bytes(constants: Iterable[tuple[int, int]]) -> int:
    return max((offset + size for offset, size in constants), default=0)


def _names(text: str) -> list[str]:
    return [name.replace("\\,", ",") for name in _BETWEEN_NAMES.split(text) if name]


def _type(text: str) -> Optional[str]:
    """Return numpy's name for a type; None if it has none."""
    text = text.lower()
    matched = _TYPE.fullmatch(text)
    if not matched:
        return _OTHER_TYPES.get(text)
    return f"{_NUMBERS[matched[1]]}{matched[2]}"


def _shape(text: str) -> Optional[tuple[Union[int, str], ...]]:
    """Return the sizes of an input such as "1,3,?,1..640"; None if their number is free."""
    if "..." in text:
        return None
    sizes: list[Union[int, str]] = []
    for part in text.split(","):
        size = part.strip()
        if size:
            sizes.append(int(size) if size.isdecimal() else "")
    return tuple(sizes)
