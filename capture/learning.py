"""What finished arms teach of the model: times of operations, of tensors and of whole steps."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import nsysoverlap

from .config import Config
from .errors import RefusedError
from .overlap import read_report, trace_files
from .pgle import operation_costs
from .results import Row, read_manifest
from .schedule import Op, Replayed, costs_by_signature, read_schedule, replay
from .search import StepModel, Tensor, with_clock
from .spec import HLO

AGAIN = "rematted_computation/"
DEFAULT_GBPS = 50.0


@dataclass(frozen=True)
class Recorded:
    """The program of a recorded arm, and what its operations took."""

    arm: str
    ops: tuple[Op, ...]
    op_us: Mapping[str, float]

    def ms(self, *, again: str = "", backward: bool | None = None) -> float:
        """Milliseconds a step of layers: all, of one tensor's recomputation, or of one pass."""
        total = 0.0
        for op in self.ops:
            scope = op.scope
            layers = "jvp(" in scope and "head" not in scope
            if again and f"{AGAIN}{again}/" not in scope:
                continue
            if backward is not None and ("transpose(jvp" in scope) is not backward:
                continue
            if layers or again:
                total += self.op_us.get(op.name, 0.0) / 1e3
        return total


def read_recorded(folder: Path, arm: str) -> Recorded | None:
    """The recording of an arm and its program; None without one or for a program with loops."""
    traces, program = trace_files(folder / arm), folder / arm / HLO
    manifest = read_manifest(folder / arm)
    if not traces or manifest is None or not program.is_file():
        return None
    try:
        ops = read_schedule(gzip.decompress(program.read_bytes()).decode())
    except RefusedError:
        return None
    trace = nsysoverlap.read_trace(traces[0])
    return Recorded(arm, tuple(ops), operation_costs(trace, manifest["traced_steps"]))


def merged_costs(recorded: Iterable[Recorded]) -> dict[str, float]:
    """Microseconds by signature of operation, the median over all recordings that have it."""
    seen: dict[str, list[float]] = {}
    for one in recorded:
        for key, cost in costs_by_signature(list(one.ops), one.op_us).items():
            seen.setdefault(key, []).append(cost)
    return {key: median(costs) for key, costs in seen.items()}


def link_rates(folder: Path, rows: Iterable[Row]) -> dict[str, float]:
    """GB/s each way: of copies in recordings, else of the copies that each run ends with."""
    found: dict[str, list[float]] = {"d2h": [], "h2d": []}
    alone: dict[str, list[float]] = {"d2h": [], "h2d": []}
    for row in rows:
        report, manifest = read_report(folder / row.arm), read_manifest(folder / row.arm)
        for way in found:
            rate = report["totals"][way]["gb_per_s"] if report else None
            if rate and row.host_gib:
                found[way].append(rate)
            if manifest and (rate := manifest.get("link", {}).get(f"{way}_gbps")):
                alone[way].append(rate)
    return {
        way: median(rates or alone[way]) if rates or alone[way] else DEFAULT_GBPS
        for way, rates in found.items()
    }


def tensor_gb(folder: Path) -> dict[str, float]:
    """GB (10^9) of each named tensor of one layer on one device, as `remat` had them."""
    manifest = read_manifest(folder / "remat") or {}
    return {name: size / 1e9 for name, size in manifest.get("tensors", {}).items()}


def step_model(
    config: Config, folder: Path, rows: Mapping[str, Row], names: Iterable[str]
) -> StepModel:
    """The model of the step, from `keep` and `remat`, and which of `names` it can place.

    Without recordings (on a CPU) the time between the two is divided by size: plumbing only.
    """
    keep, remat = rows["keep"], rows["remat"]
    if keep.step_ms is None or remat.step_ms is None:
        raise RefusedError("keep or remat has no step time.", "See the table: both are needed.")
    layers, rates = config.model.layers, link_rates(folder, rows.values())
    sizes = tensor_gb(folder)
    names = [name for name in names if name in sizes]
    recorded = read_recorded(folder, "remat")
    if recorded is not None:
        forward, backward = (recorded.ms(backward=way) / layers for way in (False, True))
        again = {name: recorded.ms(again=name) / layers for name in names}
    else:
        forward, backward = remat.step_ms / 4 / layers, 3 * remat.step_ms / 4 / layers
        more = max(remat.step_ms - keep.step_ms, remat.step_ms / 20)
        spare, total = more / layers, sum(sizes[n] for n in names)
        again = {name: spare * sizes[name] / total for name in names}
    tensors = (Tensor(n, again[n], sizes[n]) for n in names if again[n] > forward / 1000)
    return StepModel(
        layers=layers,
        remat_ms=remat.step_ms,
        remat_gib=remat.peak_gib or remat.planned_gib or 0.0,
        forward_ms=forward,
        backward_ms=backward,
        d2h_gbps=rates["d2h"],
        h2d_gbps=rates["h2d"],
        ahead=config.offload.ahead,
        tensors=tuple(tensors),
    )


@dataclass(frozen=True)
class Calibration:
    """What turns replays into steps and planned into used memory, from arms that have run."""

    costs: Mapping[str, float]
    gbps: Mapping[str, float]
    factor: float
    peak_gib: float
    clock: float

    def step_of(self, replayed: Replayed) -> float:
        """The step of a replayed schedule."""
        return with_clock(self.factor * replayed.work_ms, replayed.exposed_ms, self.clock)


def calibrate(folder: Path, rows: Iterable[Row], clock: float) -> Calibration | None:
    """None where nothing was recorded.

    `factor` is measured over replayed step of the arms that move nothing, `peak_gib` what their
    peaks exceed the plan by; both medians.
    """
    rows = [row for row in rows if row.status == "ok" and row.step_ms]
    recorded = {row.arm: read_recorded(folder, row.arm) for row in rows}
    known = [one for one in recorded.values() if one is not None]
    if not known:
        return None
    costs, gbps = merged_costs(known), link_rates(folder, rows)
    factors, over = [], []
    for row in rows:
        one = recorded[row.arm]
        if one is not None and not row.host_gib:
            factors.append((row.step_ms or 0.0) / replay(list(one.ops), costs, gbps).step_ms)
        if row.peak_gib is not None and row.planned_gib is not None:
            over.append(row.peak_gib - row.planned_gib)
    return Calibration(costs, gbps, median(factors or [1.0]), median(over or [0.0]), clock)
