"""`nsysoverlap transfers`."""

from __future__ import annotations

import click

from ..core.errors import TraceFileError, UsageError
from .columnar import require_pyarrow, to_csv, to_parquet
from .exits import ExitCode, one_line
from .formats import usual_format
from .given import STEPPING, Given, command
from .terminal import emit_file, progress, say, to_stdout

FORMATS = ("csv", "json", "parquet")


@command(
    "0 done, 2 bad usage or no readable trace, 3 inconclusive: one of several traces cannot be "
    "read; the others are written all the same",
    *("traces", "output", *STEPPING),
)
@click.option(
    "--format", "fmt", type=click.Choice(FORMATS),
    callback=lambda ctx, _, fmt: fmt or usual_format(FORMATS, ctx.params.get("output")),
    help="Output format; parquet needs pyarrow and --output.  [default: by the extension of "
    "--output, else csv]",
)  # fmt: skip
def transfers(given: Given, fmt: str) -> None:
    """Write one row for each host transfer, in order of start; of several traces one after another.

    What issued it, the step that it starts in, how long it queued behind others of its direction
    and what waited for it stand in the last columns, with trace, rank and framework. Times and
    bytes are those of the whole transfer; *_ns columns are nanoseconds, gb_per_s is 10^9 bytes per
    second. A window keeps the transfers that start in it. Sums may exceed those of the report:
    copies outside its steps are listed too, and copies at the same time count each.
    """
    from ..run.many import named, names_of, open_trace
    from ..run.transfer_table import TransferRow, joined, transfer_rows
    from ..show.documents import TransfersFile
    from ..show.json import as_json

    options, (paths, errors), output = given.options, given.files, given.output
    if fmt == "parquet":
        if to_stdout(output):
            raise UsageError("Parquet is not written to stdout.", "Give a file with --output FILE.")
        require_pyarrow()
    given.check_target(paths)
    parts = []
    for path, name in zip(paths, names_of(paths), strict=True):
        with progress(f"Reading {path.name}"):
            try:
                parts.append(transfer_rows(named(open_trace(path, options), name), options))
            except TraceFileError as problem:
                errors.append(problem)
    if not parts:
        raise errors[0]
    columns = joined(parts)
    if fmt == "parquet" and output is not None:
        emit_file(to_parquet(columns), output)
    elif fmt == "json":
        given.show(as_json(TransfersFile(tuple(map(TransferRow, *columns.values())))))
    else:
        given.show(to_csv(columns))
    if not columns["start_ns"]:
        what = paths[0].name if len(paths) == 1 else f"None of {len(paths)} traces"
        seen = "no" if len(paths) == 1 else "any"
        where = " in this window" if given.window else ""
        say(
            f"Note: {what} has {seen} host transfers{where}; "
            "`nsysoverlap info` shows what was recorded."
        )
    for error in errors:
        say(f"Skipped: {one_line(error)}")
    if errors:
        raise click.exceptions.Exit(ExitCode.INCONCLUSIVE)
