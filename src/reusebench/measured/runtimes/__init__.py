"""The list of runtimes behind one small interface (base.py).

Importing this package imports no runtime. The harness must not map a runtime's libraries, since a
second process that maps them would halve their share in the measured process's PSS.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional, Tuple

if TYPE_CHECKING:
    from reusebench.measured.runtimes.base import Runtime

__all__ = [
    "RUNTIMES",
    "RuntimeEntry",
    "UnknownRuntime",
    "available",
    "find_runtime",
    "open_runtime",
    "version_order",
]


@dataclass(frozen=True)
class RuntimeEntry:
    """One runtime: its adapter, and all that is known without importing it."""

    name: str
    #: Title in every language.
    title: str
    #: Module of this package that defines `open_runtime() -> Runtime`.
    adapter: str
    #: Python module of the runtime; None for Rockchip's library, which is no Python module.
    module: Optional[str]
    #: Advice if the runtime is missing.
    install: str
    #: Kind of device that infers: "cpu" or "npu".
    device: str
    #: Suffixes of the files that the runtime reads: its own kind first, then others.
    suffixes: Tuple[str, ...]
    #: Whether models are prepared, in a process of their own, before weights can be shared or
    #: given.
    prepares: bool = False
    #: Module whose CONVERTER makes files of the runtime's own kind; None if it runs the built-in
    #: networks as ONNX files.
    converter: Optional[str] = None
    #: End of the names of the files that the converter makes, if it is more than the suffix.
    made_kind: str = ""
    #: Whether MobileNetV2 stands in for the larger built-in networks, with which it crashes.
    needs_mobile_networks: bool = False
    #: Suffix of the file with the weights, beside one of the runtime's own kind; None if they are
    #: one file.
    weights_suffix: Optional[str] = None
    #: Module whose read(path) inspects a file of the runtime's own kind; None if there is none.
    reader: Optional[str] = None
    #: Whether the runtime lives in the environment of its converter, because it cannot be installed
    #: beside this project.
    has_own_python: bool = False
    #: Mechanisms that the runtime lacks for every model: the scenario that measures the mechanism,
    #: and the code of the reason.
    lacks: Tuple[Tuple[str, str], ...] = ()
    #: The runtime's own options that change memory, NAME=VALUE each; they are measured one at a
    #: time.
    options: Tuple[str, ...] = ()
    #: Whether `reusebench apply` shares memory in a program that uses it.
    can_be_applied: bool = False
    #: Whether its models are language models, whose inference is a turn of a conversation.
    has_conversations: bool = False
    #: Code of the message about the usual causes of a crash, if the library says nothing.
    silent_crash: Optional[str] = None
    #: Whether a context can be bound to a core of the device.
    binds_cores: bool = False
    #: Module whose find_library() returns the path of a library that the runtime needs beside its
    #: Python module, if there is any; None if it needs none.
    library: Optional[str] = None
    #: Name of the file that stands for a model that is a folder; None: each model is a file.
    folder_model: Optional[str] = None
    #: Title of the runtime's NPU driver in user space, if its source is open, and each context has
    #: its weights for itself in it; None for the others.
    open_driver: Optional[str] = None

    @property
    def suffix(self) -> str:
        """Suffix of the runtime's own kind of files."""
        return self.suffixes[0]

    @property
    def kind(self) -> str:
        """Kind of the files that are made for the runtime: the end of their names."""
        return self.made_kind or self.suffix


RUNTIMES: Tuple[RuntimeEntry, ...] = (
    RuntimeEntry(
        "onnxruntime",
        "ONNX Runtime",
        "reusebench.measured.runtimes.onnxruntime.adapter",
        "onnxruntime",
        "pip install onnxruntime",
        device="cpu",
        suffixes=(".onnx",),
        prepares=True,
        reader="reusebench.models.inspection.onnx_file",
        lacks=(
            ("external_internal", "onnx_no_allocator"),
            ("external_memory", "onnx_no_allocator"),
            ("device_io", "onnx_cpu_device_io"),
        ),
        options=(
            "graph_optimization_level=ORT_ENABLE_BASIC",
            "session.disable_prepacking=1",
            "enable_cpu_mem_arena=0",
            "arena_extend_strategy=kSameAsRequested",
            "memory.enable_memory_arena_shrinkage=cpu:0",
            "enable_mem_pattern=0",
            "intra_op_num_threads=2",
            "session.set_denormal_as_zero=1",
        ),
        can_be_applied=True,
    ),
    RuntimeEntry(
        "ncnn",
        "ncnn",
        "reusebench.measured.runtimes.ncnn.adapter",
        "ncnn",
        "pip install ncnn",
        device="cpu",
        suffixes=(".param",),
        converter="reusebench.models.ncnn.environment",
        weights_suffix=".bin",
        reader="reusebench.models.inspection.ncnn_file",
        lacks=(
            ("external_weights", "ncnn_lays_weights_out"),
            ("external_memory", "ncnn_lays_weights_out"),
            ("device_io", "ncnn_cpu_only"),
        ),
        options=(
            "use_winograd_convolution=0",
            "use_sgemm_convolution=0",
            "use_bf16_storage=1",
            "lightmode=0",
            "use_packing_layout=0",
            "num_threads=2",
        ),
    ),
    RuntimeEntry(
        "mnn",
        "MNN",
        "reusebench.measured.runtimes.mnn.adapter",
        "MNN",
        "pip install MNN",
        device="cpu",
        suffixes=(".mnn",),
        converter="reusebench.models.mnn.environment",
        weights_suffix=".mnn.weight",
        reader="reusebench.models.inspection.mnn_file",
        lacks=(
            ("external_weights", "mnn_keeps_weights"),
            ("external_internal", "mnn_no_allocator"),
            ("external_memory", "mnn_no_allocator"),
            ("device_io", "mnn_cpu_alone"),
        ),
        options=(
            "rearrange=False",
            "api=Interpreter",
            "WINOGRAD_MEMORY_LEVEL=0",
            "memory=low",
            "precision=low",
            "numThread=2",
        ),
    ),
    RuntimeEntry(
        "litert",
        "LiteRT",
        "reusebench.measured.runtimes.litert.adapter",
        "ai_edge_litert",
        "pip install ai-edge-litert",
        device="cpu",
        suffixes=(".tflite",),
        prepares=True,
        converter="reusebench.models.litert.environment",
        reader="reusebench.models.inspection.litert_file",
        lacks=(
            ("external_internal", "litert_no_allocator"),
            ("external_memory", "litert_no_allocator"),
            ("device_io", "litert_cpu_only"),
        ),
        options=(
            "xnnpack_flags=TRANSIENT_INDIRECTION_BUFFER",
            "kernel_mode=builtin",
            "num_threads=2",
        ),
        can_be_applied=True,
    ),
    RuntimeEntry(
        "openvino",
        "OpenVINO",
        "reusebench.measured.runtimes.openvino.adapter",
        "openvino",
        "pip install openvino",
        device="cpu",
        suffixes=(".xml", ".onnx"),
        prepares=True,
        weights_suffix=".bin",
        reader="reusebench.models.inspection.openvino_file",
        lacks=(
            ("external_internal", "openvino_no_allocator"),
            ("external_memory", "openvino_no_allocator"),
            ("device_io", "openvino_cpu_device_io"),
        ),
        options=(
            "INFERENCE_PRECISION_HINT=bf16",
            "NUM_STREAMS=0",
            "PERFORMANCE_HINT=THROUGHPUT",
            "INFERENCE_NUM_THREADS=2",
            "CPU_DENORMALS_OPTIMIZATION=YES",
        ),
        can_be_applied=True,
    ),
    RuntimeEntry(
        "megengine_lite",
        "MegEngine Lite",
        "reusebench.measured.runtimes.megengine_lite.adapter",
        "megenginelite",
        "make bench-megengine, or reusebench models install megengine (it needs a Python 3.8 to"
        " 3.10)",
        device="cpu",
        suffixes=(".mge",),
        converter="reusebench.models.megengine.environment",
        reader="reusebench.models.inspection.megengine_file",
        has_own_python=True,
        lacks=(
            ("shared_context", "megengine_one_thread"),
            ("external_weights", "megengine_keeps_weights"),
            ("external_internal", "megengine_no_allocator"),
            ("external_memory", "megengine_no_allocator"),
        ),
    ),
    RuntimeEntry(
        "llama_cpp",
        "llama.cpp",
        "reusebench.measured.runtimes.llama_cpp.adapter",
        "llama_cpp",
        "pip install llama-cpp-python (built from source, 6 to 12 minutes on two cores); in a"
        " checkout make bench-llm builds it once",
        device="cpu",
        suffixes=(".gguf",),
        reader="reusebench.models.inspection.gguf_file",
        options=(
            "cache_type=q8_0",
            "cache_type=q4_0",
            "n_batch=512",
            "n_ubatch=128",
            "flash_attn=0",
            "use_mmap=0",
            "use_mlock=1",
            "use_extra_bufts=0",
            "swa_full=0",
            "n_threads=1",
        ),
        has_conversations=True,
    ),
    RuntimeEntry(
        "onnxruntime_genai",
        "ONNX Runtime GenAI",
        "reusebench.measured.runtimes.onnxruntime_genai.adapter",
        "onnxruntime_genai",
        "pip install onnxruntime-genai (it needs a Python 3.10 or later)",
        device="cpu",
        suffixes=(".json",),
        lacks=(
            ("sessions_unified", "ort_genai_no_unified_cache"),
            ("sessions_shared_prompt", "ort_genai_no_shared_prompt"),
            ("sessions_restored_prompt", "ort_genai_no_state"),
        ),
        options=(
            "session.disable_prepacking=1",
            "past_present_share_buffer=0",
            "chunk_size=32",
            "enable_cpu_mem_arena=0",
            "rewind_to=common",
            "intra_op_num_threads=1",
        ),
        has_conversations=True,
        folder_model="genai_config.json",
    ),
    RuntimeEntry(
        "openvino_genai",
        "OpenVINO GenAI",
        "reusebench.measured.runtimes.openvino_genai.adapter",
        "openvino_genai",
        "pip install openvino-genai (it needs a Python 3.10 or later)",
        device="cpu",
        suffixes=(".xml", ".gguf"),
        prepares=True,
        weights_suffix=".bin",
        lacks=(("sessions_sequences", "openvino_genai_one_cache"),),
        options=(
            "KV_CACHE_PRECISION=u8",
            "max_num_batched_tokens=32",
            "ENABLE_MMAP=NO",
            "INFERENCE_NUM_THREADS=1",
        ),
        has_conversations=True,
        folder_model="openvino_model.xml",
    ),
    RuntimeEntry(
        "rknn",
        "RKNN",
        "reusebench.measured.runtimes.rknn.adapter",
        None,
        "give Rockchip's library with --rknn-library FILE (docs/how-to/rknn.md)",
        device="npu",
        suffixes=(".rknn",),
        converter="reusebench.models.rknn.toolkit",
        reader="reusebench.models.inspection.rknn_file",
        lacks=(
            ("shared_context", "rknn_one_thread"),
            ("external_weights", "rknn_weights_alone_outside"),
            ("device_io", "rknn_already_on_device"),
        ),
        can_be_applied=True,
        binds_cores=True,
        library="reusebench.measured.runtimes.rknn.library_file",
    ),
    RuntimeEntry(
        "teflon",
        "Teflon",
        "reusebench.measured.runtimes.teflon.adapter",
        "ai_edge_litert",
        "pip install ai-edge-litert, and install Mesa's libteflon.so: Debian's package"
        " mesa-teflon-delegate from 26.1 on (docs/how-to/teflon.md)",
        device="npu",
        suffixes=(".tflite",),
        converter="reusebench.models.teflon.environment",
        made_kind=".int8.tflite",
        needs_mobile_networks=True,
        lacks=(
            ("internal_reuse", "teflon_own_internal"),
            ("shared_weights", "teflon_own_weights"),
            ("external_weights", "teflon_own_buffers"),
            ("external_internal", "teflon_own_buffers"),
            ("external_memory", "teflon_own_buffers"),
            ("device_io", "teflon_copies_tensors"),
        ),
        options=("num_threads=2",),
        silent_crash="teflon_crashed",
        library="reusebench.measured.runtimes.teflon.library_file",
        open_driver="Mesa",
    ),
)


class UnknownRuntime(ValueError):
    """A name that is no runtime's."""


def find_runtime(name: str) -> RuntimeEntry:
    """Return the entry of that name, or raise UnknownRuntime."""
    for entry in RUNTIMES:
        if entry.name == name:
            return entry
    valid = ", ".join(entry.name for entry in RUNTIMES)
    raise UnknownRuntime(
        f"unknown runtime {name!r}; valid: {valid}. `reusebench doctor` shows what this machine has"
    )


def available(entry: RuntimeEntry) -> bool:
    """Whether this interpreter can use the runtime; nothing of it is imported or loaded."""
    if entry.module is not None and importlib.util.find_spec(entry.module) is None:
        return False
    if entry.library is None:
        return True
    return importlib.import_module(entry.library).find_library() is not None


def version_order(version: str) -> Tuple[Tuple[int, ...], bool, str]:
    """Return a key to sort versions of one runtime by: 1.9.2, 1.10.0, 2.0.0b0, 2.0.0 (a build)."""
    rest = version.lstrip("0123456789.")
    numbers = version[: len(version) - len(rest)].split(".")
    order = tuple(int(number) for number in numbers if number)
    is_release = rest[:1] in ("", " ")
    return order, is_release, version


def open_runtime(name: str) -> Runtime:
    """Import the runtime and return its adapter; only the measured process may call this."""
    runtime: Runtime = importlib.import_module(find_runtime(name).adapter).open_runtime()
    return runtime
