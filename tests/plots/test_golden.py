"""One picture of each kind beside the one that was looked at and found good.

The numbers are asserted in the other files of this folder, under any version of matplotlib.
`pytest tests/plots/test_golden.py --update-golden` draws the pictures anew; look at them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import nsysoverlap as no
from nsysoverlap.draw.picture import KINDS, picture
from nsysoverlap.run.analysis import Options
from tests.tracebuilder import TraceBuilder

from . import kit

US = 1_000
GOLDEN = Path(__file__).parent / "golden"


def offloading(path: Path) -> None:
    """Three steps: D2H mostly hidden, H2D of two operations mostly exposed, a little NCCL."""
    builder = TraceBuilder()
    for step in range(3):
        at = (1_000 + 400 * step) * US
        builder.nvtx(f"step {step}", at - 9 * US, at + 399 * US - 10 * US)
        for start, end in ((0, 120), (122, 180), (240, 300), (330, 390)):
            builder.kernel(at + start * US, at + end * US)
        builder.kernel(at + 180 * US, at + 200 * US, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL")
        for op, kind, start, end, size in (
            ("copy-start.1", "d2h", 20, 90, 3_000_000),
            ("copy-start.2", "d2h", 95, 125, 1_500_000),
            ("copy-start.1.0", "h2d", 190, 240 + 5 * step, 2_500_000),
            ("copy-start.2.0", "h2d", 296, 330, 1_500_000),
        ):
            call = at + (start - 3) * US
            builder.nvtx(f"Thunk:#name={op},hlo_op={op}#", call, call + 2 * US)
            builder.copy(at + start * US, at + end * US, kind, size, stream=20 + (kind == "h2d"))
    builder.write(path)


@pytest.mark.parametrize("kind", KINDS)
def test_looks_as_it_did(kind: str, tmp_path: Path, renewing: bool) -> None:
    trace = tmp_path / "offloading.sqlite"
    offloading(trace)
    actual = tmp_path / f"{kind}.png"
    actual.write_bytes(picture(no.read_trace(trace), kind, "png", Options(), dpi=80))
    expected = GOLDEN / actual.name
    if renewing:
        expected.parent.mkdir(exist_ok=True)
        expected.write_bytes(actual.read_bytes())
    assert kit.difference(expected, actual) is None


def test_another_picture_is_not_taken_for_it(tmp_path: Path) -> None:
    trace = tmp_path / "offloading.sqlite"
    offloading(trace)
    window = no.parse_window("1ms:1.4ms")
    other = picture(no.read_trace(trace), "timeline", "png", Options(window=window), dpi=80)
    actual = tmp_path / "other.png"
    actual.write_bytes(other)
    assert "RMS" in (kit.difference(GOLDEN / "timeline.png", actual) or "")


@pytest.mark.parametrize("fmt", ["png", "svg", "pdf"])
def test_the_same_trace_gives_the_same_bytes(fmt: str, tmp_path: Path) -> None:
    trace = tmp_path / "offloading.sqlite"
    offloading(trace)
    read = no.read_trace(trace)
    one, two = (picture(read, "timeline", fmt, Options()) for _ in range(2))
    assert one == two
    assert one.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[fmt])
