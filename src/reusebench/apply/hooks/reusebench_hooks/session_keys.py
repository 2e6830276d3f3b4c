"""Which sessions of ONNX Runtime are equal, and which are left alone."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Tuple

from reusebench_hooks.model_files import LeftAlone, Model, read_model
from reusebench_hooks.plan import PlannedContext
from reusebench_hooks.session_options import Recorder

#: Providers that leave all standard operators to the CPU.
_SAFE_PROVIDERS = frozenset(("CPUExecutionProvider", "AzureExecutionProvider"))
#: Domains of the runtime's own operators.
_OWN_DOMAINS = frozenset(("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc"))
#: Operators whose outputs depend on former runs of the session, or that call the program.
_NOT_SHARED = {
    "RandomNormal": "random_operators",
    "RandomNormalLike": "random_operators",
    "RandomUniform": "random_operators",
    "RandomUniformLike": "random_operators",
    "Multinomial": "random_operators",
    "Bernoulli": "random_operators",
    "Dropout": "random_operators",
    "BiasDropout": "random_operators",
    "BitmaskDropout": "random_operators",
    "BitmaskBiasDropout": "random_operators",
    "Sampling": "random_operators",
    "PythonOp": "custom_operators",
    "PythonOpGrad": "custom_operators",
    "EPContext": "other_providers",
}

Key = Tuple[Any, ...]


class Request(NamedTuple):
    """A session that the program asks for; a reason instead of a key if it is left alone."""

    model: Optional[Model]
    key: Optional[Key] = None
    reason: Optional[str] = None
    line: Optional[PlannedContext] = None


def _objection(model: Model) -> Optional[str]:
    """Return the reason to leave sessions of the model alone; None if they may become one."""
    for domain, name in sorted(model.contents.operators):
        if domain not in _OWN_DOMAINS:
            return "custom_operators"
        if name in _NOT_SHARED:
            return _NOT_SHARED[name]
    return None


def _providers_key(requested: Any, options: Any, available: List[str]) -> Key:
    """Return the providers that a session gets, with their options."""
    if requested is None:
        if not _SAFE_PROVIDERS.issuperset(available):
            raise LeftAlone("other_providers")
        return ()
    entries = []
    for index, entry in enumerate(requested):
        name, own = (entry, {}) if isinstance(entry, str) else entry
        own = options[index] if options else own
        if name in available:
            entries.append((name, tuple(sorted((str(key), str(own[key])) for key in own))))
    if not _SAFE_PROVIDERS.issuperset(name for name, _ in entries):
        raise LeftAlone("other_providers")
    return tuple(entries)


def _key(
    model: Model,
    session: Any,
    recorder: Recorder,
    providers: Tuple[Any, Any],
    available: List[str],
) -> Key:
    reason = _objection(model)
    if reason is not None:
        raise LeftAlone(reason)
    options_key = recorder.key(session._sess_options)
    if options_key is None or session._read_config_from_model:
        raise LeftAlone("own_options")
    return (model.digest, options_key, _providers_key(*providers, available))


def request_of(
    session: Any, recorder: Recorder, providers: Tuple[Any, Any], available: List[str]
) -> Request:
    """Return the session that is asked for: the providers, and their options."""
    model = None
    try:
        model = read_model(session._model_path or session._model_bytes)
        return Request(model, key=_key(model, session, recorder, providers, available))
    except LeftAlone as error:
        return Request(model, reason=error.reason)
    except Exception:  # the runtime's own words tell the program what is wrong
        return Request(model, reason="unreadable_model")
