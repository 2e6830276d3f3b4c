"""Code for values that depend on a context's number `i`: a formula if one fits, or a table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Optional

__all__ = ["Indices", "Where"]


@dataclass(frozen=True)
class Where:
    """A property of contexts, as a condition in code."""

    #: Whether any context has the property, and whether all have it.
    any: bool
    all: bool
    #: Expression that is true for the contexts that have the property.
    condition: str


@dataclass
class Indices:
    """The expressions of one program, and the tables that they read."""

    count: int
    #: Operator of integer division: "/" in C, "//" in Python.
    divide: str
    #: Tables by name, with one number per context.
    tables: dict[str, list[int]] = field(default_factory=dict)

    def value(self, name: str, values: Sequence[Optional[int]]) -> str:
        """Return an expression of the contexts' values; None fits any value.

        `name` is the name of the table if no formula fits.
        """
        known = [value for value in values if value is not None]
        if len(set(known)) <= 1:
            return str(known[0] if known else 0)
        for formula, results in self._formulas():
            if all(value in (None, result) for value, result in zip(values, results)):
                return formula
        self.tables[name] = [-1 if value is None else value for value in values]
        return f"{name}[i]"

    def _formulas(self) -> Iterator[tuple[str, list[int]]]:
        """Yield formulas with their results for all contexts, the simplest first."""
        numbers = range(self.count)
        for size in range(1, self.count):
            quotient = f"i {self.divide} {size}" if size > 1 else "i"
            yield f"i % {size}", [i % size for i in numbers]
            yield quotient, [i // size for i in numbers]
            yield f"i {self.divide} {size} * {size}", [i // size * size for i in numbers]

    def where(self, name: str, members: Collection[int]) -> Where:
        """Return the condition for these contexts; `name` is the name of a table it may need."""
        indices = set(members)
        return Where(bool(indices), len(indices) == self.count, self._condition(name, indices))

    def flagged(self, name: str, flags: Iterable[bool]) -> Where:
        """Return the condition for the contexts whose flag is true."""
        return self.where(name, [i for i, flag in enumerate(flags) if flag])

    def _condition(self, name: str, indices: set[int]) -> str:
        everyone = set(range(self.count))
        if len(indices) == 1:
            return f"i == {min(indices)}"
        if indices == set(range(len(indices))):
            return f"i < {len(indices)}"
        if indices == everyone - set(range(self.count - len(indices))):
            first = self.count - len(indices)
            return "i > 0" if first == 1 else f"i >= {first}"
        for size in range(2, self.count):
            multiples = set(range(0, self.count, size))
            if indices == multiples:
                return f"i % {size} == 0"
            if indices == everyone - multiples:
                return f"i % {size} != 0"
        if 0 < len(indices) < self.count:
            self.tables[name] = [int(i in indices) for i in range(self.count)]
        return f"{name}[i]"
