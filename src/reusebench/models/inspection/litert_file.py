"""Reads .tflite files, of LiteRT and TensorFlow Lite, without a library of either.

They are FlatBuffers; the numbers of fields, types and operators are from their schema (schema.fbs,
version 3).
"""

from __future__ import annotations

import mmap
import re
import struct
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Optional, Union

from reusebench.measured.runtimes.base import BFLOAT16, TEXT
from reusebench.models.errors import ModelError
from reusebench.models.inspection.contents import Inspection, Operator, OtherFacts, Tensor, Weights
from reusebench.models.inspection.flatbuffer import FlatTable, root
from reusebench.system.files import open_regular

__all__ = ["KNOWN_CUSTOM", "read"]

_MAGIC = b"TFL3"
#: Errors from reading a damaged file, whose offsets lead anywhere.
_DAMAGED = (struct.error, ValueError, LookupError)

#: Field numbers of the tables.
_CODES = 1
_GRAPHS = 2
_DESCRIPTION = 3
_BUFFERS = 4
_SIGNATURES = 7
_OLD_CODE = 0
_CUSTOM_CODE = 1
_CODE = 3
_TENSORS = 0
_INPUTS = 1
_OUTPUTS = 2
_OPERATORS = 3
_SHAPE = 0
_TYPE = 1
_BUFFER = 2
_NAME = 3
_QUANTISATION = 4
_SCALES = 2
_IS_VARIABLE = 5
_SHAPE_SIGNATURE = 7
_OPERATOR_CODE = 0
_OPERATOR_INPUTS = 1
_DATA = 0
_SIZE_BEHIND = 2
_SIGNATURE_INPUTS = 0
_SIGNATURE_OUTPUTS = 1
_SIGNATURE_GRAPH = 4
_MAP_NAME = 0
_MAP_TENSOR = 1

#: Names of tensor types, in the order of their numbers.
_TYPES = (
    "float32",
    "float16",
    "int32",
    "uint8",
    "int64",
    TEXT,
    "bool",
    "int16",
    "complex64",
    "int8",
    "float64",
    "complex128",
    "uint64",
    "resource",
    "variant",
    "uint32",
    "uint16",
    "int4",
    BFLOAT16,
    "int2",
    "uint4",
)
#: The built-in operators in the order of their numbers.
_NAMES = (
    "ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE"
    " EMBEDDING_LOOKUP FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D"
    " LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1"
    " RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS"
    " SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER"
    " BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE"
    " UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT"
    " LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG"
    " PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE"
    " EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD"
    " REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV"
    " REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU"
    " SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND COS WHERE"
    " RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE"
    " NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM"
    " BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D"
    " IMAG REAL COMPLEX_ABS HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL"
    " CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS"
    " RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE"
    " RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2"
    " UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD"
    " STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE STABLEHLO_CLAMP"
    " STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE"
    " STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE"
    " STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM STABLEHLO_NEGATE"
    " STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT STABLEHLO_SELECT"
    " STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT"
    " STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA"
    " STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER"
    " STABLEHLO_TRANSPOSE DILATE STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE"
    " STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT STABLEHLO_CASE "
)
_BUILT_IN = tuple(_NAMES.split())
_CUSTOM = 32
_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
_UNPACKING = ("DEQUANTIZE", "DENSIFY")
#: Operators with random results, or that change a variable which stays until the next inference.
_VARYING = (
    "ASSIGN_VARIABLE",
    "MULTINOMIAL",
    "RANDOM_STANDARD_NORMAL",
    "RANDOM_UNIFORM",
    "STABLEHLO_RNG_BIT_GENERATOR",
)
#: Custom operators that LiteRT 2.3 registers by itself.
KNOWN_CUSTOM = (
    "AudioSpectrogram",
    "Mfcc",
    "NumericVerify",
    "TFLite_Detection_PostProcess",
    "aeq.hadamard_rotation",
    "odml.scaled_dot_product_attention",
)
_VARIABLES = "variable tensors"
_NPU_DECIDES = (
    "the delegate chooses operators when it loads the file; `reusebench bench --runtime teflon`"
    " tells which"
)
#: The scenarios of mechanisms that the class Interpreter lacks.
_OF_COMPILED_MODELS = (
    "full_dup",
    "shared_context",
    "internal_reuse",
    "shared_weights",
    "external_weights",
    "zero_copy_io",
)
_RANDOM_CUSTOM = re.compile(r"Flex(Random|Stateful|Stateless|Multinomial)\w*")


class _Graph:
    """A graph of the model: its tensors, and the sizes of their constants."""

    def __init__(self, graph: FlatTable, buffers: list[int]) -> None:
        self.graph = graph
        self.tensors = list(graph.tables(_TENSORS))
        self._buffers = buffers

    def constant_bytes(self, tensor: FlatTable) -> int:
        """Return the size of a tensor's constant; 0 if it is not constant."""
        return self._buffers[tensor.integer(_BUFFER)]

    def reads_constants(self, operator: FlatTable) -> bool:
        """Whether the first input of an operator is a constant."""
        first = next(operator.integers(_OPERATOR_INPUTS), -1)
        return first >= 0 and self.constant_bytes(self.tensors[first]) > 0

    def scales_of_weights(self, operator: FlatTable) -> int:
        """Return the number of scales of a convolution's weights; 0 if they are not quantised."""
        _, weights, *_ = operator.integers(_OPERATOR_INPUTS)
        quantisation = self.tensors[weights].table(_QUANTISATION)
        return quantisation.length(_SCALES) if quantisation else 0

    def declared(self, field: int, names: dict[int, str]) -> tuple[Tensor, ...]:
        """Return the inputs or the outputs, with the signature's names if it has any."""
        numbers = self.graph.integers(field)
        return tuple(_tensor(self.tensors[number], names.get(number)) for number in numbers)


def read(path: Path) -> Inspection:
    """Return the contents of the file; raise ModelError if it is no complete .tflite file."""
    with (
        open_regular(path) as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        try:
            if content[4:8] != _MAGIC:
                raise ValueError("no model")
            return _read(path, root(content), len(content))
        except _DAMAGED:
            raise ModelError(
                f"{path} is not a LiteRT model (.tflite), or is cut short. Copy it again"
            ) from None


def _read(path: Path, model: FlatTable, size: int) -> Inspection:
    buffers = [_stored_bytes(buffer) for buffer in model.tables(_BUFFERS)]
    if sum(buffers) > size:
        raise ValueError("cut short")
    codes = [_operator(code) for code in model.tables(_CODES)]
    graphs = [_Graph(graph, buffers) for graph in model.tables(_GRAPHS)]

    signatures = list(model.tables(_SIGNATURES))
    main = graphs[signatures[0].integer(_SIGNATURE_GRAPH) if signatures else 0]
    input_names = _names(signatures, _SIGNATURE_INPUTS)
    output_names = _names(signatures, _SIGNATURE_OUTPUTS)

    operators: Counter[tuple[str, str]] = Counter()
    convolutions: Counter[str] = Counter()
    unpacks_weights = False
    for graph in graphs:
        for operator in graph.graph.tables(_OPERATORS):
            domain, name = codes[operator.integer(_OPERATOR_CODE)]
            operators[domain, name] += 1
            if name in _UNPACKING and graph.reads_constants(operator):
                unpacks_weights = True
            if name in _CONVOLUTIONS:
                convolutions[_quantisation(graph.scales_of_weights(operator))] += 1

    lines = {
        "format": "LiteRT (TensorFlow Lite, schema 3)",
        "made by": model.text(_DESCRIPTION) or "unknown",
        "signatures": str(len(signatures) or "none"),
    }
    if convolutions:
        kinds = ", ".join(f"{count} {how}" for how, count in convolutions.most_common())
        lines["convolutions"] = kinds
        lines["on an NPU"] = _NPU_DECIDES
    varying = _varying(graphs, operators)
    lacks = [("internal_reuse", "litert_unpacked_weights")] if unpacks_weights else []
    if _VARIABLES in varying:
        lines["runs with"] = "class Interpreter: compiled models take no variable tensors"
        lacks = [(scenario, "litert_interpreter_alone") for scenario in _OF_COMPILED_MODELS]
    return Inspection(
        file=str(path),
        size_bytes=size,
        inputs=main.declared(_INPUTS, input_names),
        outputs=main.declared(_OUTPUTS, output_names),
        weights=_weights(graphs),
        operators=tuple(
            Operator(domain, name, count) for (domain, name), count in operators.most_common()
        ),
        facts=OtherFacts(lines, tuple(lacks)),
        varying=varying,
        hindrances=tuple(
            f"operator {name} is not LiteRT's, and no library of it is loaded"
            for domain, name in operators
            if domain and name not in KNOWN_CUSTOM
        ),
    )


def _varying(graphs: list[_Graph], operators: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the operators with random results or lasting state, and _VARIABLES."""
    names = []
    for domain, name in operators:
        is_random = name in _VARYING if not domain else _RANDOM_CUSTOM.fullmatch(name)
        if is_random:
            names.append(name)
    if any(tensor.byte(_IS_VARIABLE) for graph in graphs for tensor in graph.tensors):
        names.append(_VARIABLES)
    return tuple(names)


def _quantisation(scales: int) -> str:
    """Return the quantisation of weights, as a text, by the number of their scales."""
    if not scales:
        return "in floats"
    return "with one scale" if scales == 1 else "with a scale per channel"


def _names(signatures: list[FlatTable], field: int) -> dict[int, str]:
    """Return the first signature's names for inputs or outputs, by the number of the tensor."""
    entries = signatures[0].tables(field) if signatures else ()
    return {entry.integer(_MAP_TENSOR): entry.text(_MAP_NAME) for entry in entries}


def _tensor(tensor: FlatTable, name: Optional[str]) -> Tensor:
    sizes: list[Union[int, str]] = []
    for size in list(tensor.integers(_SHAPE_SIGNATURE)) or tensor.integers(_SHAPE):
        sizes.append(size if size >= 0 else "")
    return Tensor(name or tensor.text(_NAME), _TYPES[tensor.byte(_TYPE)], tuple(sizes))


def _weights(graphs: list[_Graph]) -> tuple[Weights, ...]:
    """Return the constants by type; a buffer that several tensors share counts once."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    counted: set[int] = set()
    for graph in graphs:
        for tensor in graph.tensors:
            number = tensor.integer(_BUFFER)
            size = graph.constant_bytes(tensor)
            if not size or number in counted:
                continue
            counted.add(number)
            name = _TYPES[tensor.byte(_TYPE)]
            counts[name] += 1
            sizes[name] += size
    return tuple(Weights(name, counts[name], size) for name, size in sizes.most_common())


def _stored_bytes(buffer: FlatTable) -> int:
    """Return the size of a buffer's data, which is behind the tables in files above 2 GB."""
    return buffer.length(_DATA) or buffer.long(_SIZE_BEHIND)


def _operator(code: FlatTable) -> tuple[str, str]:
    """Return domain and name of an operator; numbers above 127 have a newer field of their own."""
    number = max(code.byte(_OLD_CODE), code.integer(_CODE))
    if number == _CUSTOM:
        return "custom", code.text(_CUSTOM_CODE)
    return "", _BUILT_IN[number]
