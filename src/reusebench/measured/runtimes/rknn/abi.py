"""Rockchip's rknn_api.h as ctypes: structs, flags and error codes.

They are those of the header of SDK 2.3.2; 1.4.0 to 2.3.2 read the same. Pointers and rknn_context
differ between 32 and 64 bit; ctypes lays structs out as the running interpreter's C compiler would.
tests/measured/runtimes/test_rknn_abi.py holds sizes and offsets of both.
"""

from __future__ import annotations

import ctypes
from ctypes import c_char, c_float, c_int8, c_int32, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Dict

__all__ = [
    "ERRORS",
    "FLAG_INTERNAL_ALLOC_OUTSIDE",
    "FLAG_MEM_ALLOC_OUTSIDE",
    "FLAG_MODEL_BUFFER_ZERO_COPY",
    "FLAG_SHARE_WEIGHT_MEM",
    "FORMAT_NC1HWC2",
    "FORMAT_NHWC",
    "MEM_FLAG_ALLOC_NO_CONTEXT",
    "QUERY_CURRENT_INPUT_ATTR",
    "QUERY_CURRENT_NATIVE_INPUT_ATTR",
    "QUERY_CURRENT_NATIVE_OUTPUT_ATTR",
    "QUERY_CURRENT_OUTPUT_ATTR",
    "QUERY_INPUT_ATTR",
    "QUERY_INPUT_DYNAMIC_RANGE",
    "QUERY_IN_OUT_NUM",
    "QUERY_MEM_SIZE",
    "QUERY_NATIVE_INPUT_ATTR",
    "QUERY_NATIVE_OUTPUT_ATTR",
    "QUERY_OUTPUT_ATTR",
    "QUERY_SDK_VERSION",
    "SYNC_FROM_DEVICE",
    "SYNC_TO_DEVICE",
    "TYPES",
    "TYPE_BFLOAT16",
    "TYPE_FLOAT16",
    "TYPE_FLOAT32",
    "TYPE_INT8",
    "TYPE_INT16",
    "TYPE_UINT8",
    "InitExtend",
    "InputOutputNumber",
    "InputRange",
    "MemSize",
    "RknnContext",
    "RknnInput",
    "RknnOutput",
    "SdkVersion",
    "TensorAttr",
    "TensorMem",
]

#: rknn_context: uint32_t on 32-bit ARM, uint64_t elsewhere.
RknnContext = c_uint32 if ctypes.sizeof(c_void_p) == 4 else c_uint64

#: Return codes.
ERRORS: Dict[int, str] = {
    -1: "RKNN_ERR_FAIL",
    -2: "RKNN_ERR_TIMEOUT",
    -3: "RKNN_ERR_DEVICE_UNAVAILABLE",
    -4: "RKNN_ERR_MALLOC_FAIL",
    -5: "RKNN_ERR_PARAM_INVALID",
    -6: "RKNN_ERR_MODEL_INVALID",
    -7: "RKNN_ERR_CTX_INVALID",
    -8: "RKNN_ERR_INPUT_INVALID",
    -9: "RKNN_ERR_OUTPUT_INVALID",
    -10: "RKNN_ERR_DEVICE_UNMATCH",
    -11: "RKNN_ERR_INCOMPATILE_PRE_COMPILE_MODEL",
    -12: "RKNN_ERR_INCOMPATILE_OPTIMIZATION_LEVEL_VERSION",
    -13: "RKNN_ERR_TARGET_PLATFORM_UNMATCH",
}

#: Flags of rknn_init.
FLAG_MEM_ALLOC_OUTSIDE = 0x10
FLAG_SHARE_WEIGHT_MEM = 0x20
FLAG_INTERNAL_ALLOC_OUTSIDE = 0x200
FLAG_MODEL_BUFFER_ZERO_COPY = 0x10000
#: Flag of rknn_create_mem2.
MEM_FLAG_ALLOC_NO_CONTEXT = 0x20000

#: Commands of rknn_query.
QUERY_IN_OUT_NUM = 0
QUERY_INPUT_ATTR = 1
QUERY_OUTPUT_ATTR = 2
QUERY_SDK_VERSION = 5
QUERY_MEM_SIZE = 6
QUERY_NATIVE_INPUT_ATTR = 8
QUERY_NATIVE_OUTPUT_ATTR = 9
QUERY_INPUT_DYNAMIC_RANGE = 13
#: Commands for a model with dynamic shapes, once shapes are set.
QUERY_CURRENT_INPUT_ATTR = 14
QUERY_CURRENT_OUTPUT_ATTR = 15
QUERY_CURRENT_NATIVE_INPUT_ATTR = 16
QUERY_CURRENT_NATIVE_OUTPUT_ATTR = 17

#: Names of rknn_tensor_type, in its order, and the numbers that are used here.
TYPES = (
    "float32",
    "float16",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "bool",
    "int4",
    "bfloat16",
)
TYPE_FLOAT32 = 0
TYPE_FLOAT16 = 1
TYPE_INT8 = 2
TYPE_UINT8 = 3
TYPE_INT16 = 4
TYPE_BFLOAT16 = 11
#: Values of rknn_tensor_format. NC1HWC2 is the NPU's own: channels in groups, side by side for each
#: pixel.
FORMAT_NHWC = 1
FORMAT_NC1HWC2 = 2

#: Modes of rknn_mem_sync.
SYNC_TO_DEVICE = 1
SYNC_FROM_DEVICE = 2

_MAX_DIMENSIONS = 16
_MAX_DYNAMIC_SHAPES = 512
_NAME_BYTES = 256


class InputOutputNumber(ctypes.Structure):
    """rknn_input_output_num."""

    _fields_ = (("n_input", c_uint32), ("n_output", c_uint32))


class TensorAttr(ctypes.Structure):
    """rknn_tensor_attr: shape, type and sizes in bytes of one input or output."""

    _fields_ = (
        ("index", c_uint32),
        ("n_dims", c_uint32),
        ("dims", c_uint32 * _MAX_DIMENSIONS),
        ("name", c_char * _NAME_BYTES),
        ("n_elems", c_uint32),
        ("size", c_uint32),
        ("fmt", c_int32),
        ("type", c_int32),
        ("qnt_type", c_int32),
        ("fl", c_int8),
        ("zp", c_int32),
        ("scale", c_float),
        ("w_stride", c_uint32),
        ("size_with_stride", c_uint32),
        ("pass_through", c_uint8),
        ("h_stride", c_uint32),
    )


class InputRange(ctypes.Structure):
    """rknn_input_range: the shapes of one input that a model with dynamic shapes allows."""

    _fields_ = (
        ("index", c_uint32),
        ("shape_number", c_uint32),
        ("fmt", c_int32),
        ("name", c_char * _NAME_BYTES),
        ("dyn_range", (c_uint32 * _MAX_DIMENSIONS) * _MAX_DYNAMIC_SHAPES),
        ("n_dims", c_uint32),
    )


class MemSize(ctypes.Structure):
    """rknn_mem_size, in bytes, not additive: total_dma_allocated_size includes shared weights."""

    _fields_ = (
        ("total_weight_size", c_uint32),
        ("total_internal_size", c_uint32),
        ("total_dma_allocated_size", c_uint64),
        ("total_sram_size", c_uint32),
        ("free_sram_size", c_uint32),
        ("reserved", c_uint32 * 10),
    )


class TensorMem(ctypes.Structure):
    """rknn_tensor_mem: a piece of memory that the NPU can reach."""

    _fields_ = (
        ("virt_addr", c_void_p),
        ("phys_addr", c_uint64),
        ("fd", c_int32),
        ("offset", c_int32),
        ("size", c_uint32),
        ("flags", c_uint32),
        ("priv_data", c_void_p),
    )


class RknnInput(ctypes.Structure):
    """rknn_input."""

    _fields_ = (
        ("index", c_uint32),
        ("buf", c_void_p),
        ("size", c_uint32),
        ("pass_through", c_uint8),
        ("type", c_int32),
        ("fmt", c_int32),
    )


class RknnOutput(ctypes.Structure):
    """rknn_output."""

    _fields_ = (
        ("want_float", c_uint8),
        ("is_prealloc", c_uint8),
        ("index", c_uint32),
        ("buf", c_void_p),
        ("size", c_uint32),
    )


class InitExtend(ctypes.Structure):
    """rknn_init_extend."""

    _fields_ = (
        ("ctx", RknnContext),
        ("real_model_offset", c_int32),
        ("real_model_size", c_uint32),
        ("model_buffer_fd", c_int32),
        ("model_buffer_flags", c_uint32),
        ("reserved", c_uint8 * 112),
    )


class SdkVersion(ctypes.Structure):
    """rknn_sdk_version."""

    _fields_ = (("api_version", c_char * _NAME_BYTES), ("drv_version", c_char * _NAME_BYTES))
