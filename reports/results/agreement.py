"""The agreement of outputs that need not be bit-equal: another option's, or another runtime's.

A result has values of each output, as floats at even distances
(storage.result.Result.output_samples).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from reusebench.measured.plan import Model
from reusebench.storage.result import Result

#: Relative difference that float32 may have if the same is calculated in another order.
TOLERANCE = 1e-3
#: Verdicts on the outputs of another runtime.
AGREES = "agrees"
DIFFERS = "differs"
OTHER_PRECISION = "other_precision"
NOT_COMPARED = "not_compared"
_FULL_PRECISION = "FP32"

#: The values of each output.
Samples = Sequence[Sequence[Optional[float]]]


@dataclass(frozen=True)
class Agreement:
    """The outputs of a result compared with a reference's, for the same models."""

    #: The largest relative difference; None if it is not known.
    difference: float | None
    #: INT8 or FP16 if the models were converted to it; None for float32.
    precision: str | None

    @property
    def verdict(self) -> str:
        """AGREES, DIFFERS, OTHER_PRECISION (if such outputs differ) or NOT_COMPARED."""
        if self.difference is not None and self.difference <= TOLERANCE:
            return AGREES
        if self.precision:
            return OTHER_PRECISION
        return NOT_COMPARED if self.difference is None else DIFFERS


def agreement(own: Result, reference: Result) -> Agreement:
    """Return the agreement of a result's outputs with another one's, wherever that ran."""
    precision = None
    for model in own.plan.models:
        conversion = model.conversion
        if conversion and conversion.precision != _FULL_PRECISION:
            precision = conversion.precision
            break
    return Agreement(output_difference(own, reference), precision)


def output_difference(own: Result, reference: Result) -> float | None:
    """Return the largest relative difference of the outputs of all models; 0 if bit-equal.

    Models whose outputs are not compared do not count. None if it is not known for a model: nothing
    was computed, the reference lacks the model, or the two results have no samples of the same
    kind.
    """
    if not (own.computes and reference.computes):
        return None
    reference_digests = {origin_of(model): model.digest for model in reference.plan.models}

    differences = []
    for model in own.plan.models:
        reference_digest = reference_digests.get(origin_of(model))
        if reference_digest is None:
            return None
        if model.digest in own.not_compared or reference_digest in reference.not_compared:
            continue
        difference = _model_difference(own, model.digest, reference, reference_digest)
        if difference is None:
            return None
        differences.append(difference)
    return max(differences, default=None)


def _model_difference(
    own: Result,
    digest: str,
    reference: Result,
    reference_digest: str,
) -> float | None:
    """Return the largest relative difference of a model's outputs; None if it is not known."""
    outputs = own.output_digests.get(digest)
    if outputs and outputs == reference.output_digests.get(reference_digest):
        return 0.0
    return relative_difference(
        own.output_samples.get(digest, ()),
        reference.output_samples.get(reference_digest, ()),
    )


def relative_difference(samples: Samples, reference: Samples) -> float | None:
    """Return the largest difference, as a share of the largest magnitude of the same output.

    The magnitude is the reference's. None if the difference is not known: the two have other
    outputs or no samples, or finite numbers in other places.
    """
    if [len(output) for output in samples] != [len(output) for output in reference]:
        return None

    shares = []
    for own_values, reference_values in zip(samples, reference):
        known = [value for value in own_values if value is not None]
        known_reference = [value for value in reference_values if value is not None]
        if not _same_gaps(own_values, reference_values):
            return None
        if not known:
            continue
        difference = max(abs(own - other) for own, other in zip(known, known_reference))
        magnitude = max(abs(other) for other in known_reference)
        if difference == 0:
            shares.append(0.0)
        elif magnitude == 0:
            return None
        else:
            shares.append(difference / magnitude)
    return max(shares, default=None)


def _same_gaps(
    own_values: Sequence[float | None],
    reference_values: Sequence[float | None],
) -> bool:
    """Whether both have None, which stands for no finite number, in the same places."""
    return all((own is None) == (other is None) for own, other in zip(own_values, reference_values))


def origin_of(model: Model) -> str:
    """Return the model's origin, equal for the files that all runtimes have of the model."""
    return model.origin or model.digest
