"""A model file that llama.cpp has loaded, and the adapters (LoRA) over it."""

from __future__ import annotations

from typing import Any

from reusebench.measured.runtimes.llama_cpp.failures import adapter_failure, model_failure
from reusebench.measured.runtimes.llama_cpp.gguf import tensor_bytes
from reusebench.measured.runtimes.llama_cpp.library import Library
from reusebench.measured.runtimes.llama_cpp.options import Options

__all__ = ["Adapter", "LoadedModel"]

#: Ways to load (llama.h, enum llama_load_mode), by whether the file is mapped and locked.
_LOAD_MODES = {(False, False): 0, (True, False): 1, (False, True): 2, (True, True): 3}


class LoadedModel:
    """The weights and the vocabulary of a file; they go with the last context over them."""

    def __init__(
        self, library: Library, path: str, options: Options, is_estimate: bool = False
    ) -> None:
        self.library = library
        self.path = path
        self.options = options
        api = library.api
        params = api.llama_model_default_params()
        params.n_gpu_layers = 0
        params.use_extra_bufts = options.use_extra_bufts
        params.no_alloc = is_estimate
        mode = (options.use_mmap, options.use_mlock)
        params.load_mode = 0 if is_estimate else _LOAD_MODES[mode]
        library.forget_words()
        self.handle: Any = api.llama_model_load_from_file(path.encode(), params)
        if not self.handle:
            raise model_failure(library, path)
        vocabulary = api.llama_model_get_vocab(self.handle)
        self.vocabulary_tokens: int = api.llama_vocab_n_tokens(vocabulary)
        #: Bytes that would be mapped if the model were loaded; 0 if it is, or if it would be read.
        self.would_map_bytes = 0
        if is_estimate and options.use_mmap:
            self.would_map_bytes = api.llama_model_size(self.handle)
        #: Tokens of the longest text that the model was trained with.
        self.trained_tokens: int = api.llama_model_n_ctx_train(self.handle)

    def __del__(self) -> None:
        if self.handle:
            self.library.api.llama_model_free(self.handle)
            self.handle = None


class Adapter:
    """An adapter (LoRA) over a model, which has a copy of its tensors for itself."""

    def __init__(self, model: LoadedModel, path: str) -> None:
        library = model.library
        self._api = library.api
        library.forget_words()
        handle = self._api.llama_adapter_lora_init(model.handle, path.encode())
        if not handle:
            raise adapter_failure(library, path, model.path)
        #: An array of it alone, as llama_set_adapters_lora() takes it.
        self.handles = (self._api.llama_adapter_lora_p_ctypes * 1)(handle)
        self.size_bytes = tensor_bytes(library, path)

    def close(self) -> None:
        """Free its tensors; no context may use it any more."""
        self._api.llama_adapter_lora_free(self.handles[0])
