"""Configurations in few words: what all of them have in common is said once, above the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from storage.runs import Configuration

#: What tells two configurations apart, in the order in which it is said after the name.
_PARTS: tuple[Callable[[Configuration], str], ...] = (
    lambda each: each.runtime,
    lambda each: _target(each),
    lambda each: each.detail,
    lambda each: _models(each),
)


def short_names(configurations: Sequence[Configuration]) -> dict[Configuration, str]:
    """Return a name for each that says what it has otherwise than another of the same name."""
    alike: dict[str, list[Configuration]] = {}
    for each in configurations:
        alike.setdefault(each.name, []).append(each)
    return {each: _name(each, alike[each.name]) for each in configurations}


def common_words(configurations: Sequence[Configuration]) -> str:
    """Return what all have in common, where it says something."""
    first = configurations[:1]
    common = [part(each) for each in first for part in _PARTS if _is_common(part, configurations)]
    return ", ".join(word for word in common if word)


def _is_common(part: Callable[[Configuration], str], configurations: Sequence[Configuration]) -> bool:
    return len({part(each) for each in configurations}) <= 1


def _target(configuration: Configuration) -> str:
    """Return where it ran, unless that is where everything runs by default."""
    return "" if configuration.target == "python" else configuration.target


def _models(configuration: Configuration) -> str:
    """Return all models: of two configurations the first may be the same, and another one differ."""
    return ", ".join(configuration.models)


def _name(configuration: Configuration, alike: Sequence[Configuration]) -> str:
    words = [part(configuration) for part in _PARTS if not _is_common(part, alike)]
    said = ", ".join(word for word in words if word)
    return f"{configuration.name} ({said})" if said else configuration.name
