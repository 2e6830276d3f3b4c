"""The options and the storage of pytest-benchmark, as a session changes them."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import pytest

from reusebench.harness.benchmark_plugin import choose_board_storage, hide_latency_table
from reusebench.storage.board_storage import board_storage
from reusebench.storage.run_file import python_folder


def test_the_latency_table_is_shown_to_who_asks_for_it() -> None:
    """The table is hidden as --benchmark-quiet hides it; any option of pytest-benchmark's about it
    shows it.
    """
    for words, is_quiet in (
        (("bench/", "--benchmark-save=x"), True),
        (("--benchmark-sort=mean",), False),
        (("--benchmark-compare",), False),
        (("--benchmark-verbose",), False),
    ):
        config: Any = SimpleNamespace(
            option=argparse.Namespace(benchmark_quiet=False),
            invocation_params=SimpleNamespace(args=words),
        )
        hide_latency_table(config)
        assert config.option.benchmark_quiet is is_quiet


_COMMON = "file://./.benchmarks"


def _chosen(
    storage: object, compare: object = None, *targets: str, own: Optional[Path] = None
) -> argparse.Namespace:
    """Return pytest-benchmark's options after the choice; `own` is the folder of --storage."""
    given = argparse.Namespace(
        benchmark_storage=str(storage), benchmark_compare=compare, target=targets, storage=own
    )
    config: Any = SimpleNamespace(option=given)
    choose_board_storage(config)
    option: argparse.Namespace = config.option
    return option


def test_the_common_storage_becomes_the_boards() -> None:
    """pytest-benchmark's default is one storage for all boards; a storage that the user names
    stays.
    """
    assert _chosen(_COMMON).benchmark_storage == f"file://{board_storage()}"
    far = "ssh:root@10.0.0.2"
    assert _chosen(_COMMON, None, far).benchmark_storage == "file://.benchmarks/ssh-root-10.0.0.2"
    assert _chosen(_COMMON, None, far, "rock5b").benchmark_storage == "file://.benchmarks/fleet"
    for uri in ("file:///data/store", "/data/store"):
        assert _chosen(uri).benchmark_storage == uri


def test_our_name_of_the_storage() -> None:
    """--storage is a folder; both names at once are refused."""
    assert _chosen(_COMMON, own=Path("runs")).benchmark_storage == "file://runs"
    with pytest.raises(pytest.UsageError, match="are one thing: leave one of them out"):
        _chosen("file:///data/store", own=Path("runs"))


def test_a_storage_that_is_no_folder() -> None:
    """A storage that is no folder is refused before pytest-benchmark opens it."""
    with pytest.raises(
        pytest.UsageError, match=r"elasticsearch.*: results and traces need a folder"
    ):
        _chosen("elasticsearch+http://host/index")


@pytest.mark.parametrize(
    ("numbers", "option_value", "loaded"),
    [
        ((1, 9999, 10000), True, "10000_"),
        ((1, 2), True, "0002_"),
        ((), True, True),
        ((1, 2), "0001", "0001"),
        ((1, 2), None, None),
    ],
)
@pytest.mark.process
def test_the_run_that_benchmark_compare_alone_means(
    tmp_path: Path, numbers: tuple[int, ...], option_value: object, loaded: object
) -> None:
    """Alone it means the newest run of this Python, past 9999 too, and reads it alone; a run that
    the user names stays.
    """
    folder = tmp_path / python_folder()
    folder.mkdir()
    for number in numbers:
        (folder / f"{number:04}_x.json").touch()
    assert _chosen(f"file://{tmp_path}", option_value).benchmark_compare == loaded
