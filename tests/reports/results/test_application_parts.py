from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from reports.base.texts import texts_of
from reports.results.memory import page_memory
from reports.sections.tables import parts
from tests.reports.stored import FAILED, IMPORTED, MIB, even, group_of, result, with_steady

ENGLISH = texts_of("en")


def test_parts_are_what_grew_since_the_import(tmp_path: Path) -> None:
    """Anonymous memory, file mappings and shared memory are each taken over their value at the import."""
    info = result(tmp_path, "no_reuse", even(3))
    info = with_steady(info, lambda place, steady: replace(steady, pss_file_bytes=IMPORTED - (place + 1) * MIB))
    found = page_memory(group_of(tmp_path, info).rows[0])
    assert found is not None
    medians = {name: figure.median / MIB for name, figure in found.over.items()}
    assert medians == {"anonymous": 36, "file": -2, "shared": 0}
    assert found.over["file"].spread == MIB
    assert (found.baseline.median, found.total.median) == (IMPORTED, IMPORTED + 36 * MIB)


def test_old_kernels_do_not_tell_parts_apart(tmp_path: Path) -> None:
    """Where the kernel does not say of what kind a page is, there is no table of them."""
    info = result(tmp_path, "no_reuse", even(3))
    rows = group_of(tmp_path, with_steady(info, lambda _, steady: replace(steady, pss_anon_bytes=None))).rows
    found = page_memory(rows[0])
    assert found is not None
    assert found.over == {}
    assert parts(rows, ENGLISH) is None


def test_a_failure_has_no_parts(tmp_path: Path) -> None:
    """A configuration that was not measured has no row, and a group of such no table."""
    rows = group_of(tmp_path, result(tmp_path, "no_reuse", [], failure=FAILED)).rows
    assert page_memory(rows[0]) is None
    assert parts(rows, ENGLISH) is None
