"""Stored runs that tests only read, and a report; each is made once per session."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from reusebench.reports.base.texts import LANGUAGES
from reusebench.reports.material import Material, read_material
from reusebench.reports.page.index import start_figures, write_report
from reusebench.reports.results.rows import Group
from reusebench.scenarios.catalogue import scenarios_of
from tests.reports.pages import plain
from tests.reports.stored import even, full_run, groups_of, npu_run, result, write_run
from tests.reports.stored_programs import Repeat, program, trace, write_programs
from tests.reports.stored_streams import published_run


@dataclass(frozen=True)
class WrittenReport:
    """A report of runs of everything, with all figures."""

    material: Material
    #: Key: the language. The HTML is without marks of terms.
    paths: dict[str, Path]
    html: dict[str, str]


@pytest.fixture(scope="session")
def full_storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a storage of one run of the scenarios of dup on a CPU."""
    folder = tmp_path_factory.mktemp("full")
    full_run(folder)
    return folder


@pytest.fixture(scope="session")
def full_group(full_storage: Path) -> Group:
    """Return the group of that run."""
    (group,) = groups_of(full_storage)
    return group


@pytest.fixture(scope="session")
def npu_storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a storage of one run of every mechanism on a virtual board."""
    folder = tmp_path_factory.mktemp("npu")
    npu_run(folder)
    return folder


@pytest.fixture(scope="session")
def npu_group(npu_storage: Path) -> Group:
    """Return the group of that run."""
    (group,) = groups_of(npu_storage)
    return group


@pytest.fixture(scope="session")
def streams_storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a storage of one run of all scenarios of streams."""
    folder = tmp_path_factory.mktemp("streams")
    published_run(folder)
    return folder


@pytest.fixture(scope="session")
def streams_group(streams_storage: Path) -> Group:
    """Return the group of that run."""
    (group,) = groups_of(streams_storage)
    return group


@pytest.fixture(scope="session")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """Return runs on a CPU, a virtual board and an NPU, a program, and a damaged file."""
    folder = tmp_path_factory.mktemp("everything")
    full_run(folder)
    ways = scenarios_of("io_copies")
    write_run(
        folder,
        [result(folder, name, even(2 + index % 5, spread=1)) for index, name in enumerate(ways)],
        2,
    )
    published_run(folder, 3)
    npu_run(folder, 4)
    npu_run(folder, 5, computes=True)
    path = trace(folder, "pipeline", npu=True)
    repeats = [
        Repeat({"load": 12, "steady": 30}, path, npu=True),
        Repeat({"load": 14, "steady": 34}, npu=True),
    ]
    damaged = write_programs(folder, [program("pipeline", repeats)], 6).with_name("0009_bad.json")
    damaged.write_text("{", encoding="utf-8")
    return read_material([folder], None)


@pytest.fixture(scope="session")
def written(material: Material, tmp_path_factory: pytest.TempPathFactory) -> WrittenReport:
    """Return the report of that material."""
    paths = write_report(
        material,
        start_figures(material, LANGUAGES),
        tmp_path_factory.mktemp("report"),
        LANGUAGES[0],
        table_format="csv",
    )
    of_languages = dict(zip(LANGUAGES, paths))
    return WrittenReport(
        material,
        of_languages,
        {name: plain(path.read_text(encoding="utf-8")) for name, path in of_languages.items()},
    )
