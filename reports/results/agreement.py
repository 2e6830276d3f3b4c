"""Whether outputs agree that need not be bit-equal: those of another option, or of another runtime.

A result has values of each output of floats at even distances
(storage.result.Result.output_samples).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from reusebench.measured.plan import Model
from reusebench.storage.result import Result

#: Relative: by so much float32 may differ where the same is calculated in another order.
TOLERANCE = 1e-3
#: What outputs of another runtime come to.
AGREES = "agrees"
DIFFERS = "differs"
OTHER_PRECISION = "other_precision"
NOT_COMPARED = "not_compared"
_FULL_PRECISION = "FP32"

#: Of each output.
Samples = Sequence[Sequence[Optional[float]]]


@dataclass(frozen=True)
class Agreement:
    """The outputs of a result beside those of a reference, with the same models."""

    #: The largest relative difference; None if it is not known.
    difference: float | None
    #: That the models were converted to where it is not float32: INT8 or FP16.
    precision: str | None

    @property
    def verdict(self) -> str:
        """AGREES, DIFFERS, OTHER_PRECISION (of outputs that differ) or NOT_COMPARED."""
        if self.difference is not None and self.difference <= TOLERANCE:
            return AGREES
        if self.precision:
            return OTHER_PRECISION
        return NOT_COMPARED if self.difference is None else DIFFERS


def agreement(own: Result, reference: Result) -> Agreement:
    """Return how far the outputs of a result are those of another one, wherever it ran; see
    output_difference.
    """
    conversions = [model.conversion for model in own.plan.models if model.conversion]
    others = [one.precision for one in conversions if one.precision != _FULL_PRECISION]
    return Agreement(output_difference(own, reference), others[0] if others else None)


def output_difference(own: Result, reference: Result) -> float | None:
    """Return the largest relative difference of outputs, over all models of the result; 0 where
    they are bit-equal.

    None if it is not known: nothing was computed, or the reference lacks a model, or one of both
    has no samples, or others.
    """
    if not (own.computes and reference.computes):
        return None
    references = {origin_of(model): model.digest for model in reference.plan.models}
    largest = None
    for model in own.plan.models:
        digest = references.get(origin_of(model))
        if digest is None:
            return None
        of_own = own.output_digests.get(model.digest)
        of_reference = reference.output_digests.get(digest)
        if of_own and of_own == of_reference:
            difference: float | None = 0.0
        else:
            samples = own.output_samples.get(model.digest, ())
            others = reference.output_samples.get(digest, ())
            difference = relative_difference(samples, others)
        if difference is None:
            return None
        largest = max(difference, largest or 0.0)
    return largest


def relative_difference(samples: Samples, reference: Samples) -> float | None:
    """Return the largest over the outputs: the largest difference, as a share of the reference's
    largest magnitude.

    None if that is not known: other outputs, no samples, or other ones of them that are no
    finite numbers.
    """
    if [len(output) for output in samples] != [len(output) for output in reference]:
        return None
    shares = []
    for own, of_reference in zip(samples, reference):
        if [value is None for value in own] != [value is None for value in of_reference]:
            return None
        pairs = [
            (value, other)
            for value, other in zip(own, of_reference)
            if value is not None and other is not None
        ]
        if not pairs:
            continue
        difference = max(abs(value - other) for value, other in pairs)
        magnitude = max(abs(other) for _, other in pairs)
        if difference and not magnitude:
            return None
        shares.append(difference / magnitude if difference else 0.0)
    return max(shares, default=None)


def origin_of(model: Model) -> str:
    """Return what is equal for the files that every runtime has of one model."""
    return model.origin or model.digest
