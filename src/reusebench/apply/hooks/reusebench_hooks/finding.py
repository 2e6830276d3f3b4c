"""Finds the runtimes that a program imports, to wrap each as soon as it is loaded."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any, Optional, Sequence

_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PACKAGE = "reusebench_hooks"
#: Module of a runtime to the module of the package that wraps it. One whose file is not there is
#: not wrapped.
_WRAPPERS = {
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "ai_edge_litert.compiled_model": "litert",
    "ai_edge_litert.interpreter": "litert",
    "tflite_runtime.interpreter": "litert",
}


class _WrappingLoader:
    """A loader of a runtime's module that wraps the module when it is loaded."""

    def __init__(self, loader: Any, wrapper: str) -> None:
        self._loader = loader
        self._wrapper = wrapper

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        created: Optional[ModuleType] = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        try:
            importlib.import_module(f"{_PACKAGE}.{self._wrapper}").wrap(module)
        except Exception as error:  # the program must go on
            print(f"reusebench apply: {module.__name__} is left alone: {error}", file=sys.stderr)


class _Finder:
    """A finder of runtimes' modules, which asks the other finders, and of the package beside it."""

    def find_spec(
        self,
        fullname: str,
        path: Optional[Sequence[str]] = None,
        target: Optional[ModuleType] = None,
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """Return the module's spec; None if the module is no concern of this finder."""
        if fullname == _PACKAGE:  # the program may have changed sys.path
            return importlib.machinery.PathFinder.find_spec(fullname, [_FOLDER], target)
        wrapper = _WRAPPERS.get(fullname)
        if wrapper is None or not os.path.exists(os.path.join(_FOLDER, _PACKAGE, f"{wrapper}.py")):
            return None
        spec = self._others_spec(fullname, path, target)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _WrappingLoader(spec.loader, wrapper)  # type: ignore[assignment]
        return spec

    def _others_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType]
    ) -> Optional[importlib.machinery.ModuleSpec]:
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                return spec
        return None


def find_runtimes() -> None:
    """Wrap the runtimes that the program will import."""
    sys.meta_path.insert(0, _Finder())


def run_next_sitecustomize() -> None:
    """Run the sitecustomize that Python would have found without this one."""
    places = [place for place in sys.path if not os.path.isdir(os.path.join(place, _PACKAGE))]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", places)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)
