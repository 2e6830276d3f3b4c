"""The baselines that a project's configuration of pytest names, which are never removed."""

from __future__ import annotations

import configparser
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reusebench.storage.errors import StorageError
from reusebench.system.files import printable, read_regular

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Baseline", "configured_baselines"]

#: Key: file of pytest's configuration; value: its section.
_INI_FILES = {
    "pytest.ini": "pytest",
    ".pytest.ini": "pytest",
    "tox.ini": "pytest",
    "setup.cfg": "tool:pytest",
}
_TOML_FILE = "pyproject.toml"
_VARIABLE = "PYTEST_ADDOPTS"
_OPTIONS = ("--baseline", "--benchmark-compare")
_MOST_BYTES = 1 << 20


class Baseline(NamedTuple):
    """A reference to runs, and where it stands."""

    reference: str
    place: str


def configured_baselines(project: Path) -> list[Baseline]:
    """Return the baselines in options that pytest adds by itself, in this folder or above it.

    Raises StorageError if a file of the configuration cannot be read: what it names is unknown.
    """
    baselines = list(_in_words(_words(os.environ.get(_VARIABLE, ""), _VARIABLE), _VARIABLE))
    folder = project.resolve()
    for place in (folder, *folder.parents):
        for name in (*_INI_FILES, _TOML_FILE):
            path = place / name
            if path.is_file():
                baselines += _in_words(_added_options(path), str(path))
    return baselines


def _added_options(path: Path) -> Sequence[str]:
    """Return the words of `addopts` in the file."""
    try:
        text = read_regular(path, _MOST_BYTES).decode()
        if path.name == _TOML_FILE:
            value = _toml_value(tomllib.loads(text))
        else:
            # pytest's own parser is as lenient, and knows neither interpolation nor defaults.
            parser = configparser.ConfigParser(
                interpolation=None, strict=False, default_section="\0", allow_no_value=True
            )
            parser.read_string(text)
            value = parser.get(_INI_FILES[path.name], "addopts", fallback="")
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    except (ValueError, configparser.Error) as error:
        raise _unreadable(path, str(error)) from None
    if isinstance(value, list):
        return [str(word) for word in value]
    return _words(str(value or ""), str(path))


def _toml_value(document: dict[str, Any]) -> Any:
    """Return `addopts` of [tool.pytest.ini_options], or of [tool.pytest] of newer versions."""
    section: Any = document
    for key in ("tool", "pytest"):
        section = section.get(key, {}) if isinstance(section, dict) else {}
    if not isinstance(section, dict):
        return ""
    options = section.get("ini_options")
    return (options if isinstance(options, dict) else section).get("addopts", "")


def _words(text: str, place: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise StorageError(
            f"the options of {printable(place)} cannot be read ({error}), so that the baselines"
            " in them are unknown. Mend them, then run the command again"
        ) from None


def _in_words(words: Sequence[str], place: str) -> Iterator[Baseline]:
    """Yield the references after the options, as `--baseline 12` or `--baseline=12`."""
    for word, following in zip(words, (*words[1:], "")):
        option, equals, value = word.partition("=")
        if option in _OPTIONS:
            reference = value if equals else following
            if reference and not reference.startswith("-"):
                yield Baseline(reference, f"{option} in {printable(place)}")


def _unreadable(path: Path, reason: str) -> StorageError:
    return StorageError(
        f"{printable(str(path))} cannot be read ({reason}), so that the baselines in it are"
        " unknown. Mend it, then run the command again"
    )
