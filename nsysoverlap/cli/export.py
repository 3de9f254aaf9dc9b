"""`nsysoverlap export`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..core.errors import NsysOverlapError
from .exits import ExitCode, one_line
from .given import STEPPING, FilePath, Given, command
from .terminal import emit, emit_file, progress, say, to_stdout

if TYPE_CHECKING:
    from ..draw.perfetto import TracePart


@command(
    "0 done, 2 bad usage or no readable trace, 3 inconclusive: one of several traces cannot be "
    "read; the others are written all the same",
    *("traces", *STEPPING, "rank"),
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
    """Write traces as Chrome trace JSON, which ui.perfetto.dev opens.

    Beside the activities of each stream it shows steps, exposed stretches, arrows from launches to
    copies, counters of exposed time and GB/s, and the findings. All activities are written; steps
    and window choose what counts as exposed. Times are the trace's own, in us; those of several
    traces are on one clock, by the UTC at which each began.
    """
    from ..draw.perfetto import compressed, trace_events

    paths, errors = ([given.path], []) if given.rank is not None else given.files
    given.check_target(paths, target)
    shifts, untold = [0], list[Path]()
    if len(paths) > 1:
        from ..run.one_clock import shifts_of

        shifts, untold = shifts_of(paths)
    with progress(f"Exporting {paths[0].name if len(paths) == 1 else f'{len(paths)} traces'}"):
        pieces = trace_events(_parts(given, paths, shifts, errors))
        if to_stdout(target):
            text = b"".join(pieces).decode()
        else:
            packed = target.suffix.lower() == ".gz"
            emit_file(compressed(pieces) if packed else pieces, target)
    if to_stdout(target):
        emit(text, target)
    if untold:
        more = f" and {len(untold) - 3} more" if len(untold) > 3 else ""
        names = ", ".join(path.name for path in untold[:3])
        say(f"Note: not told when recording began, so each starts at 0 of the file: {names}{more}.")
    for error in errors:
        say(f"Skipped: {one_line(error)}")
    if errors:
        raise click.exceptions.Exit(ExitCode.INCONCLUSIVE)


def _parts(
    given: Given, paths: list[Path], shifts: list[int], errors: list[NsysOverlapError]
) -> Iterator[TracePart]:
    """One trace after another, none held for longer; what cannot be read goes to `errors`.

    Raises the first error where nothing can be read.
    """
    from ..run.many import names_of
    from ..run.rank_names import check_distinct, ranks_of

    names = names_of(paths)
    ranks = ranks_of(names)
    check_distinct(list(zip(names, ranks, strict=True)))
    n_read = 0
    for path, name, rank, shift in zip(paths, names, ranks, shifts, strict=True):
        title = name if rank is None else f"rank {rank}"
        try:
            # Not by a name: that would keep it while the next one is read.
            yield _part(given, path, name, shift, f"{title}: " if len(paths) > 1 else "")
        except NsysOverlapError as problem:
            errors.append(problem)
        else:
            n_read += 1
    if not n_read:
        raise errors[0]


def _part(given: Given, path: Path, name: str, shift_ns: int, title: str) -> TracePart:
    from ..draw.perfetto import TracePart
    from ..run.analysis import measure_cases, trace_cases
    from ..run.many import named, open_trace

    found = trace_cases(named(open_trace(path, given.options), name), given.options)
    return TracePart(found, measure_cases(found, given.options), shift_ns, title)
