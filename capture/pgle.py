"""A latency profile for XLA's scheduler, written from our own recording.

XLA's own profiler and nsys exclude each other (both need CUPTI). The text form needs only names
and microseconds, which the recording has: an operation is the innermost NVTX range around the
launch of a kernel or copy.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import nsysoverlap
from nsysoverlap.steps.labels import parse_label
from nsysoverlap.steps.launches import Launches
from nsysoverlap.trace.contents import Trace

_ASYNC_START = re.compile(r"^(.*)-start(\.\d+)?$")


def write_profile(trace_file: Path, target: Path, n_steps: int) -> int:
    """Write the profile of a recording of `n_steps` steps; returns how many operations it has."""
    costs = operation_costs(nsysoverlap.read_trace(trace_file), n_steps)
    target.write_text(profile_text(costs), encoding="utf-8")
    return len(costs)


def operation_costs(trace: Trace, n_steps: int) -> dict[str, float]:
    """Microseconds of GPU time a step of each HLO operation."""
    launches = Launches(trace)
    total: dict[str, float] = defaultdict(float)
    for table in (trace.kernels, trace.copies):
        ranges = launches.nests.innermost(launches.of(table))
        durations = (table.end_ns - table.start_ns) / 1e3 / n_steps
        for found, microseconds in zip(ranges.tolist(), durations.tolist(), strict=True):
            if found < 0:
                continue
            label = parse_label(trace.host.texts[trace.host.ranges.text[found]])
            if "hlo_op" in label.keys:
                total[label.op] += microseconds
    return dict(total)


def profile_text(costs: Mapping[str, float]) -> str:
    """The profile in text form: a cost for each operation, a latency for each asynchronous one."""
    return "\n".join([*_cost_lines(costs.items()), *_latency_lines(costs.items())]) + "\n"


def _cost_lines(costs: Iterable[tuple[str, float]]) -> list[str]:
    return [f'costs {{ name: "{name}" cost_us: {cost:.3f} }}' for name, cost in costs]


def _latency_lines(costs: Iterable[tuple[str, float]]) -> list[str]:
    lines = []
    for name, cost in costs:
        match = _ASYNC_START.match(name)
        if match:
            done = f"{match[1]}-done{match[2] or ''}"
            lines.append(
                f'latencies {{ source: "{name}" target: "{done}" latency_us: {cost:.3f} }}'
            )
    return lines
