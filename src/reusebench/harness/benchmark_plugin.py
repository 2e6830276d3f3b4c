"""The options, the storage and the fixture of pytest-benchmark, as this package needs them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from reusebench.harness.errors import UserError
from reusebench.harness.former_names import Add
from reusebench.harness.selection import default_storage
from reusebench.storage.run_file import python_folder, run_number
from reusebench.targets.errors import TargetError

__all__ = [
    "add_storage_option",
    "benchmark_plugin",
    "choose_board_storage",
    "enable_beside_workers",
    "hide_latency_table",
    "saves_runs",
    "show_latency_table",
    "storage_folder",
    "use_up",
    "writable",
]

_FILE_SCHEME = "file://"
#: pytest-benchmark's default of --benchmark-storage, which is one for all boards.
_COMMON_STORAGE = f"{_FILE_SCHEME}./.benchmarks"
#: pytest-benchmark's options of its table, and of figures that are made with it.
_TABLE_OPTIONS = (
    "--benchmark-columns",
    "--benchmark-compare",
    "--benchmark-cprofile",
    "--benchmark-group-by",
    "--benchmark-histogram",
    "--benchmark-name",
    "--benchmark-sort",
    "--benchmark-time-unit",
    "--benchmark-verbose",
)


def add_storage_option(add: Add) -> None:
    """Declare the option, which is --benchmark-storage for people: a folder in place of a URI."""
    add(
        "--storage",
        metavar="DIR",
        type=Path,
        help="Folder of the results. Default: .benchmarks/BOARD.",
    )


def benchmark_plugin(config: pytest.Config) -> Any:
    """Return pytest-benchmark's session."""
    return config.pluginmanager.getplugin("pytest-benchmark")


def enable_beside_workers(config: pytest.Config) -> None:
    """Undo that pytest-benchmark switches itself off as soon as pytest-xdist has workers.

    Each worker measures on a board of its own.
    """
    benchmarks = benchmark_plugin(config)
    option = config.option
    benchmarks.disabled = option.benchmark_disable and not option.benchmark_enable
    benchmarks.xdist_warning = False


def saves_runs(config: pytest.Config) -> bool:
    """Whether results are stored: not under --benchmark-disable and --benchmark-skip."""
    benchmarks = benchmark_plugin(config)
    return not (benchmarks.disabled or benchmarks.skip)


def use_up(benchmark: Any) -> None:
    """Have the fixture count as used, without statistics: a disabled one does."""
    benchmark.disabled = True
    benchmark.pedantic(lambda: None)


def hide_latency_table(config: pytest.Config) -> bool:
    """Do as --benchmark-quiet does, unless the user gave an option of pytest-benchmark's table.

    The table would bury the results: it is several screens long, and has latencies alone. It is in
    the report, and --benchmark-verbose shows it.
    """
    if config.option.benchmark_quiet:
        return False
    if any(word.startswith(_TABLE_OPTIONS) for word in config.invocation_params.args):
        return False
    config.option.benchmark_quiet = True
    return True


def show_latency_table(config: pytest.Config) -> None:
    """Undo hide_latency_table, for a session with benchmarks that are not ours."""
    benchmark_plugin(config).quiet = False


def choose_board_storage(config: pytest.Config) -> None:
    """Let each board have its own storage, unless the user has chosen one, which must be a folder.

    --benchmark-compare alone becomes the number of the newest run: pytest-benchmark would read all
    runs for it, and know none past 9999.
    """
    option = config.option
    try:
        if option.benchmark_storage == _COMMON_STORAGE:
            folder = option.storage or default_storage(option)
            option.benchmark_storage = f"{_FILE_SCHEME}{folder}"
        elif option.storage:
            raise UserError(
                "--storage and --benchmark-storage are one thing: leave one of them out"
            )
        storage = storage_folder(config)
    except (TargetError, UserError) as error:
        # Otherwise pytest-benchmark would open it next and show a traceback.
        raise pytest.UsageError(str(error)) from None
    if option.benchmark_compare is True:
        runs = (storage / python_folder()).glob("*.json")
        newest = max((run_number(path) or 0 for path in runs), default=0)
        if newest:
            option.benchmark_compare = f"{newest:04}_"


def storage_folder(config: pytest.Config) -> Path:
    """Return the folder of --benchmark-storage; raise UserError if it is not a folder."""
    uri = config.option.benchmark_storage
    scheme, separator, path = uri.rpartition("://")
    if separator and f"{scheme}{separator}" != _FILE_SCHEME:
        raise UserError(
            f"--benchmark-storage {uri}: results and traces need a folder; valid: file://PATH or a"
            " path"
        )
    return Path(path)


def writable(folder: Path) -> Path:
    """Return the folder, made if it is missing; raise UserError if nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise UserError(
            f"the storage {folder} cannot be written ({error.strerror}). Choose another:"
            " --storage DIR"
        ) from None
