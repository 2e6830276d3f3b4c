"""Where OpenVINO's models come from; those that are read from one file again share its weights."""

from __future__ import annotations

import mmap
import os
import threading
import time
import weakref
from typing import Any, List, Optional, Tuple

from reusebench_hooks.model_files import LeftAlone
from reusebench_hooks.models import Contents
from reusebench_hooks.openvino_models import identity_of
from reusebench_hooks.patching import Call, note_on, patch

#: Attribute of a model that has no weights in memory that the program may change.
_IS_READ = "_reusebench_is_read"
#: Attribute of a model that was copied from another one, which lives as long.
_TEMPLATE = "_reusebench_template"
#: A file changed later than this before it is read may change again with the same time.
_SETTLED_NS = 2_000_000_000

_File = Tuple[Any, ...]


def is_path_or_bytes(value: Any) -> bool:
    """Whether the program gives a model's name or its content."""
    return isinstance(value, (str, bytes, os.PathLike))


class Sources:
    """The models that come from files or bytes, and the cores that have the program's operators.

    A model that the program made may have weights in arrays of the program, which it may change
    when its own compiled model is gone. Weights of a model that was read are never changed.
    """

    def __init__(self, openvino: Any) -> None:
        self._openvino = openvino
        self._clone = openvino.Model.clone
        self._processed: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._extended: weakref.WeakSet[Any] = weakref.WeakSet()
        #: The program's model that was read last from a file, which it may change, and another
        #: one that is as the file is.
        self._last: weakref.WeakValueDictionary[_File, Any] = weakref.WeakValueDictionary()
        self._templates: weakref.WeakValueDictionary[_File, Any] = weakref.WeakValueDictionary()
        self._restart()
        os.register_at_fork(after_in_child=self._restart)

    def _restart(self) -> None:
        self._lock = threading.Lock()

    def patch(self) -> None:
        """Note where models come from."""
        core, model = self._openvino.Core, self._openvino.Model
        processor = self._openvino.preprocess.PrePostProcessor
        patch(core, "read_model", self._read)
        patch(core, "add_extension", self._extend)
        patch(model, "clone", self._copy)
        patch(model, "__deepcopy__", self._copy)
        patch(processor, "__init__", self._begin)
        patch(processor, "build", self._build)

    def check(self, core: Any, model: Any) -> None:
        """Raise LeftAlone if equal models may come to differ."""
        if core in self._extended:
            raise LeftAlone("custom_operators")
        if not note_on(model, _IS_READ):
            raise LeftAlone("model_made_by_program")

    def _extend(self, original: Call, core: Any, *arguments: Any, **named: Any) -> Any:
        self._extended.add(core)
        return original(core, *arguments, **named)

    # Reading

    def _read(
        self, original: Call, core: Any, model: Any, weights: Any = None, *others: Any, **named: Any
    ) -> Any:
        file = None
        if weights is None and not others and not named and core not in self._extended:
            file = _file(core, model)
        if file is None:
            read = original(core, model, weights, *others, **named)
        else:
            with self._lock:
                read = self._read_file(original, core, model, file)
        is_safe = is_path_or_bytes(model) and (weights is None or is_path_or_bytes(weights))
        setattr(read, _IS_READ, is_safe)
        return read

    def _read_file(self, original: Call, core: Any, model: Any, file: _File) -> Any:
        """Return the model in a file, over the weights of another one if the program keeps it."""
        template = self._templates.get(file)
        if template is not None:
            return self._from(template)
        read = original(core, model)
        if self._last.get(file) is not None and self._can_be_copied(read):
            template = self._templates[file] = self._clone(read)
            read = self._from(template)
        self._last[file] = read
        return read

    def _can_be_copied(self, model: Any) -> bool:
        try:
            identity_of(self._openvino, model)
        except Exception:  # told when it is compiled
            return False
        return True

    def _from(self, template: Any) -> Any:
        copy = self._clone(template)
        setattr(copy, _TEMPLATE, template)
        return copy

    # Changing

    def _copy(self, original: Call, model: Any, *arguments: Any) -> Any:
        copy = original(model, *arguments)
        self._follow(copy, model)
        return copy

    def _begin(self, original: Call, processor: Any, model: Any) -> None:
        original(processor, model)
        self._processed[processor] = model

    def _build(self, original: Call, processor: Any) -> Any:
        built = original(processor)
        self._follow(built, self._processed.get(processor))
        return built

    def _follow(self, made: Any, model: Any) -> None:
        for name in (_IS_READ, _TEMPLATE):
            setattr(made, name, note_on(model, name))


def _file(core: Any, path: Any) -> Optional[_File]:
    """Return the system's facts on a model's files; None if they may change unseen."""
    if not isinstance(path, (str, os.PathLike)):
        return None
    try:
        files = [_status(name) for name in _names(os.path.abspath(os.fspath(path)))]
        is_mapped = str(core.get_property("ENABLE_MMAP"))
    except Exception:  # the runtime's own words tell the program what is wrong
        return None
    if max(status[-1] for status in files) > time.time_ns() - _SETTLED_NS:
        return None
    return (*files, is_mapped)


def _names(path: str) -> List[str]:
    """Return the names of a model's files."""
    stem, kind = os.path.splitext(path)
    if kind == ".xml":
        return [path, f"{stem}.bin"]
    if kind == ".tflite":
        return [path]
    if kind != ".onnx":
        raise LeftAlone("unreadable_model")
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    others = sorted(Contents(memoryview(data)).external_files)
    return [path, *(os.path.join(os.path.dirname(path), name) for name in others)]


def _status(path: str) -> Tuple[Any, ...]:
    found = os.stat(path)
    return path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
