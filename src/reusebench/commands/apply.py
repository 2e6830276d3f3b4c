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
from reusebench.commands.reply import give, json_option, reply_of, say, warn
from reusebench.commands.sites import BoardFiles, board_files
from reusebench.system.package import python_command

__all__ = ["apply"]

_ENDED = "--ended"
_FORMS = ("aarch64", "armhf", "armhf-uclibc")
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
@click.option(
    "--deploy",
    "deploy_to",
    type=_PATH,
    metavar="DIR",
    help="Write what production needs, without reusebench: library, hooks, lines for systemd,"
    " Docker and a shell.",
)
@click.option(
    "--arch",
    "forms",
    type=click.Choice(_FORMS),
    multiple=True,
    help="With --deploy: form of the library for RKNN; repeatable. Default: this machine's.",
)
@click.option(
    "--plan",
    type=_PATH,
    metavar="FILE",
    help=(
        "A layout: a plan that `reusebench fit` stored, or a plan file. Default: share what is"
        " safe."
    ),
)
@click.option(
    "--compare",
    is_flag=True,
    help="Run it as it is and applied, in turns; tell what that saves and whether all is equal.",
)
@click.option(
    "--repeats",
    type=click.IntRange(1),
    metavar="N",
    help="--compare: measured runs of each side. Default: 3.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help=(
        "--compare: seconds after which a run has failed. Default: an hour for the first one, for"
        " others ten times the longest before, at least a minute."
    ),
)
@click.option(
    "--duration",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="--compare: seconds after which a program that does not end by itself gets SIGTERM.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="--compare: exit with 2 if the runs do not decide whether it is equal, or worse.",
)
@click.option(
    "--name", metavar="NAME", help="--compare: its name in reports. Default: its base name."
)
@click.option(
    "--storage",
    type=_PATH,
    metavar="DIR",
    help="--compare: storage of the runs. Default: this board's.",
)
@click.option(
    "--target",
    metavar="BOARD",
    help=(
        "The board on which it runs: vboard:CHIP, or a remote board by name or address (ssh:HOST,"
        " adb[:SERIAL], pipe:COMMAND, labgrid:PLACE). Default: this machine."
    ),
)
@board_files
@click.option(_ENDED, type=_PATH, hidden=True, help="The folder of its report; ours alone.")
@json_option
@click.argument("command", metavar="", nargs=-1, type=click.UNPROCESSED)
def apply(
    at_once: int | None,
    plan: Path | None,
    deploy_to: Path | None,
    forms: Sequence[str],
    compare: bool,
    repeats: int | None,
    timeout: float | None,
    duration: float | None,
    strict: bool,
    name: str | None,
    storage: Path | None,
    target: str | None,
    rknn_library: Path | None,
    readable: Sequence[Path],
    writable: Sequence[Path],
    ended: Path | None,
    command: Sequence[str],
) -> int:
    """Run a program with memory shared between its contexts: everything after -- is its command.

    It is not changed: a library is preloaded for RKNN, and Python gets hooks for ONNX Runtime,
    OpenVINO and LiteRT. Its input, output and exit code are passed through. At its end standard
    error tells what was shared, and what was left alone and why.

    --compare exits with 0 if it gives the same and nothing became worse, by more than 5 % and more
    than noise; with 1 if it did, or if applied it fails or the NPU reads wrong memory; with 2 if
    that cannot be told: it fails as it is, or with --strict.
    """
    if ended:
        return _show(ended, command[:-1], command[-1])
    planned, planned_at_once = _planned(plan) if plan else (None, None)
    settings = ApplySettings(at_once=at_once or planned_at_once)
    if deploy_to:
        if command or compare or target:
            raise click.UsageError(
                "--deploy writes a folder and runs no program: leave out -- and what follows,"
                " --compare and --target"
            )
        return _deploy(deploy_to, forms, settings, planned)
    if forms:
        raise click.UsageError("--arch belongs to --deploy; a program that is run has its own")
    if not command:
        raise click.UsageError("there is no program: put it after --")
    files = BoardFiles(rknn_library, tuple(readable), tuple(writable))
    if not compare and any((repeats, timeout, duration, strict, name, storage)):
        raise click.UsageError(
            "--repeats, --timeout, --duration, --strict, --name and --storage are for --compare:"
            " add it, or leave them out"
        )
    if duration and timeout:
        raise click.UsageError(
            "--duration ends the program, and --timeout says that it has failed: leave one out"
        )
    if compare or target or files.are_given:
        # Not at the top: what starts a program on this machine does not need it.
        from reusebench.commands.comparing import ComparisonOptions, compare_program, run_on_board

        if not compare:
            return run_on_board(target, command, settings, files, planned)
        options = ComparisonOptions(repeats or 3, timeout, duration, strict, name, storage)
        return compare_program(target, command, settings, files, options, planned)
    is_json = reply_of().is_json
    after = python_command("reusebench", "apply", *["--json"] * is_json, _ENDED)
    return run(command, settings, after, is_json, _notice, planned)


def _planned(file: Path) -> tuple[str, int | None]:
    """Return the plan's text for library and hooks, and the most runs at once if it says them."""
    # Not at the top: only a plan needs what reads one.
    from reusebench.commands.apply_plan import read_plan

    settings, at_once = read_plan(file)
    return settings.text(), at_once


def _deploy(folder: Path, forms: Sequence[str], settings: ApplySettings, plan: str | None) -> int:
    from reusebench.apply.deploy import deploy
    from reusebench.commands.results import DeployResult
    from reusebench.targets.rknn_library import architecture_of_this_python

    own = architecture_of_this_python()
    forms = forms or [form for form in _FORMS if form == own]
    deployed = deploy(folder, forms, settings, say, plan)
    lines = [
        f"written: {deployed.folder}",
        f"to run a program with it: {deployed.folder}/run-applied PROGRAM...",
        f"for systemd, Docker and settings: {deployed.folder}/README.md",
    ]
    if not deployed.forms:
        lines.append("it has no library for RKNN; for a board: --arch aarch64 or --arch armhf")
    for form, version in deployed.glibc.items():
        lines.append(f"the library for {form} needs glibc {version} or later")
    give(DeployResult.of(deployed), lines)
    return 0


def _show(folder: Path, command: Sequence[str], outcome_word: str) -> int:
    """Show the reports in the folder, which is removed; return the program's exit code."""
    # Not at the top: what starts the program does not need them.
    from reusebench.apply.outcome import Outcome
    from reusebench.apply.plan import planned_in
    from reusebench.apply.plan_result import plan_lines
    from reusebench.apply.report import take_reports
    from reusebench.apply.summary import remarks, report_lines
    from reusebench.commands.results import ApplyResult

    environment = started_environment()
    plan = planned_in(folder)
    reports = take_reports(folder, environment, warn)
    outcome = Outcome.of(outcome_word, command[0])
    remarked = remarks(reports, find_executable(command, environment), outcome, environment)
    reply = reply_of()
    planned = list(plan_lines(plan, reports)) if plan else []
    reply.result = ApplyResult.of(outcome, reports, remarked, planned)
    if reply.is_json:
        return outcome.shell_code
    for line in [*report_lines(reports), *remarked, *planned]:
        _notice(line)
    if any(not report.saved_bytes for report in reports):
        _notice(f"to measure what it saves: reusebench apply --compare -- {shlex.join(command)}")
    return outcome.shell_code


def _notice(line: str) -> None:
    click.echo(f"reusebench: {line}", err=True)
