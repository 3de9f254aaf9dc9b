"""The whole file: metadata, devices, host threads and findings, one piece after another."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from ..measure.case import DeviceCase
from ..result.evidence import evidence_device
from ..result.model import Finding, OverlapReport
from ..run.analysis import TraceCases
from .perfetto_counters import exposed_counter, rate_counter
from .perfetto_device import exposed_events, step_events, stream_events
from .perfetto_events import arguments, instant_event, quoted
from .perfetto_host import call_events, place_calls, range_events
from .perfetto_tracks import FIRST_DEVICE, Tracks
from .timeline import device_timeline

_EVENTS_AT_ONCE = 2_000
_FINDINGS_PLACE = 1


def trace_events(found: TraceCases, report: OverlapReport) -> Iterator[bytes]:
    """The file as pieces of UTF-8; `report` is that of what `trace_cases` found.

    Times are those of the trace, in microseconds. GPUs and host processes are processes, streams
    and threads are threads.
    """
    trace = found.classified.trace
    other = {
        "generator": report.generator,
        "trace": trace.info.file_name,
        "nsys_version": trace.info.product_version,
    }
    yield (f'{{"displayTimeUnit":"ns","otherData":{json.dumps(other)},"traceEvents":[\n').encode()
    events = _events(found, report)
    first = True
    while batch := list(islice(events, _EVENTS_AT_ONCE)):
        yield (("" if first else ",\n") + ",\n".join(batch)).encode()
        first = False
    yield b"\n]}\n"


def compressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces as one gzip file, the same for the same pieces."""
    packer = zlib.compressobj(6, zlib.DEFLATED, wbits=31)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


def _events(found: TraceCases, report: OverlapReport) -> Iterator[str]:
    host = found.classified.trace.host
    tracks = Tracks()
    pids = [
        tracks.process(FIRST_DEVICE + i, device.label, i) for i, device in enumerate(report.devices)
    ]
    calls, thread_pids = place_calls(host, tracks)
    flows = 1
    for case, pid in zip(found.cases, pids, strict=True):
        device = device_timeline(case)
        yield from step_events(device, tracks, pid)
        yield from exposed_events(case, device, tracks, pid)
        yield from stream_events(case, device, tracks, pid, calls, flows)
        yield from _counters(case, pid)
        yield from tracks.take_metadata()
        flows += len(case.rows)
    yield from call_events(host, calls)
    yield from range_events(host, tracks, thread_pids)
    yield from _finding_events(report, found.cases, tracks, pids)
    yield from tracks.take_metadata()


def _counters(case: DeviceCase, pid: int) -> Iterator[str]:
    for direction in ("h2d", "d2h"):
        yield from exposed_counter(case, pid, direction)
        yield from rate_counter(case, pid, direction)


def _finding_events(
    report: OverlapReport, cases: Sequence[DeviceCase], tracks: Tracks, pids: Sequence[int]
) -> Iterator[str]:
    """An instant for each example of each finding, or one at the start where it has none."""
    if not cases:
        return
    on: dict[int, tuple[int, int]] = {}
    for finding in report.findings:
        begin = report.devices[0].window_ns[0]
        examples: list[tuple[int, int, int, str | None]] = [
            (evidence_device(report, row) or 0, row.start_ns, row.end_ns, row.text)
            for row in finding.evidence
        ] or [(0, begin, begin, None)]
        for device, start, end, text in examples:
            if device not in on:
                on[device] = tracks.track(pids[device], "findings", _FINDINGS_PLACE)
            args = _about(finding, end - start, text)
            name = quoted(f"{finding.code}: {finding.title}")
            yield instant_event(on[device], name, "finding", start, args)


def _about(finding: Finding, ns: int, text: str | None) -> str:
    return arguments(
        {
            "severity": finding.severity,
            "detail": finding.detail,
            "remedy": finding.remedy,
            "cost_ns": finding.cost_ns,
            "example": text,
            "example_ns": ns or None,
        }
    )
