"""The summary of a user's file that the harness needs before it measures, read in another process.

The readers of some files import packages, such as onnx, which the harness must not map.
`python -m reusebench.models.inspection.summary FILE` prints the summary as JSON.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Optional, Union

from reusebench.models.errors import ModelError
from reusebench.models.inspection import READERS, inspect
from reusebench.models.inspection.contents import GgufFacts
from reusebench.system.cache import ProcessError, output_of_another_process

__all__ = ["FileSummary", "summary_of"]


@dataclass(frozen=True)
class FileSummary:
    """The facts of a file."""

    #: Operators and other things that make outputs differ from inference to inference
    #: (contents.Inspection.varying).
    varying: tuple[str, ...] = ()
    #: Sizes of each input by its name; a free size is a text. Inputs of unknown rank are left out.
    inputs: Mapping[str, tuple[Union[int, str], ...]] = field(default_factory=dict)
    #: Tokens that a language model was trained for; None: unknown.
    context: Optional[int] = None
    #: Sentence of the reader that refused the file; empty if it did not.
    problem: str = ""


@functools.cache
def summary_of(path: Path) -> FileSummary:
    """Return the summary; it is empty if no reader knows the file.

    Each file is read once: it is pinned.
    """
    if path.suffix not in READERS:
        return FileSummary()
    try:
        text = output_of_another_process(__name__, str(path))
    except ProcessError as error:
        return FileSummary(problem=error.words)
    shown = json.loads(text)
    inputs = {name: tuple(sizes) for name, sizes in shown["inputs"].items()}
    return FileSummary(tuple(shown["varying"]), inputs, shown["context"])


def _read(path: Path) -> FileSummary:
    inspection = inspect(path)
    inputs = {}
    for tensor in inspection.inputs:
        if tensor.dimensions is not None:
            inputs[tensor.name] = tensor.dimensions
    facts = inspection.facts
    context = facts.context if isinstance(facts, GgufFacts) else None
    return FileSummary(inspection.varying, inputs, context)


if __name__ == "__main__":
    try:
        print(json.dumps(asdict(_read(Path(sys.argv[1])))))
    except ModelError as error:
        sys.exit(str(error))
