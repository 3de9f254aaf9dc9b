"""`nsysoverlap plot`."""

from __future__ import annotations

from pathlib import Path

import click

from ..core.errors import InconclusiveError, UsageError
from .given import STEPPING, FilePath, Given, command
from .terminal import emit_file, progress, to_stdout

KINDS = ("timeline", "steps", "bandwidth", "ops", "whatif")


@command(
    "0 done, 2 bad usage or unreadable file, 3 inconclusive: no GPU activity, or nothing that "
    "whatif can predict",
    *("trace", *STEPPING, "links", "rank"),
)
@click.option(
    "--kind", type=click.Choice(KINDS), default="timeline", show_default=True,
    help="timeline: what each device did, exposed transfers marked; steps: the time budget of each "
    "step; bandwidth: GB/s of each copy; ops: the operations that expose most; whatif: the step "
    "replayed over link rates.",
)  # fmt: skip
@click.option(
    "-o", "--output", "target", type=FilePath(), metavar="FILE", required=True,
    help="Write to FILE, a .png, .svg or .pdf; it is replaced only once all is ready.",
)  # fmt: skip
@click.option(
    "--device", "devices", type=click.IntRange(min=0), multiple=True, metavar="N",
    help="Draw this device in the timeline, counted from 0 as the report lists them; may be given "
    "several times.  [default: the eight that expose most]",
)  # fmt: skip
def plot(given: Given, kind: str, target: Path, devices: tuple[int, ...]) -> None:
    """Draw a picture of a trace.

    Exposed transfers are hatched, outlined and taller than all else. With --step 3 or --window
    80ms:120ms only that part is drawn.
    """
    from ..draw.picture import format_of, picture
    from ..run.many import open_trace

    if to_stdout(target):
        raise UsageError("A plot is not written to stdout.", "Give the name of a file.")
    fmt = format_of(target)
    if devices and kind != "timeline":
        raise UsageError(f"--device does not go with --kind {kind}.", "It is for the timeline.")
    if given.window is not None and given.step is not None:
        raise UsageError("--window and --step exclude each other.", "Give one of them.")
    options, path = given.options, given.path
    given.check_target([path], target)
    with progress(f"Drawing {path.name}"):
        trace = open_trace(path, options)
        if trace.extent_ns is None:
            raise InconclusiveError(
                f"{path.name}: no GPU activity to draw.",
                "`nsysoverlap info` shows what was recorded.",
            )
        content = picture(trace, kind, fmt, options, devices or None)
    emit_file(content, target)
