"""Methods of the runtime's own classes that do something more."""

from __future__ import annotations

import functools
from typing import Any, Callable

Call = Callable[..., Any]


def patch(owner: Any, name: str, wrapper: Call) -> None:
    """Replace a method; the wrapper gets the original first. Older versions lack some methods."""
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        return wrapper(original, *arguments, **named)

    setattr(owner, name, call)


def note_on(thing: Any, name: str) -> Any:
    """Return the value that was set on the object itself; None if none was."""
    return vars(thing).get(name) if hasattr(thing, "__dict__") else None
