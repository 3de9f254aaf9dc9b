"""`nsysoverlap info`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .given import Given, command, format_option
from .screen import key_values, render_blocks
from .terminal import emit, progress

if TYPE_CHECKING:
    from ..result.model import OverlapReport
    from ..show.blocks import Block
    from ..trace.contents import Device, Trace


@command(
    "0 done, 2 bad usage or unreadable file",
    *("trace", "rank"),
)
@format_option("text", "json")
def info(given: Given, fmt: str) -> None:
    """Show what a trace holds and what to know before trusting its numbers.

    Of the environment only variables that matter here are shown (XLA_FLAGS and some of JAX, NCCL
    and CUDA), and no paths, users or hosts.
    """
    from ..run.analysis import analyze_trace
    from ..run.many import open_trace
    from ..show.documents import info_file
    from ..show.json import as_json
    from ..trace.load import table_counts
    from ..trace.nsys_export import REPORT_SUFFIXES, export_report

    options, path = given.options, given.path
    with progress(f"Reading {path.name}"):
        loaded = open_trace(path, options)
        report = analyze_trace(loaded, options)
        is_report = path.suffix.lower() in REPORT_SUFFIXES
        counts = table_counts(export_report(path) if is_report else path)
    if fmt == "json":
        emit(as_json(info_file(loaded, report, counts)), None)
    else:
        emit(render_blocks(_blocks(loaded, report, counts)), None)


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
