"""OpenVINO: compiled models of equal models on the CPU, with equal settings, become one.

A compiled model may be used by several threads at once, and its infer requests have tensors of
their own. So each caller has a Python object and requests of its own, and all have one native
object, which lives as long as one of them.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from reusebench_hooks import heap, settings
from reusebench_hooks.digests import Digests
from reusebench_hooks.model_files import LeftAlone
from reusebench_hooks.openvino_models import identity_of
from reusebench_hooks.openvino_requests import USE, Requests, Use
from reusebench_hooks.openvino_sources import Sources, is_path_or_bytes
from reusebench_hooks.patching import Call, patch
from reusebench_hooks.report import Report
from reusebench_hooks.turns import Turns

_CPU = "CPU"
_STREAMS, _THREADS, _PROFILING = "NUM_STREAMS", "INFERENCE_NUM_THREADS", "PERF_COUNT"
_YES = ("YES", "TRUE", "1")

_Key = Tuple[Any, ...]


class _Asked(NamedTuple):
    """A compiled model that the program asks for; without a key it is left alone."""

    name: str
    digest: Optional[str] = None
    key: Optional[_Key] = None
    reason: Optional[str] = None


class _Group:
    """The callers whose compiled models are one."""

    def __init__(self, openvino: Any) -> None:
        self.lock = threading.RLock()
        self._openvino = openvino
        #: A caller lives as long as its compiled model or a request of it.
        self._callers: List[weakref.ref[Use]] = []
        #: Compiled model that has a stream for each run at once, unless the first one has.
        self._engine: Optional[weakref.ref[Any]] = None
        self._count = 0
        #: Name for the report; a group that lost all its callers begins anew.
        self.name = ""

    def callers(self) -> List[Use]:
        return [use for use in (ref() for ref in self._callers) if use is not None]

    def begin(self, use: Use, compiled: Any) -> None:
        """Have one caller."""
        self._callers = []
        self._engine = None
        self._count += 1
        self.name = f"{id(self)} {self._count}"
        self._add(use, compiled)

    def join(self, use: Use, make: Call, config: Any) -> Any:
        """Return a compiled model that is one with those of the other callers."""
        first = self.callers()[0].native
        streams = _streams_needed(first)
        if streams > 1:
            use.engine = self._engine() if self._engine is not None else None
            if use.engine is None:
                use.engine = _engine(make, config, first, streams)
            self._engine = weakref.ref(use.engine)
        compiled = self._openvino.CompiledModel(first)
        self._add(use, compiled)
        return compiled

    def _add(self, use: Use, compiled: Any) -> None:
        use.native = self._openvino.CompiledModel(compiled)
        self._callers = [weakref.ref(caller) for caller in (*self.callers(), use)]

    def leave(self, use: Use) -> bool:
        """Lose a caller; whether there are others, which use the same native object."""
        others = [caller for caller in self.callers() if caller is not use]
        self._callers = [weakref.ref(caller) for caller in others]
        return bool(others)


def _streams_needed(compiled: Any) -> int:
    """Return the streams that run as many inferences at once as several compiled models would.

    They differ from those that there are if the program limits threads. Raises LeftAlone if a
    number of streams leaves CPUs unused.
    """
    streams = max(1, int(compiled.get_property(_STREAMS)))
    threads_each = max(1, int(compiled.get_property(_THREADS)) // streams)
    cpus = len(_cpus())
    possible = cpus // threads_each
    if possible <= streams or settings.at_once() <= streams:
        return 1
    if possible * threads_each < cpus < settings.at_once() * threads_each:
        raise LeftAlone("own_threads")
    return min(possible, settings.at_once())


def _engine(make: Call, config: Any, first: Any, streams: int) -> Any:
    """Return a compiled model with this number of streams, which have the first one's threads."""
    own = max(1, int(first.get_property(_STREAMS)))
    threads = int(first.get_property(_THREADS)) // own * streams
    wanted = {_STREAMS: streams, _THREADS: threads}
    engine = make({**(config or {}), **wanted})
    if any(int(engine.get_property(name)) != count for name, count in wanted.items()):
        raise LeftAlone("own_threads")
    return engine


class _CompiledModels:
    """The compiled models of the process, and which of them are equal."""

    def __init__(self, openvino: Any, report: Report, requests: Requests) -> None:
        self._openvino = openvino
        self._report = report
        self._requests = requests
        self._sources = Sources(openvino)
        self._restart()
        # A child shares nothing with its parent: the threads of streams are not in its process.
        os.register_at_fork(after_in_child=self._restart)

    def _restart(self) -> None:
        self._lock = threading.Lock()
        self._groups: Dict[_Key, _Group] = {}

    def patch(self) -> None:
        """Let the class make compiled models as described above."""
        self._import = self._openvino.Core.import_model
        self._export = self._openvino.CompiledModel.export_model
        patch(self._openvino.Core, "compile_model", self._compile)
        if not settings.IS_OFF:
            patch(self._openvino.Core, "import_model", self._leave_import_alone)
            self._sources.patch()

    def _leave_import_alone(self, original: Call, *arguments: Any, **named: Any) -> Any:
        compiled = original(*arguments, **named)
        self._report.made(None)
        self._report.left_alone("imported_model")
        return compiled

    def _compile(
        self,
        original: Call,
        core: Any,
        model: Any,
        device_name: Any = None,
        config: Any = None,
        **named: Any,
    ) -> Any:
        source, asked = self._asked(core, model, device_name, config, named)

        def make(own_config: Any) -> Any:
            return original(core, source, device_name, own_config, **named)

        use = Use(asked.name)
        if asked.key is None:
            compiled = make(config)
            setattr(compiled, USE, use)
        else:
            compiled = self._share(asked.key, use, core, make, config)
        self._report.made(asked.digest)
        if asked.reason is not None:
            self._report.left_alone(asked.reason)
        return compiled

    def _asked(
        self, core: Any, model: Any, device: Any, config: Any, named: Dict[str, Any]
    ) -> Tuple[Any, _Asked]:
        """Return the model to compile, which was read if it is a path, and what is asked for."""
        name = os.path.basename(str(model)) if is_path_or_bytes(model) else "model"
        identity = None
        source = model
        try:
            if device != _CPU and not settings.WITH_DIGESTS:
                raise LeftAlone("other_devices")
            if any(value is not None for value in named.values()):
                raise LeftAlone("weights_in_memory")
            if is_path_or_bytes(model):
                source = core.read_model(model)
            identity = identity_of(self._openvino, source)
            name = identity.name
            if settings.IS_OFF:
                return model, _Asked(name, identity.digest)
            if device != _CPU:
                raise LeftAlone("other_devices")
            self._sources.check(core, source)
            key = (identity.digest, _settings_key(core, config), _cpus())
            if core.get_property("CACHE_DIR"):  # a path is then found in the cache, without reading
                source = model
            return source, _Asked(name, identity.digest, key)
        except LeftAlone as error:
            reason = None if settings.IS_OFF else error.reason
        except Exception:  # the runtime's own words tell the program what is wrong
            reason = None if settings.IS_OFF else "unreadable_model"
        return model, _Asked(name, identity.digest if identity else None, reason=reason)

    def _share(self, key: _Key, use: Use, core: Any, make: Call, config: Any) -> Any:
        """Return a compiled model that is one with equal ones, or the first of them."""
        with self._lock:
            group = self._groups.setdefault(key, _Group(self._openvino))
        with group.lock:
            compiled = self._joined(group, use, make, config) if group.callers() else None
            if compiled is None:
                compiled = make(config)
                if not group.callers():
                    group.begin(use, compiled)
            setattr(compiled, USE, use)
            if use in group.callers():
                use.be_shared(group, functools.partial(self._own, core, config))
                self._report.shares("context", group.name)
        return compiled

    def _joined(self, group: _Group, use: Use, make: Call, config: Any) -> Optional[Any]:
        heap.give_back()  # what the former caller's model has left
        use.leaves_garbage = True
        try:
            return group.join(use, make, config)
        except LeftAlone as error:
            self._report.left_alone(error.reason)
        except Exception:  # the program gets one of its own
            self._report.failed("share")
        return None

    def _own(self, core: Any, config: Any, compiled: Any) -> Any:
        """Return a native copy, with the same outputs, for one caller alone."""
        return self._import(core, self._export(compiled), _CPU, config)


def _settings_key(core: Any, config: Any) -> _Key:
    """Return the settings of a compiled model; raise LeftAlone if they cannot be compared."""
    supported = core.get_property(_CPU, "SUPPORTED_PROPERTIES")
    names = [name for name, access in supported.items() if "W" in str(access)]
    of_core = {name: str(core.get_property(_CPU, name)) for name in names}
    own = {}
    for name, value in (config or {}).items():
        is_simple = isinstance(value, (str, int, float))
        if not is_simple and not type(value).__module__.startswith("openvino."):
            raise LeftAlone("own_options")
        own[str(name)] = f"{type(value).__name__} {value}"
    profiling = own.get(_PROFILING, of_core.get(_PROFILING, ""))
    if profiling.split(" ")[-1].upper() in _YES:
        raise LeftAlone("profiling")
    return tuple(sorted(of_core.items())), tuple(sorted(own.items()))


def _cpus() -> Tuple[int, ...]:
    """Return the CPUs that the process may use now."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def wrap(module: Any) -> None:
    """Let the compiled models of the runtime share, unless the module was loaded before."""
    if hasattr(module.Core.compile_model, "__wrapped__"):
        return
    turns = Turns(settings.at_once())
    digests = Digests()
    report = Report("openvino", getattr(module, "__version__", None), turns, digests)
    requests = Requests(module, report, turns, digests)
    _CompiledModels(module, report, requests).patch()
    requests.patch()
