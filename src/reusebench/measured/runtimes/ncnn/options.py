"""Options of a net: those of all nets, and those of a user in the words of ncnn.Option."""

from __future__ import annotations

from typing import Any, Sequence

from reusebench.measured.runtimes.base import NotSupported
from reusebench.measured.runtimes.option_words import (
    attribute_names,
    set_attribute,
    split,
    unknown,
)

__all__ = ["REDUCED", "set_options"]

_TITLE = "ncnn"
#: Options that let ncnn compute in fewer bits, on processors that can; all are switched off.
REDUCED = (
    "use_fp16_packed",
    "use_fp16_storage",
    "use_fp16_arithmetic",
    "use_bf16_packed",
    "use_bf16_storage",
)


def set_options(net_options: Any, chosen: Sequence[str]) -> None:
    """Set the options of a net (ncnn.Option), with the chosen ones, NAME=VALUE each.

    One thread, as one context uses one NPU core; float32 alone, so that outputs compare with those
    of other runtimes. Raises NotSupported for a name or a value that ncnn does not have.
    """
    net_options.num_threads = 1
    net_options.use_vulkan_compute = False
    for name in REDUCED:
        setattr(net_options, name, False)
    names = attribute_names(net_options)
    for option in chosen:
        if split(option)[0] not in names:
            raise unknown(_TITLE, option, names)
        set_attribute(net_options, option, _TITLE)
    if net_options.use_vulkan_compute:
        raise NotSupported("ncnn_cpu_only")
