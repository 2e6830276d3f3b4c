"""ONNX Runtime: sessions of one model with equal options become one, and all share an arena.

A session of the runtime may be run by several threads at once. So the Python objects stay apart,
and have one native session, which lives as long as one of them.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from reusebench_hooks import settings
from reusebench_hooks.arena import Arena
from reusebench_hooks.digests import Digests
from reusebench_hooks.model_files import Model
from reusebench_hooks.plan import PlannedContext, RuntimePlan, read_plan
from reusebench_hooks.preparation import Preparation, Wanted
from reusebench_hooks.prepared import Cache
from reusebench_hooks.report import Report
from reusebench_hooks.session_keys import Key, Request, request_of
from reusebench_hooks.session_options import Recorder
from reusebench_hooks.turns import Turns

#: Calls that run a session, and the place of the options of a run among their arguments.
_RUNS = {"run": 2, "run_with_ort_values": 2, "run_with_iobinding": 1, "run_with_ortvaluevector": 0}


class _Native:
    """What is known of a native session."""

    def __init__(
        self, model: str, takes_turns: bool, shrinks: bool, wanted: Optional[Wanted]
    ) -> None:
        self.model = model
        self.takes_turns = takes_turns
        #: Whether the arena is shrunk after each run.
        self.shrinks = shrinks
        #: The model that is prepared after the first run.
        self.wanted = wanted


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
        self._arena = Arena(self._native)
        self._cache = Cache(report.version)
        self._preparation = Preparation(self._native, self._options, self._cache)
        #: Native sessions whose model is to be prepared after their first run.
        self._wanted: weakref.WeakKeyDictionary[Any, Wanted] = weakref.WeakKeyDictionary()
        #: Native sessions that have had several callers.
        self._with_callers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._prepared: weakref.WeakSet[Any] = weakref.WeakSet()
        self._natives: weakref.WeakKeyDictionary[Any, _Native] = weakref.WeakKeyDictionary()
        #: Native sessions that use the arena; value: whether it is shrunk after each run.
        self._shrinking: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        #: Attributes that the making of a session sets.
        self._taken: Set[str] = set()
        self._restart()
        os.register_at_fork(after_in_child=self._restart)

    def _restart(self) -> None:
        """Share nothing with the sessions of a parent: their threads are not in this process."""
        self._lock = threading.RLock()
        #: Per key: the lock of those that make a session, and the Python objects that share it.
        self._locks: Dict[Key, threading.RLock] = {}
        self._equal: Dict[Key, List[weakref.ref[Any]]] = {}

    def patch(self, session_class: Any) -> None:
        """Let the class make sessions, and run them, as described above."""
        if not settings.IS_OFF:
            self._options.patch()
        self._patch(session_class, "_create_inference_session", self._creating)
        for name in _RUNS:
            self._patch(session_class, name, functools.partial(self._running, name))
        self._patch(session_class, "run_async", self._running_behind)

    def patch_allocators(self, module: Any) -> None:
        """Let the program register an arena of its own, although there is one already."""
        name = "create_and_register_allocator"
        original = getattr(self._native, name, None)
        if original is not None and not settings.IS_OFF:
            for place in (self._native, module):
                setattr(place, name, self._arena.registering(original))

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
            asked = (providers, provider_options)
            request = self._request(session, asked, bool(disabled_optimizers))
            if request.key is None:
                make()
            elif self._share(session, request, make):
                self._check_providers(*asked, self._native.get_available_providers())  # it warns
                self._note_caller(session._sess)
            try:
                self._note(session, request)
            except Exception:  # the session is made, and runs as without
                self._report.failed("note")

        return create

    def _request(self, session: Any, asked: Tuple[Any, Any], has_disabled: bool) -> Request:
        available = self._native.get_available_providers()
        request = request_of(session, self._options, asked, available)
        if settings.IS_OFF:
            return Request(request.model)
        if has_disabled and request.key is not None:
            return Request(request.model, reason="own_options")
        if self._plan is None or request.key is None or request.model is None:
            return request
        line = self._line(self._plan, session, request.model)
        # Sessions of one model share weights only if their numbers for weights are equal.
        key = (request.key, line and (line.weights, line.memory))
        return request._replace(key=key, line=line)

    def _line(self, plan: RuntimePlan, session: Any, model: Model) -> Optional[PlannedContext]:
        """Return the session's line of the plan, which it has as long as it lives."""
        line = plan.take(model.file_digest, model.file_name)
        end = weakref.finalize(session, plan.give_back, model.file_digest, line)
        end.atexit = False
        return line

    def _share(self, session: Any, request: Request, make: Callable[[], None]) -> bool:
        """Let the session have what an equal one has, or make it; return whether there is one."""
        key = request.key
        assert key is not None
        with self._lock:
            lock = self._locks.setdefault(key, threading.RLock())
        with lock:
            others = [ref() for ref in self._equal.get(key, ())]
            equal = [other for other in others if other is not None and other is not session]
            is_shared = self._take_any(session, equal)
            if not is_shared:
                has_own_arena = request.line is not None and request.line.memory < 0
                self._make_first(session, request, make, has_own_arena)
            self._equal[key] = [weakref.ref(other) for other in (*equal, session)]
        return is_shared

    def _make_first(
        self, session: Any, request: Request, make: Callable[[], None], has_own_arena: bool
    ) -> None:
        """Make a native session that uses the arena; as without, if that fails."""
        asked = session._sess_options
        before = dict(vars(session))
        try:
            told = self._options.copy(asked)
            entries = {} if has_own_arena else self._arena.entries()
            self._make_shared(session, request, make, entries)
            session._sess_options = told
        except Exception:
            session._sess_options = asked
            make()
            return
        changed = [name for name, value in vars(session).items() if before.get(name) is not value]
        self._taken.update(changed)
        if entries:
            self._shrinking[session._sess] = not told.enable_cpu_mem_arena

    def _make_shared(
        self, session: Any, request: Request, make: Callable[[], None], entries: Dict[str, str]
    ) -> None:
        """Make a native session of the prepared model, or of the program's."""
        asked = session._sess_options
        folder = self._cache.folder_of(request.key)
        if self._preparation.load(session, folder, entries, make):
            self._prepared.add(session._sess)
            return
        session._sess_options = self._options.copy(asked, entries)
        make()
        assert request.model is not None
        wanted = self._preparation.wanted(request.model, folder, asked, entries)
        if wanted is not None:
            self._wanted[session._sess] = wanted

    def _take_any(self, session: Any, others: List[Any]) -> bool:
        try:
            return any(self._take(session, other) for other in others)
        except Exception:  # a session of its own is made instead
            self._report.failed("share")
            return False

    def _take(self, session: Any, other: Any) -> bool:
        """Give the session what another one has: the native session, and what it tells.

        It has nothing to give while another thread sets its providers.
        """
        values = {name: getattr(other, name, None) for name in self._taken}
        if not values or None in values.values() or other._sess is not values["_sess"]:
            return False
        values["_sess_options"] = self._options.copy(session._sess_options)
        if session._model_bytes is not None and other._model_bytes is not None:
            values["_model_bytes"] = other._model_bytes
        for name, value in values.items():
            setattr(session, name, _own_copy(value))
        return True

    def _note(self, session: Any, request: Request) -> None:
        """Count the session, and remember what its native session is."""
        model = request.model
        self._report.made(model.digest if model else None)
        if request.reason is not None:
            self._report.left_alone(request.reason)
        if session._sess in self._shrinking:
            self._report.shares("arena", "process")
        if session._sess in self._prepared:
            self._report.shares("prepared")
        if session._sess not in self._natives:
            self._natives[session._sess] = _Native(
                model.name if model else os.path.basename(str(session._model_path)),
                request.key is not None,
                self._shrinking.get(session._sess, False),
                self._wanted.pop(session._sess, None),
            )

    def _note_caller(self, native: Any) -> None:
        """Count a further caller of the native session, and with the second one the first."""
        with self._lock:
            is_second = native not in self._with_callers
            self._with_callers.add(native)
        for _ in range(1 + is_second):
            self._report.shares("context")

    # Running sessions

    def _running(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the call with this name, which runs a session."""
        place = _RUNS[name]

        def run(session: Any, *arguments: Any, **named: Any) -> Any:
            native = self._natives.get(session._sess)
            if native is None or not native.takes_turns:
                result = original(session, *arguments, **named)
            else:
                if native.shrinks:
                    arguments = _with_options(arguments, named, place, self._arena.shrinking)
                with self._turns:
                    result = original(session, *arguments, **named)
                    if native.wanted is not None and name == "run":
                        self._prepare(session, native, result, *arguments, **named)
            if settings.WITH_DIGESTS and native is not None:
                self._add_digest(native.model, result, arguments)
            return result

        return run

    def _prepare(
        self,
        session: Any,
        native: _Native,
        outputs: Any,
        output_names: Any,
        input_feed: Any,
        *_: Any,
        **__: Any,
    ) -> None:
        """Prepare the session's model, and prove it on this run."""
        with self._lock:
            wanted, native.wanted = native.wanted, None
        if wanted is None:
            return
        try:
            self._preparation.prepare(session, wanted, output_names, input_feed, outputs)
        except Exception:  # the program has its outputs, and goes on
            self._report.failed("prepare")

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
                self._turns.end_behind()
                if settings.WITH_DIGESTS and native is not None and not error:
                    self._add_digest(native.model, results, ())
                callback(results, data, error)

            self._turns.begin_behind()
            try:
                return original(session, output_names, input_feed, call_back, *arguments, **named)
            except BaseException:
                self._turns.end_behind()
                raise

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


def _with_options(
    arguments: Tuple[Any, ...], named: Dict[str, Any], place: int, options: Any
) -> Tuple[Any, ...]:
    """Return the arguments with these options of the run, unless the program gave some."""
    if len(arguments) <= place:
        if named.get("run_options") is None:
            named["run_options"] = options
        return arguments
    if arguments[place] is not None:
        return arguments
    return (*arguments[:place], options, *arguments[place + 1 :])


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
    sessions = _Sessions(collection, report, turns, digests)
    sessions.patch(session_class)
    sessions.patch_allocators(module)
