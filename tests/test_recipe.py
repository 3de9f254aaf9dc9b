"""An outside check: shares under NCCL and under compute against nsys's own recipe.

`nccl_gpu_overlap_trace` of nsys says for each kernel of jax_fsdp2_lhs what percentage of its
duration lies under at least one NCCL kernel and under at least one other compute kernel. It
leaves the kernel itself out of the union it is compared with.
"""

from __future__ import annotations

import csv

import numpy as np

from nsysoverlap import IntervalSet, read_trace
from nsysoverlap.core.arrays import Int64Array
from nsysoverlap.trace.contents import short_name

from .traces import FIXTURES, h200

RECIPE = FIXTURES / "jax_fsdp2_lhs.nccl_gpu_overlap_trace" / "rank_trace.csv"
Key = tuple[int, int, int, str]


def under_others(
    starts: Int64Array, ends: Int64Array, own: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> Int64Array:
    """For each span, how much of it lies under the union of the spans of `own` but itself."""
    union = IntervalSet.from_spans(starts[own], ends[own])
    covered = union.covered(starts, ends)
    for i in np.flatnonzero(own):
        # Only spans that touch this one can matter for what its neighbours cover of it.
        near = own & (starts < ends[i]) & (ends > starts[i])
        near[i] = False
        covered[i] = IntervalSet.from_spans(starts[near], ends[near]).covered(
            starts[i : i + 1], ends[i : i + 1]
        )[0]
    return covered


def test_every_kernel_agrees_with_the_recipe_to_its_decimal() -> None:
    with RECIPE.open(newline="") as file:
        expected: dict[Key, tuple[float, float]] = {
            (int(row["DeviceID"]), int(row["Start"]), int(row["End"]), row["Name"]): (
                float(row["Communication Overlap"]),
                float(row["Compute Overlap"]),
            )
            for row in csv.DictReader(file)
        }
    assert len(expected) == 3024
    trace = read_trace(h200("jax_fsdp2_lhs"))
    kernels = trace.kernels
    names = [short_name(trace.names[i]) for i in kernels.name]
    found: dict[Key, tuple[float, float]] = {}
    for device in trace.devices:
        rows = np.flatnonzero(trace.stream_device[kernels.stream] == device.index)
        starts, ends = kernels.start_ns[rows], kernels.end_ns[rows]
        nccl = np.array([names[row].startswith("nccl") for row in rows])
        comm = under_others(starts, ends, nccl)
        compute = under_others(starts, ends, ~nccl)
        for i, row in enumerate(rows):
            duration = ends[i] - starts[i]
            key = (device.device_id or 0, int(starts[i]), int(ends[i]), names[row])
            found[key] = (
                round(100 * float(comm[i]) / duration, 1),
                round(100 * float(compute[i]) / duration, 1),
            )
    assert found == expected
