"""The reply of a command as JSON: one envelope for results, warnings and mistakes.

schema.json is its JSON schema, made from the types in results.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click

from reusebench import __version__

__all__ = ["SCHEMA", "Reply", "choose_json", "give", "json_option", "reply_of", "say", "warn"]

#: Schema of every reply; raise the number if a name or a meaning changes.
SCHEMA = "reusebench/1"
_KEY = "reusebench.reply"
_OPTION = "--json"

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass
class Reply:
    """What a command has to say; without --json its text has it all."""

    #: The words of the command line.
    words: list[str] = field(default_factory=list)
    #: The command, such as "runs list"; empty until its options are read.
    command: str = ""
    is_json: bool = False
    result: Any = None
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def as_json(self) -> str:
        """Return the envelope. It is ASCII: texts of files may reach a terminal."""
        # Not at the top: both would delay the start of each command.
        import json

        import msgspec

        envelope = {
            "schema": SCHEMA,
            "command": self.command,
            "version": __version__,
            "result": self.result,
            "warnings": self.warnings,
            "errors": self.errors,
        }
        # msgspec knows the types, and writes no NaN.
        return json.dumps(json.loads(msgspec.json.encode(envelope, enc_hook=str)), indent=2)

    def fail(self, error: Exception) -> None:
        """Add a mistake; without --json say it on standard error."""
        if self.is_json:
            self.errors.append(str(error))
        else:
            click.echo(f"Error: {error}", err=True)

    def takes(self, error: click.ClickException) -> bool:
        """Whether a mistake on the command line is replied to as JSON."""
        context = getattr(error, "ctx", None)
        if self.is_json or context is None or _OPTION not in self.words:
            return self.is_json
        options = {name for option in context.command.params for name in option.opts}
        self.is_json = _OPTION in options or isinstance(context.command, click.Group)
        self.command = _name_of(context)
        return self.is_json


def reply_of(context: click.Context | None = None) -> Reply:
    """Return the reply of the command that is running."""
    context = context or click.get_current_context(silent=True)
    if context is None:
        return Reply()
    reply: Reply = context.meta.setdefault(_KEY, Reply())
    return reply


def _name_of(context: click.Context) -> str:
    """Return the name of the command without the program's."""
    return context.command_path.removeprefix(context.find_root().command_path).strip()


def choose_json(context: click.Context) -> None:
    """Let the command reply as JSON, also to mistakes in options that are read later."""
    _choose_json(context, None, True)


def _choose_json(context: click.Context, _option: click.Parameter | None, is_chosen: bool) -> None:
    reply = reply_of(context)
    reply.is_json = is_chosen
    reply.command = _name_of(context)


def json_option(command: _Command) -> _Command:
    """Add --json. The command gives its result to the reply, which is printed at its end."""
    return click.option(
        _OPTION,
        is_flag=True,
        # Mistakes in other options are replied to as JSON, too.
        is_eager=True,
        expose_value=False,
        callback=_choose_json,
        help="Print JSON: result, warnings and errors, in one form for all commands.",
    )(command)


def give(result: object, lines: Iterable[str]) -> None:
    """Give the result: as JSON at the end of the command, or as lines of text now."""
    reply = reply_of()
    reply.result = result
    if not reply.is_json:
        click.echo("\n".join(lines))


def say(text: str) -> None:
    """Print text of a command's progress: standard output is JSON's alone with --json."""
    click.echo(text, err=reply_of().is_json)


def warn(subject: object) -> None:
    """Print a warning on standard error; with --json it is in the reply too."""
    reply_of().warnings.append(str(subject))
    click.echo(f"Warning: {subject}", err=True)
