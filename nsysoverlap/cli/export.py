"""`nsysoverlap export`."""

from __future__ import annotations

from pathlib import Path

import click

from ..core.output import check_target
from .options import (
    FilePath,
    build_options,
    measuring_options,
    parse_steps,
    single_trace,
    stepping_options,
    trace_argument,
)
from .terminal import Plain, emit, emit_file, progress, to_stdout


@click.command(
    cls=Plain,
    short_help="Write a trace for ui.perfetto.dev, with what is exposed marked.",
    epilog="Exit codes: 0 done, 2 bad usage or unreadable file.",
)
@trace_argument
@click.option(
    "-o",
    "--output",
    type=FilePath(),
    metavar="FILE",
    required=True,
    help="Write to FILE, compressed where its name ends in .gz; - is stdout.",
)
@stepping_options
@measuring_options
def export(
    trace: Path,
    output: Path,
    steps: str,
    skip_steps: int,
    step: str | None,
    window: str | None,
    config: Path | None,
    transfer_kernels: str | None,
) -> None:
    """Write a trace as Chrome trace JSON, which ui.perfetto.dev opens.

    Beside the activities of each stream it shows steps, exposed stretches, arrows from launches to
    copies, counters of exposed time and GB/s, and the findings. All activities are written; steps
    and window choose what counts as exposed. Times are the trace's own, in us.
    """
    from ..draw.perfetto import compressed, trace_events
    from ..run.analysis import measure_cases, trace_cases
    from ..run.many import open_trace

    options = build_options(
        window, config, transfer_kernels, steps=parse_steps(steps, skip_steps, step)
    )
    path = single_trace(trace)
    if not to_stdout(output):
        check_target(output, [path, *([config] if config else [])])
    with progress(f"Exporting {path.name}"):
        found = trace_cases(open_trace(path, options), options)
        pieces = trace_events(found, measure_cases(found, options))
        if not to_stdout(output):
            packed = output.suffix.lower() == ".gz"
            emit_file(compressed(pieces) if packed else pieces, output)
            return
        text = b"".join(pieces).decode()
    emit(text, output)
