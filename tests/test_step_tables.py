"""Steps as rows, their summary, and outliers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nsysoverlap.result.model import DeviceReport, Overlap, Relief
from nsysoverlap.show.blocks import Paragraph, Table
from nsysoverlap.show.say_steps import is_outlier, steps_section

from . import sample_reports as samples


def table(*devices: DeviceReport) -> Table:
    block = steps_section(samples.report(*devices))[0]
    assert isinstance(block, Table)
    return block


def first_cells(found: Table) -> list[str]:
    return [row[0] for row in found.rows]


def test_summary_comes_first_then_each_step() -> None:
    found = table(samples.stepped_device())
    assert found.title == "Steps, H200 dev 0, pid 17025 (n = 4)"
    assert first_cells(found) == ["median", "min", "max", "1", "2", "3", "4 outlier"]
    assert found.rows[0] == (
        *("median", "306.3 ms", "24.3 %", "93.7 %", "48.4 ms", "768.0 MiB", "25.0 %"),
    )
    assert found.rows[2][1:] == ("401.7 ms", "24.3 %", "93.7 %", "48.4 ms", "896.0 MiB", "29.2 %")
    assert found.rows[4][:2] == ("2", "305.9 ms")
    assert found.note == "Outlier: time over 20 % off the median."


def test_a_steady_run_has_no_outlier() -> None:
    found = table(samples.stepped_device((300, 300, 300)))
    assert first_cells(found)[3:] == ["1", "2", "3"]
    assert found.note == ""


@pytest.mark.parametrize(
    ("last", "outlier"), [(360.0, False), (360.1, True), (299.0, False), (239.9, True)]
)
def test_an_outlier_is_a_fifth_off_the_median(last: float, outlier: bool) -> None:
    steps = samples.stepped_device((300, 300, 300, 300, last)).steps
    assert [is_outlier(step, steps) for step in steps] == [False] * 4 + [outlier]


def test_a_slow_first_step_can_be_left_out() -> None:
    device = samples.stepped_device((900, 300, 300))
    steps = tuple(replace(step, index=step.index - 1) for step in device.steps)
    note = table(replace(device, steps=steps)).note
    assert note.endswith("Step 0 counts in all totals: leave it out with --skip-steps 1.")
    assert "--skip-steps" not in table(device).note


def test_many_steps_show_the_slowest_and_the_fastest() -> None:
    times = [300.0 + i for i in range(13)]
    times[2], times[5] = 700.0, 299.0
    found = table(samples.stepped_device(tuple(times)))
    assert first_cells(found) == ["median", "min", "max", "3 outlier", "13", "12", "6"]
    assert [row[1] for row in found.rows[3:]] == ["700.0 ms", "312.0 ms", "311.0 ms", "299.0 ms"]
    assert "the 3 slowest steps and the fastest; all are in the JSON report." in found.note
    assert found.note.endswith("Outliers: steps 3.")
    assert len(table(samples.stepped_device(tuple(times[:12]))).rows) == 15


def test_outliers_that_have_no_row_are_counted() -> None:
    times = (*[300.0] * 13, *[500.0] * 12)
    note = table(samples.stepped_device(times)).note
    assert note.endswith("Outliers: steps 14, 15, 16, 17, 18, 19, 20, 21, 22, 23 and 2 more.")


def test_labels_only_where_they_tell_steps_apart() -> None:
    device = samples.stepped_device((300, 300))
    named = tuple(replace(step, label=f"step {step.index + 7}") for step in device.steps)
    found = table(replace(device, steps=named))
    assert first_cells(found)[3:] == ["1 (step 8)", "2 (step 9)"]
    numbered = tuple(replace(step, label=f"step {step.index}") for step in device.steps)
    found = table(replace(device, steps=numbered))
    assert first_cells(found)[3:] == ["step 1", "step 2"]


def test_unknown_shares_are_left_out_of_the_summary() -> None:
    device = samples.stepped_device((300, 300))
    h2d = Overlap(1, wall_ns=10, hidden_by_compute_ns=9, exposed_ns=1)
    steps = (
        replace(device.steps[0], h2d=Overlap(), relief=Relief()),
        replace(device.steps[1], h2d=h2d),
    )
    found = table(replace(device, steps=steps))
    assert found.rows[0][2] == "90.0 %"
    assert found.rows[3][2] == "–"
    assert found.rows[3][5:] == ("–", "–")
    nothing = table(replace(device, steps=steps[:1]))
    assert nothing.rows[0][2] == "–"


def test_each_process_on_a_shared_device_has_its_own_steps() -> None:
    device = samples.stepped_device((300, 300))
    other = tuple(replace(step, pid=9, label="eval") for step in device.steps)
    shared = replace(device, pid=None, steps=(*device.steps, *other))
    found = steps_section(samples.report(shared))
    assert [block.title for block in found if isinstance(block, Table)] == [
        "Steps, H200 dev 0, pid 17025 (n = 2)",
        "Steps, H200 dev 0, pid 9 (n = 2)",
    ]


def test_steps_without_transfers_are_told_in_a_sentence() -> None:
    device = samples.stepped_device((300, 310, 330))
    none = Overlap()
    steps = tuple(replace(step, h2d=none, d2h=none, both=none) for step in device.steps)
    assert steps_section(samples.report(replace(device, steps=steps))) == [
        Paragraph(
            "Steps, H200 dev 0, pid 17025 (n = 3): no transfers; median time 310.0 ms, from "
            "300.0 ms to 330.0 ms."
        )
    ]


def test_nothing_without_steps() -> None:
    assert steps_section(samples.plain()) == []


def test_many_devices_share_a_table() -> None:
    devices = [samples.stepped_device((300, 300 + i)) for i in range(4)]
    found = table(*devices)
    assert found.title == "Steps, each device"
    assert len(found.rows) == 4
    assert found.rows[2][1:] == ("2", "301.0 ms", "300.0 ms", "302.0 ms", "48.4 ms", "27.1 %")
