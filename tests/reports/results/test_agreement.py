"""The agreement of outputs with another option's or another runtime's, by their stored values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Optional

import pytest

from reusebench.measured.plan import Conversion, Model
from reusebench.reports.results.agreement import (
    AGREES,
    DIFFERS,
    NOT_COMPARED,
    OTHER_PRECISION,
    agreement,
    output_difference,
    relative_difference,
)
from reusebench.storage.result import Result
from tests.reports.stored import changed, even, group_of, npu_account, result, row_of

_MODEL = Model("net", "/models/net.onnx", "a" * 64, origin="net-224-seed1")


@pytest.mark.parametrize(
    ("samples", "reference", "difference"),
    [
        (((1.0, 4.0),), ((1.0, 5.0),), 0.2),
        # The largest share counts; each output has its own scale.
        (((1.0, 2.0), (101.0,)), ((1.0, 2.0), (100.0,)), 0.01),
        (((0.0, -8.0),), ((0.1, -8.0),), 0.0125),
        # None in the same places stands for no finite number; whole numbers have no samples.
        (((None, 1.0), ()), ((None, 2.0), ()), 0.5),
        (((0.0,),), ((0.0,),), 0.0),
    ],
)
def test_a_relative_difference(
    samples: tuple[tuple[Optional[float], ...], ...],
    reference: tuple[tuple[Optional[float], ...], ...],
    difference: float,
) -> None:
    """The largest difference of an output, as a share of the reference's largest magnitude."""
    assert relative_difference(samples, reference) == pytest.approx(difference)


@pytest.mark.parametrize(
    ("samples", "reference"),
    [
        (((1.0,),), ((1.0, 2.0),)),
        (((1.0,),), ((1.0,), (2.0,))),
        (((None, 1.0),), ((1.0, 1.0),)),
        (((1.0,),), ((0.0,),)),
        ((), ()),
        (((),), ((),)),
    ],
)
def test_a_difference_that_is_not_known(
    samples: tuple[tuple[Optional[float], ...], ...],
    reference: tuple[tuple[Optional[float], ...], ...],
) -> None:
    """The two have other outputs, None in other places, no scale, or no samples at all."""
    assert relative_difference(samples, reference) is None


def with_output(storage: Path, value: float, model: Model = _MODEL, **options: object) -> Result:
    digest = f"{round(value * 1e6):08x}"
    return result(
        storage,
        "plain",
        even(3),
        models=[model],
        samples=((value, 1.0),),
        digest=digest,
        **options,  # type: ignore[arg-type]
    )


def test_models_are_compared_by_their_origin(tmp_path: Path) -> None:
    """Two runtimes' files have different digests; models of another origin cannot be compared."""
    reference = with_output(tmp_path, 0.5)
    own = replace(_MODEL, digest="b" * 64)
    assert output_difference(with_output(tmp_path, 0.5001, own), reference) == pytest.approx(1e-4)
    assert output_difference(with_output(tmp_path, 0.5, own), reference) == 0
    assert (
        output_difference(with_output(tmp_path, 0.5001, replace(own, origin="other")), reference)
        is None
    )
    assert (
        output_difference(with_output(tmp_path, 0.5, replace(own, origin=None)), reference) is None
    )


def test_bit_equal_outputs_need_no_samples(tmp_path: Path) -> None:
    """Older results were stored before there were samples."""
    old = changed(with_output(tmp_path, 0.5), output_samples={})
    assert output_difference(old, old) == 0
    assert output_difference(changed(with_output(tmp_path, 0.6), output_samples={}), old) is None


def test_verdicts_on_another_runtime(tmp_path: Path) -> None:
    """Within 1e-3 outputs agree at any precision; beyond, another precision is the reason."""
    conversion = Conversion("/models/net.onnx", "a converter 1.0", "FP32", ())
    reference = with_output(tmp_path, 0.5)
    verdicts = {}
    for precision in ("FP32", "INT8"):
        model = replace(
            _MODEL, digest="b" * 64, conversion=replace(conversion, precision=precision)
        )
        for value in (0.5005, 0.6):
            judged = agreement(with_output(tmp_path, value, model), reference)
            verdicts[precision, value] = judged.verdict
            assert judged.precision == (None if precision == "FP32" else precision)
    assert verdicts == {
        ("FP32", 0.5005): AGREES,
        ("FP32", 0.6): DIFFERS,
        ("INT8", 0.5005): AGREES,
        ("INT8", 0.6): OTHER_PRECISION,
    }
    virtual = with_output(tmp_path, 0.5, npu=npu_account, computes=False)
    assert agreement(virtual, reference).verdict == NOT_COMPARED


@pytest.mark.parametrize(("value", "outcome"), [(0.50001, "ok"), (0.51, "outputs_differ")])
def test_an_option_may_round_in_another_way(tmp_path: Path, value: float, outcome: str) -> None:
    """Its row is measured up to the tolerance, and says by how much its outputs differ."""
    infos = [
        result(tmp_path, name, even(3), samples=((of, 1.0),), digest=digest)
        for name, of, digest in (
            ("default_options", 0.5, "00000001"),
            ("light=1", value, "00000002"),
        )
    ]
    row = row_of(group_of(tmp_path, *infos), "light=1")
    assert (row.outcome, row.question, row.is_variant) == (outcome, "options", True)
    assert row.output_difference == pytest.approx(value - 0.5)


def test_without_an_option_outputs_are_bit_equal(tmp_path: Path) -> None:
    """Reuse calculates in the same order: the smallest difference is an error."""
    infos = [
        result(tmp_path, name, even(3), samples=((of, 1.0),), digest=digest)
        for name, of, digest in (
            ("no_reuse_one_model", 0.5, "00000001"),
            ("full_dup", 0.5000001, "00000002"),
        )
    ]
    row = row_of(group_of(tmp_path, *infos), "full_dup")
    assert row.outcome == "outputs_differ"
    assert row.output_difference == pytest.approx(1e-7)
