"""The terminal's remarks about models before they are measured: assumptions and conversions."""

from __future__ import annotations

from pathlib import Path

from reusebench.measured.plan import Model
from reusebench.models.inputs.candidates import shape_text

__all__ = ["assumptions", "conversion_text"]


def assumptions(model: Model) -> str:
    """Return the assumptions about a model's inputs, with the options that change them; may be
    empty.
    """
    inputs = model.inputs
    path = model.path
    if model.conversion:
        inputs = model.conversion.inputs
        path = model.conversion.source
    shapes = []
    for tensor in inputs:
        if tensor.assumed:
            guess = " (a guess)" if tensor.doubtful else ""
            shapes.append(f"--shape {tensor.name}={shape_text(tensor.shape)}{guess}")
    values = []
    for tensor in model.inputs:
        if tensor.value is not None:
            values.append(f"{tensor.name} of {tensor.value}")
    parts = []
    if shapes:
        parts.append(" ".join(shapes))
    if values:
        parts.append(f"{', '.join(values)} (--inputs FILE.npz gives others)")
    return f"assumed for {Path(path).name}: {', '.join(parts)}" if parts else ""


def conversion_text(model: Model) -> str:
    """Return the converter of a model, its precision and its data; empty if it is as given."""
    conversion = model.conversion
    if conversion is None:
        return ""
    name = Path(conversion.source).name
    text = f"{name} is converted to {conversion.precision} by {conversion.by}"
    if not conversion.is_calibrated:
        return text
    without_data = [tensor.name for tensor in conversion.inputs if not tensor.file]
    if not without_data:
        return f"{text}, calibrated with the data of --inputs"
    return (
        f"{text}, calibrated with noise in {', '.join(without_data)} (--inputs FILE.npz gives data)"
    )
