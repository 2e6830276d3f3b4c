"""LrtCpuOptions (litert/c/options/litert_cpu_options.h), as TOML, in which form compiled models
take them.
"""

from __future__ import annotations

from typing import Dict, NamedTuple, Sequence

__all__ = ["OPTIONS", "TRANSIENT", "CpuOptions", "options_of"]

#: What XNNPACK is told where nothing is (TfLiteXNNPackDelegateOptionsDefault): QS8, QU8,
#: DYNAMIC_FULLY_CONNECTED.
_DEFAULT_FLAGS = 0x1 | 0x2 | 0x8
#: TFLITE_XNNPACK_DELEGATE_FLAG_*: convolutions compute where their input is at each inference, in
#: the workspace, and do not keep it; weights and arithmetic in 16 bits, whatever the file has.
TRANSIENT = 0x20
_FORCE_FP16 = 0x4


class CpuOptions(NamedTuple):
    """The options of a compiled model."""

    #: "delegate" (XNNPACK), "builtin" (TensorFlow Lite's own kernels), "reference" (those that show
    #: what is meant).
    kernel_mode: str = "delegate"
    #: Of XNNPACK.
    flags: int = _DEFAULT_FLAGS

    def as_toml(self, *lines: str) -> str:
        """Return them as LrtGetOpaqueCpuOptionsData writes them, with further lines."""
        own = ("num_threads = 1", f'kernel_mode = "{self.kernel_mode}"', f"flags = {self.flags}")
        return "\n".join([*own, *lines, ""])


#: What an application may choose, and what that sets.
OPTIONS: Dict[str, CpuOptions] = {
    "kernel_mode=builtin": CpuOptions(kernel_mode="builtin"),
    "kernel_mode=reference": CpuOptions(kernel_mode="reference"),
    "xnnpack_flags=TRANSIENT_INDIRECTION_BUFFER": CpuOptions(flags=_DEFAULT_FLAGS | TRANSIENT),
    "xnnpack_flags=FORCE_FP16": CpuOptions(flags=_DEFAULT_FLAGS | _FORCE_FP16),
}


def options_of(words: Sequence[str], *, shares_internal: bool) -> CpuOptions:
    """Return the options that these words of OPTIONS set together.

    Contexts that share internal memory would else keep what TRANSIENT puts there each by itself.
    """
    kernel_mode = CpuOptions().kernel_mode
    flags = _DEFAULT_FLAGS | (TRANSIENT if shares_internal else 0)
    for word in words:
        option = OPTIONS[word]
        kernel_mode = option.kernel_mode if word.startswith("kernel_mode=") else kernel_mode
        flags |= option.flags
    return CpuOptions(kernel_mode, flags)
