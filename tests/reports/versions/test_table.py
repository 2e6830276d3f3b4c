"""Tables, records and the figure of versions."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from reusebench.reports.base.texts import texts_of
from reusebench.reports.results.colours import COMPONENT_COLOURS
from reusebench.reports.versions.figure import versions_figure
from reusebench.reports.versions.rendering import as_csv, as_documents, as_markdown, as_text
from reusebench.reports.versions.table import (
    VERSION_COLUMNS,
    VERSION_METRICS,
    component_table,
    version_table,
)
from reusebench.reports.versions.versions import VersionSet
from tests.reports.stored import changed, even, result
from tests.reports.versions.stored_versions import (
    MORE_BYTES,
    NEW,
    OLD,
    of_version,
    store_versions,
    three_versions,
    version_set,
)

ENGLISH = texts_of("en")


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> VersionSet:
    """Return a set of three versions."""
    return version_set(three_versions(tmp_path_factory.mktemp("versions")))


def test_npu_memory_by_version(versions: VersionSet) -> None:
    """The table has a row per scenario and a column per version, or the outcome of a failure."""
    table = version_table(versions, VERSION_METRICS[0], ENGLISH)
    assert table
    assert table.heads == ["Scenario", "1.5.2 (aarch64)", "1.6.0 (armhf)", "2.3.2 (aarch64)"]
    assert [cells for _, cells in table.rows] == [
        ["No reuse, one model", "120.00", "120.00", "120.00"],
        ["Full dup", "crashed", "54.00", "54.73"],
    ]


def test_only_components_that_differ_have_a_row(versions: VersionSet, tmp_path: Path) -> None:
    """Only components that differ have rows, in bytes; without any there is no table."""
    table = component_table(versions, ENGLISH)
    assert table
    old_bytes = 12 * 2**20
    assert [cells for _, cells in table.rows] == [
        ["Full dup", "Register commands", "-", f"{old_bytes:,}", f"{old_bytes + 11 * MORE_BYTES:,}"]
    ]
    same = store_versions(tmp_path, of_version(tmp_path, OLD), of_version(tmp_path, NEW))
    assert component_table(version_set(same), ENGLISH) is None


def test_forms(versions: VersionSet) -> None:
    """The terminal and Markdown have tables and sentences; CSV and JSON a record for each figure
    and component.
    """
    for text in (as_text([versions], VERSION_METRICS), as_markdown([versions], VERSION_METRICS)):
        assert "npu_memory, MiB" in text
        assert "application_memory_over_baseline, MiB" in text
        assert "Each dup takes 69,632 bytes more in register commands." in text
    records = list(csv.DictReader(io.StringIO(as_csv([versions], VERSION_METRICS))))
    assert tuple(records[0]) == VERSION_COLUMNS
    registers = [
        (record["version"], record["architecture"], int(record["median"]))
        for record in records
        if (record["name"], record["component"]) == ("full_dup", "register_commands")
    ]
    assert registers == [(OLD, "armhf", 12 * 2**20), (NEW, "aarch64", 12 * 2**20 + 11 * MORE_BYTES)]
    assert [record["outcome"] for record in records if not record["metric"]] == ["crashed"]
    (document,) = as_documents([versions], VERSION_METRICS)
    assert [one["architecture"] for one in document["versions"]] == ["aarch64", "armhf", "aarch64"]
    assert len(document["changes"]) == 2
    assert len(document["rows"]) == len(records)


def test_the_figure(versions: VersionSet) -> None:
    """The figure has a lane per measured version, with its components and their sum."""
    svg = versions_figure(versions, ENGLISH)
    assert svg
    for text in ("Full dup", "1.6.0", "54.00", "54.73", "NPU memory, MiB", "Register commands"):
        assert f">{text}<" in svg
    # One scenario failed in it.
    assert svg.count(">1.5.2<") == 1
    assert svg.count(">2.3.2<") == 2
    assert COMPONENT_COLOURS["register_commands"] in svg


def test_a_runtime_without_an_npu(tmp_path: Path) -> None:
    """Without an NPU, tables and the figure have application memory."""
    infos = [result(tmp_path, "no_reuse", even(mib)) for mib in (10, 20)]
    storage = store_versions(
        tmp_path,
        *(
            [changed(info, runtime_version=version)]
            for info, version in zip(infos, ("1.30.0", "1.31.0"))
        ),
    )
    versions = version_set(storage)
    assert version_table(versions, VERSION_METRICS[0], ENGLISH) is None
    assert version_table(versions, VERSION_METRICS[1], ENGLISH)
    svg = versions_figure(versions, ENGLISH)
    assert svg
    assert ">application memory, MiB<" in svg
