"""`reusebench bench`: pytest with the package's questions, in any folder."""

from __future__ import annotations

import argparse
import os
import textwrap
from pathlib import Path

import click
import pytest

import reusebench
from reusebench.harness import all_questions
from reusebench.harness.bench_options import declare_options
from reusebench.harness.errors import UserError
from reusebench.system.option_names import nearest
from reusebench.system.package import PACKAGE, QUESTIONS

__all__ = ["bench"]

_ABOUT = """\
Measure what reuse between contexts saves, here or on a board. Without FILE all
questions are asked; FILE is one of them, or tests of your own:
"""
_PYTEST = """\
Options of pytest work too, `pytest --help` lists them: -k NAME (scenarios of
this name), --collect-only (list them), -x (stop at the first failure),
--junitxml FILE, --benchmark-save NAME (a name for this run).
"""
#: Columns of the help: a terminal's usual width, less than what argparse would take.
_WIDTH = 80
#: Column of the explanations.
_EXPLANATIONS = 24


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
    """Measure what reuse between contexts saves, here or on a board.

    Arguments are pytest's: options, and files of questions such as test_leaks.py.
    """
    if {"-h", "--help"}.intersection(arguments):
        click.echo(_help().rstrip())
        return 0
    tests = map(_question, arguments)
    return int(pytest.main([*_settings(), *tests]))


def _help() -> str:
    """Return the help of our options alone: pytest's are ten times as many."""
    questions = ", ".join(_question_names())
    about = textwrap.fill(questions, _WIDTH, initial_indent="  ", subsequent_indent="  ")

    class Formatter(argparse.RawDescriptionHelpFormatter):
        """Lines of _WIDTH."""

        def __init__(self, prog: str) -> None:
            super().__init__(prog, max_help_position=_EXPLANATIONS, width=_WIDTH)

    parser = argparse.ArgumentParser(
        prog="reusebench bench",
        usage="%(prog)s [OPTIONS] [FILE...]",
        description=f"{_ABOUT}{about}",
        epilog=_PYTEST,
        formatter_class=Formatter,
        add_help=False,
    )
    declare_options(lambda title: parser.add_argument_group(title).add_argument)
    return parser.format_help()


def _settings() -> list[str]:
    """Return the options that make pytest read and import nothing of the working folder."""
    return [
        *("-c", os.devnull, "--noconftest"),
        # By name, as the workers of pytest-xdist get them; this process has imported them already.
        *("-p", reusebench.__name__, "-p", all_questions.__name__),
        *("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"),
        # Names of tests begin at the package: "bench/test_dup.py::...".
        *("--rootdir", str(PACKAGE)),
        *("-o", f"cache_dir={Path.cwd() / '.pytest_cache'}"),
        *("--import-mode=importlib", "--strict-markers", "--no-header", "-ra"),
    ]


def _question(argument: str) -> str:
    """Return the path of a question named by its file; other arguments stay as they are.

    Raises UserError for a name that is nearly that of a question.
    """
    path, separator, test = argument.partition("::")
    name = path.removeprefix("bench/")
    question = QUESTIONS / name
    if argument.startswith("-") or Path(path).exists():
        return argument
    if question.exists():
        return f"{question}{separator}{test}"
    near = nearest(name, _question_names()) if name.endswith(".py") else None
    if near:
        raise UserError(f"there is no file {path}; the nearest question is {near}")
    return argument


def _question_names() -> list[str]:
    return sorted(file.name for file in QUESTIONS.glob("test_*.py"))
