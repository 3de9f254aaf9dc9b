"""Evidence finds its device, also among equal devices of several traces."""

from __future__ import annotations

from dataclasses import replace

from nsysoverlap.result.evidence import evidence_device, evidence_stretches
from nsysoverlap.result.model import Evidence, Finding

from ..sample_reports import device, report


def test_device_and_trace_must_fit() -> None:
    two = report(device(1, 0, "a.sqlite"), device(1, 0, "b.sqlite"))
    label = two.devices[0].label
    assert evidence_device(two, Evidence(0, 1, "x", device=label, trace="b.sqlite")) == 1
    assert evidence_device(two, Evidence(0, 1, "x", device=label)) == 0
    assert evidence_device(two, Evidence(0, 1, "x", device="H100 dev 7")) is None
    assert evidence_device(two, Evidence(0, 1, "x")) is None


def test_stretches_by_device() -> None:
    one = report(device(1, 0), device(1, 1))
    rows = (
        Evidence(5, 9, "x", device=one.devices[1].label),
        Evidence(1, 2, "y", device="nobody"),
    )
    finding = Finding("code", "note", "title", "detail", "remedy", 0, rows)
    assert evidence_stretches(replace(one, findings=(finding,))) == [[], [(5, 9)]]
