"""Gate limits and sizes as users write them."""

from __future__ import annotations

import argparse

import pytest

from reusebench.storage.limits import LimitInvalid, parse_limit, parse_size

MIB = 2**20


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("application_memory:2%+512KiB", 2 * MIB + 512 * 1024),
        ("application_memory:512KiB + 2%", 2 * MIB + 512 * 1024),
        ("application_memory:2%", 2 * MIB),
        ("application_memory:1.5MiB", 1.5 * MIB),
        ("npu_memory:0", 0),
        ("latency:10%+1ms", 10 * MIB + 1_000_000),
        ("throughput:5%", 5 * MIB),
    ],
)
def test_share_and_amount_add_up(text: str, allowed: float) -> None:
    """A limit is a share of the base's figure plus an amount in the metric's unit."""
    assert parse_limit(text).allowed(100 * MIB) == pytest.approx(allowed)


def test_a_share_of_a_negative_figure_allows_something() -> None:
    """Residue after destroy may be negative; a share of it is still positive."""
    assert parse_limit("residue_memory:10%").allowed(-10 * MIB) == MIB


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("application_memory", "no colon"),
        ("memory:2%", "there is no metric 'memory'; the nearest is npu_memory, and"),
        ("application_memory:", "'' is not a number with a unit"),
        ("application_memory:2%+", "'' is not a number with a unit"),
        ("application_memory:-2%", "'-2%' is not a number with a unit"),
        (
            "application_memory:512",
            "512 of application_memory needs a unit; valid: B, KiB, MiB, GiB, %",
        ),
        (
            "application_memory:5ms",
            "5ms of application_memory needs a unit; valid: B, KiB, MiB, GiB, %",
        ),
        ("throughput:5MiB", "valid: %"),
    ],
)
def test_what_is_no_limit(text: str, message: str) -> None:
    """An invalid limit is refused with the reason and the valid form."""
    with pytest.raises(LimitInvalid) as error:
        parse_limit(text)
    assert message in str(error.value)
    assert "METRIC:PERCENT%+AMOUNT" in str(error.value)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("512MiB", 512 * MIB), ("1.5GiB", 1536 * MIB), ("64 KiB", 65536), ("7B", 7)],
)
def test_a_size(text: str, size_bytes: int) -> None:
    """A size is a number with a unit of memory."""
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["512", "512MB", "-1MiB", "0GiB", "5ms", "5%", "MiB", ""])
def test_what_is_no_size(text: str) -> None:
    """A size without a unit of memory, or below one byte, is refused with the valid form."""
    with pytest.raises(
        argparse.ArgumentTypeError,
        match="not a size; valid: a number with B, KiB, MiB, GiB, as 512MiB",
    ):
        parse_size(text)
