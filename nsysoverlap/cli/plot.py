"""`nsysoverlap plot`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..core.errors import InconclusiveError, UsageError
from .exits import ExitCode, one_line
from .given import STEPPING, FilePath, Given, command
from .terminal import emit_file, progress, say, to_stdout

if TYPE_CHECKING:
    from ..result.model import OverlapReport

KINDS = ("timeline", "steps", "bandwidth", "ops", "whatif")


@command(
    "0 done, 2 bad usage or unreadable file, 3 inconclusive: no GPU activity, nothing that whatif "
    "can predict, or one of several traces cannot be read",
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

    Of a folder of ranks steps and ops are drawn over all, the others of the rank whose copies are
    exposed most, or of --rank N.

    Exposed transfers are hatched, outlined and taller than all else. With --step 3 or --window
    80ms:120ms only that part is drawn.
    """
    from ..draw.picture import OF_REPORTS, format_of, picture, report_picture
    from ..run.many import open_trace

    if to_stdout(target):
        raise UsageError("A plot is not written to stdout.", "Give the name of a file.")
    fmt = format_of(target)
    if devices and kind != "timeline":
        raise UsageError(f"--device does not go with --kind {kind}.", "It is for the timeline.")
    if given.window is not None and given.step is not None:
        raise UsageError("--window and --step exclude each other.", "Give one of them.")
    paths, errors = ([given.path], []) if given.rank is not None else given.files
    given.check_target(paths, target)
    path = paths[0]
    with progress(f"Drawing {path.name if len(paths) == 1 else f'{len(paths)} traces'}"):
        report = None
        if len(paths) > 1:
            report, errors = given.measure()
            path = _most_exposed(report, paths)
        if report is not None and kind in OF_REPORTS:
            content = report_picture(report, kind, fmt)
        else:
            trace = open_trace(path, given.options)
            if trace.extent_ns is None:
                raise _nothing_in(path.name)
            content = picture(trace, kind, fmt, given.options, devices or None)
    emit_file(content, target)
    if report is not None and kind not in OF_REPORTS:
        say(f"Drawn is {path.name}, whose copies are exposed most; --rank N draws another.")
    for error in errors:
        say(f"Skipped: {one_line(error)}")
    if errors:
        raise click.exceptions.Exit(ExitCode.INCONCLUSIVE)


def _most_exposed(report: OverlapReport, paths: Sequence[Path]) -> Path:
    from ..result.worst import worst_device
    from ..run.many import names_of

    if not report.devices:
        raise _nothing_in(f"all {len(paths)} traces")
    return paths[names_of(paths).index(report.devices[worst_device(report)].trace)]


def _nothing_in(what: str) -> InconclusiveError:
    return InconclusiveError(
        f"{what}: no GPU activity to draw.", "`nsysoverlap info` shows what was recorded."
    )
