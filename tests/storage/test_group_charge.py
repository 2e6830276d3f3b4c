"""The charge of a control group, over the readings and repeats of a measurement."""

from __future__ import annotations

from reusebench.samplers.readings import GroupMemory
from reusebench.storage.group_charge import charge_of, charge_words
from tests.helpers.support import known

_MIB = 2**20


def _reading(charged_mib: int, inactive_mib: int = 0) -> GroupMemory:
    return GroupMemory(
        limit_bytes=600 * _MIB,
        limit_source="/sys/fs/cgroup/memory.max",
        available_bytes=(600 - charged_mib) * _MIB,
        charged_bytes=charged_mib * _MIB,
        inactive_file_bytes=inactive_mib * _MIB,
        kernel_bytes=3 * _MIB,
    )


def test_the_most_that_docker_counts_is_told() -> None:
    """Idle page cache is charged, but not counted."""
    readings = [None, _reading(100), _reading(500, 300), _reading(412), _reading(50)]
    charge = known(charge_of(readings))
    assert charge.most.counted_bytes == 412 * _MIB
    assert charge.first_counted_bytes == 100 * _MIB


def test_without_a_limit_nothing_is_told() -> None:
    """A group without a limit is read by nobody."""
    assert charge_of([None, None]) is None
    assert charge_words([None]) is None


def test_the_words_have_the_largest_of_the_repeats() -> None:
    """Parts that the kernel does not tell have a question mark."""
    charges = [charge_of([_reading(10), _reading(200)]), None, charge_of([_reading(412)])]
    words = str(charge_words(charges))
    assert words.startswith("docker will count 412.0 MiB, 0.0 MiB more than before")
    assert "600.0 MiB (/sys/fs/cgroup/memory.max)" in words
    assert "? anonymous" in words
    assert "3.0 kernel" in words
