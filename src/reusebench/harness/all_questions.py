"""The plug-in of `reusebench bench`: all questions are asked if the command line names no file.

It is loaded by its name, so that the workers of pytest-xdist load it too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reusebench.system.package import QUESTIONS

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let error messages name the command."""
    parser.prog = "reusebench bench"


def pytest_configure(config: pytest.Config) -> None:
    """Ask every question if no file is named."""
    if config.args_source is not config.ArgsSource.ARGS:
        config.args[:] = [str(QUESTIONS)]
