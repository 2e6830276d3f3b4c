"""Commands that the pages show: their subcommands and options exist, by the names of today."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from reusebench.commands import main
from reusebench.harness.bench_options import declare_options
from reusebench.system.option_names import BENCH, FORMER_NAMES, renamed
from tests.helpers.support import CHECKOUT

_PAGES = [*sorted(CHECKOUT.glob("README*.md")), *sorted((CHECKOUT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```.*?^```$|^    [^\n]*$", re.MULTILINE | re.DOTALL)
_IN_BLOCK = re.compile(r"^ *(?:\$ )?((?:reusebench|pytest bench/) .*)$", re.MULTILINE)
_IN_TEXT = re.compile(r"`((?:reusebench|pytest bench/) [^`\n]+)`")
#: What the reader puts there has capitals, or dots.
_NO_COMMAND = re.compile(r"(reusebench|pytest bench/) ([A-Z.{<])")
#: Options of pytest, and of pytest-benchmark, that pages use.
_OF_PYTEST = {"-k", "-x", "-n", "-p", "-q", "--help", "--collect-only", "--junitxml"}
_OF_BENCHMARK = "--benchmark-"
#: The command ends there, for the shell.
_ENDS = {"|", "||", "&&", "&", ">", ">>", ";"}


def _commands(page: Path) -> Iterator[str]:
    """Yield the commands of a page, each in one line, without comments."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = "\n".join(_BLOCK.findall(text))
    for command in [*_IN_BLOCK.findall(blocks), *_IN_TEXT.findall(_BLOCK.sub("", text))]:
        if not _NO_COMMAND.match(command):
            yield command.partition(" #")[0]


def _words(command: str) -> list[str]:
    """Return the words after the program's name, up to the end of the command for the shell."""
    words = shlex.split(command.replace("pytest bench/", "reusebench bench", 1))[1:]
    ends = [place for place, word in enumerate(words) if word in _ENDS]
    return words[: ends[0]] if ends else words


def _problem(command: str) -> str | None:
    """Return the mistake of the command; None if it has none."""
    words = _words(command)
    if words[0] == BENCH:
        return _problem_of_bench(words[1:])
    former = renamed(words)[1]
    if former:
        return former[0].hint
    context = click.Context(main, info_name="reusebench")
    here: click.Command = main
    while isinstance(here, click.Group):
        if not words or words[0].startswith("-"):
            break
        found = here.get_command(context, words[0])
        if found is None:
            return f"no command {words[0]}"
        here, words = found, words[1:]
        context = click.Context(here, parent=context, info_name=words[0] if words else "")
    try:
        here.make_parser(context).parse_args(list(words))
    except click.BadOptionUsage:
        return None  # a paragraph names an option without its value
    except click.UsageError as error:
        return error.format_message()
    return None


def _problem_of_bench(words: list[str]) -> str | None:
    former = {row.former for row in FORMER_NAMES if row.command == BENCH}
    for word in words:
        option = word.partition("=")[0]
        if option in former:
            return f"{option} is a former name"
        known = option in _OF_PYTEST or option in _options_of_bench()
        if option.startswith("-") and not known and not option.startswith(_OF_BENCHMARK):
            return f"no option {option}"
    return None


def _options_of_bench() -> set[str]:
    parser = argparse.ArgumentParser()
    declare_options(lambda title: parser.add_argument_group(title).add_argument)
    return set(parser._option_string_actions)


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.relative_to(CHECKOUT).as_posix())
def test_commands_of_the_page_exist(page: Path) -> None:
    """Each command that a page shows has a subcommand and options that there are."""
    problems = {command: _problem(command) for command in _commands(page)}
    assert {command: problem for command, problem in problems.items() if problem} == {}


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("reusebench runs list --newest 20", None),
        ("reusebench runs list --limit 20", "--limit is now --newest"),
        ("reusebench nothing", "no command nothing"),
        ("reusebench fit --limt 64MiB", "No such option"),
        ("pytest bench/ --quick -k test_dup --benchmark-save=a > log.txt", None),
        ("pytest bench/ --memory-fail npu_memory:0", "--memory-fail is a former name"),
        ("reusebench bench --quik", "no option --quik"),
    ],
)
def test_a_wrong_command_is_noticed(command: str, problem: str | None) -> None:
    """A subcommand or an option that does not exist is found, and a former name."""
    found = _problem(command)
    assert found == problem if problem is None else found is not None and problem in found
