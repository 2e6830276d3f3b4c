"""The preparation of models whose weights are shared between sessions or given by the application.

The optimised model is saved with its weights beside it. Loaded with optimisation off, it is the
same graph with equal results, and the weights are one mapped file. Equal weights of models in one
folder, as those of a network at several resolutions, become one file with several names. The nodes
are put into the order that takes the least memory.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Iterable, Union

import onnxruntime as ort

from reusebench.measured.messages import Message
from reusebench.measured.runtimes.base import NodeOrder, Preparation
from reusebench.measured.runtimes.onnxruntime.options import plain_options
from reusebench.measured.runtimes.onnxruntime.prepared import (
    EXTERNAL_FROM_BYTES,
    INDEX_FILE,
    WEIGHTS_FILE,
    IndexedTensor,
)
from reusebench.measured.runtimes.onnxruntime.trials import (
    Runner,
    Trial,
    TrialFailed,
    choose_order,
    run_apart,
)
from reusebench.measured.runtimes.prepared_files import flush_to_disk, share_equal_file

if TYPE_CHECKING:
    import onnx

__all__ = ["Runner", "prepare"]

_MODEL_FILE = "model.onnx"


def prepare(model: str, folder: str, runner: Runner) -> Preparation:
    """Save the optimised model into the folder, for this version of ONNX Runtime and this CPU.

    The files are the same every time; without the `onnx` package they have another order of nodes
    each time.
    """
    shutil.rmtree(folder, ignore_errors=True)  # a failed preparation may have left it
    os.makedirs(folder)
    path = os.path.join(folder, _MODEL_FILE)
    saved = _save(model, path, runner)
    try:
        from reusebench.measured.runtimes.onnxruntime.graph import SavedGraph
    except ImportError:
        node_order = NodeOrder(reason=Message("onnx_order_needs_onnx"))
    else:
        graph = SavedGraph(path)
        if isinstance(saved, Trial):
            node_order = choose_order(path, graph, saved, runner)
        else:
            graph.write(path, list(range(len(graph.names))))
            node_order = NodeOrder(reason=saved)
        _write_index(graph.weights(), folder)
    share_equal_file(folder, WEIGHTS_FILE)
    flush_to_disk(folder)
    return Preparation(path, node_order)


def _save(model: str, path: str, runner: Runner) -> Union[Trial, Message]:
    """Save the optimised model; return its trial, or the reason if none has equal outputs.

    Layouts that kernels make for themselves, those of fully connected layers, are saved too, so
    that sessions share them. If such a file does not run (ONNX Runtime 1.31 crashes on a PP-OCRv4
    recogniser), it is saved without.
    """
    try:
        expected = run_apart(runner, model, plain_options())
    except TrialFailed as failed:
        _save_optimised(model, path, runner, with_layouts=False)
        return Message("onnx_order_not_tried", {"reason": failed.reason})

    as_saved = plain_options()
    as_saved.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    for with_layouts in (True, False):
        _save_optimised(model, path, runner, with_layouts)
        with suppress(TrialFailed):
            trial = run_apart(runner, path, as_saved)
            if trial.checksum == expected.checksum:
                return trial
    with suppress(TrialFailed):
        if run_apart(runner, model, plain_options()).checksum != expected.checksum:
            return Message("onnx_order_outputs_vary")
    return Message("onnx_order_outputs_differ")


def _save_optimised(model: str, path: str, runner: Runner, with_layouts: bool) -> None:
    options = plain_options()
    options.optimized_model_filepath = path
    prefix = "session.optimized_model_external_initializers"
    options.add_session_config_entry(f"{prefix}_file_name", WEIGHTS_FILE)
    options.add_session_config_entry(f"{prefix}_min_size_in_bytes", str(EXTERNAL_FROM_BYTES))
    save_layouts = "session.save_external_prepacked_constant_initializers"
    options.add_session_config_entry(save_layouts, "1" if with_layouts else "0")
    runner.open_session(model, options)


def _write_index(weights: Iterable[onnx.TensorProto], folder: str) -> None:
    """Write the list of the tensors in the weights' file."""
    from onnx.helper import tensor_dtype_to_np_dtype

    index = []
    for tensor in weights:
        location = {entry.key: entry.value for entry in tensor.external_data}
        dtype = tensor_dtype_to_np_dtype(tensor.data_type).name
        offset = int(location["offset"])
        length = int(location["length"])
        index.append(IndexedTensor(tensor.name, dtype, tuple(tensor.dims), offset, length))
    with open(os.path.join(folder, INDEX_FILE), "w", encoding="utf-8") as file:
        json.dump(index, file)
