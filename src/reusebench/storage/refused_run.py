"""A finished run that its storage refuses, as on a full disk: it goes to the temporary files."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

from reusebench.storage.run_file import save_run

__all__ = ["refusal_of", "save_elsewhere", "where_it_is"]


def save_elsewhere(document: dict[str, Any], name: str) -> Path:
    """Write the run into a new storage in the folder of temporary files; raise OSError.

    Return the path of its file, which is in a folder of the storage.
    """
    storage = Path(tempfile.mkdtemp(prefix="reusebench-"))
    try:
        return save_run(storage, document, name)
    except OSError:
        for folder in (*storage.glob("*"), storage):
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def refusal_of(storage: Path, error: OSError) -> str:
    """Return the clause that says why the storage has no run."""
    return f"the storage {storage} cannot be written ({error.strerror})"


def where_it_is(storage: Path, error: OSError, saved: Path) -> str:
    """Return the sentence about a run that was written elsewhere."""
    return (
        f"{refusal_of(storage, error)}. The run is in {saved}. When there is room, move it to"
        f" {storage / saved.parent.name}, under a number that is free"
    )
