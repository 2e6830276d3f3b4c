"""The options of sessions, in the words of ONNX Runtime.

A name with a dot is an entry of SessionOptions, or of RunOptions if it begins with `memory.` or
`RunOptions.`; a name without is an attribute of SessionOptions, otherwise a key of OrtArenaCfg.
ONNX Runtime takes any entry without a word, so its library is searched for the name.
"""

from __future__ import annotations

import functools
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state

from reusebench.measured.runtimes.base import NotSupported
from reusebench.measured.runtimes.onnxruntime.option_names import (
    ARENA_KEYS,
    RUN,
    STRATEGIES,
    STRATEGY,
    is_of_run,
    run_entry,
)
from reusebench.measured.runtimes.option_words import (
    attribute_names,
    set_attribute,
    split,
    unknown,
    wrong_value,
)

__all__ = ["OnnxOptions", "as_prepared", "options_of", "plain_options"]

_TITLE = "ONNX Runtime"
#: Severity of errors (OrtLoggingLevel).
_LOG_ERRORS_ONLY = 3

#: Names by which ONNX Runtime writes a file.
_WRITES = re.compile(
    "optimized_model_filepath|enable_profiling|profile_file_prefix|ep[.]context|_to_file$|state_file$"
)
#: Names of entries, as C strings in ONNX Runtime's library.
_ENTRY = re.compile(rb"\0((?:session|optimization|memory|mlas|ep)\.[\w.]+)(?=\0)")
_PIECE_BYTES = 1 << 16
#: Longer than any name of an entry.
_MOST_NAME_BYTES = 200


@dataclass
class OnnxOptions:
    """The options that a context has beside those of every session."""

    #: Attributes of SessionOptions, NAME=VALUE each.
    attributes: List[str] = field(default_factory=list)
    #: Entries of SessionOptions.
    entries: Dict[str, str] = field(default_factory=dict)
    #: Entries of the RunOptions of each inference.
    run_entries: Dict[str, str] = field(default_factory=dict)
    #: Settings of an arena of the process; empty for one of the session.
    arena: Dict[str, int] = field(default_factory=dict)

    def give_to(self, options: Any) -> None:
        """Set what concerns the session."""
        for option in self.attributes:
            set_attribute(options, option, _TITLE)
        for name, value in self.entries.items():
            options.add_session_config_entry(name, value)

    def run_options(self) -> Any:
        """Return the RunOptions of an inference; None for the default."""
        if not self.run_entries:
            return None
        options = ort.RunOptions()
        for name, value in self.run_entries.items():
            options.add_run_config_entry(name, value)
        return options


@functools.lru_cache(maxsize=None)  # noqa: UP033  functools.cache needs Python 3.9
def options_of(words: Tuple[str, ...]) -> OnnxOptions:
    """Return the options of a context; raise NotSupported for one that ONNX Runtime lacks."""
    options = OnnxOptions()
    attributes = attribute_names(ort.SessionOptions()) if words else []
    for word in words:
        name, value = split(word)
        if _WRITES.search(name):
            raise NotSupported("option_writes", runtime=_TITLE, option=word)
        if name in attributes:
            options.attributes.append(word)
        elif is_of_run(name):
            entry = run_entry(name)
            _check_entry(word, entry)
            options.run_entries[entry] = value
        elif "." in name:
            _check_entry(word, name)
            options.entries[name] = value
        else:
            options.arena[name] = _arena_value(word, attributes)
    return options


def _arena_value(option: str, attributes: Sequence[str]) -> int:
    """Return the value of a key of OrtArenaCfg, which refuses keys that it does not have."""
    name, text = split(option)
    if name == STRATEGY:
        text = str(STRATEGIES.get(text, text))
    value: Optional[int] = None
    with suppress(ValueError):
        value = int(text)
    try:
        ort.OrtArenaCfg({name: value or 0})
    except RuntimeError:
        plain = [attribute for attribute in attributes if not _WRITES.search(attribute)]
        names = [*plain, *ARENA_KEYS, "session.NAME", "memory.NAME", f"{RUN}NAME"]
        raise unknown(_TITLE, option, names) from None
    if value is None or (name == STRATEGY and value not in STRATEGIES.values()):
        raise wrong_value(_TITLE, option, STRATEGIES if name == STRATEGY else ["a whole number"])
    return value


def _check_entry(option: str, name: str) -> None:
    """Raise NotSupported if ONNX Runtime's library does not have the name of an entry."""
    text = b"\0" + name.encode() + b"\0"
    if any(text in piece for piece in _pieces_of_library()):
        return
    names: Set[str] = set()
    for piece in _pieces_of_library():
        names.update(match.decode() for match in _ENTRY.findall(piece))
    raise unknown(_TITLE, option, sorted(names))


def _pieces_of_library() -> Iterator[bytes]:
    """Yield pieces of ONNX Runtime's library that overlap by the length of any name.

    A mapping would add pages of the library to the process.
    """
    piece = b""
    with open(onnxruntime_pybind11_state.__file__, "rb") as library:
        while True:
            read = library.read(_PIECE_BYTES)
            if not read:
                return
            piece = piece[-_MOST_NAME_BYTES:] + read
            yield piece


def plain_options() -> Any:
    """Return the options that every session has."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = _LOG_ERRORS_ONLY
    return options


def as_prepared(options: Any) -> Any:
    """Set these options for a prepared model, and return them.

    It is optimised already, and its nodes run in the order of the file.
    """
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    return options
