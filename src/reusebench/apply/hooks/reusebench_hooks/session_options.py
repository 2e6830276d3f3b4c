"""ONNX Runtime's SessionOptions, whose calls are remembered: the runtime does not tell them.

The class itself is patched, so that a program sees the class that it knows.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

#: Calls that can be made again on another object. After any other call the options are the
#: program's own: they have functions, libraries or tensors of it.
_REPEATABLE = (
    "add_session_config_entry",
    "add_free_dimension_override_by_denotation",
    "add_free_dimension_override_by_name",
)
#: Entries of the configuration that neither write files nor refer to memory of the program.
_SAFE_ENTRIES = (
    "session.disable_prepacking",
    "session.disable_quant_qdq",
    "session.disable_double_qdq_remover",
    "session.enable_quant_qdq_cleanup",
    "session.disable_aot_function_inlining",
    "session.enable_gelu_approximation",
    "session.enable_cast_chain_elimination",
    "session.disable_cpu_ep_fallback",
    "session.dynamic_block_base",
    "session.force_spinning_stop",
    "session.inter_op.allow_spinning",
    "session.intra_op.allow_spinning",
    "session.intra_op_thread_affinities",
    "session.qdqisint8allowed",
    "session.qdq_matmulnbits_accuracy_level",
    "session.set_denormal_as_zero",
    "session.strict_shape_type_inference",
    "session.use_device_allocator_for_initializers",
    "optimization.minimal_build_optimizations",
    "optimization.enable_gelu_approximation",
    "optimization.enable_cast_chain_elimination",
    "optimization.disable_specified_optimizers",
    "mlas.enable_gemm_fastmath_arm64_bfloat16",
)

_Call = Tuple[str, Tuple[Any, ...]]


class Recorder:
    """What was called on each object of the class since it was made."""

    def __init__(self, options_class: Any) -> None:
        self._class = options_class
        #: None: something was called that cannot be repeated.
        self._calls: weakref.WeakKeyDictionary[Any, Optional[List[_Call]]]
        self._calls = weakref.WeakKeyDictionary()
        self._settings = [
            name for name, value in vars(options_class).items() if isinstance(value, property)
        ]

    def patch(self) -> None:
        """Remember the calls on all objects from now on."""
        for name, method in list(vars(self._class).items()):
            is_question = name.startswith(("_", "get_", "has_")) and name != "__init__"
            if callable(method) and not is_question:
                setattr(self._class, name, self._recorded(name, getattr(self._class, name)))

    def _recorded(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(options: Any, *arguments: Any, **named: Any) -> Any:
            if name == "__init__":
                result = method(options, *arguments, **named)
                self._calls[options] = []
                return result
            calls = self._calls.get(options)
            if name not in _REPEATABLE or named:
                self._calls[options] = None
            elif calls is not None:
                calls.append((name, arguments))
            return method(options, *arguments, **named)

        return call

    def key(self, options: Any) -> Optional[Tuple[Any, ...]]:
        """Return a key that sessions with equal options have in common; None if they may differ.

        Options that are None are the default ones.
        """
        options = self._class() if options is None else options
        calls = self._calls.get(options)
        if calls is None or not all(map(self._is_safe, calls)):
            return None
        if options.enable_profiling or options.optimized_model_filepath:
            return None
        settings = tuple((name, repr(getattr(options, name))) for name in self._settings)
        last = {(name, arguments[0]): arguments[1:] for name, arguments in calls}
        return (*settings, *sorted(last.items()))

    def _is_safe(self, call: _Call) -> bool:
        name, arguments = call
        return name != "add_session_config_entry" or arguments[0] in _SAFE_ENTRIES

    def copy(self, options: Any, entries: Optional[Dict[str, str]] = None) -> Any:
        """Return equal options, with further entries of the configuration."""
        made = self._class()
        if options is not None:
            for name in self._settings:
                setattr(made, name, getattr(options, name))
            for call, arguments in self._calls[options] or ():
                getattr(made, call)(*arguments)
        for key, value in (entries or {}).items():
            made.add_session_config_entry(key, value)
        return made
