"""`reusebench bench`: the questions of the package, asked by pytest in any folder."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

import reusebench
from reusebench.system.package import PACKAGE, QUESTIONS

__all__ = ["bench"]


class _Questions:
    """A plug-in of pytest: without a file on the command line, all questions are asked."""

    def pytest_addoption(self, parser: pytest.Parser) -> None:
        """Have errors name the command."""
        parser.prog = "reusebench bench"

    def pytest_configure(self, config: pytest.Config) -> None:
        """Ask every question if no file is named."""
        if config.args_source is not config.ArgsSource.ARGS:
            config.args[:] = [str(QUESTIONS)]


@click.command(
    context_settings={
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
        "help_option_names": [],
    },
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> int:
    """Measure: `pytest bench/` in any folder, with all of its options.

    Arguments are pytest's: options, and files of questions such as test_leaks.py.
    """
    return int(
        pytest.main([*_settings(), *map(_question, arguments)], plugins=[_Questions(), reusebench])
    )


def _settings() -> list[str]:
    """Return the options that make a session the same in every folder: nothing of a folder is read
    or imported.
    """
    return [
        *("-c", os.devnull, "--noconftest"),
        # Names of tests begin at the package: "bench/test_dup.py::...".
        *("--rootdir", str(PACKAGE)),
        *("-o", f"cache_dir={Path.cwd() / '.pytest_cache'}"),
        *("--import-mode=importlib", "--strict-markers", "--no-header", "-ra"),
    ]


def _question(argument: str) -> str:
    """Return the path of a question for its file's name, with or without `bench/`; other arguments
    as they are.
    """
    path, separator, test = argument.partition("::")
    question = QUESTIONS / path.removeprefix("bench/")
    if argument.startswith("-") or Path(path).exists() or not question.exists():
        return argument
    return f"{question}{separator}{test}"
