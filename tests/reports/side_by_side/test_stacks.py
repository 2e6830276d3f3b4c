"""Pairs of NPU runtimes: what makes two runs of the same network, and what they take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from reusebench.measured.plan import Conversion, Model
from reusebench.reports.explanation.explained_memory import TOTAL
from reusebench.reports.side_by_side.stacks import SideBySide, side_by_side
from reusebench.reports.side_by_side.table import (
    differences_of,
    layout_sizes,
    side_by_side_records,
)
from tests.reports.stored import MIB, changed, groups_of, write_run
from tests.reports.stored_stacks import (
    RKNN_MODEL,
    TEFLON_MODEL,
    both_stacks,
    rknn_results,
    teflon_results,
)

TFLITE = Model("detector", "/models/detector.tflite", "d" * 64)
CONVERTED = Conversion("/models/detector.tflite", "rknn-toolkit2 2.3.2", "INT8", (), False)


def pairs(
    storage: Path, rknn: Model = RKNN_MODEL, teflon: Model = TEFLON_MODEL
) -> list[SideBySide]:
    """Return the pairs of a run of each runtime with these models."""
    write_run(storage, rknn_results(storage, rknn), 1)
    write_run(storage, teflon_results(storage, teflon), 2, at="2026-01-02T00:00:00")
    return side_by_side(groups_of(storage))


def test_one_context_a_further_one_and_the_leanest(tmp_path: Path) -> None:
    """The first and the mean further context are of the layout without reuse."""
    both_stacks(tmp_path)
    (pair,) = side_by_side(groups_of(tmp_path))
    assert (pair.chip, pair.network) == ("rk3588", "net-224")
    rknn, teflon = pair.stacks
    assert (rknn.runtime, teflon.runtime) == ("rknn", "teflon")
    totals = []
    for stack in pair.stacks:
        totals += [stack.one_context[TOTAL], stack.further_context[TOTAL]]
    sizes = [size.median / MIB for size in totals if size]
    assert sizes == [10, 10, 14, 14]
    assert (rknn.least.scenario, teflon.least.scenario) == ("full_dup", "shared_context")
    assert (rknn.waits, teflon.waits, teflon.least_at_once.scenario) == (
        False,
        True,
        "no_reuse_one_model",
    )


def test_differences_of_components_add_up(tmp_path: Path) -> None:
    """Biases are with the weights in Rockchip's files, and count as nothing there."""
    both_stacks(tmp_path)
    (pair,) = side_by_side(groups_of(tmp_path))
    first, second = (layout_sizes(stack.least) for stack in pair.stacks)
    sizes = differences_of(first, second)
    whole = sizes.pop(TOTAL)
    sizes.pop("application")
    assert sizes["biases"] is not None
    assert sizes["biases"].median == MIB
    assert whole is not None
    assert whole.median == sum(size.median for size in sizes.values() if size)


def test_weights_in_common_are_predicted_for_the_open_stack(tmp_path: Path) -> None:
    """Weights and biases of all contexts after the first are saved; nothing else is."""
    both_stacks(tmp_path)
    (pair,) = side_by_side(groups_of(tmp_path))
    rknn, teflon = pair.stacks
    assert rknn.with_shared_weights is None
    predicted = teflon.with_shared_weights
    assert predicted is not None
    assert predicted.total.median == (12 * 14 - 11 * 9) * MIB
    sizes = {name: size.median / MIB for name, size in predicted.sizes.items() if size}
    assert (sizes["weights"], sizes["biases"], sizes["internal"]) == (8, 1, 24)


def test_files_of_users_are_paired_by_their_names(tmp_path: Path) -> None:
    """A conversion has the name of its source; other names are other networks."""
    converted = Model(
        "detector INT8", "/cache/1.rknn", "c" * 64, conversion=CONVERTED, origin="d" * 64
    )
    (pair,) = pairs(tmp_path / "converted", converted, TFLITE)
    assert (pair.network, pair.has_one_source, pair.is_quantised_alike) == ("detector", True, True)
    given = Model("detector", "/models/detector.rknn", "e" * 64)
    (pair,) = pairs(tmp_path / "given", given, TFLITE)
    assert (pair.has_one_source, pair.is_quantised_alike) == (False, False)
    assert pairs(tmp_path / "other", replace(given, name="segmenter"), TFLITE) == []


def test_the_user_may_pair_files_of_other_names(tmp_path: Path) -> None:
    """A name may be given for the network of a model."""
    given = Model("yolo_v2", "/models/yolo_v2.rknn", "e" * 64)
    assert pairs(tmp_path, given, TFLITE) == []
    (pair,) = side_by_side(groups_of(tmp_path), {"yolo_v2": "detector"})
    assert pair.network == "detector"


def test_a_file_that_a_converter_quantised_is_another_one(tmp_path: Path) -> None:
    """Files of one float network have scales of their own, also if it is built in."""
    calibrated = Model(
        "detector INT8",
        *("/cache/1.rknn", "c" * 64),
        conversion=replace(CONVERTED, is_calibrated=True),
        origin="d" * 64,
    )
    (pair,) = pairs(tmp_path / "given", calibrated, TFLITE)
    assert (pair.has_one_source, pair.is_quantised_alike) == (True, False)
    (pair,) = pairs(tmp_path / "built_in")
    assert (pair.has_one_source, pair.is_quantised_alike) == (True, False)
    quantised = "net-224-seed1-int8"
    (pair,) = pairs(
        tmp_path / "quantised",
        replace(RKNN_MODEL, origin=quantised),
        replace(TEFLON_MODEL, origin=quantised),
    )
    assert (pair.network, pair.is_quantised_alike) == ("net-224", True)


def test_other_chips_are_not_paired(tmp_path: Path) -> None:
    """A chip has two stacks, not two chips one each."""
    write_run(tmp_path, rknn_results(tmp_path), 1)
    others = [changed(info, chip="rk3566") for info in teflon_results(tmp_path)]
    write_run(tmp_path, others, 2, at="2026-01-02T00:00:00")
    assert side_by_side(groups_of(tmp_path)) == []


def test_as_many_contexts_are_compared_if_there_are_any(tmp_path: Path) -> None:
    """An older run with as many contexts comes before the newest."""
    both_stacks(tmp_path)
    fewer = rknn_results(tmp_path, contexts=1)
    write_run(tmp_path, fewer, 3, at="2026-01-03T00:00:00")
    (pair,) = side_by_side(groups_of(tmp_path))
    assert [stack.contexts for stack in pair.stacks] == [12, 12]


def test_a_record_for_each_runtime_and_component(tmp_path: Path) -> None:
    """Sizes are whole bytes; only the runtime that a patch could change has predicted ones."""
    both_stacks(tmp_path)
    (pair,) = side_by_side(groups_of(tmp_path))
    records = {
        (record["runtime"], record["component"]): record for record in side_by_side_records(pair)
    }
    sizes = ("one_context_bytes", "without_reuse_bytes", "least_bytes", "shared_weights_bytes")
    assert [records["rknn", "total"][name] for name in sizes] == [
        10 * MIB,
        120 * MIB,
        54 * MIB,
        None,
    ]
    assert [records["teflon", "biases"][name] for name in sizes] == [MIB, 12 * MIB, MIB, MIB]
    assert records["rknn", "biases"]["one_context_bytes"] is None
    assert records["teflon", "application"]["one_context_bytes"] == 3 * MIB
