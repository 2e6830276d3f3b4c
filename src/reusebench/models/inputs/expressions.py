"""Free sizes that are expressions of others, as exporters write them: "2*s0", "past + length"."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Optional

__all__ = ["SizeExpression"]

#: Characters of an expression; formulas of exporters are longer only if no size follows from them.
_LONGEST = 200
#: Largest number in an expression, and the largest size that is searched for.
_LARGEST = 1 << 20
_MOST_STEPS = 1 << 14
#: A name, which may have parts that Python's names lack: "encoder.length".
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_FUNCTIONS = {"min": min, "Min": min, "max": max, "Max": max}
#: Functions of one value that change no whole number.
_ROUNDING = ("floor", "ceiling", "ceil", "int", "round")


class SizeExpression:
    """The value of a free size by the values of the names in it; a single name is one, too."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tree = _parsed(text)
        #: The names; the text itself if it is no expression that can be computed.
        self.names: tuple[str, ...] = (text,)
        if self._tree is not None:
            found = _NAME.findall(text)
            functions = (*_FUNCTIONS, *_ROUNDING, "Mod")
            self.names = tuple(dict.fromkeys(name for name in found if name not in functions))
        if not self.names:
            self._tree = None
            self.names = (text,)

    @property
    def is_name(self) -> bool:
        """Whether it is a single name, or a text that cannot be computed."""
        return self.names == (self._text,)

    def value(self, sizes: Mapping[str, int]) -> Optional[int]:
        """Return the value; None if a name has none, or there is no such size."""
        if self.is_name:
            return sizes.get(self._text)
        assert self._tree is not None
        try:
            return max(0, _computed(self._tree, sizes))
        except (KeyError, ArithmeticError, ValueError):
            return None

    def solved(self, wanted: int, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return values of the names without one, for a value that is `wanted` or just above.

        All of these names get one value. Empty if no value of theirs gives as much.
        """
        unknown = [name for name in self.names if name not in sizes]
        if not unknown:
            return {}
        if self.is_name:
            return {self._text: wanted}
        for size in range(1, _MOST_STEPS):
            chosen = dict.fromkeys(unknown, size)
            value = self.value({**sizes, **chosen})
            if value is not None and value >= wanted:
                return chosen
        return {}


def _parsed(text: str) -> Optional[ast.expr]:
    """Return the tree of an expression; None if the text is none."""
    if len(text) > _LONGEST:
        return None
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return tree if _is_known(tree) else None


def _is_known(node: ast.expr) -> bool:
    """Whether every part of the tree can be computed."""
    if isinstance(node, ast.Constant):
        return type(node.value) is int and node.value <= _LARGEST
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and _is_known(node.operand)
    if isinstance(node, ast.BinOp):
        operators = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
        return isinstance(node.op, operators) and _is_known(node.left) and _is_known(node.right)
    if isinstance(node, ast.Call):
        known = (*_FUNCTIONS, *_ROUNDING, "Mod")
        is_named = isinstance(node.func, ast.Name) and node.func.id in known
        return is_named and bool(node.args) and all(map(_is_known, node.args))
    return isinstance(node, (ast.Name, ast.Attribute))


def _computed(node: ast.expr, sizes: Mapping[str, int]) -> int:
    """Return the value; raise KeyError if a name has none."""
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, int)
        return node.value
    if isinstance(node, ast.UnaryOp):
        return -_computed(node.operand, sizes)
    if isinstance(node, ast.BinOp):
        return _combined(node.op, _computed(node.left, sizes), _computed(node.right, sizes))
    if isinstance(node, ast.Call):
        assert isinstance(node.func, ast.Name)
        return _called(node.func.id, [_computed(value, sizes) for value in node.args])
    return sizes[ast.unparse(node)]


def _called(name: str, values: list[int]) -> int:
    if name == "Mod":
        left, right = values
        return left % right
    return _FUNCTIONS[name](values) if name in _FUNCTIONS else values[0]


def _combined(operator: ast.operator, left: int, right: int) -> int:
    if isinstance(operator, ast.Add):
        return left + right
    if isinstance(operator, ast.Sub):
        return left - right
    if isinstance(operator, ast.Mult):
        return left * right
    if isinstance(operator, ast.Mod):
        return left % right
    return left // right
