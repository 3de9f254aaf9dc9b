"""The command group."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

from ..core.interrupts import interrupts_raised
from .exits import ExitCode, errors_as_exits, interrupts_as_exits
from .terminal import HELP_WIDTH, Plain, drop_stdout, help_width

COMMANDS = {
    "report": ("report", "How much transfer time is hidden, per device and direction."),
    "gate": ("gate", "Pass or fail a trace by its hidden share, for CI."),
    "compare": ("compare", "What changed between two runs."),
    "whatif": ("whatif", "Replay steps with something different."),
    "transfers": ("transfers", "List every transfer: time, bytes, rate, what hid it."),
    "plot": ("plot", "Draw a timeline, steps, bandwidth, operations or what-if."),
    "export": ("export", "Write a trace for ui.perfetto.dev, with what is exposed marked."),
    "record": ("history", "Store the numbers of a run in a history."),
    "history": ("history", "Show the trend of recorded runs."),
    "info": ("info", "What a trace holds: versions, GPUs, row counts, settings, health."),
    "rules": ("rules_command", "How kernels and copies are classified, and why."),
    "slim": ("slim", "Copy a trace without what could identify anyone, to share it."),
}
"""Commands by name, the most used first: their module here, and what the group's help says of them.

A module is loaded when its command is asked for: all of them take as long as a small trace.
"""


class Commands(Plain, click.Group):
    """The commands of `COMMANDS`, with errors mapped to exit codes."""

    @property
    def commands(self) -> dict[str, click.Command]:
        """All commands by name, loaded."""
        return {name: _loaded(name) for name in COMMANDS}

    @commands.setter
    def commands(self, _: object) -> None:
        """Nothing: click's group begins with an empty one."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command, loaded now; None for a name that none has."""
        return _loaded(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands as click writes it, of which none is loaded for it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])

    def main(  # type: ignore[override]  # click's overloads say what is returned when
        self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any
    ) -> Any:
        """As click's, but an error that cannot be printed or an interrupt never ends with 1."""
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **extra)
        try:
            with interrupts_as_exits(), interrupts_raised():
                code = super().main(args, standalone_mode=False, **extra)
        except click.exceptions.Exit as ended:
            code = ended.exit_code
        except click.ClickException as error:
            with suppress(OSError):
                error.show()
            code = error.exit_code
        except click.Abort:
            code = ExitCode.INTERRUPTED
        if code and code > ExitCode.SIGNALS:
            # What is left in its buffer would wait for a reader that may never come.
            drop_stdout()
        sys.exit(code)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Read the arguments; see `errors_as_exits`."""
        extra.setdefault("terminal_width", help_width())
        with errors_as_exits():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; see `errors_as_exits`."""
        with errors_as_exits():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Command names, the most used first."""
        return list(COMMANDS)


def _loaded(name: str) -> click.Command:
    module, words = COMMANDS[name]
    command: click.Command = getattr(import_module(f".{module}", __package__), name)
    command.short_help = words
    return command


def _show_versions(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from .versions import versions

        click.echo(versions())
        ctx.exit()


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": HELP_WIDTH},
    epilog="Exit codes: 0 done or passed, 1 a limit is not met (gate), 2 bad usage or unreadable "
    "file, 3 inconclusive (the trace cannot tell; the report is written all the same).",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_versions,
    help="Show the version and what it runs with, and exit.",
)
def main() -> None:
    """How much host transfer time an Nsight Systems trace hides behind compute.

    A TRACE is an SQLite export (nsys export --type sqlite), a .nsys-rep report (exported through
    nsys where one is installed), or a folder of them.
    """
