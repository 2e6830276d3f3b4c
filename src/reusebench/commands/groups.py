"""Groups of commands, which propose the nearest name for a wrong one."""

from __future__ import annotations

import click

from reusebench.system.option_names import nearest

__all__ = ["CommandGroup"]


class CommandGroup(click.Group):
    """A group of commands; groups inside it are of the same class."""

    group_class = type

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; a wrong name is refused with the nearest one, and all."""
        name = args[0]
        is_name = not name.startswith("-") and not ctx.resilient_parsing
        if is_name and self.get_command(ctx, name) is None:
            names = self.list_commands(ctx)
            near = nearest(name, names)
            proposal = f"the nearest is {near}; " if near else ""
            ctx.fail(f"there is no command {name!r}; {proposal}valid: {', '.join(names)}")
        return super().resolve_command(ctx, args)
