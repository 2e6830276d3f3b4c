"""Short names of configurations: their common parts stand once, above the table."""

from __future__ import annotations

from collections.abc import Sequence

from reusebench.storage.runs import Configuration


def short_names(configurations: Sequence[Configuration]) -> dict[Configuration, str]:
    """Return a name for each, with the parts that tell it from others of the same name."""
    namesakes: dict[str, list[Configuration]] = {}
    for configuration in dict.fromkeys(configurations):
        namesakes.setdefault(configuration.name, []).append(configuration)

    names = {}
    for configuration in dict.fromkeys(configurations):
        common = _common_parts(namesakes[configuration.name])
        differing = [
            part for part, other in zip(_parts(configuration), common) if part and other is None
        ]
        names[configuration] = configuration.name
        if differing:
            names[configuration] += f" ({', '.join(differing)})"
    return names


def common_words(configurations: Sequence[Configuration]) -> str:
    """Return the parts that all configurations have in common."""
    return ", ".join(filter(None, _common_parts(configurations)))


def _parts(configuration: Configuration) -> tuple[str, ...]:
    """Return the parts that tell configurations apart, in the order of a name."""
    # The default target need not be named.
    target = "" if configuration.target == "python" else configuration.target
    models = ", ".join(configuration.models)
    return (configuration.runtime, target, configuration.detail, models)


def _common_parts(configurations: Sequence[Configuration]) -> list[str | None]:
    """Return each part if all configurations have it in common, None otherwise."""
    common: list[str | None] = []
    for values in zip(*map(_parts, configurations)):
        common.append(values[0] if len(set(values)) == 1 else None)
    return common
