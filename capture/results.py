"""From what the arms left to one row each: numbers, prediction, and what makes a run void."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from nsysoverlap.core.output import write_atomically

from .arms import Arm, all_arms
from .config import Config, TrainingConfig, config_from
from .errors import CaptureError
from .json_files import read_json
from .overlap import read_report

OUTCOMES = "outcome*.json"
WORST_FIRST = ("failed", "timeout", "refused", "out-of-memory", "void", "skipped", "ok")
BYTES_TOLERANCE = 0.01
SMALL_BYTES = 1 << 20
"""Bytes a step that an arm without offloading may move: constants, not tensors."""


@dataclass(frozen=True)
class Row:
    """One arm. `status`: ok, void, out-of-memory, failed, timeout, refused.

    Times are milliseconds a step, sizes GiB a device, shares 0..1; None where not measured.
    `predicted_ms` is the control's step time plus the exposed time.
    """

    arm: str
    title: str
    status: str
    reason: str = ""
    step_ms: float | None = None
    traced_ms: float | None = None
    tflops: float | None = None
    peak_gib: float | None = None
    planned_gib: float | None = None
    host_gib: float | None = None
    d2h_hidden: float | None = None
    h2d_hidden: float | None = None
    relief_share: float | None = None
    exposed_ms: float | None = None
    predicted_ms: float | None = None
    control: str | None = None
    finding: str = ""
    losses: tuple[float | None, ...] = ()

    @property
    def prediction_error(self) -> float | None:
        """Predicted over measured, less one."""
        if self.predicted_ms is None or not self.step_ms:
            return None
        return self.predicted_ms / self.step_ms - 1

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `results.json`."""
        return {**asdict(self), "prediction_error": self.prediction_error}


def load_rows(folder: Path) -> list[Row]:
    """The rows of a results folder, in the order of the experiment."""
    config = read_config(folder)
    rows = [
        _row(folder / arm.name, arm) for arm in all_arms(config) if read_outcome(folder / arm.name)
    ]
    by_name = {row.arm: row for row in rows}
    return [_against(row, by_name, config) for row in rows]


def read_config(folder: Path) -> Config:
    """The configuration of a results folder."""
    return config_from(read_json(folder / "config.json"))


def is_done(folder: Path) -> bool:
    """Whether an arm has a result; one that failed or ran out of time may be tried again."""
    outcome = read_outcome(folder)
    return bool(outcome) and outcome["status"] not in ("failed", "timeout", "refused")


def write_outcome(folder: Path, status: str, reason: str = "", rank: int | None = None) -> None:
    """Leave how an arm, or one rank of several, ended."""
    text = json.dumps({"status": status, "reason": reason})
    name = "outcome.json" if rank is None else f"outcome.rank{rank}.json"
    write_atomically(folder / name, text + "\n")


def read_outcome(folder: Path) -> dict[str, str]:
    """How an arm ended, by its worst rank; empty where it did not."""
    found = [read_json(path) for path in folder.glob(OUTCOMES)]
    if any(outcome.get("status") not in WORST_FIRST for outcome in found):
        raise CaptureError(
            f"{folder.name}: an outcome with no known status.", "Remove it and run the arm again."
        )
    return min(found, key=lambda outcome: WORST_FIRST.index(outcome["status"]), default={})


def _row(folder: Path, arm: Arm) -> Row:
    outcome = read_outcome(folder)
    row = Row(arm.name, arm.title, outcome["status"], outcome["reason"], control=arm.control)
    manifest = read_manifest(folder)
    if manifest is None or manifest.get("status") != "ok" or "step_ms" not in manifest:
        return row
    memory = manifest["memory"]
    row = replace(
        row,
        step_ms=manifest["step_ms"],
        traced_ms=manifest["traced_ms"],
        tflops=manifest["tflops_per_device"],
        peak_gib=memory["peak_gib"],
        planned_gib=_planned(memory),
        host_gib=memory["host_gib"],
        losses=tuple(manifest["losses"]),
    )
    row = _void_unless(row, _program_moves(arm, manifest["traffic"]))
    report = read_report(folder)
    return row if report is None else _with_overlap(row, arm, manifest, report)


def _planned(memory: Mapping[str, float | None]) -> float | None:
    """GiB by the compiler; older manifests say only its parts."""
    if "planned_gib" in memory:
        return memory["planned_gib"]
    arguments, temporary = memory["arguments_gib"], memory["temporary_gib"]
    return None if arguments is None or temporary is None else arguments + temporary


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of an arm, of its first rank where there are several."""
    for name in ("manifest.json", "manifest.rank0.json"):
        if (folder / name).is_file():
            return read_json(folder / name)
    return None


def _program_moves(arm: Arm, traffic: Mapping[str, int]) -> str:
    """Why the traced program does not offload as the arm says, or ""."""
    moves = traffic["d2h_bytes"] > 0 and traffic["h2d_bytes"] > 0
    if arm.expects_transfers and not moves:
        return "the program moves nothing to the host"
    if not arm.expects_transfers and (traffic["d2h_bytes"] or traffic["h2d_bytes"]):
        return "the program moves data to the host, and the arm must not"
    return ""


def _with_overlap(
    row: Row, arm: Arm, manifest: Mapping[str, Any], report: Mapping[str, Any]
) -> Row:
    """The row with what nsysoverlap says of the recording."""
    errors = [entry for entry in report["health"] if entry["severity"] == "error"]
    if errors:
        return _void_unless(row, f"the recording cannot be trusted: {errors[0]['message']}")
    devices, steps = report["devices"], manifest["traced_steps"]
    if not devices:
        return _void_unless(row, "the recording holds no device")
    totals = report["totals"]
    reliefs = [d["relief"]["relief_share"] for d in devices if d.get("relief")]
    row = replace(row, exposed_ms=median(exposed_ns(device, steps) for device in devices) / 1e6)
    if arm.expects_transfers:
        # Without it what there is are losses read back, of which a share says nothing.
        row = replace(
            row,
            d2h_hidden=totals["d2h"]["hidden_share"],
            h2d_hidden=totals["h2d"]["hidden_share"],
            relief_share=median(reliefs) if reliefs and None not in reliefs else None,
            finding=report["findings"][0]["code"] if report.get("findings") else "",
        )
    return _void_unless(row, _bytes_differ(arm, manifest, devices, steps))


def exposed_ns(device: Mapping[str, Any], n_steps: int) -> float:
    """Exposed transfer time of a median step of one device of a JSON report."""
    steps = device.get("steps") or []
    if steps:
        return float(median(step["both"]["exposed_ns"] for step in steps))
    return float(device["both"]["exposed_ns"] / max(1, n_steps))


def _bytes_differ(arm: Arm, manifest: Mapping[str, Any], devices: list[Any], n_steps: int) -> str:
    """Why the recorded bytes are not those of the program, or ""."""
    for direction in ("d2h", "h2d"):
        expected = manifest["traffic"][f"{direction}_bytes"] / manifest["mesh"]["fsdp"]
        allowed = BYTES_TOLERANCE * expected if arm.expects_transfers else SMALL_BYTES
        for device in devices:
            seen = recorded_bytes(device, direction) / n_steps
            if abs(seen - expected) > allowed:
                return (
                    f"{direction.upper()} moved {seen / 1e9:.3f} GB a step, "
                    f"the program says {expected / 1e9:.3f}"
                )
    return ""


def recorded_bytes(device: Mapping[str, Any], direction: str) -> int:
    """Bytes of copies and transfer kernels of one device, inside and outside of steps."""
    outside = (device.get("outside_steps") or {}).get(direction) or {}
    keys = ("bytes", "bytes_estimated")
    return sum(device[direction][key] + outside.get(key, 0) for key in keys)


def _against(row: Row, rows: Mapping[str, Row], config: Config) -> Row:
    """The row beside `keep`, or its control without one (losses), and its control (prediction)."""
    control = rows.get(row.control or "")
    row = _void_unless(row, _losses_differ(row, rows.get("keep", control), config.training))
    if control is not None and control.step_ms is not None and row.exposed_ms is not None:
        row = replace(row, predicted_ms=control.step_ms + row.exposed_ms)
    return row


def _losses_differ(row: Row, keep: Row | None, training: TrainingConfig) -> str:
    """Why the losses are not to be trusted, or "".

    Recomputing in other fusions rounds bf16 differently, and training on one batch amplifies that
    from step to step, between arms that offload nothing as well: on H200s the first four losses
    agreed within 3e-3, the fifteenth within 8e-2. So the first steps are held to a tight bound
    and the later ones, which a broken copy would blow up, to a wide one.
    """
    if None in row.losses:
        return "a loss is not finite"
    if keep is None or None in keep.losses:
        return ""
    apart = [
        abs(mine - other) / abs(other)
        for mine, other in zip(row.losses, keep.losses, strict=False)
        if mine is not None and other is not None
    ]
    first = max(apart[: training.loss_steps], default=0.0)
    later = max(apart[training.loss_steps :], default=0.0)
    if first > training.loss_rtol:
        return f"losses differ from {keep.arm}'s by up to {first:.2e}"
    drifts = f"losses drift from {keep.arm}'s by up to {later:.2e}"
    return "" if later <= training.drift_rtol else drifts


def _void_unless(row: Row, problem: str) -> Row:
    if not problem or row.status not in ("ok", "void"):
        return row
    reason = f"{row.reason}; {problem}" if row.reason else problem
    return replace(row, status="void", reason=reason)
