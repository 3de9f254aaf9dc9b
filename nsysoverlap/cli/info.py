"""`nsysoverlap info`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..core.errors import TraceFileError
from .exits import ExitCode, one_line
from .given import Given, command, format_option
from .screen import key_values, render_blocks
from .terminal import emit, progress, say

if TYPE_CHECKING:
    from ..result.model import OverlapReport
    from ..show.blocks import Block
    from ..show.documents import InfoFile
    from ..trace.contents import Device, Trace


@command(
    "0 done, 2 bad usage or no readable trace, 3 inconclusive: one of several traces cannot be "
    "read; the others are shown all the same",
    *("trace", "rank"),
)
@format_option("text", "json")
def info(given: Given, fmt: str) -> None:
    """Show what a trace holds and what to know before trusting its numbers; of a folder of several
    a line each.

    Of the environment only variables that matter here are shown (XLA_FLAGS and some of JAX, NCCL
    and CUDA), and no paths, users or hosts.
    """
    from ..run.many import names_of
    from ..show.documents import InfosFile
    from ..show.json import as_json

    paths, errors = ([given.path], []) if given.rank is not None else given.files
    found: list[_Found] = []
    for path, name in zip(paths, names_of(paths), strict=True):
        try:
            found.append(_look_at(path, name, given, len(paths) == 1 and fmt == "text"))
        except TraceFileError as problem:
            errors.append(problem)
    if not found:
        raise errors[0]
    if fmt == "json":
        files = tuple(one.file for one in found)
        emit(as_json(files[0] if len(paths) == 1 else InfosFile(files)), None)
    else:
        blocks = found[0].blocks if len(paths) == 1 else _of_several(found)
        emit(render_blocks(blocks), None)
    for error in errors:
        say(f"Skipped: {one_line(error)}")
    if errors:
        raise click.exceptions.Exit(ExitCode.INCONCLUSIVE)


@dataclass(frozen=True)
class _Found:
    """What is shown of a trace; the trace itself is not kept."""

    file: InfoFile
    report: OverlapReport
    blocks: Sequence[Block]


def _look_at(path: Path, name: str, given: Given, alone: bool) -> _Found:
    from ..run.analysis import analyze_trace
    from ..run.many import exported, named, open_trace
    from ..show.documents import info_file
    from ..trace.load import table_counts

    with progress(f"Reading {path.name}"):
        loaded = named(open_trace(path, given.options), name)
        report = analyze_trace(loaded, given.options)
        counts = table_counts(exported(path))
    blocks = _blocks(loaded, report, counts) if alone else ()
    return _Found(info_file(loaded, report, counts), report, blocks)


def _of_several(found: Sequence[_Found]) -> list[Block]:
    from ..core.formatting import NONE, format_span
    from ..result.model import OverlapReport
    from ..show.blocks import Table
    from ..show.say_report import health_section

    rows = []
    for file in (one.file for one in found):
        gpus = ", ".join(sorted({gpu.name or "unknown" for gpu in file.gpus}))
        extent = file.extent_ns
        n_rows = sum(n for table, n in file.tables.items() if table.startswith("CUPTI_ACTIVITY"))
        rows.append(
            (
                *(file.path, file.framework.name if file.framework else NONE, gpus or NONE),
                str(len(file.devices)),
                NONE if extent is None else format_span(extent[1] - extent[0]),
                *(f"{n_rows:,}", file.nsys_version or NONE),
            )
        )
    columns = ("trace", "framework", "GPUs listed", "used", "GPU activity", "CUDA rows", "nsys")
    merged = OverlapReport.merge([one.report for one in found])
    note = "`--rank N` shows all of one trace."
    title = f"Traces, {len(found)}"
    return [Table(title, columns, tuple(rows), note, n_words=3), *health_section(merged)]


def _blocks(trace: Trace, report: OverlapReport, counts: Mapping[str, int]) -> list[Block]:
    from ..show.blocks import Table
    from ..show.say_report import health_section

    rows = tuple((table, f"{n:,}") for table, n in counts.items())
    blocks: list[Block] = [
        key_values("Trace", _trace_facts(trace)),
        *health_section(report),
        key_values("Program", _program_facts(report)),
        key_values(
            "GPUs", [(_name(gpu.id), f"{gpu.name}  {gpu.uuid or ''}") for gpu in trace.info.gpus]
        ),
        key_values("Devices", [_device_facts(device) for device in trace.devices]),
        Table("Rows", ("table", "rows"), rows),
        key_values("Capture settings", list(trace.info.capture.items())),
    ]
    return [block for block in blocks if not isinstance(block, Table) or block.rows]


def _trace_facts(trace: Trace) -> list[tuple[str, str]]:
    from ..core.formatting import format_span

    facts = [
        ("file", trace.info.file_name),
        ("nsys version", trace.info.product_version or "unknown"),
        ("schema version", trace.info.schema_version or "unknown"),
    ]
    if trace.extent_ns is not None:
        start, end = trace.extent_ns
        span = f"{format_span(end - start)} (from {start} to {end} ns)"
        facts.append(("GPU activity", span))
    return facts


def _program_facts(report: OverlapReport) -> list[tuple[str, str]]:
    """The framework and the libraries, each with what proves it."""
    (trace,) = report.traces
    programs = [] if trace.framework is None else [("framework", trace.framework)]
    programs += [("with", component) for component in trace.components]
    return [(kind, f"{program.name} ({program.evidence})") for kind, program in programs]


def _device_facts(device: Device) -> tuple[str, str]:
    ordinal = "mixed ordinals" if device.device_id is None else f"CUDA device {device.device_id}"
    pids = ", ".join(str(pid) for pid in _pids(device))
    gpu = "GPU unknown" if device.gpu.id is None else f"GPU {device.gpu.id}"
    return gpu, f"{ordinal} of pid {pids}"


def _pids(device: Device) -> tuple[int, ...]:
    from ..trace.contents import pid_of

    return tuple(pid_of(global_pid) for global_pid in device.global_pids)


def _name(gpu_id: int | None) -> str:
    return "GPU" if gpu_id is None else f"GPU {gpu_id}"
