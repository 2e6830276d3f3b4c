"""ONNX Runtime: sessions of one model with equal options become one, and all share an arena.

A session of the runtime may be run by several threads at once. So the Python objects stay apart,
and have one native session, which lives as long as one of them.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from reusebench_hooks import settings
from reusebench_hooks.digests import Digests
from reusebench_hooks.model_files import LeftAlone, Model, read_model
from reusebench_hooks.plan import PlannedContext, read_plan
from reusebench_hooks.report import Report
from reusebench_hooks.session_options import Recorder
from reusebench_hooks.turns import Turns

_CPU = "CPUExecutionProvider"
#: Providers that leave all standard operators to the CPU.
_SAFE_PROVIDERS = frozenset((_CPU, "AzureExecutionProvider"))
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
#: Domains of the runtime's own operators.
_OWN_DOMAINS = frozenset(("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc"))

_Key = Tuple[Any, ...]


class _Request(NamedTuple):
    """A session that the program asks for."""

    model: Optional[Model]
    key: Optional[_Key]
    reason: Optional[str]
    line: Optional[PlannedContext] = None


class _Native(NamedTuple):
    """What is known of a native session."""

    name: str
    takes_turns: bool


def _objection(model: Model, own_domains: frozenset[str]) -> Optional[str]:
    """Return why sessions of the model are left alone; None if they may become one."""
    for domain, name in sorted(model.contents.operators):
        if domain not in own_domains:
            return "custom_operators"
        if name in _NOT_SHARED:
            return _NOT_SHARED[name]
    return None


def _providers_key(
    requested: Optional[Any], options: Optional[Any], available: List[str]
) -> Tuple[Any, ...]:
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


class _Sessions:
    """The sessions of the process, and which of them are equal."""

    def __init__(self, collection: Any, report: Report, turns: Turns, digests: Digests) -> None:
        self._native = collection.C
        self._check_providers = collection.check_and_normalize_provider_args
        self._report = report
        self._turns = turns
        self._digests = digests
        self._plan = report.plan
        self._options = Recorder(self._native.SessionOptions)
        self._natives: weakref.WeakKeyDictionary[Any, _Native] = weakref.WeakKeyDictionary()
        self._has_arena = False
        #: Attributes that the making of a session sets.
        self._taken: Set[str] = set()
        self._restart()
        os.register_at_fork(after_in_child=self._restart_in_child)

    def _restart(self) -> None:
        self._lock = threading.Lock()
        #: Per key: the lock of those that make a session, and the Python objects that share it.
        self._locks: Dict[_Key, threading.RLock] = {}
        self._equal: Dict[_Key, List[weakref.ref[Any]]] = {}
        self._may_have_arena = not self._has_arena

    def _restart_in_child(self) -> None:
        """Share nothing with the parent's sessions: their threads are not in this process.

        Another thread may have held the arena's lock, so the child does without that arena.
        """
        self._restart()

    def patch(self, session_class: Any) -> None:
        """Let the class make sessions, and run them, as described above."""
        if not settings.IS_OFF:
            self._options.patch()
        self._patch(session_class, "_create_inference_session", self._creating)
        for name in ("run", "run_with_ort_values", "run_with_iobinding", "run_with_ortvaluevector"):
            self._patch(session_class, name, self._running)
        self._patch(session_class, "run_async", self._running_behind)

    def _patch(self, session_class: Any, name: str, wrapper: Callable[..., Any]) -> None:
        original = getattr(session_class, name, None)
        if original is not None:  # older versions lack some
            setattr(session_class, name, functools.wraps(original)(wrapper(original)))

    # Making sessions

    def _creating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def create(
            session: Any,
            providers: Any = None,
            provider_options: Any = None,
            disabled_optimizers: Any = None,
        ) -> None:
            make = functools.partial(
                original, session, providers, provider_options, disabled_optimizers
            )
            request = self._request(session, providers, provider_options, disabled_optimizers)
            if request.key is None:
                make()
            else:
                self._share(session, request, make, providers, provider_options)
            self._note(session, request)

        return create

    def _request(
        self, session: Any, providers: Any, provider_options: Any, disabled_optimizers: Any
    ) -> _Request:
        """Return what is asked for; the key is None if the session is left alone."""
        model = None
        try:
            model = read_model(session._model_path or session._model_bytes)
            if settings.IS_OFF:
                return _Request(model, None, None)
            reason = _objection(model, _OWN_DOMAINS)
            if reason is not None:
                raise LeftAlone(reason)
            options_key = self._options.key(session._sess_options)
            if options_key is None or disabled_optimizers or session._read_config_from_model:
                raise LeftAlone("own_options")
            available = self._native.get_available_providers()
            key = (
                model.digest,
                options_key,
                _providers_key(providers, provider_options, available),
            )
            line = self._line(session, model)
            # Of one model with different numbers for its weights, each number has its own session.
            return _Request(model, (key, line and (line.weights, line.memory)), None, line)
        except LeftAlone as error:
            return _Request(model, None, error.reason)
        except Exception:  # the runtime's own words tell the program what is wrong
            return _Request(model, None, "unreadable_model")

    def _line(self, session: Any, model: Model) -> Optional[PlannedContext]:
        """Return the session's line of the plan, which it has as long as it lives."""
        if self._plan is None:
            return None
        line = self._plan.take(model.file_digest, model.file_name)
        end = weakref.finalize(session, self._plan.give_back, model.file_digest, line)
        end.atexit = False
        return line

    def _share(
        self,
        session: Any,
        request: _Request,
        make: Callable[[], None],
        providers: Any,
        provider_options: Any,
    ) -> None:
        key = request.key
        assert key is not None
        with self._lock:
            lock = self._locks.setdefault(key, threading.RLock())
        with lock:
            others = [other for other in (ref() for ref in self._equal.get(key, ())) if other]
            if others:
                available = self._native.get_available_providers()
                self._check_providers(providers, provider_options, available)  # it warns
                self._take(session, others[0])
            else:
                has_own_arena = request.line is not None and request.line.memory < 0
                self._make_first(session, make, has_own_arena)
            self._equal[key] = [weakref.ref(other) for other in (*others, session)]

    def _make_first(self, session: Any, make: Callable[[], None], has_own_arena: bool) -> None:
        """Make a native session with the shared arena; as without, if that fails."""
        asked = session._sess_options
        before = dict(vars(session))
        told = self._options.copy(asked)
        entries = {} if has_own_arena else self._arena_entries(told)
        session._sess_options = self._options.copy(asked, entries)
        try:
            make()
        except Exception:
            session._sess_options = asked
            make()
        else:
            session._sess_options = told
        self._taken.update(
            name for name, value in vars(session).items() if before.get(name) is not value
        )

    def _take(self, session: Any, other: Any) -> None:
        """Give the session what another one has: the native session, and what it tells."""
        asked = session._sess_options
        for name in self._taken:
            setattr(session, name, _own_copy(getattr(other, name)))
        session._sess_options = self._options.copy(asked)
        if session._model_bytes is not None and other._model_bytes is not None:
            session._model_bytes = other._model_bytes

    def _note(self, session: Any, request: _Request) -> None:
        """Count the session, and remember what its native session is."""
        model = request.model
        self._report.made(model.digest if model else None)
        if request.reason is not None:
            self._report.left_alone(request.reason)
        if request.key is not None:
            self._report.shares("context", repr(request.key))
        name = model.name if model else os.path.basename(str(session._model_path))
        self._natives[session._sess] = _Native(name, request.key is not None)

    # The arena

    def _arena_entries(self, options: Any) -> Dict[str, str]:
        """Return the entries of options that let a session take memory from the shared arena.

        Weights are kept out of the arena, which does not shrink: they go when the session goes.
        """
        if not options.enable_cpu_mem_arena or not self._can_use_arena():
            return {}
        return {
            "session.use_env_allocators": "1",
            "session.use_device_allocator_for_initializers": "1",
        }

    def _can_use_arena(self) -> bool:
        with self._lock:
            if not self._has_arena and self._may_have_arena:
                info = self._native.OrtMemoryInfo(
                    "Cpu",
                    self._native.OrtAllocatorType.ORT_ARENA_ALLOCATOR,
                    0,
                    self._native.OrtMemType.DEFAULT,
                )
                self._native.create_and_register_allocator(info, None)
                self._has_arena = True
            return self._has_arena and self._may_have_arena

    # Running sessions

    def _running(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run(session: Any, *arguments: Any, **named: Any) -> Any:
            native = self._natives.get(session._sess)
            if native is None or not native.takes_turns:
                result = original(session, *arguments, **named)
            else:
                with self._turns:
                    result = original(session, *arguments, **named)
            if settings.WITH_DIGESTS and native is not None:
                self._add_digest(native.name, result, arguments)
            return result

        return run

    def _running_behind(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the call that does not wait: it takes no turn, as it may not wait for one."""

        def run(
            session: Any,
            output_names: Any,
            input_feed: Any,
            callback: Callable[..., Any],
            *arguments: Any,
            **named: Any,
        ) -> Any:
            native = self._natives.get(session._sess)

            def call_back(results: Any, data: Any, error: Any) -> None:
                if native is not None and not error:
                    self._add_digest(native.name, results, ())
                callback(results, data, error)

            wrapped = call_back if settings.WITH_DIGESTS else callback
            return original(session, output_names, input_feed, wrapped, *arguments, **named)

        return run

    def _add_digest(self, model: str, result: Any, arguments: Tuple[Any, ...]) -> None:
        try:
            self._digests.add(model, _values(result, arguments))
        except Exception:  # a value of a kind that has no digest
            self._report.failed("digest")


def _values(result: Any, arguments: Tuple[Any, ...]) -> List[Any]:
    """Return the outputs of a run: its result, or what its I/O binding or vector has."""
    if isinstance(result, list):
        return [value.numpy() if hasattr(value, "numpy") else value for value in result]
    if hasattr(arguments[0], "copy_outputs_to_cpu"):
        return list(arguments[0].copy_outputs_to_cpu())
    return [value.numpy() for value in arguments[4]]


def _own_copy(value: Any) -> Any:
    """Return a copy of plain lists and dictionaries, which a program may change."""
    if isinstance(value, list):
        return list(value)
    if isinstance(value, dict):
        return {key: _own_copy(one) for key, one in value.items()}
    return value


def wrap(module: Any) -> None:
    """Let the sessions of the runtime share; a module that is loaded again has it already."""
    from onnxruntime.capi import onnxruntime_inference_collection as collection

    session_class = collection.InferenceSession
    if hasattr(session_class._create_inference_session, "__wrapped__"):
        return
    turns = Turns(settings.at_once())
    digests = Digests()
    report = Report("onnxruntime", getattr(module, "__version__", None), turns, digests)
    report.plan = read_plan("onnxruntime", report.failed)
    _Sessions(collection, report, turns, digests).patch(session_class)
