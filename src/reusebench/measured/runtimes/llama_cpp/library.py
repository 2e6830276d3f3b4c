"""llama.cpp's library, as its Python package declares it, without the rest of that package.

`import llama_cpp` also imports numpy, jinja2 and diskcache, which adds 25 MiB to the process; the
module with the declarations adds 9 MiB, of which the library itself is 5.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections import deque
from types import ModuleType
from typing import Any, Deque

__all__ = ["Library"]

_PACKAGE = "llama_cpp"
_VERSION = re.compile(r"^__version__ = \"(.+)\"", re.MULTILINE)
#: Level of an error (ggml.h: GGML_LOG_LEVEL_ERROR).
_ERROR = 4
_KEPT_LINES = 16


class Library:
    """The loaded library: its functions and structures are attributes of `api`."""

    def __init__(self) -> None:
        folder = _folder()
        # Otherwise a crash forks a debugger in the measured process.
        os.environ.setdefault("GGML_NO_BACKTRACE", "1")
        self.version = _version(folder)
        self.api: Any = _declarations(folder)
        #: The library for names that the package does not declare.
        self.handle: Any = self.api._lib
        self._lines: Deque[str] = deque(maxlen=_KEPT_LINES)
        # The library calls it for as long as it is loaded.
        self._log = self.api.llama_log_callback(self._keep)
        self.api.llama_log_set(self._log, None)
        self.api.llama_backend_init()

    def _keep(self, level: int, text: bytes, _data: Any) -> None:
        if level == _ERROR:
            self._lines.append(text.decode(errors="replace").strip())

    def forget_words(self) -> None:
        """Drop the lines of earlier calls."""
        self._lines.clear()

    def words(self) -> str:
        """Return the errors since forget_words()."""
        return "; ".join(self._lines)

    def reason(self) -> str:
        """Return the first of these errors, which later ones follow from."""
        for line in self._lines:
            # It begins with the name of a function.
            return (line.partition(": ")[2] or line).rstrip(". ")
        return "no reason given"


def _folder() -> str:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"No module named {_PACKAGE!r}")
    return next(iter(spec.submodule_search_locations))


def _version(folder: str) -> str:
    """Return the version of the package; importlib.metadata would be imported for it."""
    with open(os.path.join(folder, "__init__.py"), encoding="utf-8") as file:
        match = _VERSION.search(file.read())
    return match.group(1) if match else "unknown"


def _declarations(folder: str) -> ModuleType:
    """Import the module with the declarations, and nothing else of its package."""
    if _PACKAGE in sys.modules:
        return importlib.import_module(f"{_PACKAGE}.llama_cpp")
    package = ModuleType(_PACKAGE)
    package.__path__ = [folder]
    sys.modules[_PACKAGE] = package
    try:
        return importlib.import_module(f"{_PACKAGE}.llama_cpp")
    finally:
        # Somebody who imports the package later gets all of it.
        for name in list(sys.modules):
            if name == _PACKAGE or name.startswith(f"{_PACKAGE}."):
                del sys.modules[name]
