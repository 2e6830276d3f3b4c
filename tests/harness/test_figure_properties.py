"""Figures as properties of a test."""

from __future__ import annotations

from pathlib import Path

from reusebench.harness.figure_properties import figure_properties
from tests.reports.stored import MIB, dup, even, npu_account, result


def test_figures_have_their_units_in_their_names(tmp_path: Path) -> None:
    """Each figure that was measured is there, as the median over the repeats."""
    properties = dict(figure_properties(result(tmp_path, "no_reuse_one_model", even(40)), None))
    assert properties["application_memory_bytes"] == 510 * MIB
    assert {"latency_ns", "throughput_per_s", "system_memory_bytes"} <= properties.keys()
    assert "npu_memory_bytes" not in properties
    assert "saved_percent" not in properties


def test_the_saving_is_that_of_the_main_memory(tmp_path: Path) -> None:
    """It is of application memory, or of NPU memory if that is known of both."""
    base = result(tmp_path, "no_reuse_one_model", even(40))
    own = result(tmp_path, "full_dup", dup(40, 10))
    properties = dict(figure_properties(own, base))
    assert properties["saved_bytes"] == 330 * MIB
    assert properties["saved_percent"] == 64.7
    on_npu = result(tmp_path, "full_dup", dup(40, 10), npu=npu_account, computes=False)
    assert "npu_memory_bytes" in dict(figure_properties(on_npu, None))
    assert "saved_bytes" not in dict(figure_properties(on_npu, base))
