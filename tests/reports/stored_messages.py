"""The messages that the code can store, read from its source: literals with a stand-in for each value they fill in."""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Union

from tests.support import CHECKOUT

__all__ = ["STAND_IN", "stored_messages"]

#: In place of a value that only a run knows.
STAND_IN = "<value>"
_ROOMS = (
    "accounting",
    "harness",
    "runtimes",
    "samplers",
    "storage",
    "targets/measured_process.py",
    "targets/outcome.py",
)
#: Where a message is handed over: what is called, and which of its arguments are one.
_TAKES_MESSAGE = {
    "AdapterError": (0,),
    "BadFile": (1,),
    "Failure": (3,),
    "FileSource": (2,),
    "InvalidResult": (0,),
    "MemorySource": (0, 2),
    "ModelUnreadable": (1,),
    "NoLibraryFile": (1,),
    "NotSupported": (0,),
    "Trial": (2,),
    "_best": (1,),
    "_fail": (2,),
}
#: Functions that return one; of a tuple the last value. A method's class is not looked at.
_RETURNS_MESSAGE = {"classify_exit", "refusal"}
_SAYS_ITSELF = {"BadFile", "Failure"}

_Function = Union[ast.FunctionDef, ast.Module]


def stored_messages() -> set[str]:
    """Return every message, one for each alternative that its source has; a single word is a name, and none."""
    files = [file for room in _ROOMS for file in _files(CHECKOUT / room)]
    found = {message for file in files for message in _Source(ast.parse(file.read_text(encoding="utf-8"))).messages()}
    return {message for message in found if " " in message}


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in path.rglob("*.py") if file.name != "__main__.py"]


@dataclass(frozen=True)
class _Source:
    """One module."""

    tree: ast.Module

    def messages(self) -> Iterator[str]:
        """Yield the messages that this module hands over or returns."""
        for function in self._functions():
            for node in _own_nodes(function):
                if isinstance(node, ast.Call):
                    yield from self._handed_over(node, function)
        for name, function in self._methods():
            if function.name in _RETURNS_MESSAGE or (name in _SAYS_ITSELF and function.name == "__str__"):
                yield from self._returned(function)

    def _functions(self) -> list[_Function]:
        return [self.tree, *(node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef))]

    def _methods(self) -> Iterator[tuple[str | None, ast.FunctionDef]]:
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.Module, ast.ClassDef)):
                name = getattr(node, "name", None)
                yield from ((name, each) for each in node.body if isinstance(each, ast.FunctionDef))

    def _adapter_errors(self) -> set[ast.AST]:
        """Return the constructors of the exceptions whose words are a message."""
        classes = [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]
        ours = [each for each in classes if "AdapterError" in {getattr(base, "id", None) for base in each.bases}]
        return {function for each in ours for function in each.body if isinstance(function, ast.FunctionDef)}

    def _handed_over(self, call: ast.Call, function: _Function) -> Iterator[str]:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        is_exception = name == "__init__" and function in self._adapter_errors()
        positions = (0,) if is_exception else _TAKES_MESSAGE.get(name, ())
        for argument in (call.args[position] for position in positions if position < len(call.args)):
            yield from self._said(argument, function)

    def _returned(self, function: ast.FunctionDef) -> Iterator[str]:
        for node in ast.walk(function):
            if isinstance(node, ast.Return) and node.value is not None:
                last = node.value.elts[-1] if isinstance(node.value, ast.Tuple) else node.value
                yield from self._said(last, function)

    def _said(self, node: ast.expr, function: _Function) -> list[str]:
        """Return what an expression may say, as far as the source tells."""
        if isinstance(node, ast.Constant):
            return [node.value] if isinstance(node.value, str) else [STAND_IN]
        if isinstance(node, ast.JoinedStr):
            return [
                "".join(parts) for parts in itertools.product(*(self._part(each, function) for each in node.values))
            ]
        if isinstance(node, ast.IfExp):
            return self._said(node.body, function) + self._said(node.orelse, function)
        if isinstance(node, ast.BoolOp):
            return [message for each in node.values for message in self._said(each, function)]
        if isinstance(node, ast.Call):
            return self._of_call(node, function)
        return self._of_name(node.id, function) if isinstance(node, ast.Name) else [STAND_IN]

    def _part(self, node: ast.expr, function: _Function) -> list[str]:
        if not isinstance(node, ast.FormattedValue):
            return self._said(node, function)
        quoted = node.conversion == ord("r")
        return [repr(each) if quoted else each for each in self._said(node.value, function)]

    def _of_call(self, call: ast.Call, function: _Function) -> list[str]:
        if (
            isinstance(call.func, ast.Attribute)
            and call.func.attr == "join"
            and isinstance(call.func.value, ast.Constant)
        ):
            return [str(call.func.value.value).join([STAND_IN, STAND_IN])]
        if isinstance(call.func, ast.Attribute) and call.func.attr == "get" and len(call.args) == 2:
            return [STAND_IN, *self._said(call.args[1], function)]
        called = [each for each in self.tree.body if isinstance(each, ast.FunctionDef)]
        named = [each for each in called if isinstance(call.func, ast.Name) and each.name == call.func.id]
        return [message for each in named for message in self._returned(each)] or [STAND_IN]

    def _of_name(self, name: str, function: _Function) -> list[str]:
        """Return what a name may stand for: a parameter what callers give, any other what it is set to."""
        for place in (function, self.tree):
            set_to = [node.value for node in _own_nodes(place) if isinstance(node, ast.Assign) and _sets(node, name)]
            if set_to:
                return [message for each in set_to for message in self._said(each, place)]
        return self._given(name, function) or [STAND_IN]

    def _given(self, name: str, function: _Function) -> list[str]:
        names = [each.arg for each in function.args.args] if isinstance(function, ast.FunctionDef) else []
        if name not in names:
            return []
        calls = [
            (node, caller)
            for caller in self._functions()
            for node in _own_nodes(caller)
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == getattr(function, "name", "")
        ]
        given = [(call.args[names.index(name)], caller) for call, caller in calls if len(call.args) > names.index(name)]
        return [message for each, caller in given for message in self._said(each, caller)]


@functools.cache
def _own_nodes(function: _Function) -> tuple[ast.AST, ...]:
    """Return the nodes of a function, or of a module, without those of the functions in it."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        if not isinstance(node, ast.FunctionDef):
            found.append(node)
            waiting += ast.iter_child_nodes(node)
    return tuple(found)


def _sets(node: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
