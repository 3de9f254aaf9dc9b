"""`nsysoverlap export`."""

from __future__ import annotations

from pathlib import Path

import click

from .given import STEPPING, FilePath, Given, command
from .terminal import emit, emit_file, progress, to_stdout


@command(
    "0 done, 2 bad usage or unreadable file",
    *("trace", *STEPPING),
)
@click.option(
    "-o",
    "--output",
    "target",
    type=FilePath(),
    metavar="FILE",
    required=True,
    help="Write to FILE, compressed where its name ends in .gz; - is stdout.",
)
def export(given: Given, target: Path) -> None:
    """Write a trace as Chrome trace JSON, which ui.perfetto.dev opens.

    Beside the activities of each stream it shows steps, exposed stretches, arrows from launches to
    copies, counters of exposed time and GB/s, and the findings. All activities are written; steps
    and window choose what counts as exposed. Times are the trace's own, in us.
    """
    from ..draw.perfetto import compressed, trace_events
    from ..run.analysis import measure_cases, trace_cases
    from ..run.many import open_trace

    options, path = given.options, given.path
    given.check_target([path], target)
    with progress(f"Exporting {path.name}"):
        found = trace_cases(open_trace(path, options), options)
        pieces = trace_events(found, measure_cases(found, options))
        if not to_stdout(target):
            packed = target.suffix.lower() == ".gz"
            emit_file(compressed(pieces) if packed else pieces, target)
            return
        text = b"".join(pieces).decode()
    emit(text, target)
