"""The section of operators on the NPU and on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.measured.runtimes.base import Placement
from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.results.placements import placed_models, placement_records
from reusebench.reports.sections.placement import crossing_sentence, placement_table
from tests.reports.pages import page, readable, section, sections
from tests.reports.stored import MIB, group_of, write_run
from tests.reports.stored_stacks import teflon_results

ENGLISH = texts_of("en")


def test_a_row_for_each_model(tmp_path: Path) -> None:
    """Operators are counted by device and named; crossing is a share of input and output."""
    models = placed_models(group_of(tmp_path, *teflon_results(tmp_path)))
    ((_, cells),) = placement_table(models, ENGLISH).rows
    assert cells[1:] == ["12", "1", "2", "0.50", "2.00", "25.0", "SOFTMAX", "CONV_2D (10); ADD (2)"]
    assert "Tensors of 0.50 MiB cross" in crossing_sentence(models[0], ENGLISH)


@pytest.mark.parametrize(
    ("placement", "key"),
    [
        (Placement({"CONV_2D": 3}, {}, 1, 0), "placement_all_npu"),
        (Placement({}, {"CONV_2D": 3}, 0, 0), "placement_all_cpu"),
    ],
)
def test_a_model_on_one_device_crosses_nothing(
    tmp_path: Path, placement: Placement, key: str
) -> None:
    """The sentence says which device runs all of it."""
    (model,) = placed_models(group_of(tmp_path, *teflon_results(tmp_path, placement=placement)))
    expected = ENGLISH(key, model=model.name, partitions=placement.partitions)
    assert crossing_sentence(model, ENGLISH) == expected


def test_records_have_whole_numbers(tmp_path: Path) -> None:
    """Names have their numbers, the most frequent first."""
    (record,) = placement_records(group_of(tmp_path, *teflon_results(tmp_path)))
    assert (record["crossing_bytes"], record["io_bytes"]) == (MIB // 2, 2 * MIB)
    assert (record["npu_names"], record["cpu_names"]) == ("CONV_2D=10 ADD=2", "SOFTMAX=1")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_has_the_section_if_operators_are_known(tmp_path: Path, language: str) -> None:
    """Runs without placements have none."""
    write_run(tmp_path / "placed", teflon_results(tmp_path / "placed"))
    words = readable(section(page(tmp_path / "placed", tmp_path / "out", language), "placement"))
    assert texts_of(language)("column_crossing") in words
    write_run(tmp_path / "none", teflon_results(tmp_path / "none", placement=None))
    assert "placement" not in sections(page(tmp_path / "none", tmp_path / "out"))
