"""Options of a context as words, NAME=VALUE, and the attributes of a runtime's objects they set.

Runs in the measured process: standard library only.
"""

from __future__ import annotations

from typing import Any, Collection, Iterable, List, Tuple

from reusebench.measured.runtimes.base import NotSupported

__all__ = [
    "attribute_names",
    "member",
    "refused",
    "set_attribute",
    "split",
    "unknown",
    "whole_number",
    "wrong_value",
]

_BOOLEANS = {"0": False, "1": True, "false": False, "true": True}
#: Most names that a message lists: of more, those that are most like the given one.
_MOST_NAMES = 40


def split(option: str) -> Tuple[str, str]:
    """Return name and value of an option."""
    name, _, value = option.partition("=")
    return name, value


def attribute_names(owner: Any) -> List[str]:
    """Return the attributes of an object that a word can set: switches, numbers, texts, members of
    an enumeration.
    """
    names = []
    for name in dir(owner):
        if name.startswith("_"):
            continue
        value = getattr(owner, name)
        if isinstance(value, (bool, int, str)) or hasattr(type(value), "__members__"):
            names.append(name)
    return names


def set_attribute(owner: Any, option: str, runtime: str) -> None:
    """Set an attribute that attribute_names() has; raise NotSupported if it takes no such value."""
    name, text = split(option)
    current = getattr(owner, name)
    members = getattr(type(current), "__members__", None)
    if isinstance(current, bool):
        members = _BOOLEANS
    if members is not None and text.lower() not in members and text not in members:
        raise wrong_value(runtime, option, members)
    try:
        if members is None:
            value: Any = type(current)(text)
        else:
            value = members[text] if text in members else members[text.lower()]
        setattr(owner, name, value)
    except ValueError:
        raise wrong_value(runtime, option, ["a whole number"]) from None
    except (OverflowError, TypeError) as error:
        raise refused(runtime, option, str(error)) from None


def whole_number(runtime: str, option: str) -> int:
    """Return the value of an option; raise NotSupported unless it is 0 or a larger number."""
    text = split(option)[1]
    if not text.isdecimal():
        raise wrong_value(runtime, option, ["a whole number"])
    return int(text)


def member(runtime: str, option: str, valid: Collection[str]) -> str:
    """Return the value of an option; raise NotSupported unless it is one of these."""
    text = split(option)[1]
    if text not in valid:
        raise wrong_value(runtime, option, valid)
    return text


def wrong_value(runtime: str, option: str, valid: Iterable[str]) -> NotSupported:
    """Return the error for a value that the option does not have."""
    return NotSupported("option_value", runtime=runtime, option=option, valid=", ".join(valid))


def refused(runtime: str, option: str, words: str) -> NotSupported:
    """Return the error for an option that a runtime refuses, with its own words."""
    text = words.strip().partition("\n")[0].rstrip(". ")
    return NotSupported("option_refused", runtime=runtime, option=option, error=text)


def unknown(runtime: str, option: str, valid: Iterable[str]) -> NotSupported:
    """Return the error for a name that a runtime does not have."""
    names = list(valid)
    if len(names) > _MOST_NAMES:
        import difflib  # not loaded in a process that measures

        names = difflib.get_close_matches(split(option)[0], names, _MOST_NAMES, 0.4) or names
    return NotSupported(
        "unknown_option", runtime=runtime, option=option, valid=", ".join(names) or "none"
    )
