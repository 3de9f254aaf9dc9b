"""The whole file: metadata, devices, host threads and findings, one piece after another."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ..measure.case import DeviceCase
from ..result.evidence import evidence_device
from ..result.model import Finding, OverlapReport
from ..run.analysis import TraceCases
from .perfetto_counters import exposed_counter, rate_counter
from .perfetto_device import exposed_events, step_events, stream_events
from .perfetto_events import Events, arguments, quoted
from .perfetto_host import call_events, place_calls, range_events
from .perfetto_tracks import FIRST_DEVICE, Tracks
from .timeline import device_timeline

_EVENTS_AT_ONCE = 2_000
_FINDINGS_PLACE = 1


@dataclass(frozen=True)
class TracePart:
    """One trace of the file: what `trace_cases` found, and the report of that.

    `shift_ns` is added to its times, and `title` stands before the names of its processes.
    """

    found: TraceCases
    report: OverlapReport
    shift_ns: int = 0
    title: str = ""


def trace_events(parts: Iterable[TracePart]) -> Iterator[bytes]:
    """The file as pieces of UTF-8; no part is held when the next one is asked for.

    Times are microseconds. GPUs and host processes are processes, streams and threads are threads.
    """
    tracks, written = Tracks(), []
    start = '{"displayTimeUnit":"ns","traceEvents":[\n'
    for part in parts:
        info, generator = part.found.classified.trace.info, part.report.generator
        written.append({"trace": info.file_name, "nsys_version": info.product_version})
        tracks.events, tracks.title = Events(part.shift_ns), part.title
        events = _events(part.found, part.report, tracks)
        del part
        while batch := list(islice(events, _EVENTS_AT_ONCE)):
            yield (start + ",\n".join(batch)).encode()
            start = ",\n"
    if start != ",\n":
        yield start.encode()
    about = written[0] if len(written) == 1 else {"traces": written}
    yield f'\n],"otherData":{json.dumps({"generator": generator, **about})}}}\n'.encode()


def compressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces as one gzip file, the same for the same pieces."""
    packer = zlib.compressobj(6, zlib.DEFLATED, wbits=31)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


def _events(found: TraceCases, report: OverlapReport, tracks: Tracks) -> Iterator[str]:
    host = found.classified.trace.host
    pids = [
        tracks.process(FIRST_DEVICE + i, device.label, 0) for i, device in enumerate(report.devices)
    ]
    calls, thread_pids = place_calls(host, tracks)
    for case, pid in zip(found.cases, pids, strict=True):
        device = device_timeline(case)
        yield from step_events(device, tracks, pid)
        yield from exposed_events(case, device, tracks, pid)
        yield from stream_events(case, device, tracks, pid, calls)
        yield from _counters(case, pid, tracks.events)
        yield from tracks.take_metadata()
    yield from call_events(host, calls, tracks.events)
    yield from range_events(host, tracks, thread_pids)
    yield from _finding_events(report, found.cases, tracks, pids)
    yield from tracks.take_metadata()


def _counters(case: DeviceCase, pid: int, events: Events) -> Iterator[str]:
    for direction in ("h2d", "d2h"):
        yield from exposed_counter(case, pid, direction, events)
        yield from rate_counter(case, pid, direction, events)


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
            yield tracks.events.instant(on[device], name, "finding", start, args)


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
