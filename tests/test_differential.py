"""The same numbers by other means: a sweep over events, plain SQL, and nsys itself."""

from __future__ import annotations

import csv
import os
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from nsysoverlap import analyze, read_trace
from nsysoverlap.result.model import DeviceReport
from nsysoverlap.roles.rules import Role, classify
from nsysoverlap.run.analysis import Options
from nsysoverlap.run.transfer_table import transfer_rows

from . import brute
from .builder.query import query, tables
from .tracebuilder import ALL_REDUCE, GEMM, TraceBuilder
from .traces import FIXTURES, h200, h200_names, programs, public_traces

NSYS = shutil.which(os.environ.get("NSYSOVERLAP_REAL_NSYS") or os.environ.get("NSYS") or "nsys")
_ROLES = {
    Role.COMPUTE: "compute",
    Role.COMM: "comm",
    Role.H2D: "h2d",
    Role.D2H: "d2h",
    Role.OTHER: "other",
    Role.UNIFIED_H2D: "unified_h2d",
    Role.UNIFIED_D2H: "unified_d2h",
    Role.OPAQUE: "opaque",
}
Span = tuple[str, int, int]
TRACES = [
    *(pytest.param(h200(name), id=name) for name in (*h200_names(), *programs())),
    *public_traces(),
]


# A sweep: what runs is counted from event to event, one stretch of time after the other.


def sweep(spans: Iterable[Span]) -> Counter[str]:
    """Nanoseconds of each part of the split, and of the time budget, by a sweep over events."""
    events = sorted(
        event for role, start, end in spans for event in ((start, role, 1), (end, role, -1))
    )
    running: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for (at, role, change), (then, _, _) in zip(events, [*events[1:], events[-1]], strict=True):
        running[role] += change
        now = {name for name, n in running.items() if n}
        for direction, roles in brute.DIRECTIONS.items():
            if now.isdisjoint(roles):
                continue
            hider = next((r for r in ("compute", "comm") if r in now), "exposed")
            found[f"{direction} {hider}"] += then - at
        doing = ("compute", "comm", "h2d", "d2h", "other", "unified_h2d", "unified_d2h", "opaque")
        found[next((name for name in doing if name in now), "idle")] += then - at
    return found


def agrees(device: DeviceReport, spans: list[Span]) -> None:
    expected = sweep(spans)
    for direction in brute.DIRECTIONS:
        overlap = getattr(device, direction)
        parts = (overlap.hidden_by_compute_ns, overlap.hidden_by_comm_ns, overlap.exposed_ns)
        names = [f"{direction} {hider}" for hider in ("compute", "comm", "exposed")]
        assert parts == tuple(expected[name] for name in names), direction
    budget = device.time_budget
    assert budget.compute_ns == expected["compute"]
    assert budget.comm_ns == expected["comm"]
    assert budget.transfer_ns == expected["h2d"] + expected["d2h"]
    assert budget.opaque_ns == expected["opaque"]
    assert budget.idle_ns == expected["idle"]


@pytest.mark.parametrize("path", TRACES)
def test_real_traces_equal_a_sweep(path: Path) -> None:
    trace = read_trace(path)
    classified = classify(trace)
    for device in analyze(trace, steps="none").devices:
        index = [
            d.index for d in trace.devices if (d.pid, d.device_id) == (device.pid, device.device_id)
        ]
        spans: list[Span] = []
        for name, table in trace.tables.items():
            here = np.isin(trace.stream_device[table.stream], index)
            columns = (classified.roles[name], table.start_ns, table.end_ns)
            for role, start, end in zip(*(c[here].tolist() for c in columns), strict=True):
                spans.append((_ROLES[Role(role)], start, end))
        agrees(device, spans)


@pytest.mark.parametrize(
    "hundred", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 10))]
)
def test_a_thousand_random_traces_equal_the_brute_force_model(tmp_path: Path, hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        drawn = draw(tmp_path / "t.sqlite", random.Random(seed))
        devices = analyze(tmp_path / "t.sqlite", steps="none").devices
        assert [d.device_id for d in devices] == sorted(drawn)
        for device, spans in zip(devices, (drawn[key] for key in sorted(drawn)), strict=True):
            window = brute.extent(spans)
            for direction in brute.DIRECTIONS:
                expected = brute.overlap(spans, direction, window)
                overlap = asdict(getattr(device, direction))
                assert {name: overlap[name] for name in expected} == expected, (seed, direction)
            assert asdict(device.time_budget) == brute.time_budget(spans, window), seed
            agrees(device, spans)


def draw(path: Path, choose: random.Random) -> dict[int, list[Span]]:
    """A random trace of one to three devices and its activities."""
    builder, drawn = TraceBuilder(), dict[int, list[Span]]()
    for _ in range(choose.randint(1, 40)):
        role, device = choose.choice(brute.ROLES), choose.randrange(choose.choice([1, 3]))
        start = choose.randint(1, 60)
        end = start + choose.choice([1, 2, 3, 5, 8, 30])
        stream = choose.randint(7, 12)
        if role in ("compute", "comm"):
            name = GEMM if role == "compute" else ALL_REDUCE
            builder.kernel(start, end, name, stream=stream, device=device)
        elif role == "other":
            builder.memset(start, end, stream=stream, device=device)
        elif role == "opaque":
            builder.graph(start, end, stream=stream, device=device)
        else:
            builder.copy(start, end, role, 8, stream=stream, device=device)
        drawn.setdefault(device, []).append((role, start, end))
    builder.write(path)
    return drawn


# Plain SQL.


@pytest.mark.parametrize("path", TRACES)
def test_totals_equal_plain_sql(path: Path) -> None:
    report = analyze(path, steps="none")
    copies = "CUPTI_ACTIVITY_KIND_MEMCPY"
    if copies not in tables(path):
        assert report.total("both").n == report.total("both").n_by_kernel
        return
    for direction, kinds, unified in (("h2d", "1, 3", 11), ("d2h", "2, 4", 12)):
        overlap = report.total(direction)
        where = f"copyKind IN ({kinds}) AND NOT (srcKind IN (2, 3, 5) AND dstKind IN (2, 3, 5))"
        ((n, n_bytes, ns),) = query(
            path,
            'SELECT count(*), ifnull(sum(bytes), 0), ifnull(sum("end" - start), 0) '
            f"FROM {copies} WHERE {where}",
        )
        assert (overlap.n - overlap.n_by_kernel, overlap.bytes) == (n, n_bytes)
        assert overlap.copy_ns == ns
        ((migrations,),) = query(path, f"SELECT count(*) FROM {copies} WHERE copyKind = {unified}")
        assert sum(getattr(d, f"unified_{direction}").n for d in report.devices) == migrations


# nsys itself.


WAYS = {
    "h2d": "[CUDA memcpy Host-to-Device]",
    "d2h": "[CUDA memcpy Device-to-Host]",
    "unified_h2d": "[CUDA memcpy Unified Host-to-Device]",
    "unified_d2h": "[CUDA memcpy Unified Device-to-Host]",
}


def nsys_table(path: Path, report: str) -> dict[str, dict[str, str]]:
    """Operation -> row of a table of `nsys stats`; {} where nsys finds nothing for it."""
    done = subprocess.run(
        [str(NSYS), "stats", "-q", "-r", report, "-f", "csv", "-o", "-", path],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"this nsys made no table: {done.stderr.strip()[:200]}")
    lines = done.stdout.splitlines()
    header = next((i for i, line in enumerate(lines) if line.endswith("Operation")), len(lines))
    return {row["Operation"]: row for row in csv.DictReader(lines[header:])}


def unslimmed() -> list[str]:
    """Traces in which nsys finds its names of copy kinds; `nsysoverlap slim` leaves them out."""
    names = "SELECT 1 FROM sqlite_master WHERE name = 'ENUM_CUDA_MEMCPY_OPER'"
    return [name for name in h200_names() if query(FIXTURES / f"{name}.sqlite", names)]


def test_most_traces_can_be_read_by_nsys() -> None:
    slimmed = {name for name in h200_names() if name.startswith(("jax_capture_", "record_"))}
    assert set(unslimmed()) == set(h200_names()) - slimmed


@pytest.mark.skipif(not NSYS, reason="no nsys on this machine")
@pytest.mark.parametrize("name", unslimmed())
def test_transfers_equal_nsys_stats(name: str, tmp_path: Path) -> None:
    path = Path(shutil.copy(FIXTURES / f"{name}.sqlite", tmp_path / "t.sqlite"))
    path.chmod(0o644)
    times = nsys_table(path, "cuda_gpu_mem_time_sum")
    sizes = nsys_table(path, "cuda_gpu_mem_size_sum")
    columns = transfer_rows(read_trace(path), Options())
    transfers = zip(
        *(columns[key] for key in ("direction", "by_kernel", "start_ns", "end_ns", "bytes")),
        strict=True,
    )
    found: dict[str, list[tuple[int, int]]] = {way: [] for way in WAYS}
    for way, by_kernel, start, end, n_bytes in transfers:
        if not by_kernel:
            found[way].append((end - start, n_bytes))
    for way, label in WAYS.items():
        assert (label in times) == (label in sizes) == bool(found[way]), way
        if not found[way]:
            continue
        ns, n_bytes = zip(*found[way], strict=True)
        time, size = times[label], sizes[label]
        assert len(ns) == int(time["Count"]) == int(size["Count"])
        assert [sum(ns), min(ns), max(ns)] == [
            int(time[f"{what} (ns)"]) for what in ("Total Time", "Min", "Max")
        ]
        assert [f"{part / 1e6:.3f}" for part in (sum(n_bytes), min(n_bytes), max(n_bytes))] == [
            size[f"{what} (MB)"] for what in ("Total", "Min", "Max")
        ]
