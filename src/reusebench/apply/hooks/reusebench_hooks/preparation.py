"""What makes, proves and loads a prepared model of ONNX Runtime."""

from __future__ import annotations

import os
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from reusebench_hooks import heap
from reusebench_hooks.digests import digest_of
from reusebench_hooks.model_files import Model
from reusebench_hooks.prepared import SAVING, Cache
from reusebench_hooks.session_options import Recorder

_SILENT = 4  # log_severity_level of fatal errors alone


class Wanted(NamedTuple):
    """A model that is to be prepared after a session's first run."""

    folder: str
    #: The program's options; None if it gave none.
    options: Any
    #: Entries of options for the shared arena.
    entries: Dict[str, str]


def _told(native: Any) -> Any:
    """Return all that a native session tells of its model."""
    meta = native.model_meta
    names = ("graph_name", "description", "domain", "version", "producer_name")
    arguments = (native.inputs_meta, native.outputs_meta, native.overridable_initializers)
    return (
        [[(one.name, one.type, one.shape) for one in group] for group in arguments],
        [getattr(meta, name) for name in names],
        meta.custom_metadata_map,
        native.get_providers(),
        native.get_provider_options(),
    )


class Preparation:
    """The prepared models of a process: each is loaded, or prepared once."""

    def __init__(self, native: Any, recorder: Recorder, cache: Cache) -> None:
        self._native = native
        self._recorder = recorder
        self._cache = cache
        self._lock = threading.RLock()
        os.register_at_fork(after_in_child=self._restart)

    def _restart(self) -> None:
        self._lock = threading.RLock()

    def load(
        self,
        session: Any,
        folder: str,
        entries: Dict[str, str],
        make: Callable[[], None],
    ) -> bool:
        """Make the session of its prepared model; return whether there is one."""
        graph = self._cache.find(folder)
        if graph is None:
            return False
        asked = (session._model_path, session._model_bytes, session._sess_options)
        session._model_path, session._model_bytes = graph, None
        session._sess_options = self._loading(asked[2], entries)
        try:
            make()
        except Exception:  # it may have been removed meanwhile
            session._sess_options = asked[2]
            return False
        finally:
            session._model_path, session._model_bytes = asked[:2]
        return True

    def wanted(
        self, model: Model, folder: str, options: Any, entries: Dict[str, str]
    ) -> Optional[Wanted]:
        """Return the model to prepare after the first run; None if it is not worth it.

        The runtime maps external weights already.
        """
        is_mapped = bool(model.contents.external_files)
        if is_mapped or not self._cache.is_wanted(folder, model.size_bytes):
            return None
        return Wanted(folder, self._recorder.copy(options), entries)

    def prepare(self, session: Any, wanted: Wanted, names: Any, feed: Any, outputs: Any) -> None:
        """Prepare the model, and prove it on a run of the session."""
        with self._lock:
            graph = self._cache.begin(wanted.folder)
            try:
                is_equal = self._is_equal(session, wanted, graph, (names, feed, outputs))
            except Exception:
                self._cache.drop(graph)
                raise
            self._cache.end(wanted.folder, graph, is_equal)
        heap.give_back()

    def _is_equal(self, session: Any, wanted: Wanted, graph: str, run: Any) -> bool:
        names, feed, outputs = run
        saving = self._recorder.copy(wanted.options, SAVING)
        saving.optimized_model_filepath = graph
        source = session._model_path or session._model_bytes
        self._session(saving, source, session)
        loading = self._loading(wanted.options, wanted.entries)
        prepared = self._session(loading, graph, session)
        names = names or [output.name for output in session._outputs_meta]
        again = prepared.run(names, feed, None)
        is_equal: bool = digest_of(again) == digest_of(outputs)
        return is_equal and _told(prepared) == _told(session._sess)

    def _loading(self, options: Any, entries: Dict[str, str]) -> Any:
        made = self._recorder.copy(options, entries)
        made.graph_optimization_level = self._native.GraphOptimizationLevel.ORT_DISABLE_ALL
        return made

    def _session(self, options: Any, source: Any, like: Any) -> Any:
        """Return a native session that prints nothing, with the providers of another one."""
        options.log_severity_level = _SILENT
        made = self._native.InferenceSession(options, source, isinstance(source, str), False)
        providers: List[str] = like.get_providers()
        of_provider = like.get_provider_options()
        made.initialize_session(providers, [of_provider[name] for name in providers], set())
        return made
