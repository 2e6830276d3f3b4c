"""The figures of `python -m benchmarks.silicon`, and how they are compared."""

from __future__ import annotations

import re

import pytest

from benchmarks.silicon import Published, compared, published, sizes_as_published
from reusebench.targets.chips import CHIPS

#: A context of librknnrt, in requested bytes.
_SIZES = {
    "task_list": 14_080,
    "weights": 3_697_472,
    "register_commands": 349_568,
    "task_list_copy": 14_080,
    "internal": 1_605_632,
    "input": 150_528,
    "output": 1_024,
}


def _figure(part: str, size: str, unit: str) -> Published:
    return Published("rk3588", "librknnrt 2.3.0", "model", "", part, size, unit, "source")


def test_every_figure_has_its_source() -> None:
    """Each names a chip, a part, a number and an address; none stands there twice."""
    figures = published()
    assert {figure.chip for figure in figures} <= set(CHIPS)
    known = {*sizes_as_published(_SIZES, "librknnrt")}
    seen = set()
    for figure in figures:
        assert figure.part in known, figure
        assert figure.unit in ("bytes", "pages", "KiB", "MiB"), figure
        assert float(figure.size) > 0, figure
        assert figure.source.startswith("https://"), figure
        assert re.fullmatch(r"|[0-9a-f]{64}", figure.sha256), figure
        seen.add((figure.chip, figure.model, figure.part))
    assert len(seen) == len(figures) > 100


@pytest.mark.parametrize(
    ("part", "size", "unit"),
    [
        ("weights", "3697472", "bytes"),
        ("weights_buffer", "4061120", "bytes"),
        ("weights_buffer", "4063232", "pages"),
        ("register_commands", "349568", "bytes"),
        ("rest", "373.19", "KiB"),
        ("total", "5.42", "MiB"),
    ],
)
def test_sizes_are_compared_as_they_were_printed(part: str, size: str, unit: str) -> None:
    """By the byte, in whole pages, or with two decimals; a byte more shows."""
    figure = _figure(part, size, unit)
    assert compared(figure, sizes_as_published(_SIZES, "librknnrt")) == size
    larger = {name: size + 16 * 4096 for name, size in _SIZES.items()}
    assert compared(figure, sizes_as_published(larger, "librknnrt")) != size


def test_one_buffer_of_the_mini_runtime() -> None:
    """Its internal tensors are in the buffer with the weights."""
    sizes = {"task_list": 2_752, "weights": 8_000, "register_commands": 192, "internal": 4_096}
    as_published = sizes_as_published(sizes, "librknnmrt")
    assert compared(_figure("weights_buffer", "", "pages"), as_published) == "12288"
    assert as_published["total"] == 4_096 + 12_288


def test_a_part_that_is_not_there() -> None:
    """It is no size, and so differs from each."""
    assert compared(_figure("internal", "896", "bytes"), {"weights": 1}) == ""
