"""LrtCpuOptions (litert/c/options/litert_cpu_options.h) as TOML, as compiled models take them.

The library takes names that it does not have without a word, so the names are listed here.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Sequence, Tuple

from reusebench.measured.runtimes.base import NotSupported
from reusebench.measured.runtimes.option_words import (
    member,
    split,
    unknown,
    whole_number,
    wrong_value,
)

__all__ = ["FLAGS", "INTERPRETER", "TRANSIENT", "CpuOptions", "options_of"]

_TITLE = "LiteRT"
#: Flags of XNNPACK, by their names in xnnpack_delegate.h without the prefix
#: TFLITE_XNNPACK_DELEGATE_FLAG.
FLAGS = {
    "QS8": 0x1,
    "QU8": 0x2,
    "FORCE_FP16": 0x4,
    "DYNAMIC_FULLY_CONNECTED": 0x8,
    "VARIABLE_OPERATORS": 0x10,
    "TRANSIENT_INDIRECTION_BUFFER": 0x20,
    "ENABLE_LATEST_OPERATORS": 0x40,
    "ENABLE_SUBGRAPH_RESHAPING": 0x80,
    "ENABLE_SLINKY": 0x100,
    "SLOW_CONSISTENT_ARITHMETIC": 0x200,
    "DISABLE_SUBGRAPH_RESHAPING": 0x400,
}
#: Default flags of XNNPACK (TfLiteXNNPackDelegateOptionsDefault).
_DEFAULT_FLAGS = FLAGS["QS8"] | FLAGS["QU8"] | FLAGS["DYNAMIC_FULLY_CONNECTED"]
#: Convolutions compute the places of their input at each inference, in the workspace, and do not
#: keep them.
TRANSIENT = FLAGS["TRANSIENT_INDIRECTION_BUFFER"]
#: Those that compute by XNNPACK, by TensorFlow Lite's own kernels, and by kernels that only have to
#: be right.
_KERNEL_MODES = ("delegate", "builtin", "reference")
_KERNEL_MODE = "kernel_mode"
#: The wheel's older class, for files that compiled models do not run.
INTERPRETER = "api=Interpreter"
_API = "api"
_APIS = ("CompiledModel", "Interpreter")
_THREADS = "num_threads"
_XNNPACK = "xnnpack_flags"
_YNNPACK = "enable_ynnpack"
_NUMBER = re.compile("0x[0-9a-fA-F]{1,8}|[0-9]{1,9}")
_WRITES = ("weight_cache_file_path", "xnnpack_weight_cache_path")


class CpuOptions(NamedTuple):
    """The options of a compiled model."""

    #: One of _KERNEL_MODES.
    kernel_mode: str = _KERNEL_MODES[0]
    #: Flags of XNNPACK.
    flags: int = _DEFAULT_FLAGS
    #: One inference uses one core.
    threads: int = 1
    #: Additional lines of TOML.
    others: Tuple[str, ...] = ()

    def as_toml(self, *lines: str) -> str:
        """Return the options as LrtGetOpaqueCpuOptionsData writes them, with additional lines."""
        own = (
            f"num_threads = {self.threads}",
            f'kernel_mode = "{self.kernel_mode}"',
            f"flags = {self.flags}",
            *self.others,
        )
        return "\n".join([*own, *lines, ""])


def options_of(words: Sequence[str], *, shares_internal: bool) -> CpuOptions:
    """Return the usual options with the changes of these words, NAME=VALUE each.

    Flags of XNNPACK are added to the default ones; a number stands for all of them. Contexts that
    share internal memory have TRANSIENT: otherwise each would keep its own indirection buffer.
    Raises NotSupported for a name or a value that LiteRT does not have.
    """
    options = CpuOptions()
    for word in words:
        options = _changed(options, word)
    if shares_internal:
        options = options._replace(flags=options.flags | TRANSIENT)
    return options


def _changed(options: CpuOptions, word: str) -> CpuOptions:
    """Return the options with the change of one word."""
    name, _ = split(word)
    if name == _KERNEL_MODE:
        return options._replace(kernel_mode=member(_TITLE, word, _KERNEL_MODES))
    if name == _API:
        member(_TITLE, word, _APIS)
        return options
    if name == _YNNPACK:
        switch = member(_TITLE, word, ("true", "false"))
        return options._replace(others=(f"{_YNNPACK} = {switch}",))
    if name == _THREADS:
        return options._replace(threads=whole_number(_TITLE, word))
    if name == _XNNPACK:
        return options._replace(flags=_flags(word, options.flags))
    if name in _WRITES:
        raise NotSupported("option_writes", runtime=_TITLE, option=word)
    raise unknown(_TITLE, word, [_KERNEL_MODE, _THREADS, _XNNPACK, _YNNPACK, _API])


def _flags(option: str, flags: int) -> int:
    """Return the flags of an option: a number, or names to add to `flags`, with | between them."""
    text = split(option)[1]
    if _NUMBER.fullmatch(text):
        return int(text, 0)
    for name in text.split("|"):
        if name not in FLAGS:
            raise wrong_value(_TITLE, option, ["a number", *FLAGS])
        flags |= FLAGS[name]
    return flags
