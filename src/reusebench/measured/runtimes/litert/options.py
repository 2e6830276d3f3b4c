"""LrtCpuOptions (litert/c/options/litert_cpu_options.h) as TOML, as compiled models take them."""

from __future__ import annotations

from typing import Dict, NamedTuple, Sequence

__all__ = ["INTERPRETER", "OPTIONS", "TRANSIENT", "CpuOptions", "options_of"]

#: Default flags of XNNPACK (TfLiteXNNPackDelegateOptionsDefault): QS8, QU8,
#: DYNAMIC_FULLY_CONNECTED.
_DEFAULT_FLAGS = 0x1 | 0x2 | 0x8
#: Flag TFLITE_XNNPACK_DELEGATE_FLAG_TRANSIENT_INDIRECTION_BUFFER: convolutions compute the places
#: of their input at each inference, in the workspace, and do not keep them.
TRANSIENT = 0x20
#: Flag TFLITE_XNNPACK_DELEGATE_FLAG_FORCE_FP16: weights and arithmetic in 16 bits for any file.
_FORCE_FP16 = 0x4


#: The wheel's older class, for files that compiled models do not run.
INTERPRETER = "api=Interpreter"


class CpuOptions(NamedTuple):
    """The options of a compiled model."""

    #: "delegate" (XNNPACK), "builtin" (TensorFlow Lite's own kernels) or "reference" (kernels that
    #: only have to be right).
    kernel_mode: str = "delegate"
    #: Flags of XNNPACK.
    flags: int = _DEFAULT_FLAGS

    def as_toml(self, *lines: str) -> str:
        """Return the options as LrtGetOpaqueCpuOptionsData writes them, with additional lines."""
        own = ("num_threads = 1", f'kernel_mode = "{self.kernel_mode}"', f"flags = {self.flags}")
        return "\n".join([*own, *lines, ""])


#: Options that an application may choose, and their settings.
OPTIONS: Dict[str, CpuOptions] = {
    INTERPRETER: CpuOptions(),
    "kernel_mode=builtin": CpuOptions(kernel_mode="builtin"),
    "kernel_mode=reference": CpuOptions(kernel_mode="reference"),
    "xnnpack_flags=TRANSIENT_INDIRECTION_BUFFER": CpuOptions(flags=_DEFAULT_FLAGS | TRANSIENT),
    "xnnpack_flags=FORCE_FP16": CpuOptions(flags=_DEFAULT_FLAGS | _FORCE_FP16),
}


def options_of(words: Sequence[str], *, shares_internal: bool) -> CpuOptions:
    """Return the options that these words of OPTIONS set together.

    Contexts that share internal memory have TRANSIENT: otherwise each would keep its own
    indirection buffer.
    """
    kernel_mode = CpuOptions().kernel_mode
    flags = _DEFAULT_FLAGS
    if shares_internal:
        flags |= TRANSIENT
    for word in words:
        option = OPTIONS[word]
        if word.startswith("kernel_mode="):
            kernel_mode = option.kernel_mode
        flags |= option.flags
    return CpuOptions(kernel_mode, flags)
