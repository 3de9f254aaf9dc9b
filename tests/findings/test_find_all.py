"""The registry: codes, order, documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nsysoverlap.findings import CODES, FINDERS, Context, code_of, documentation, find_all

from .kit import MS, drawn, fired, only

DESIGNED = {
    *("pageable-memory", "same-stream-as-compute", "graph-serialises", "graph-opaque"),
    *("late-h2d", "d2h-tail", "head-of-line", "same-direction-queue", "no-duplex", "slow-link"),
    *("hiding-costs-compute", "hiding-costs-comm", "not-enough-compute", "round-trip"),
    *("offload-missing", "transfer-kernels", "unified-memory", "latency-bound-copies"),
    "hidden-by-other-process",
}


def test_every_code_of_the_design_has_one_function() -> None:
    codes = [code_of(finder) for finder in FINDERS]
    assert len(codes) == len(set(codes))
    assert set(codes) >= DESIGNED
    assert list(CODES) == codes


@pytest.mark.parametrize("code", list(CODES))
def test_every_code_is_documented(code: str) -> None:
    """What it means, how the cost is counted, what helps, when it stays silent."""
    first, *rest = CODES[code].split("\n\n")
    assert first.endswith(".")
    for heading in ("**Cost**", "**What helps**", "**Silent**"):
        assert sum(part.startswith(heading) for part in rest) == 1, heading


def test_the_documentation_has_a_section_for_each_code() -> None:
    text = documentation()
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == list(CODES)
    assert all(paragraph in text for paragraph in CODES.values())
    page = Path(__file__).parents[2] / "docs" / "findings.md"
    assert page.read_text(encoding="utf-8") == text, "run `make docs`"


def test_warnings_come_first_then_the_dearest(tmp_path: Path) -> None:
    context = drawn(
        tmp_path,
        """
        dev0 s7  compute:      ##......................##
        dev0 s7  d2h_pageable: ..########................
        dev0 s20 h2d_pageable: ...............#####......
        dev0 s7  graph:        .........................#
        """,
    )
    found = find_all(context)
    keys = [(f.severity != "warning", -f.cost_ns) for f in found]
    assert keys == sorted(keys)
    assert {f.code for f in found} >= {"pageable-memory", "gpu-idle-beside-offload", "graph-opaque"}
    costs = {(f.code, f.cost_ns) for f in found}
    assert {("pageable-memory", 8 * MS), ("pageable-memory", 5 * MS)} <= costs


def test_nothing_is_found_in_nothing(tmp_path: Path) -> None:
    assert find_all(Context((), ())) == ()
    assert find_all(drawn(tmp_path, "dev0 s7 compute: ####")) == ()


def test_without_operations_the_evidence_has_none(tmp_path: Path) -> None:
    context = drawn(tmp_path, "dev0 s7 compute: #...\ndev0 s20 d2h_pageable: .##.")
    bare = Context(context.cases, context.devices)
    (row,) = only(bare, "pageable-memory").evidence
    assert row.op is None
    assert row.device == context.devices[0].label
    assert row.trace == "t.sqlite"


@pytest.mark.parametrize(
    ("lost", "n_steps", "expected"), [([7, 3], None, 7), ([7, 8], 3, 2), ([], 3, 0)]
)
def test_costs_are_of_the_worst_device_per_step(
    lost: list[int], n_steps: int | None, expected: int
) -> None:
    assert Context((), (), n_steps).cost(lost) == expected


@pytest.mark.parametrize(
    ("cost", "severity"),
    [(0, None), (999, None), (1_000, "note"), (9_999, "note"), (10_000, "warning")],
)
def test_severity_goes_by_the_share_of_the_measured_time(
    tmp_path: Path, cost: int, severity: str | None
) -> None:
    context = drawn(tmp_path, "dev0 s7 compute: #")
    assert context.measured_ns == MS
    assert context.severity(cost) == severity


def test_examples_are_the_worst_of_all_devices(tmp_path: Path) -> None:
    context = drawn(
        tmp_path,
        """
        dev0 s7  compute:      #.............
        dev0 s20 d2h_pageable: .#.##.###.####
        dev1 s7  compute:      #.............
        dev1 s20 d2h_pageable: .###..####....
        """,
    )
    (finding,) = fired(context, "pageable-memory")
    lengths = [(row.device, (row.end_ns - row.start_ns) // MS) for row in finding.evidence]
    first, second = (device.label for device in context.devices)
    # Of equals the first device comes first.
    assert lengths == [(first, 4), (second, 4), (first, 3)]
