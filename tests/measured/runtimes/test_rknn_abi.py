"""rknn_api.h as ctypes: sizes and offsets for 32 and 64 bit, by figures of the header."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from reusebench.measured.runtimes.rknn import abi

_WIDTH = 8 * ctypes.sizeof(ctypes.c_void_p)

#: Size and offsets, each by width, or one number if they are equal; from the C compiler, header
#: 2.3.2.
_LAYOUTS: dict[type[ctypes.Structure], tuple[Any, dict[str, Any]]] = {
    abi.TensorAttr: (
        376,
        {
            "index": 0,
            "n_dims": 4,
            "dims": 8,
            "name": 72,
            "n_elems": 328,
            "size": 332,
            "fmt": 336,
            "type": 340,
            "qnt_type": 344,
            "fl": 348,
            "zp": 352,
            "scale": 356,
            "w_stride": 360,
            "size_with_stride": 364,
            "pass_through": 368,
            "h_stride": 372,
        },
    ),
    abi.MemSize: (
        64,
        {
            "total_weight_size": 0,
            "total_internal_size": 4,
            "total_dma_allocated_size": 8,
            "total_sram_size": 16,
            "free_sram_size": 20,
        },
    ),
    abi.TensorMem: (
        40,
        {
            "virt_addr": 0,
            "phys_addr": 8,
            "fd": 16,
            "offset": 20,
            "size": 24,
            "flags": 28,
            "priv_data": 32,
        },
    ),
    abi.SdkVersion: (512, {"api_version": 0, "drv_version": 256}),
    abi.InputOutputNumber: (8, {"n_input": 0, "n_output": 4}),
    # It has only numbers of 4 bytes and characters, so it is the same on both widths.
    abi.InputRange: (
        33040,
        {"index": 0, "shape_number": 4, "fmt": 8, "name": 12, "dyn_range": 268, "n_dims": 33036},
    ),
    abi.InitExtend: (
        {32: 132, 64: 136},
        {
            "ctx": 0,
            "real_model_offset": {32: 4, 64: 8},
            "real_model_size": {32: 8, 64: 12},
            "model_buffer_fd": {32: 12, 64: 16},
            "model_buffer_flags": {32: 16, 64: 20},
            "reserved": {32: 20, 64: 24},
        },
    ),
    abi.RknnInput: (
        {32: 24, 64: 32},
        {
            "index": 0,
            "buf": {32: 4, 64: 8},
            "size": {32: 8, 64: 16},
            "pass_through": {32: 12, 64: 20},
            "type": {32: 16, 64: 24},
            "fmt": {32: 20, 64: 28},
        },
    ),
    abi.RknnOutput: (
        {32: 16, 64: 24},
        {"want_float": 0, "is_prealloc": 1, "index": 4, "buf": 8, "size": {32: 12, 64: 16}},
    ),
}


def _of(figure: Any, width: int) -> int:
    return int(figure[width] if isinstance(figure, dict) else figure)


def _at_width(struct: type[ctypes.Structure], width: int) -> type[ctypes.Structure]:
    """Return the struct of a machine of that width; its pointers and contexts are plain numbers."""
    number = {32: ctypes.c_uint32, 64: ctypes.c_uint64}[width]
    fields = [
        (name, number if kind is ctypes.c_void_p or name == "ctx" else kind)
        for name, kind, *_ in struct._fields_
    ]
    return type(struct.__name__, (ctypes.Structure,), {"_fields_": fields})


@pytest.mark.parametrize("width", [32, 64, None])
@pytest.mark.parametrize("struct", _LAYOUTS, ids=lambda struct: struct.__name__)
def test_layouts(struct: type[ctypes.Structure], width: int | None) -> None:
    """Size and every offset are the C compiler's, on both widths, and on this machine (None)."""
    size, offsets = _LAYOUTS[struct]
    layout = _at_width(struct, width) if width else struct
    assert ctypes.sizeof(layout) == _of(size, width or _WIDTH)
    expected = {name: _of(offset, width or _WIDTH) for name, offset in offsets.items()}
    assert {name: getattr(layout, name).offset for name in offsets} == expected


def test_every_struct_is_checked() -> None:
    """A struct that is added needs its figures here."""
    types = {value for value in vars(abi).values() if isinstance(value, type)}
    assert {kind for kind in types if issubclass(kind, ctypes.Structure)} == set(_LAYOUTS)


def test_a_context_is_as_wide_as_a_pointer() -> None:
    """rknn_context is uint32_t on 32-bit ARM, and uint64_t elsewhere."""
    assert ctypes.sizeof(abi.RknnContext) == ctypes.sizeof(ctypes.c_void_p)


def test_every_error_has_a_name() -> None:
    """Codes -1 to -13 each have a name of their own."""
    assert sorted(abi.ERRORS, reverse=True) == list(range(-1, -14, -1))
    assert len(set(abi.ERRORS.values())) == len(abi.ERRORS)
