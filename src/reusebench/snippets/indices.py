"""What depends on a context's number `i`, as an expression of code: a formula where one fits, else
a table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Optional

__all__ = ["Indices", "Where"]


@dataclass(frozen=True)
class Where:
    """Of which contexts something is said."""

    any: bool
    all: bool
    #: True for these contexts.
    condition: str


@dataclass
class Indices:
    """The expressions of one program, and the tables that they read."""

    count: int
    #: Of whole numbers: "/" in C, "//" in Python.
    divide: str
    #: By name: one number for each context.
    tables: dict[str, list[int]] = field(default_factory=dict)

    def value(self, name: str, values: Sequence[Optional[int]]) -> str:
        """Return the expression of a value of each context, None if it may be anything; `name`
        is of the table.
        """
        known = [value for value in values if value is not None]
        if len(set(known)) <= 1:
            return str(known[0] if known else 0)
        for size in range(1, self.count):
            formulas = {
                f"i % {size}": [i % size for i in range(self.count)],
                f"i {self.divide} {size}" if size > 1 else "i": [
                    i // size for i in range(self.count)
                ],
                f"i {self.divide} {size} * {size}": [i // size * size for i in range(self.count)],
            }
            for formula, results in formulas.items():
                if all(value in (None, result) for value, result in zip(values, results)):
                    return formula
        self.tables[name] = [-1 if value is None else value for value in values]
        return f"{name}[i]"

    def where(self, name: str, members: Collection[int]) -> Where:
        """Return the condition that is true for these contexts; `name` is of the table."""
        indices = set(members)
        return Where(bool(indices), len(indices) == self.count, self._condition(name, indices))

    def flagged(self, name: str, flags: Iterable[bool]) -> Where:
        """Return the condition that is true for the contexts whose flag is."""
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
