"""Sets of versions to compare."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from reusebench.measured.plan import Model
from reusebench.reports.material import read_material
from reusebench.reports.versions.versions import versions_of
from tests.reports.stored import as_measured, changed, even, groups_of, npu_account, result
from tests.reports.versions.stored_versions import (
    NEW,
    OLD,
    of_version,
    store_versions,
    three_versions,
    version_set,
)


def test_versions_come_by_their_numbers(tmp_path: Path) -> None:
    """Versions come oldest first, in whatever order they were measured; failures are shown."""
    versions = version_set(three_versions(tmp_path))
    assert [str(one) for one in versions.versions] == [
        "1.5.2 (aarch64)",
        "1.6.0 (armhf)",
        "2.3.2 (aarch64)",
    ]
    outcomes = {
        one.newest.scenario: [one.rows[version].outcome for version in versions.versions]
        for one in versions.configurations
    }
    assert outcomes == {
        "no_reuse_one_model": ["ok", "ok", "ok"],
        "full_dup": ["crashed", "ok", "ok"],
    }


def test_the_newest_result_of_a_version_stands(tmp_path: Path) -> None:
    """A version that was measured twice has one column."""
    runs = [of_version(tmp_path, OLD), of_version(tmp_path, NEW), of_version(tmp_path, OLD)]
    storage = store_versions(tmp_path, *runs)
    # Runs that are named are groups for themselves.
    for named in ([], ["1", "2", "3"]):
        (versions,) = versions_of(read_material([storage], named).groups)
        assert [one.name for one in versions.versions] == ["1.6.0", "2.3.2"]
        rows = versions.configurations[0].rows
        assert [rows[version].file.path.name[:4] for version in versions.versions] == [
            "0003",
            "0002",
        ]


def test_builds_of_one_version_have_names_of_their_own(tmp_path: Path) -> None:
    """Versions with one number get their architecture, or their build if that is equal too."""
    builds = [("1.6.0 (a)", "armhf"), ("1.6.0 (b)", "aarch64"), ("1.6.0 (c)", "aarch64")]
    runs = [of_version(tmp_path, *build) for build in builds]
    names = [one.name for one in version_set(store_versions(tmp_path, *runs)).versions]
    assert names == ["1.6.0 (armhf)", "1.6.0 (b)", "1.6.0 (c)"]


def test_only_what_is_alike_is_compared(tmp_path: Path) -> None:
    """Other chips, models or plans are not compared: none has two versions."""
    first = result(tmp_path, "no_reuse", even(10), npu=npu_account, computes=False)
    others = [
        changed(first, chip="rk3566"),
        changed(first, plan=replace(first.plan, rounds=77)),
        result(
            tmp_path,
            "no_reuse",
            even(10),
            npu=npu_account,
            computes=False,
            models=[Model("x", "/x", "x" * 64)] * 4,
        ),
    ]
    for number, other in enumerate(others):
        storage = store_versions(
            tmp_path / str(number), [first], [changed(other, runtime_version=NEW)]
        )
        assert versions_of(groups_of(storage)) == []
    storage = store_versions(tmp_path / "same", [first], [changed(first, runtime_version=NEW)])
    assert len(versions_of(groups_of(storage))) == 1


def test_copies_of_all_versions_are_compared_once(tmp_path: Path) -> None:
    """A copy in all versions is left out; one measured in a version is compared by its name."""
    stored = {version: of_version(tmp_path, version) for version in (OLD, NEW)}
    copies = {version: as_measured(infos[1], "lean_weights") for version, infos in stored.items()}
    both = store_versions(
        tmp_path / "both", *([*infos, copies[version]] for version, infos in stored.items())
    )
    assert [one.newest.scenario for one in version_set(both).configurations] == [
        "no_reuse_one_model",
        "full_dup",
    ]
    own = changed(copies[OLD], measured_as=None)
    one = store_versions(tmp_path / "one", [*stored[OLD], own], [*stored[NEW], copies[NEW]])
    names = [one.newest.scenario for one in version_set(one).configurations]
    assert sorted(names) == ["full_dup", "lean_weights", "no_reuse_one_model"]
