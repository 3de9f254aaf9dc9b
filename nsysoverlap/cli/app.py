"""The command group."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from ..core.interrupts import interrupts_raised
from .compare import compare
from .exits import ExitCode, errors_as_exits, interrupts_as_exits
from .export import export
from .gate import gate
from .history import history, record
from .info import info
from .plot import plot
from .report import report
from .rules_command import rules
from .slim import slim
from .terminal import Plain, drop_stdout
from .transfers import transfers
from .whatif import whatif


class Commands(Plain, click.Group):
    """Commands in the order they are listed below, with errors mapped to exit codes."""

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
        with errors_as_exits():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; see `errors_as_exits`."""
        with errors_as_exits():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Command names, the most used first."""
        return list(self.commands)


def _show_versions(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from .versions import versions

        click.echo(versions())
        ctx.exit()


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
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


_COMMANDS = (
    *(report, gate, compare, whatif, transfers, plot, export, record, history, info, rules, slim),
)
for command in _COMMANDS:
    main.add_command(command)
