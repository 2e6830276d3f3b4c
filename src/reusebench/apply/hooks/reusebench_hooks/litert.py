"""LiteRT: interpreters of equal models map one file of packed weights, and keep one model in bytes.

An interpreter has its own tensors and is run by one thread, so it is never shared.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import weakref
from typing import Any, Dict, NamedTuple, Optional, Tuple

from reusebench_hooks import settings
from reusebench_hooks.digests import Digests
from reusebench_hooks.model_files import LeftAlone
from reusebench_hooks.patching import Call, note_on, patch
from reusebench_hooks.report import Report
from reusebench_hooks.turns import Turns
from reusebench_hooks.weight_caches import Cache, Caches, ModelDigests

#: Attribute of an interpreter.
_NOTE = "_reusebench_note"
#: Versions whose library and interpreter were tried together, on these machines.
_TRIED = ("2.2.", "2.3.")
_MACHINES = ("x86_64", "aarch64")
#: Operators with state or graphs of their own.
_WITH_STATE = frozenset(
    (
        "VAR_HANDLE",
        "READ_VARIABLE",
        "ASSIGN_VARIABLE",
        "CALL_ONCE",
        "IF",
        "WHILE",
        "CALL",
        "STABLEHLO_COMPOSITE",
        "STABLEHLO_WHILE",
    )
)
_FLOAT16 = "float16"


class _Note(NamedTuple):
    """What is known of an interpreter that may map a file; of others the name alone."""

    name: str
    digest: str
    cache: Optional[Cache] = None
    threads: int = 1
    path: Any = None


class _Interpreters:
    """The interpreters of the process, and the delegates that they are given."""

    def __init__(self, module: Any, version: str, report: Report, digests: Digests) -> None:
        self._class = module.Interpreter
        self._runner_class = module.SignatureRunner
        self._make = self._class.__init__
        self._parameters = inspect.signature(self._make)
        self._builtin = module.OpResolverType.BUILTIN
        self._folder = os.path.dirname(os.path.abspath(module.__file__))
        self._report = report
        self._digests = digests
        self._models = ModelDigests()
        self._caches = Caches(version)
        self._is_tried = version.startswith(_TRIED) and os.uname().machine in _MACHINES
        self._delegates: Any = None
        #: Interpreters with a model in bytes, by its digest.
        self._with_bytes: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()

    def patch(self) -> None:
        """Let the class share as described above."""
        patch(self._class, "__init__", self._begin)
        if not settings.IS_OFF:
            patch(self._class, "allocate_tensors", self._allocate)
        if settings.WITH_DIGESTS:
            patch(self._class, "invoke", self._invoke)
            patch(self._runner_class, "__call__", self._run_signature)

    # Making interpreters

    def _begin(self, original: Call, interpreter: Any, *arguments: Any, **named: Any) -> None:
        note = reason = None
        given: Dict[str, Any] = {}
        try:
            given = dict(self._parameters.bind(interpreter, *arguments, **named).arguments)
            note, reason = self._note(interpreter, given)
        except Exception:  # the runtime's own words tell the program what is wrong
            reason = "unreadable_model"
        content = given.get("model_content")
        other = self._with_bytes.get(note.digest) if note and isinstance(content, bytes) else None
        if other is not None and not settings.IS_OFF and other._model_content == content:
            given["model_content"] = other._model_content
        given.pop("self", None)
        if given:
            original(interpreter, **given)
        else:
            original(interpreter, *arguments, **named)
        setattr(interpreter, _NOTE, note)
        self._report.made(note.digest if note else None)
        if note is not None and isinstance(content, bytes):
            self._with_bytes[note.digest] = interpreter
        if reason is not None and not settings.IS_OFF:
            self._report.left_alone(reason)

    def _note(self, interpreter: Any, given: Dict[str, Any]) -> Any:
        """Return the note on an interpreter, and the reason if it is left alone."""
        path, content = given.get("model_path"), given.get("model_content")
        digest = self._models.of(path, content)
        name = f"{os.path.basename(os.fspath(path))} {digest[:8]}" if path else digest
        reason = self._objection(interpreter, given)
        if reason is not None:
            return _Note(name, digest), reason
        threads = int(given.get("num_threads") or 1)
        return _Note(name, digest, self._caches.of(digest), threads, path), None

    def _objection(self, interpreter: Any, given: Dict[str, Any]) -> Optional[str]:
        if not self._is_tried:
            return "untried_version"
        if given.get("experimental_delegates"):
            return "own_delegate"
        if getattr(interpreter, "_custom_op_registerers", None):
            return "custom_operators"
        for name, value in given.items():
            if not name.startswith("experimental_") or name == "experimental_delegates":
                continue
            if value not in (self._parameters.parameters[name].default, self._builtin):
                return "own_options"
        return None

    # The delegate

    def _allocate(self, original: Call, interpreter: Any) -> Any:
        note = note_on(interpreter, _NOTE)
        if note is not None and note.cache is not None and interpreter._safe_to_run():
            setattr(interpreter, _NOTE, note._replace(cache=None))
            with note.cache.lock:
                self._give_delegate(interpreter, note, note.cache)
        return original(interpreter)

    def _give_delegate(self, interpreter: Any, note: _Note, cache: Cache) -> None:
        """Have the interpreter use the file, just before it would make its own delegate."""
        try:
            if cache.objection is None:
                cache.objection = _objection_to(interpreter._interpreter)
            if not cache.is_worthwhile():
                cache.without += 1
                if cache.objection is not None:
                    raise LeftAlone(cache.objection)
                return
            if self._delegates is None:
                from reusebench_hooks.litert_delegates import Delegates

                self._delegates = Delegates(self._folder)
            if not os.path.exists(cache.path):
                cache.make(lambda path: self._write(interpreter, note, path))
            if cache.objection is not None:
                raise LeftAlone(cache.objection)
            self._modify(interpreter._interpreter, note.threads, cache.path)
        except LeftAlone as error:
            self._report.left_alone(error.reason)
        except Exception:  # the interpreter makes a delegate of its own
            cache.objection = "cache_failed"
            self._report.failed("weight_cache")
        else:
            self._report.shares("weight_cache")

    def _modify(self, native: Any, threads: int, path: str) -> None:
        delegate = self._delegates.make(threads, path)
        # The delegate goes when the native interpreter has gone, which views of tensors may keep.
        weakref.finalize(native, delegate.destroy).atexit = False
        native.ModifyGraphWithDelegate(delegate.address)

    def _write(self, interpreter: Any, note: _Note, path: str) -> None:
        """Have XNNPACK pack the weights of another interpreter, which writes the file."""
        other = self._class.__new__(self._class)
        content = getattr(interpreter, "_model_content", None)
        self._make(
            other,
            model_path=None if content else note.path,
            model_content=content,
            num_threads=note.threads,
        )
        self._modify(other._interpreter, note.threads, path)
        other._interpreter.AllocateTensors()

    # Digests

    def _invoke(self, original: Call, interpreter: Any) -> None:
        original(interpreter)
        note = note_on(interpreter, _NOTE)
        if note is None:
            return
        try:
            native = interpreter._interpreter
            outputs = [native.GetTensor(index, 0) for index in native.OutputIndices()]
            self._digests.add(note.name, outputs)
        except Exception:  # an output that has no value
            self._report.failed("digest")

    def _run_signature(self, original: Call, runner: Any, **inputs: Any) -> Any:
        outputs = original(runner, **inputs)
        note = note_on(runner._interpreter, _NOTE)
        if note is not None:
            self._digests.add(note.name, [outputs[name] for name in sorted(outputs)])
        return outputs


def _objection_to(native: Any) -> Optional[str]:
    """Return the reason to leave the interpreters of a model alone; None if there is none.

    XNNPACK unpacks weights of 16 bits, and sparse ones, into memory of its delegate.
    """
    if len(native.GetSignatureDefs()) > 1:
        return "several_signatures"
    for node in range(native.NumNodes()):
        operator = native.NodeName(node)
        if operator in _WITH_STATE:
            return "keeps_state"
        if operator == "DENSIFY":
            return "unpacked_weights"
        if operator == "DEQUANTIZE":
            kind = native.TensorType(int(native.NodeInputs(node)[0]), 0)
            if getattr(kind, "__name__", "") == _FLOAT16:
                return "unpacked_weights"
    return None


@functools.lru_cache(maxsize=None)  # noqa: UP033 - Python 3.8
def _report_of(version: str) -> Tuple[Report, Digests]:
    """Return the report of all modules of the runtime."""
    digests = Digests()
    return Report("litert", version or None, Turns(settings.at_once()), digests), digests


def wrap(module: Any) -> None:
    """Let the interpreters of the runtime share, unless the module was loaded before.

    Compiled models have an option for a file of packed weights, which the program can give.
    """
    package = sys.modules[module.__name__.partition(".")[0]]
    version = str(getattr(package, "__version__", ""))
    report, digests = _report_of(version)
    if hasattr(module, "CompiledModel"):

        def count(original: Call, *arguments: Any, **named: Any) -> None:
            original(*arguments, **named)
            report.made(None)
            if not settings.IS_OFF:
                report.left_alone("compiled_model")

        patch(module.CompiledModel, "__init__", count)
    elif not hasattr(module.Interpreter.__init__, "__wrapped__"):
        _Interpreters(module, version, report, digests).patch()
