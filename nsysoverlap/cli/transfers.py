"""`nsysoverlap transfers`."""

from __future__ import annotations

import click

from ..core.errors import UsageError
from .columnar import require_pyarrow, to_csv, to_parquet
from .given import MEASURING, Given, command
from .terminal import emit_file, progress, say, to_stdout


@command(
    "0 done, 2 bad usage or unreadable file",
    *("trace", "output", *MEASURING),
)
@click.option(
    "--format", "fmt", type=click.Choice(("csv", "json", "parquet")),
    help="Output format; parquet needs pyarrow and --output.  [default: parquet for *.parquet, "
    "else csv]",
)  # fmt: skip
def transfers(given: Given, fmt: str | None) -> None:
    """Write one row for each host transfer of a trace, in order of start.

    Times and bytes are those of the whole transfer; *_ns columns are nanoseconds, gb_per_s is
    10^9 bytes per second. A window keeps the transfers that start in it. Sums may exceed those of
    the report: copies outside its steps are listed too, and copies at the same time count each.
    """
    from ..run.many import open_trace
    from ..run.transfer_table import TransferRow, transfer_rows
    from ..show.documents import TransfersFile
    from ..show.json import as_json

    options, path, output = given.options, given.path, given.output
    if fmt is None:
        fmt = "parquet" if output is not None and output.suffix == ".parquet" else "csv"
    if fmt == "parquet":
        if to_stdout(output):
            raise UsageError("Parquet is not written to stdout.", "Give a file with --output FILE.")
        require_pyarrow()
    given.check_target([path])
    with progress(f"Reading {path.name}"):
        columns = transfer_rows(open_trace(path, options), options)
    if fmt == "parquet" and output is not None:
        emit_file(to_parquet(columns), output)
    elif fmt == "json":
        given.show(as_json(TransfersFile(tuple(map(TransferRow, *columns.values())))))
    else:
        given.show(to_csv(columns))
    if not columns["start_ns"]:
        say(
            f"Note: {path.name} has no host transfers{' in this window' if given.window else ''}; "
            "`nsysoverlap info` shows what was recorded."
        )
