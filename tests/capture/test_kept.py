"""The tables of docs/validation.md: made from kept files, which hold what the page says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capture.kept import OFF_BY, Kept, evidence_table, read_kept, result_table
from capture.results import Row

from .kit import ROOT

FILES = sorted((ROOT / "docs" / "validation").glob("*.json"))
NEVER_IDLE_MS = 2


def arm(name: str, **more: Any) -> dict[str, Any]:
    lanes = {"compute": 100.0, "comm": 0.0, "other": 4.0, "idle": 1.0}
    values = {"arm": name, "status": "ok", "step_ms": 105.0, "peak_gib": 9.0, "exposed_ms": 0.0}
    return {**values, "lanes": lanes, "borrowed": False, **more}


def judged(name: str, exposed_ms: float, step_ms: float, compute: float) -> dict[str, Any]:
    """An arm whose control `save` takes 105 ms, with products at 0.9 of their time there."""
    predicted = 105.0 + exposed_ms
    same = {"products": {"n": 3, "ratio": 0.9, "less_ms": 8.0}, "rest": {"n": 0, "ratio": None}}
    lanes = {"compute": compute, "comm": 0.0, "other": 4.0, "idle": 1.0}
    return arm(
        name,
        step_ms=step_ms,
        exposed_ms=exposed_ms,
        predicted_ms=predicted,
        control="save",
        lanes=lanes,
        same_kernels=same,
        clocks={"n": 5, "sm_mhz": 1500.4, "watts": 600.0, "capped_share": 0.5},
    )


def kept(folder: Path, *arms: dict[str, Any]) -> Kept:
    path = folder / "kept.json"
    path.write_text(json.dumps({"model": "dense", "machine": "B", "arms": arms}), encoding="utf-8")
    return read_kept(path)


def test_a_control_of_another_machine_is_named(tmp_path: Path) -> None:
    found = kept(tmp_path, arm("save", borrowed=True), judged("lhs", 20.0, 115.0, 90.0))
    assert [row.arm for row in found.rows] == ["lhs"]
    text = result_table(found)
    assert "| lhs | 115.0 |" in text
    assert "| save |" not in text
    assert text.endswith(
        "`lhs`: `save` did not run on machine B; predicted from 105.0 ms on the other one.\n"
    )


def test_evidence_sets_the_error_beside_the_work(tmp_path: Path) -> None:
    clocks = {"n": 5, "sm_mhz": 1400.0, "watts": 690.0, "capped_share": 1.0}
    control, far = arm("save", clocks=clocks), judged("lhs", 20.0, 115.0, 90.0)
    (_, _, row) = evidence_table([kept(tmp_path, control, far)]).splitlines()
    assert row == (
        "| dense: lhs | B | +8.7 % | +10.0 | +10.0 | +8.0 (+10.0 %) | – "
        "| 1500 (1400) | 600 (690) | 50 % |"
    )


def test_arms_far_off_and_two_for_comparison(tmp_path: Path) -> None:
    arms = [
        judged("far", 30.0, 120.0, 90.0),
        *(judged(f"near{n}", n, 105.0 + n, 100.0) for n in (3, 1, 2)),
    ]
    table = evidence_table([kept(tmp_path, arm("save"), *arms)])
    shown = [line.split(" | ")[0] for line in table.splitlines()[2:]]
    assert shown == ["| dense: far", "| dense: near3", "| dense: near1"]


def groups() -> list[Kept]:
    assert len(FILES) == 8
    return [read_kept(path) for path in FILES]


def in_evidence() -> list[tuple[Row, dict[str, Any], dict[str, Any]]]:
    return [
        (row, dict(group.readings[row.arm]), dict(group.readings[row.control or ""]))
        for group in groups()
        for row in group.rows
        if row.prediction_error is not None
    ]


def test_predictions_are_the_control_and_the_exposed_time() -> None:
    for row, _, control in in_evidence():
        assert row.predicted_ms == pytest.approx(control["step_ms"] + (row.exposed_ms or 0))


def test_faster_work_explains_the_error() -> None:
    """What the page says under the table of evidence."""
    far = [entry for entry in in_evidence() if abs(entry[0].prediction_error or 0) >= OFF_BY]
    assert len(far) > 10
    for row, mine, control in far:
        less = sum(control["lanes"].values()) - sum(mine["lanes"].values())
        assert less == pytest.approx((row.predicted_ms or 0) - (row.step_ms or 0), abs=9), row.arm
        assert control["lanes"]["idle"] < NEVER_IDLE_MS
    most = [entry for entry in far if (entry[0].prediction_error or 0) >= 0.048]
    assert len(most) == 12
    compared = [entry for entry in most if "same_kernels" in entry[1]]
    assert len(compared) == 8
    for row, mine, _ in compared:
        assert 0.915 < mine["same_kernels"]["products"]["ratio"] < 0.95, row.arm
        assert mine["same_kernels"]["products"]["n"] > 100
    unrolled = [entry for entry in compared if entry[0].arm == "offload-control"]
    assert len(unrolled) == 3
    for row, mine, _ in unrolled:
        less = sum(kernels["less_ms"] for kernels in mine["same_kernels"].values())
        error = (row.predicted_ms or 0) - (row.step_ms or 0)
        assert 0.8 < less / error < 1.1, row.arm


def test_what_a_gpu_at_its_limit_gives_back() -> None:
    """The shares that the page names: longer by 51 to 64 % of what is exposed, and so on."""
    longer: dict[str, list[float]] = {"dense": [], "sparse": []}
    back: dict[str, list[float]] = {"dense": [], "sparse": []}
    for group in groups():
        kind = "sparse" if group.model == "sparse" else "dense"
        for row in group.rows:
            if row.predicted_ms is None or row.step_ms is None or not row.exposed_ms:
                continue
            share = (row.predicted_ms - row.step_ms) / row.exposed_ms
            if row.arm.startswith("offload-control"):
                longer[kind].append(1 - share)
            if row.exposed_ms > 20 and row.arm not in ("parameters-scan", "optimizer"):
                back[kind].append(share)
    assert sorted(round(share, 2) for share in longer["dense"]) == [0.51, 0.57, 0.64]
    assert sorted(round(share, 2) for share in longer["sparse"]) == [0.74, 0.77]
    assert (round(min(back["dense"]), 2), round(max(back["dense"]), 2)) == (0.36, 0.54)
    assert (round(min(back["sparse"]), 2), round(max(back["sparse"]), 2)) == (0.16, 0.34)


def test_waiting_alone_does_not_raise_the_clock_so_far() -> None:
    """Had the GPU waited at its top clock and computed at the control's, the mean were lower."""
    (group,) = [g for g in groups() if (g.model, g.machine) == ("dense", "B")]
    mine, control = group.readings["optimizer"]["clocks"], group.readings["save"]["clocks"]
    (row,) = [row for row in group.rows if row.arm == "optimizer"]
    waiting = (row.exposed_ms or 0) / (row.step_ms or 1)
    computing_mhz = (mine["sm_mhz"] - waiting * 1980) / (1 - waiting)
    assert computing_mhz / control["sm_mhz"] == pytest.approx(1.084, abs=0.001)


def test_what_the_scans_on_machine_d_say() -> None:
    """The shares and percentages that the page names."""
    for kind, d2h, h2d, longer, remat in (
        ("dense", 0.003, 0.875, 5.3, 2.4),
        ("sparse", 0.179, 0.832, 9.3, 1.0),
    ):
        (group,) = [g for g in groups() if (g.model, g.machine) == (kind, "D")]
        rows = {row.arm: row for row in group.rows}
        published, save = rows["published-scan"], rows["save-scan"]
        assert published.d2h_hidden == pytest.approx(d2h, abs=0.0006)
        assert published.h2d_hidden == pytest.approx(h2d, abs=0.0006)
        for row, expected in ((published, longer), (rows["remat-scan"], remat)):
            assert 100 * ((row.step_ms or 0) / (save.step_ms or 1) - 1) == pytest.approx(
                expected, abs=0.06
            )
        assert all("clocks" in group.readings[name] for name in rows)


def test_the_arms_through_maxtext() -> None:
    (group,) = [g for g in groups() if g.model == "dense, MaxText"]
    remat, save = (next(r for r in group.rows if r.arm == n) for n in ("remat-scan", "save-scan"))
    assert 100 * ((remat.step_ms or 0) / (save.step_ms or 1) - 1) == pytest.approx(2.1, abs=0.05)
    assert (save.peak_gib or 0) - (remat.peak_gib or 0) == pytest.approx(2.7, abs=0.05)
    # Neither offloads, so there is no share to show.
    assert "| save-scan | 821.0 | 482.1 | 47.0 | 0.00 | – | – | – |" in result_table(group)


def test_every_void_arm_and_nothing_else_is_void() -> None:
    void = {(group.model, row.arm) for group in groups() for row in group.rows if row.reason}
    assert void == {("sparse", n) for n in ("lhs-scan", "barrier-scan", "parameters-scan")}
