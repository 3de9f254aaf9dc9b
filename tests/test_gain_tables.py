"""Relief, bounds and the cost of hiding, in words."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from nsysoverlap import analyze
from nsysoverlap.result.model import (
    Bounds,
    DeviceReport,
    Effective,
    Rate,
    Relief,
    ReplayReport,
    Slowdown,
)
from nsysoverlap.show.blocks import Paragraph, Table
from nsysoverlap.show.say_gains import gain_section
from nsysoverlap.show.view import View

from . import sample_reports as samples
from .traces import h200

IN_FULL = View(by="op")


def rows(device: DeviceReport, view: View = IN_FULL) -> dict[str, str]:
    found = gain_section(samples.report(device), view)
    return {row[0]: row[1] for block in found if isinstance(block, Table) for row in block.rows}


def test_all_that_can_be_said() -> None:
    assert rows(samples.stepped_device()) == {
        "relief": "768.0 MiB of the 3.00 GiB offloaded a step were on the host at once (25.0 %): "
        "the most device memory it can free. Left out: 1.0 MiB in sizes that moved in one "
        "direction only.",
        "at most": "100.0 % behind compute; a bound, not a promise.",
        "H2D rate": "50.1 GB/s hidden (n 12, p10-p90 48.0-53.1), 55.0 GB/s exposed (n 20, "
        "p10-p90 54.8-55.4).",
        "D2H rate": "53.3 GB/s hidden (n 31, p10-p90 52.9-54.3), no copy mostly exposed.",
        "compute": "3.2 % slower beside transfers, 1.1 ms a step (n 120 against 340 alone, "
        "p10-p90 1.01x-1.06x; 62.5 % of 240.0 ms compared).",
    }


def test_by_default_only_what_could_be_compared() -> None:
    device = samples.stepped_device()
    assert list(rows(device, View())) == ["relief", "at most", "compute"]
    unknown = replace(device, effective=Effective(compute=Slowdown(beside_ns=5)))
    assert list(rows(unknown, View())) == ["relief", "at most"]
    assert list(rows(unknown)) == ["relief", "at most", "compute"]


def test_without_steps_nothing_is_a_step() -> None:
    device = replace(samples.stepped_device(), steps=())
    text = rows(device)
    assert text["relief"].startswith("768.0 MiB were on the host at once, of 3.00 GiB offloaded")
    assert text["at most"] == "100.0 % behind compute; a bound, not a promise."
    assert "slower beside transfers, 4.2 ms in all (n 120" in text["compute"]


def test_nothing_without_transfers() -> None:
    told = samples.stepped_device()
    idle = replace(samples.device(), effective=told.effective, bounds=told.bounds)
    assert gain_section(samples.report(idle), IN_FULL) == []
    assert gain_section(samples.plain(), IN_FULL) == []


@pytest.mark.parametrize(
    ("relief", "text"),
    [
        (None, None),
        (Relief(), None),
        # A loss that is read is no offload that could have come back.
        (Relief(0, 0, 999_999), None),
        (
            Relief(0, 0, 1 << 20),
            "Nothing came back: all 1.0 MiB moved in sizes seen in one direction only.",
        ),
        (
            Relief(2_000, 4_000, 3),
            "2.0 KiB of the 3.9 KiB offloaded a step were on the host at once (50.0 %): the most "
            "device memory it can free.",
        ),
        (
            Relief(2_000, 4_000, 4),
            "2.0 KiB of the 3.9 KiB offloaded a step were on the host at once (50.0 %): the most "
            "device memory it can free. Left out: 4 B in sizes that moved in one direction only.",
        ),
        (
            Relief(2, 4),
            "2 B of the 4 B offloaded a step were on the host at once (50.0 %): the most device "
            "memory it can free.",
        ),
        (
            Relief(5, 4),
            "5 B of the 4 B offloaded a step were on the host at once (125.0 %): the most device "
            "memory it can free. More than was offloaded: some came back that had not left in that "
            "time.",
        ),
    ],
)
def test_relief(relief: Relief | None, text: str | None) -> None:
    assert rows(replace(samples.stepped_device(), relief=relief)).get("relief") == text


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        (None, None),
        (Bounds(), None),
        (Bounds(0.5), "50.0 % behind compute, for there is no more of it; a bound, not a promise."),
        (Bounds(1.0), "100.0 % behind compute; a bound, not a promise."),
    ],
)
def test_bounds(bounds: Bounds | None, text: str | None) -> None:
    assert rows(replace(samples.stepped_device(), bounds=bounds)).get("at most") == text


def replayed(**changes: object) -> dict[str, str]:
    report = samples.report(samples.stepped_device())
    known = ReplayReport(
        step_ns=306_000_000,
        replay_step_ns=305_000_000,
        error=-0.0033,
        bound_step_ns=270_000_000,
        bound_exposed_h2d_ns=0,
        bound_exposed_d2h_ns=0,
    )
    device = report.devices[0]
    trace = replace(report.traces[0], path=device.trace, replay=replace(known, **changes))  # type: ignore[arg-type]
    found = gain_section(replace(report, traces=(trace,)), View())
    return {row[0]: row[1] for block in found if isinstance(block, Table) for row in block.rows}


def test_the_bound_by_order_replaces_at_best() -> None:
    text = replayed()
    assert "at most" not in text
    assert "even so" not in text
    assert text["bound"] == (
        "No order of these copies makes a step shorter than 270.0 ms, now 306.0 ms. The replay is "
        "off by -0.33 %."
    )


def test_what_no_order_hides_says_why() -> None:
    text = replayed(bound_exposed_d2h_ns=5_000_000)["even so"]
    assert re.match(
        r"Still exposed: 5\.0 ms of the [0-9.]+ ms of D2H\. Of [0-9.]+ ms of compute ", text
    )
    assert "of H2D" not in text


def test_what_no_order_hides_is_set_beside_the_steady_step() -> None:
    """Of a run cut in its last step the mean H2D takes 198 ms, less than what stays exposed."""
    report = analyze(h200("pytorch/lightning"))
    (table,) = gain_section(report, View())
    assert isinstance(table, Table)
    text = {row[0]: row[1] for row in table.rows}["even so"]
    left, whole = re.findall(r"([0-9.]+) ms of the ([0-9.]+) ms of", text)[0]
    assert float(left) < float(whole)
    assert whole == "264.2"


def test_no_bound_says_why() -> None:
    text = replayed(bound_step_ns=None, bound_withheld="tensors come back")["bound"]
    assert text == "None by order: tensors come back. The replay is off by -0.33 %."


def test_the_bound_counts_communication_where_there_is_any() -> None:
    told = samples.stepped_device()
    device = replace(told, time_budget=replace(told.time_budget, comm_ns=1))
    assert rows(device)["at most"].startswith("100.0 % behind compute or communication; a")


def with_slowdown(compute: Slowdown, comm: Slowdown | None = None) -> dict[str, str]:
    effective = Effective(compute=compute, comm=comm or Slowdown())
    return rows(replace(samples.stepped_device(), effective=effective))


def test_what_cannot_be_compared_says_so() -> None:
    text = with_slowdown(Slowdown(beside_ns=5_000_000))
    assert text["compute"].startswith("Not comparable: nothing in 5.0 ms beside transfers ran")
    assert "H2D rate" not in text
    assert "comm" not in text
    assert with_slowdown(Slowdown())["compute"] == "No launch ran mostly beside a transfer."


def test_faster_beside_transfers_and_communication() -> None:
    comm = Slowdown(3, 4, 200_000_000, 200_000_000, -8_000_000, 0.95)
    assert with_slowdown(Slowdown(), comm)["comm"] == (
        "No slower beside transfers (n 3 against 4 alone; 100.0 % of 200.0 ms compared)."
    )


def test_work_that_seems_much_faster_beside_transfers_is_other_work() -> None:
    told = Slowdown(3, 4, 200_000_000, 200_000_000, -60_000_000, 0.7)
    assert with_slowdown(told)["compute"].startswith(
        "Not comparable: launches beside transfers took 0.70x as long"
    )
    assert "0.70x" not in with_slowdown(replace(told, ratio=0.87))["compute"]


def test_a_rate_without_spread() -> None:
    effective = Effective(h2d_exposed=Rate(1, 0.5))
    text = rows(replace(samples.stepped_device(), effective=effective))
    assert text["H2D rate"] == "no copy mostly hidden, 0.5 GB/s exposed (n 1)."


def test_many_devices_name_the_least_relief() -> None:
    devices = [samples.stepped_device() for _ in range(4)]
    devices[2] = replace(devices[2], device_id=2, relief=Relief(1, 8))
    (block,) = gain_section(samples.report(*devices), View())
    assert isinstance(block, Paragraph)
    assert block.text.startswith("Least relief: on H200 dev 2, pid 17025 12.5 % of the bytes")
    unknown = [replace(device, relief=None) for device in devices]
    assert gain_section(samples.report(*unknown), View()) == []
