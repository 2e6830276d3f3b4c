"""Options of a net: those that all of ours have, and those that a user may set."""

from __future__ import annotations

from typing import Any, Sequence

__all__ = ["OPTIONS", "set_options"]

#: Options that let ncnn compute in fewer bits, on processors that can; all are switched off.
_REDUCED = (
    "use_fp16_packed",
    "use_fp16_storage",
    "use_fp16_arithmetic",
    "use_bf16_packed",
    "use_bf16_storage",
)

#: Options that an application may set before a net is loaded, which differ from ours.
OPTIONS = (
    "use_winograd_convolution=0",
    "use_winograd23_convolution=0",
    "use_winograd43_convolution=0",
    "use_winograd63_convolution=0",
    "use_sgemm_convolution=0",
    "use_packing_layout=0",
    "lightmode=0",
    *(f"{name}=1" for name in _REDUCED),
)


def set_options(net_options: Any, chosen: Sequence[str]) -> None:
    """Set the options of a net (ncnn.Option), with the chosen ones of OPTIONS.

    One thread, as one context uses one NPU core; float32 alone, so that outputs compare with those
    of other runtimes.
    """
    net_options.num_threads = 1
    net_options.use_vulkan_compute = False
    for name in _REDUCED:
        setattr(net_options, name, False)
    for option in chosen:
        name, _, value = option.partition("=")
        setattr(net_options, name, value == "1")
