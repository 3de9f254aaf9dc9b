"""`nsysoverlap transfers`."""

from __future__ import annotations

from pathlib import Path

import click

from ..core.errors import UsageError
from ..core.output import check_target
from .options import build_options, measuring_options, output_option, single_trace, trace_argument
from .tables import require_pyarrow, to_csv, to_parquet
from .terminal import Plain, emit, emit_file, progress, say, to_stdout


@click.command(
    cls=Plain,
    short_help="List every transfer: time, bytes, rate, what hid it.",
    epilog="Exit codes: 0 done, 2 bad usage or unreadable file.",
)
@trace_argument
@click.option(
    "--format", "fmt", type=click.Choice(("csv", "parquet")),
    help="Output format; parquet needs pyarrow and --output.  [default: parquet for *.parquet, "
    "else csv]",
)  # fmt: skip
@output_option
@measuring_options
def transfers(
    trace: Path,
    fmt: str | None,
    output: Path | None,
    window: str | None,
    config: Path | None,
    transfer_kernels: str | None,
) -> None:
    """Write one row for each host transfer of a trace, in order of start.

    Times and bytes are those of the whole transfer; *_ns columns are nanoseconds, gb_per_s is
    10^9 bytes per second. A window keeps the transfers that start in it. Sums may exceed those of
    the report: copies outside its steps are listed too, and copies at the same time count each.
    """
    from ..run.many import open_trace
    from ..run.transfers import transfer_rows

    options = build_options(window, config, transfer_kernels)
    path = single_trace(trace)
    if fmt is None:
        fmt = "parquet" if output is not None and output.suffix == ".parquet" else "csv"
    if fmt == "parquet":
        _check_parquet(output)
    if output is not None and not to_stdout(output):
        check_target(output, [path, *([config] if config else [])])
    with progress(f"Reading {path.name}"):
        columns = transfer_rows(open_trace(path, options), options)
    if fmt == "parquet" and output is not None:
        emit_file(to_parquet(columns), output)
    else:
        emit(to_csv(columns), output)
    if not columns["start_ns"]:
        say(
            f"Note: {path.name} has no host transfers{' in this window' if window else ''}; "
            "`nsysoverlap info` shows what was recorded."
        )


def _check_parquet(output: Path | None) -> None:
    if to_stdout(output):
        raise UsageError("Parquet is not written to stdout.", "Give a file with --output FILE.")
    require_pyarrow()
