"""The curve over link rates in a report's page, and its round ticks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from nsysoverlap.cli import main
from nsysoverlap.replay.answer import SweepPoint
from nsysoverlap.show.curve import curve_svg

from ..traces import h200

LHS = h200("jax_unroll_lhs")
SECTION = '<section id="link"'


def page(*traces: Path) -> str:
    result = CliRunner().invoke(main, ["report", *map(str, traces), "--format", "html"])
    assert result.exit_code == 0, result.output
    return result.stdout.replace("\u00a0", " ")


def test_the_page_of_a_trace_has_the_curve_of_whatif() -> None:
    text = page(LHS)
    args = ["whatif", str(LHS), "--sweep", "link=0.25:16", "--format", "json"]
    swept = json.loads(CliRunner().invoke(main, args).stdout)
    points = tuple(SweepPoint(**point) for point in swept["sweep"])
    assert curve_svg(LHS.name, points, swept["enough_link"]) in text
    assert f"2 % exposed: {swept['enough_link']:.2g}x" in text
    assert f"From {swept['enough_link']:.2g}x on at most 2 % of the step is exposed." in text
    assert "Not tested against a measurement" in text
    assert ">now<" in text


@pytest.mark.parametrize("name", ["micro_managed", "jax_unroll_save"])
def test_no_curve_where_nothing_is_predicted_or_moves(name: str) -> None:
    assert SECTION in page(LHS)
    assert SECTION not in page(h200(name))


def test_ranks_have_no_curve_as_if_they_were_alone() -> None:
    assert SECTION not in page(LHS, h200("jax_unroll_nolhs"))


@pytest.mark.parametrize(
    ("high", "ticks"),
    [
        (734_800_000, ["0 ms", "200 ms", "400 ms", "600 ms"]),
        (500_000_000, ["0 ms", "100 ms", "200 ms", "300 ms", "400 ms", "500 ms"]),
        (9_999_999_999, ["0 ms", "2000 ms", "4000 ms", "6000 ms", "8000 ms"]),
        (12_000, ["0 ms", "5 µs", "10 µs"]),
    ],
)
def test_ticks_are_round(high: int, ticks: list[str]) -> None:
    points = tuple(SweepPoint(times, high, high, high, 0) for times in (1.0, 2.0))
    svg = curve_svg("trace.sqlite", points, None)
    assert [tick for tick in ticks if f">{tick}<" not in svg] == []
    # Drawn twice, for wide pages and narrow ones.
    assert svg.count(" ms<") + svg.count(" µs<") == 2 * len(ticks)
