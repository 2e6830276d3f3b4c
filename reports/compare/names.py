"""Configurations in few words: what all of them have in common stands once, above the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reusebench.storage.runs import Configuration

#: What tells two configurations apart, in the order in which it stands behind the name.
_PARTS: tuple[Callable[[Configuration], str], ...] = (
    lambda one: one.runtime,
    # Where everything runs by default need not be named.
    lambda one: "" if one.target == "python" else one.target,
    lambda one: one.detail,
    # All models: of two configurations the first may be the same, and another one differ.
    lambda one: ", ".join(one.models),
)


def short_names(configurations: Sequence[Configuration]) -> dict[Configuration, str]:
    """Return a name for each that has what it has otherwise than another of the same name."""
    alike: dict[str, list[Configuration]] = {}
    for configuration in configurations:
        alike.setdefault(configuration.name, []).append(configuration)
    names = {}
    for configuration in configurations:
        parts = [
            part(configuration)
            for part in _PARTS
            if not _is_common(part, alike[configuration.name])
        ]
        differing = ", ".join(filter(None, parts))
        names[configuration] = (
            f"{configuration.name} ({differing})" if differing else configuration.name
        )
    return names


def common_words(configurations: Sequence[Configuration]) -> str:
    """Return what all have in common."""
    common = (
        [part(configurations[0]) for part in _PARTS if _is_common(part, configurations)]
        if configurations
        else []
    )
    return ", ".join(filter(None, common))


def _is_common(
    part: Callable[[Configuration], str], configurations: Sequence[Configuration]
) -> bool:
    return len({part(configuration) for configuration in configurations}) <= 1
