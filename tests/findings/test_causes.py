"""One reason for one loss: what a finding repeats of another one is not said."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from nsysoverlap.findings import CODES, Context, find
from nsysoverlap.findings.causes import BEHIND

from ..traces import h200, h200_names, programs, public_traces
from .kit import MS, context_of, drawn

SERIAL = """
dev0 s7 compute: ##....##....##
dev0 s7 d2h:     ..####........
dev0 s7 h2d:     ........####..
"""


def test_copies_on_the_compute_stream_are_that_and_nothing_else(tmp_path: Path) -> None:
    """Compute waits for the reload and nothing runs beside it, because of the stream."""
    found = {f.finding.code: f.finding for f in find(drawn(tmp_path, SERIAL))}
    assert "same-stream-as-compute" in found
    assert not {"late-h2d", "nothing-beside", "d2h-awaited", "no-duplex"} & set(found)
    # 8 ms are exposed; with streams of their own both directions and compute run at once.
    assert found["same-stream-as-compute"].cost_ns == 8 * MS


def test_what_only_partly_repeats_another_stays(tmp_path: Path) -> None:
    """The reload on a stream of its own is late, whatever the stream of the others."""
    both = SERIAL + "dev0 s20 h2d: ..............####\ndev0 s7 compute: ..................##"
    codes = {f.finding.code for f in find(drawn(tmp_path, both))}
    assert "same-stream-as-compute" in codes


def test_reasons_are_codes() -> None:
    assert set(BEHIND) <= set(CODES)
    assert {code for codes in BEHIND.values() for code in codes} <= set(CODES)


@pytest.mark.parametrize("name", [*h200_names(), *programs()])
def test_no_two_findings_blame_the_same_copies_at_the_same_cost(name: str) -> None:
    assert_each_loss_said_once(context_of(h200(name)))


@pytest.mark.parametrize("path", public_traces())
def test_nor_do_they_in_public_traces(path: Path) -> None:
    assert_each_loss_said_once(context_of(path))


def assert_each_loss_said_once(context: Context) -> None:
    seen: Counter[tuple[object, ...]] = Counter()
    for found in find(context):
        if found.rows and found.finding.cost_ns:
            rows = tuple(mask.tobytes() for mask in found.rows)
            seen[(*rows, found.finding.cost_ns)] += 1
    assert all(n == 1 for n in seen.values())
