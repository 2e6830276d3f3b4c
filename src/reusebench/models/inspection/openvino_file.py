"""Reads .xml files of OpenVINO (its intermediate representation) without OpenVINO; of the weights
their table alone.

The text is read piece by piece, whatever its size, and nothing that it defines for itself
(entities) is expanded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional, Union
from xml.parsers import expat

from reusebench.measured.runtimes.base import BFLOAT16, TEXT
from reusebench.models.errors import ModelError
from reusebench.models.inspection.contents import Inspection, Operator, OtherFacts, Tensor, Weights
from reusebench.system.files import open_regular

__all__ = ["read"]

#: OpenVINO's names of types, as they stand in attributes of operators and of ports.
_TYPE = re.compile(r"(f|fp|i|u)(\d+)")
_NUMBERS = {"f": "float", "fp": "float", "i": "int", "u": "uint"}
_OTHER_TYPES = {"bf16": BFLOAT16, "boolean": "bool", "bool": "bool", "string": TEXT}
#: Between names of one port; a comma of a name has a backslash before it.
_BETWEEN_NAMES = re.compile(r"(?<!\\),")
#: The layers of the model itself; others are those of bodies of control flow.
_OWN_LAYER = ["net", "layers", "layer"]


#: Of characters: what is longer is no number of 64 bits.
_LONGEST_NUMBER = 40


class _NoModel(Exception):
    """The text is no model of OpenVINO's."""


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
    """What was read of a file so far."""

    def __init__(self) -> None:
        self.format = ""
        self.made_by = ""
        self.inputs: list[Tensor] = []
        self.operators: Counter[tuple[str, str]] = Counter()
        #: By where they are in the file: operators may use the same ones.
        self.constants: dict[tuple[int, int], Optional[str]] = {}
        self._results: list[_Layer] = []
        #: Of the output ports of layers, by number of the layer and of the port.
        self._names: dict[tuple[str, str], list[str]] = {}
        #: By number of the layer that reads it, the port that it reads.
        self._sources: dict[str, tuple[str, str]] = {}
        self._path: list[str] = []
        self._layers: list[_Layer] = []
        self._text = ""

    def read(self, path: Path) -> None:
        """Read the file; raise _NoModel, ExpatError or ValueError if it is none or damaged."""
        parser = expat.ParserCreate()
        parser.StartDoctypeDeclHandler = _refuse
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._character
        with open_regular(path) as file:
            parser.ParseFile(file)

    def outputs(self) -> tuple[Tensor, ...]:
        """Return the outputs: each is named by its own attribute or, in older files, by what it
        reads.
        """
        tensors = []
        for layer in self._results:
            number = layer.attributes.get("id", "")
            name = layer.attributes.get("name", "")
            names = _names(layer.attributes.get("output_names", "")) or self._names.get(
                self._sources.get(number, ("", "")), []
            )
            port = layer.ports[0] if layer.ports else _Port("", [], None)
            tensors.append(Tensor(min(names, default=name), port.type, tuple(port.sizes)))
        return tuple(tensors)

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if not self._path and tag != "net":
            raise _NoModel(tag)
        self._path.append(tag)
        self._text = ""
        if self._path == ["net"]:
            self.format = f"OpenVINO IR, version {int(attributes['version'])}"
        elif self._path[:2] == ["net", "rt_info"]:
            self._note(tag, attributes)
        elif tag == "layer":
            self._layers.append(_Layer(attributes, self._path == _OWN_LAYER))
        elif self._path == ["net", "edges", "edge"]:
            self._sources[attributes["to-layer"]] = (
                attributes["from-layer"],
                attributes["from-port"],
            )
        elif self._layers and tag == "data" and self._path[-2] == "layer":
            self._layers[-1].data = attributes
        elif self._layers and tag == "port":
            names = _names(attributes.get("names", ""))
            self._layers[-1].ports.append(
                _Port(attributes["id"], names, _type(attributes.get("precision", "")))
            )

    def _end(self, tag: str) -> None:
        self._path.pop()
        if tag == "dim" and self._layers and self._layers[-1].ports:
            size = int(self._text)
            self._layers[-1].ports[-1].sizes.append(size if size >= 0 else "")
        elif tag == "layer":
            self._take(self._layers.pop())

    def _character(self, text: str) -> None:
        if self._path[-1] == "dim" and len(self._text) < _LONGEST_NUMBER:
            self._text += text

    def _note(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Take which OpenVINO wrote the file: the form depends on the version."""
        words = f"{tag} {attributes.get('name', '')}"
        if "Runtime" in words and "value" in attributes:
            self.made_by = f"OpenVINO {attributes['value']}"

    def _take(self, layer: _Layer) -> None:
        kind = layer.attributes["type"]
        domain = layer.attributes.get("version", "")
        if kind == "Const":
            place = int(layer.data["offset"]), int(layer.data["size"])
            if min(place) < 0:
                raise ValueError(place)
            self.constants[place] = _type(layer.data["element_type"])
        elif kind not in ("Parameter", "Result"):
            self.operators["" if domain.startswith("opset") else domain, kind] += 1
        if not layer.is_own:
            return
        for port in layer.ports:
            self._names[layer.attributes["id"], port.number] = port.names
        if kind == "Parameter":
            names = [name for port in layer.ports for name in port.names]
            name = min(names, default=layer.attributes.get("name", ""))
            self.inputs.append(
                Tensor(name, _type(layer.data["element_type"]), _shape(layer.data["shape"]))
            )
        elif kind == "Result":
            self._results.append(layer)


def read(path: Path) -> Inspection:
    """Return what the file shows; raise ModelError if it is no model of OpenVINO's, or not
    whole.
    """
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
                "weights in": _weights_file(path, max(map(sum, reader.constants), default=0)),
            }
        ),
    )


def _refuse(*_: Any) -> None:
    """Refuse a text that defines names of its own: no model does."""
    raise _NoModel("doctype")


def _weights_file(path: Path, needed_bytes: int) -> str:
    """Return the name of the file with the weights, and whether it is there; empty if the model
    needs none.
    """
    file = path.with_suffix(".bin")
    if not needed_bytes:
        return ""
    if not file.is_file():
        return f"{file.name}, which is not beside the model"
    size_bytes = file.stat().st_size
    return (
        file.name
        if size_bytes >= needed_bytes
        else f"{file.name}, cut short: {size_bytes:,} of {needed_bytes:,} bytes"
    )


def _names(text: str) -> list[str]:
    return [name.replace("\\,", ",") for name in _BETWEEN_NAMES.split(text) if name]


def _type(text: str) -> Optional[str]:
    """Return what numpy calls a type; None if it has none."""
    text = text.lower()
    matched = _TYPE.fullmatch(text)
    return f"{_NUMBERS[matched[1]]}{matched[2]}" if matched else _OTHER_TYPES.get(text)


def _shape(text: str) -> Optional[tuple[Union[int, str], ...]]:
    """Return the sizes of an input: "1,3,?,1..640"; free ones have no names here. None if even
    their number is.
    """
    if "..." in text:
        return None
    sizes: list[Union[int, str]] = []
    for size in filter(None, (part.strip() for part in text.split(","))):
        sizes.append(int(size) if size.isdecimal() else "")
    return tuple(sizes)
