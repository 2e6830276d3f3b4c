"""The kind of a model file: which runtimes read it, and whether it is a language model."""

from __future__ import annotations

import re
from pathlib import Path

from reusebench.measured.runtimes import RUNTIMES, RuntimeEntry

__all__ = ["built_in_kind", "is_language_model", "language_file", "model_name", "parts_of", "reads"]

#: End of the name of a part of a GGUF file that is split, as llama-gguf-split names it.
_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf")


def reads(runtime: RuntimeEntry, path: Path) -> bool:
    """Whether a runtime reads files of this kind, by their names alone."""
    if path.suffix not in runtime.suffixes:
        return False
    name = runtime.folder_model
    if name is None or Path(name).suffix != path.suffix:
        return True
    # Other models may have this name, too.
    return path.name == name and any(path.parent.glob("*tokenizer*"))


def built_in_kind(runtime: RuntimeEntry) -> str:
    """Return the kind of files in which a runtime's built-in models are made.

    It is a suffix, or the name of the file that stands for a folder.
    """
    name = runtime.folder_model
    return name if name and Path(name).suffix == runtime.suffix else runtime.suffix


def is_language_model(path: Path) -> bool:
    """Whether a file, or a folder, is a language model by its name."""
    file = language_file(path)
    return any(reads(entry, file) for entry in RUNTIMES if entry.has_conversations)


def language_file(path: Path) -> Path:
    """Return the path; for a folder that is a language model, the file that stands for it."""
    if path.is_dir():
        for entry in RUNTIMES:
            if entry.folder_model and (path / entry.folder_model).is_file():
                return path / entry.folder_model
    return path


def model_name(file: Path) -> str:
    """Return the name of a model in tables: its file's, or its folder's if that is the model."""
    if any(file.name == entry.folder_model for entry in RUNTIMES) and is_language_model(file):
        return file.parent.name
    return file.stem


def parts_of(path: Path) -> list[Path]:
    """Return all parts of a split GGUF file in order, also missing ones; empty if it is whole."""
    matched = _PART.search(path.name)
    if matched is None or matched.end() != len(path.name):
        return []
    base = path.name[: matched.start()]
    count = int(matched[2])
    names = [f"{base}-{number:05}-of-{count:05}.gguf" for number in range(1, count + 1)]
    return [path.with_name(name) for name in names]
