"""`reusebench apply`: runs a program with the best layout, though nobody changes the program."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from reusebench.apply.executable import find_executable
from reusebench.apply.launch import run
from reusebench.apply.settings import ApplySettings
from reusebench.apply.waiting import started_environment
from reusebench.commands.reply import json_option, reply_of
from reusebench.system.package import python_command

__all__ = ["apply"]

_ENDED = "--ended"
#: That of commands/options.py, whose imports would delay the start of the program.
_PATH = click.Path(path_type=Path)


# Words after the command's first word belong to it, even if they look like options.
@click.command(
    options_metavar="[OPTIONS] -- CMD...", context_settings={"allow_interspersed_args": False}
)
@click.option(
    "--at-once",
    type=click.IntRange(1),
    metavar="N",
    help="Most runs at once of contexts that share memory. Default: cores of the NPU, or CPUs.",
)
@click.option(_ENDED, type=_PATH, hidden=True, help="The folder of its report; ours alone.")
@json_option
@click.argument("command", metavar="", nargs=-1, type=click.UNPROCESSED)
def apply(at_once: int | None, ended: Path | None, command: Sequence[str]) -> int:
    """Run a program with memory shared between its contexts: everything after -- is its command.

    It is not changed: a library is preloaded for RKNN, and Python gets hooks for ONNX Runtime,
    OpenVINO and LiteRT. Its input, output and exit code are passed through. At its end standard
    error tells what was shared, and what was left alone and why.
    """
    if ended:
        return _show(ended, command[:-1], command[-1])
    if not command:
        raise click.UsageError("there is no program: put it after --")
    is_json = reply_of().is_json
    after = python_command("reusebench", "apply", *["--json"] * is_json, _ENDED)
    return run(command, ApplySettings(at_once=at_once), after, is_json, _notice)


def _show(folder: Path, command: Sequence[str], outcome_word: str) -> int:
    """Show the reports in the folder, which is removed; return the program's exit code."""
    # Not at the top: what starts the program does not need them.
    from reusebench.apply.outcome import Outcome
    from reusebench.apply.report import take_reports
    from reusebench.apply.summary import remarks, report_lines
    from reusebench.commands.results import ApplyResult

    environment = started_environment()
    reports = take_reports(folder, environment)
    outcome = Outcome.of(outcome_word, command[0])
    remarked = remarks(reports, find_executable(command, environment), outcome, environment)
    reply = reply_of()
    reply.result = ApplyResult.of(outcome, reports, remarked)
    if reply.is_json:
        return outcome.shell_code
    for line in [*report_lines(reports), *remarked]:
        _notice(line)
    if any(not report.saved_bytes for report in reports):
        _notice(f"to measure what it saves: reusebench apply --compare -- {shlex.join(command)}")
    return outcome.shell_code


def _notice(line: str) -> None:
    click.echo(f"reusebench: {line}", err=True)
