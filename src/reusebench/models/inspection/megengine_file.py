"""Reads .mge files with MegEngine, in a process of its environment; the network is not run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reusebench.models.errors import ModelError
from reusebench.models.inspection.contents import Inspection, Operator, OtherFacts, Tensor, Weights
from reusebench.models.megengine.environment import MEGENGINE
from reusebench.system import processes
from reusebench.system.cache import end_of

__all__ = ["read"]

_PROGRAM = Path(__file__).resolve().parents[1] / "megengine" / "reader.py"


def read(path: Path) -> Inspection:
    """Return the contents of the file.

    Raises ModelError if it is no .mge file or MegEngine is not installed.
    """
    if not MEGENGINE.installed():
        raise ModelError(
            f"{MEGENGINE.makes} files are read by {MEGENGINE.library} {MEGENGINE.version}, which is"
            f" not in {MEGENGINE.folder()}; run `reusebench models install {MEGENGINE.command}`"
            f" once (it takes about {MEGENGINE.gigabytes} GB there)"
        )
    command = [str(MEGENGINE.python()), "-I", str(_PROGRAM), str(path.resolve())]
    done = processes.run(command)
    if done.returncode:
        last_line = done.stderr.strip().rpartition("\n")[2]
        raise ModelError(
            f"{path} cannot be read by {MEGENGINE.library} ({end_of(done.returncode)}): {last_line}"
        )
    shown: Any = json.loads(done.stdout)
    if shown is None:
        raise ModelError(
            f"{path} is not a MegEngine model (.mge), or is cut short. Export or copy it again"
        )
    return Inspection(
        file=str(path),
        size_bytes=path.stat().st_size,
        inputs=tuple(map(_tensor, shown["inputs"])),
        outputs=tuple(map(_tensor, shown["outputs"])),
        weights=tuple(Weights(*entry) for entry in shown["weights"]),
        operators=tuple(Operator("", name, count) for name, count in shown["operators"]),
        facts=OtherFacts({"format": f"MegEngine, read by version {shown['version']}"}),
    )


def _tensor(entry: tuple[str, str, list[int] | None]) -> Tensor:
    name, kind, shape = entry
    return Tensor(name, kind, None if shape is None else tuple(shape))
