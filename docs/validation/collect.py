"""Reduce a results folder of `python -m capture` to the small file behind docs/validation.md.

`--clocks FILE --gpu N` also what nvidia-smi said while the steps ran (written by `nvidia-smi
--query-gpu=timestamp,index,clocks.sm,clocks.mem,power.draw,clocks_event_reasons.active
--format=csv,noheader -lms 200`). `make docs` renders the tables from these files.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sqlite3
import sys
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from statistics import mean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from capture.results import Row, load_rows, read_manifest

POWER_CAP = 0x4
"""The bit of NVML's clock event reasons that says: held down by the power limit."""
KERNELS = """
SELECT name.value, kernel.gridX * kernel.gridY * kernel.gridZ, kernel."end" - kernel.start
FROM CUPTI_ACTIVITY_KIND_KERNEL AS kernel JOIN StringIds AS name ON name.id = kernel.shortName
"""
PRODUCTS = re.compile("nvjet|gemm|cutlass")
NCCL = re.compile("nccl")
Kernels = dict[tuple[str, int], list[int]]


def kernels(folder: Path) -> Kernels:
    """Durations in ns of the kernels of a recording, by short name and number of blocks."""
    found: Kernels = {}
    for path in sorted(folder.glob("*.sqlite")):
        uri = f"file:{path}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            for name, blocks, duration in connection.execute(KERNELS):
                found.setdefault((name, blocks), []).append(duration)
    return found


def same_kernels(mine: Kernels, other: Kernels, n: int) -> dict[str, Any]:
    """Time of the kernels that both recordings have equally often: the ratio of here to there,
    and how many ms less it is here in each of the `n` steps of all devices.

    Matrix products are bound by the SM clock, the rest mostly by memory, whose clock is fixed.
    NCCL kernels wait for other GPUs and are left out.
    """
    sums = {"products": [0, 0, 0], "rest": [0, 0, 0]}
    for key in mine.keys() & other.keys():
        if len(mine[key]) != len(other[key]) or NCCL.search(key[0]):
            continue
        entry = sums["products" if PRODUCTS.search(key[0]) else "rest"]
        entry[0] += len(mine[key])
        entry[1] += sum(mine[key])
        entry[2] += sum(other[key])
    return {
        name: {
            "n": count,
            "ratio": here / there if there else None,
            "less_ms": (there - here) / n / 1e6,
        }
        for name, (count, here, there) in sums.items()
    }


def lanes(folder: Path) -> dict[str, float]:
    """Milliseconds of a median step: compute, other GPU work, idle; mean over the devices."""
    report = json.loads((folder / "overlap.json").read_text(encoding="utf-8"))

    def middle(key: str) -> float:
        per_device = [
            median(step["time_budget"][f"{key}_ns"] for step in device["steps"])
            for device in report["devices"]
        ]
        return mean(per_device) / 1e6

    return {key: middle(key) for key in ("compute", "comm", "other", "idle")}


def clocks(folder: Path, files: list[Path], gpu: int) -> dict[str, Any] | None:
    """Readings while the timed steps ran, which end at the stamp `step` of the log.

    The stamp is cut to the second, so the first second of the steps is left out.
    """
    log = (folder / "log.txt").read_text(encoding="utf-8")
    stamp = re.search(r"\[(\d+:\d+:\d+)\] step", log)
    manifest = read_manifest(folder)
    if stamp is None or manifest is None:
        return None
    timed = 2 * manifest["config"]["recording"]["timed"]
    readings = []
    for path in files:
        with path.open(newline="") as file:
            for at, index, sm, _, power, reasons in csv.reader(file):
                when = datetime.strptime(at, "%Y/%m/%d %H:%M:%S.%f")
                last = datetime.combine(when.date(), datetime.strptime(stamp[1], "%H:%M:%S").time())
                first = last + timedelta(seconds=1, milliseconds=-timed * manifest["step_ms"])
                if int(index) == gpu and first <= when <= last:
                    readings.append((_number(sm), _number(power), int(reasons, 16)))
    if not readings:
        return None
    return {
        "n": len(readings),
        "sm_mhz": mean(sm for sm, _, _ in readings),
        "watts": mean(power for _, power, _ in readings),
        "capped_share": mean(bool(reasons & POWER_CAP) for _, _, reasons in readings),
    }


def own_clocks(folder: Path) -> dict[str, Any] | None:
    """What the driver itself read while the steps ran, since it does."""
    values: dict[str, Any] = (read_manifest(folder) or {}).get("clocks", {})
    names = ("n", "sm_mhz", "watts", "capped_share")
    return {name: values[name] for name in names} if values.get("n") else None


def _number(text: str) -> float:
    return float(text.split()[0])


def evidence(folder: Path, row: Row, files: list[Path], gpu: int) -> dict[str, Any]:
    """What the recordings say of an arm beside its control; empty without recordings."""
    arm = folder / row.arm
    found: dict[str, Any] = {"lanes": lanes(arm)}
    reading = clocks(arm, files, gpu) if files else own_clocks(arm)
    if reading:
        found["clocks"] = reading
    control = folder / (row.control or "")
    if row.control and list(control.glob("*.sqlite")):
        manifest = read_manifest(arm) or {}
        n = manifest["traced_steps"] * manifest["mesh"]["fsdp"]
        found["same_kernels"] = same_kernels(kernels(arm), kernels(control), n)
    return found


def main() -> None:
    """Write the file: one line an arm, without losses and machine names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--arms", required=True)
    parser.add_argument("--model", required=True, help="what the tables call it")
    parser.add_argument("--machine", required=True, help="a letter")
    parser.add_argument("--borrowed", default="", help="controls that ran on another machine")
    parser.add_argument("--clocks", type=Path, action="append", default=[])
    parser.add_argument("--gpu", type=int, default=0)
    given = parser.parse_args()
    borrowed = given.borrowed.split(",")
    lines = []
    rows = {row.arm: row for row in load_rows(given.folder)}
    for name in [*given.arms.split(","), *filter(None, borrowed)]:
        values = rows[name].to_dict()
        del values["losses"], values["title"], values["traced_ms"]
        values |= evidence(given.folder, rows[name], given.clocks, given.gpu)
        values["borrowed"] = name in borrowed
        lines.append(json.dumps({k: _rounded(v) for k, v in values.items()}))
    text = ",\n".join(lines)
    names = f'"model": {json.dumps(given.model)}, "machine": {json.dumps(given.machine)}'
    given.out.write_text(f'{{{names}, "arms": [\n{text}\n]}}\n')


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    return value


if __name__ == "__main__":
    main()
