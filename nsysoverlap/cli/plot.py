"""`nsysoverlap plot`."""

from __future__ import annotations

from pathlib import Path

import click

from ..core.errors import UsageError
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
from .terminal import Plain, emit_file, progress, to_stdout

KINDS = ("timeline", "steps", "bandwidth", "ops")


@click.command(
    cls=Plain,
    short_help="Draw a timeline, the steps, the bandwidth or the operations.",
    epilog="Exit codes: 0 done, 2 bad usage or unreadable file.",
)
@trace_argument
@click.option(
    "--kind", type=click.Choice(KINDS), default="timeline", show_default=True,
    help="timeline: what each device did, exposed transfers marked; steps: the time budget of each "
    "step; bandwidth: GB/s of each copy; ops: the operations that expose most.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=FilePath(), metavar="FILE", required=True,
    help="Write to FILE, a .png, .svg or .pdf; it is replaced only once all is ready.",
)  # fmt: skip
@click.option(
    "--device", "devices", type=click.IntRange(min=0), multiple=True, metavar="N",
    help="Draw this device in the timeline, counted from 0 as the report lists them; may be given "
    "several times.  [default: the eight that expose most]",
)  # fmt: skip
@stepping_options
@measuring_options
@click.option(
    "--link-gbps",
    metavar="H2D,D2H",
    help="Peak of the host link in GB/s per direction, such as 55,53.  [default: by GPU name]",
)
def plot(
    trace: Path,
    kind: str,
    output: Path,
    devices: tuple[int, ...],
    steps: str,
    skip_steps: int,
    step: str | None,
    window: str | None,
    config: Path | None,
    transfer_kernels: str | None,
    link_gbps: str | None,
) -> None:
    """Draw a picture of a trace.

    Exposed transfers are hatched, outlined and taller than all else. With --step 3 or --window
    80ms:120ms only that part is drawn.
    """
    from ..draw.picture import format_of, picture
    from ..run.many import open_trace

    if to_stdout(output):
        raise UsageError("A plot is not written to stdout.", "Give the name of a file.")
    fmt = format_of(output)
    if devices and kind != "timeline":
        raise UsageError(f"--device does not go with --kind {kind}.", "It is for the timeline.")
    if window is not None and step is not None:
        raise UsageError("--window and --step exclude each other.", "Give one of them.")
    wanted = parse_steps(steps, skip_steps, step)
    options = build_options(window, config, transfer_kernels, link_gbps, wanted)
    path = single_trace(trace)
    check_target(output, [path, *([config] if config else [])])
    with progress(f"Drawing {path.name}"):
        content = picture(open_trace(path, options), kind, fmt, options, devices or None)
    emit_file(content, output)
