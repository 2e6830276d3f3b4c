"""The runtimes that are compared with each other, and the best of their layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from reusebench.measured.plan import Model
from reusebench.reports.results.agreement import AGREES, DIFFERS
from reusebench.reports.results.runtime_comparison import RuntimeComparison, runtime_comparison
from reusebench.storage.savings import APPLICATION, NPU
from tests.reports.stored import (
    MakeAccount,
    changed,
    dup,
    even,
    groups_of,
    npu_account,
    result,
    with_speed,
    write_run,
)

MODEL = Model("net-224-seed1-v1", "/models/net.onnx", "a" * 64, origin="net-224-seed1")


def of_runtime(
    storage: Path,
    runtime: str,
    number: int,
    dup_mib: float,
    rates: Sequence[float] = (20, 20),
    model: Model = MODEL,
    output: float = 1.0,
    npu: MakeAccount | None = None,
    computes: bool = True,
    idle_cpu_percent: float = 1.0,
) -> None:
    """Write a run of two layouts of 12 contexts: no reuse with 40 MiB each, and full dup."""
    digest = f"{number:08x}"
    infos = []
    for name, costs, per_s in zip(
        ("no_reuse_one_model", "full_dup"), (even(40, spread=0.1), dup(40, dup_mib)), rates
    ):
        info = result(
            *(storage, name, costs),
            models=[model],
            digest=digest,
            samples=((output, 0.5),),
            run=runtime,
            npu=npu,
            computes=computes,
            idle_cpu_percent=idle_cpu_percent,
        )
        info = with_speed(info, throughput_per_s=[per_s] * 3) if computes else info
        infos.append(changed(info, runtime=runtime))
    write_run(storage, infos, number, at=f"2026-01-0{number}T00:00:00")


def compared(storage: Path) -> RuntimeComparison:
    comparison = runtime_comparison(groups_of(storage))
    assert comparison is not None
    return comparison


def test_groups_with_files_of_one_origin_are_compared(tmp_path: Path) -> None:
    """The least memory comes first; the reference is the first runtime in the list, old or new."""
    of_runtime(tmp_path, "onnxruntime", 1, 10)
    of_runtime(
        tmp_path,
        "megengine_lite",
        2,
        5,
        model=replace(MODEL, name="other", digest="b" * 64),
        output=1.0001,
    )
    first, second = compared(tmp_path).of_memory(APPLICATION)
    assert (first.group.info.runtime, second.group.info.runtime) == (
        "megengine_lite",
        "onnxruntime",
    )
    assert (first.number, second.number) == (0, 1)
    assert (first.is_reference, second.is_reference, second.agreement) == (False, True, None)
    assert first.agreement is not None
    assert first.agreement.verdict == AGREES


def test_old_results_are_compared_by_their_names(tmp_path: Path) -> None:
    """Without an origin a built-in model is known by network, size and seed, whatever made the
    file.
    """
    of_runtime(tmp_path, "onnxruntime", 1, 10, model=replace(MODEL, origin=None))
    other = replace(MODEL, name="net-224-seed1-megengine1.13.0-v1.1", digest="b" * 64, origin=None)
    of_runtime(tmp_path, "megengine_lite", 2, 5, model=other)
    assert len(compared(tmp_path).members) == 2
    of_runtime(tmp_path / "b", "onnxruntime", 1, 10, model=replace(MODEL, origin=None))
    of_runtime(tmp_path / "b", "megengine_lite", 2, 5, model=replace(other, name="net-96-seed1-v1"))
    assert runtime_comparison(groups_of(tmp_path / "b")) is None


def test_one_group_is_compared_with_nothing(tmp_path: Path) -> None:
    """Two groups are not compared either if one ran a single layout."""
    of_runtime(tmp_path, "onnxruntime", 1, 10)
    assert runtime_comparison(groups_of(tmp_path)) is None
    info = result(tmp_path, "no_reuse_one_model", even(40), models=[MODEL])
    write_run(tmp_path, [changed(info, runtime="megengine_lite")], 2)
    assert runtime_comparison(groups_of(tmp_path)) is None


def test_the_contexts_that_most_groups_ran_are_compared(tmp_path: Path) -> None:
    """The saving of another set of contexts, which one group ran, does not matter."""
    for number, runtime in enumerate(("onnxruntime", "megengine_lite"), start=1):
        of_runtime(tmp_path, runtime, number, 10)
        infos = [
            result(
                tmp_path,
                name,
                even(size),
                models=[replace(MODEL, digest="c" * 64, origin=f"only-{runtime}")],
            )
            for name, size in (("no_reuse_one_model", 40), ("full_dup", 1))
        ]
        write_run(tmp_path, [changed(info, runtime=runtime) for info in infos], number + 2)
    members = compared(tmp_path).members
    assert {member.recommendation.without_reuse.info.models[0].digest for member in members} == {
        "a" * 64
    }


def test_the_frontier_has_what_none_is_better_than(tmp_path: Path) -> None:
    """Each point takes more memory and is faster than the one before, over all runtimes."""
    of_runtime(tmp_path, "onnxruntime", 1, 10, rates=(30, 20))
    of_runtime(tmp_path, "megengine_lite", 2, 5, rates=(25, 15))
    frontier = [
        (point.member.group.info.runtime, point.row.scenario, point.rate.median)
        for point in compared(tmp_path).frontier(APPLICATION)
    ]
    assert frontier == [
        ("megengine_lite", "full_dup", 15),
        ("onnxruntime", "full_dup", 20),
        # The faster one of two with equal memory.
        ("onnxruntime", "no_reuse_one_model", 30),
    ]


def test_outputs_that_differ_are_not_on_the_frontier(tmp_path: Path) -> None:
    """A layout that calculates something else is not better; its points are drawn all the same."""
    of_runtime(tmp_path, "onnxruntime", 1, 10)
    of_runtime(tmp_path, "megengine_lite", 2, 5, rates=(50, 50), output=1.1)
    comparison = compared(tmp_path)
    other = comparison.of_memory(APPLICATION)[0]
    assert other.agreement is not None
    assert (other.agreement.verdict, other.differs) == (DIFFERS, True)
    assert {point.member.group.info.runtime for point in comparison.frontier(APPLICATION)} == {
        "onnxruntime"
    }
    assert len(comparison.points(APPLICATION)) == 4


def test_npu_memory_and_application_memory_are_apart(tmp_path: Path) -> None:
    """A group that computes nothing has no points."""
    of_runtime(tmp_path, "onnxruntime", 1, 10)
    of_runtime(tmp_path, "rknn", 2, 5, npu=npu_account, computes=False)
    comparison = compared(tmp_path)
    assert [member.group.info.runtime for member in comparison.of_memory(NPU)] == ["rknn"]
    assert (comparison.points(NPU), comparison.frontier(NPU)) == ([], [])
    assert {point.member.group.info.runtime for point in comparison.points(APPLICATION)} == {
        "onnxruntime"
    }
