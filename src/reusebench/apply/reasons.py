"""Why something was left alone: the codes of library and hooks, and sentences for the user."""

from __future__ import annotations

__all__ = ["REASONS", "sentence_for"]

#: Key: the code in the report line; value: what it is, and what to do if anything.
REASONS: dict[str, str] = {
    "off": "REUSEBENCH_APPLY_OFF is set; unset it to share memory",
    # RKNN.
    "flags": "rknn_init has flags that change memory or timing, such as SRAM, fences or profiling",
    "extension": "rknn_init has an extension, such as a context to share weights with",
    "environment": "a variable such as RKNN_INTERNAL_MEM_TYPE changes what memory is made",
    "unreadable": "the model could not be read, so that it is not known whether it is an equal one",
    "library_too_old": "the library cannot share memory; newer ones can (librknnmrt from 1.6.0 on)",
    "call_failed": "a call of the library failed that sharing needs; its name is under failures",
    "no_internal_memory": "the model has no internal memory",
    "bound_tensors": "a larger model was loaded after this one's tensors were set, when librknnmrt"
    " does not let its internal memory be another one; load the largest model first",
    "no_weights": "the model has no weights; librknnmrt takes no memory for such a model",
    "dynamic_shapes": "the model has several input shapes, of which each context chooses its own",
    "batch": "the model was converted with rknn_batch_size, and its duplicates would crash",
    "own_duplicate": "the program itself duplicates a context that was left alone",
    "bound": "the context would need internal memory of its own after its inputs were set; it waits"
    " for its turn in shared memory instead",
    "non_blocking": "a run does not wait for its end, so that the context has internal memory of"
    " its own; weights are shared",
    "custom_operators": "the program has operators of its own, of which nothing is known: with RKNN"
    " weights alone are shared, elsewhere nothing",
    "own_internal_memory": "the program itself gives the context internal memory; weights are"
    " shared",
    "plan_unreadable": "the file of REUSEBENCH_APPLY_PLAN is no plan; write it anew",
    # ONNX Runtime.
    "other_providers": "another provider than the CPU's runs the model, or may",
    "own_options": "the options cannot be compared, such as profiling or a file that is written",
    "random_operators": "the model draws random numbers, and each session draws its own",
    "unreadable_model": "the model could not be read, so that no equal one is known",
    # OpenVINO.
    "async_queue": (
        "the program has an AsyncInferQueue, whose compiled model is its own; a queue over one "
        "compiled model is the way to share it"
    ),
    "callbacks": "the request of a compiled model has a callback, and nothing shared it before",
    "imported_model": "the compiled model comes from import_model(), so its model is not known",
    "keeps_state": "the model keeps state between runs",
    "model_made_by_program": "the program made the model, and may change its weights later",
    "nested_graphs": "the model has loops or branches, which are not compared",
    "other_devices": "only compiled models for the device CPU are shared; name it if it is meant",
    "own_threads": "the program's number of threads does not divide the CPUs",
    "profiling": "the program measures the model's layers",
    "weights_in_memory": "the program gives the weights in memory of its own",
    # LiteRT.
    "cache_failed": "the file of packed weights could not be made or used; see the failures",
    "cache_unwritable": "the folder of REUSEBENCH_APPLY_CACHE cannot be written to",
    "compiled_model": "a CompiledModel maps a file of packed weights if its CpuOptions name one,"
    " xnnpack_weight_cache_path",
    "nothing_packed": "XNNPACK packs no weights of the model",
    "own_delegate": "the program gives the interpreter a delegate of its own",
    "several_signatures": "the model has several signatures",
    "unpacked_weights": "the model has 16-bit or sparse weights, which each interpreter unpacks",
    "untried_version": "this version of ai-edge-litert, or this machine, was not tried",
}


def sentence_for(code: str) -> str:
    """Return the sentence for a code; for that of another version, its words."""
    return REASONS.get(code, code.replace("_", " "))
