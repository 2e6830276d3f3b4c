"""The command `reusebench`: its subcommands, and its end after a mistake, Ctrl-C or a full disk.

Exit codes: 0 all is well; 1 the command worked and the answer is bad; 2 a mistake of the user.
"""

from __future__ import annotations

import errno
import importlib
import os
import resource
import signal
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import click
from click.shell_completion import CompletionItem

from reusebench import __version__
from reusebench.commands.groups import CommandGroup
from reusebench.commands.reply import Reply, reply_of
from reusebench.harness.errors import UserError
from reusebench.harness.extras import check_extra, missing_modules
from reusebench.system.files import keep_writing_to_user
from reusebench.system.interrupts import handle_signals, ignore_signals, shell_code
from reusebench.system.option_names import renamed

__all__ = ["COMMANDS", "drop_output", "main"]


class Subcommand(NamedTuple):
    """A row of COMMANDS."""

    help: str
    #: The extra of the installation without which it cannot be imported.
    extra: str | None = None


#: A subcommand is the function of this name in the module of this name, which is imported when it
#: is run.
COMMANDS = {
    "bench": Subcommand("Measure what reuse between contexts saves, here or on a board."),
    "report": Subcommand(
        "Write the report of stored runs: a page, tables, figures.", extra="reports"
    ),
    "compare": Subcommand("Compare two runs; fail if a figure got worse.", extra="reports"),
    "history": Subcommand("Find where figures changed over all stored runs.", extra="reports"),
    "export": Subcommand("Write stored runs in the formats of other tools."),
    "record": Subcommand("Measure any program, by phase and process."),
    "apply": Subcommand("Run a program with memory shared between its contexts, unchanged."),
    "runs": Subcommand("List stored runs; remove old ones; compact a storage."),
    "doctor": Subcommand("Show what works here, what is missing and how to get it."),
    "fit": Subcommand("Find the layout of contexts that fits a limit of memory."),
    "plan": Subcommand("Print a scenario, or what was measured, as a plan file."),
    "models": Subcommand("Build and inspect model files; make clips; install converters."),
    "board": Subcommand("Prepare the virtual board and the ledger of NPU buffers."),
    "libraries": Subcommand("List Rockchip's libraries that are here; measure each."),
    "metrics": Subcommand("List every figure with its unit and meaning.", extra="reports"),
    "glossary": Subcommand("Explain the words of the project.", extra="reports"),
}

#: Errnos that mean standard output cannot be written. Errors on files have their own messages.
_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def drop_output() -> None:
    """Drop the rest of standard output, which the interpreter would write once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_folder() -> None:
    try:
        Path.cwd()
    except OSError:
        raise UserError("the working folder is gone; change to one that is there") from None


class _Reusebench(CommandGroup):
    """The group of COMMANDS."""

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return the option without a line in the help, so that the help fits on a screen."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.hidden = True
        return option

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words; former names of options are replaced, with a hint."""
        words, found = renamed(args)
        reply = reply_of(ctx)
        reply.words = words[: words.index("--")] if "--" in words else list(words)
        for row in found:
            reply.warnings.append(row.hint)
            click.echo(f"Hint: {row.hint}", err=True)
        return super().parse_args(ctx, words)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command; None if there is none, or completion lacks its libraries."""
        subcommand = COMMANDS.get(cmd_name)
        if subcommand is None:
            return None
        if subcommand.extra:
            if ctx.resilient_parsing and missing_modules(subcommand.extra):
                return None
            check_extra(subcommand.extra, "this command")
        module = importlib.import_module(f"reusebench.commands.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table into the help, without importing a subcommand."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, subcommand.help) for name, subcommand in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command, without importing one."""
        return [
            CompletionItem(name, help=subcommand.help)
            for name, subcommand in COMMANDS.items()
            if name.startswith(incomplete)
        ]

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run the command; an ASCII terminal gets escapes, and a full output an error message."""
        if sys.stdout is None:
            message = "standard output is closed; send it to a file, or to /dev/null"
            click.echo(f"Error: {message}", err=True)
            sys.exit(2)
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            try:
                return super().main(*arguments, **options)
            finally:
                sys.stdout.flush()
        except OSError as error:
            if error.filename is not None or error.errno not in _OUTPUT_ERRORS:
                raise
            drop_output()
            click.echo(f"Error: standard output cannot be written ({error.strerror})", err=True)
            sys.exit(2)

    def invoke(self, ctx: click.Context) -> NoReturn:
        """Run the command; it returns its exit code, or None for 0."""
        handle_signals()
        reply = reply_of(ctx)
        try:
            exit_code = self._run(ctx, reply)
            if reply.is_json:
                click.echo(reply.as_json())
            sys.stdout.flush()
        except (MemoryError, ImportError, SystemError) as error:
            if not _lacks_memory(error):
                raise
            click.echo(
                "Error: too little memory for this command; end other programs, or raise ulimit -v",
                err=True,
            )
            ctx.exit(2)
        except KeyboardInterrupt as interrupt:
            ignore_signals()
            ctx.exit(shell_code(interrupt))
        except BrokenPipeError:
            # The reader has ended, such as `| head`.
            drop_output()
            ctx.exit(128 + signal.SIGPIPE)
        ctx.exit(exit_code or 0)

    def _run(self, ctx: click.Context, reply: Reply) -> int | None:
        """Run the command and return its exit code; a mistake is added to the reply."""
        try:
            _check_folder()
            exit_code: int | None = super().invoke(ctx)
        except click.ClickException as error:
            if not reply.takes(error):
                raise
            reply.errors.append(error.format_message())
            return error.exit_code
        except Exception as error:
            if not _is_mistake(error):
                raise
            reply.fail(error)
            # A program that cannot be started gives the shell's exit code.
            exit_code = getattr(error, "exit_code", 2)
        return exit_code


def _is_mistake(error: Exception) -> bool:
    """Whether it is the user's mistake; the errors of all packages are imported only here."""
    from reusebench.commands.mistakes import MISTAKES

    return isinstance(error, MISTAKES)


def _lacks_memory(error: Exception) -> bool:
    """Whether the cause is too little memory.

    A library in C may lose that cause, and leave a SystemError, if the address space is limited.
    """
    from reusebench.measured.failures import tells_of_memory

    if isinstance(error, MemoryError) or tells_of_memory(str(error)):
        return True
    limit_bytes, _ = resource.getrlimit(resource.RLIMIT_AS)
    return isinstance(error, SystemError) and limit_bytes != resource.RLIM_INFINITY


def _show_version(ctx: click.Context, _option: click.Parameter, is_asked: bool) -> None:
    if not is_asked:
        return
    reply = reply_of(ctx)
    if "--json" in reply.words:
        # Not at the top: each runtime is imported in a process of its own.
        from reusebench.commands.doctor import runtime_versions

        reply.result = runtime_versions()
        click.echo(reply.as_json())
    else:
        click.echo(f"reusebench {__version__}")
    ctx.exit()


@click.group(
    cls=_Reusebench,
    context_settings={"help_option_names": ["-h", "--help"]},
    options_metavar="[--version [--json]] [--help]",
    epilog='Completion in bash: eval "$(_REUSEBENCH_COMPLETE=bash_source reusebench)"',
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    hidden=True,
    callback=_show_version,
    help="Show the version and exit; with --json those of the runtimes too.",
)
@click.option(
    "--json", is_flag=True, hidden=True, expose_value=False, help="With --version: as JSON."
)
def main() -> None:
    """Measure, show, compare and export; prepare boards and models."""
    keep_writing_to_user()
