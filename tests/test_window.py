"""`--window START:END`: how it is written, and what clipping a report to it means."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysoverlap import Window, analyze, parse_window
from nsysoverlap.core.errors import UsageError
from nsysoverlap.result.model import DeviceReport, Overlap, TimeBudget

from .tracebuilder import build
from .traces import h200

MS = 1_000_000


@pytest.mark.parametrize(
    ("text", "start_ns", "end_ns"),
    [
        ("1000:2000", 1000, 2000),
        ("1000ns:2000ns", 1000, 2000),
        ("5us:7us", 5_000, 7_000),
        ("5µs:7µs", 5_000, 7_000),
        ("80ms:120ms", 80 * MS, 120 * MS),
        ("1.5s:2s", 1_500 * MS, 2_000 * MS),
        ("999us:1ms", 999_000, MS),
        ("80:120ms", 80 * MS, 120 * MS),
        ("1.5:2s", 1_500 * MS, 2_000 * MS),
        ("0:1ms", 0, MS),
        ("-5ms:5ms", -5 * MS, 5 * MS),
        ("+5ms:+6ms", 5 * MS, 6 * MS),
        (" 80 ms : 120 ms ", 80 * MS, 120 * MS),
        ("80ms:", 80 * MS, None),
        ("80:", 80, None),
        (":120ms", None, 120 * MS),
        (":20000000", None, 20_000_000),
    ],
)
def test_forms(text: str, start_ns: int | None, end_ns: int | None) -> None:
    assert parse_window(text) == Window(start_ns, end_ns)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.1ms:0.3ms", Window(100_000, 300_000)),
        ("0.000000001s:0.000000003s", Window(1, 3)),
        ("1.000000001s:1.000000002s", Window(1_000_000_001, 1_000_000_002)),
        ("4.35ms:4.36ms", Window(4_350_000, 4_360_000)),
        # Unix time in nanoseconds: a double is off by up to 128.
        (
            "1700000000.123456789s:1700000000.123456791s",
            Window(1_700_000_000_123_456_789, 1_700_000_000_123_456_791),
        ),
        (
            "1700000000123456789:1700000000123456791",
            Window(1_700_000_000_123_456_789, 1_700_000_000_123_456_791),
        ),
    ],
)
def test_decimal_fractions_are_exact(text: str, expected: Window) -> None:
    assert parse_window(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not START:END"),
        (":", "is not START:END"),
        (" : ", "is not START:END"),
        ("80ms", "is not START:END"),
        ("80ms-120ms", "is not START:END"),
        ("80ms:x", "'x' is no time"),
        ("1:2:3", "'2:3' is no time"),
        ("1e3:2e3", "'2e3' is no time"),
        ("1m:2m", "'2m' is no time"),
        ("1MS:2MS", "'2MS' is no time"),
        (".5ms:1ms", "'.5ms' is no time"),
        ("nan:inf", "'inf' is no time"),
        ("٣:٤", "'٤' is no time"),
        ("0.5:2", "'0.5' is no whole number of nanoseconds"),
        ("1.0005us:2us", "'1.0005us' is no whole number of nanoseconds"),
        ("0.0000000001s:1s", "'0.0000000001s' is no whole number of nanoseconds"),
        ("1.00000000000000000000000000001s:2s", "is no whole number of nanoseconds"),
        (f":{2**63}", f"'{2**63}' is beyond what any trace holds"),
        (f":{'9' * 5000}s", "is beyond what any trace holds"),
        ("5:5", "ends before it starts"),
        ("2ms:1ms", "ends before it starts"),
        ("80ms:120", "ends before it starts"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_window(text)
    error = caught.value
    assert repr(text) in error.message
    assert reason in error.message
    assert "START:END" in error.hint
    assert "\n" not in str(error)


sides = st.integers(-(2**61), 2**61)


@given(st.tuples(sides, sides).map(sorted).filter(lambda pair: pair[0] < pair[1]))
def test_a_window_reads_back_what_it_prints(pair: list[int]) -> None:
    for window in (Window(*pair), Window(pair[0], None), Window(None, pair[1])):
        assert parse_window(str(window)) == window


DRAWING = """
    dev0 s7  compute:        .####.........####
    dev0 s20 bytes=4000 d2h: ...####...........
    dev0 s21 bytes=8000 h2d: ............####..
"""
# Time in us: 0         1
#            0123456789012345678


def device(path: Path, window: str | None) -> DeviceReport:
    (found,) = analyze(path, window=None if window is None else parse_window(window)).devices
    return found


@pytest.fixture
def drawn(tmp_path: Path) -> Path:
    return build(tmp_path / "drawn.sqlite", DRAWING)


@pytest.mark.parametrize(
    ("window", "measured_us", "n", "n_bytes", "wall_us", "hidden_us", "exposed_us"),
    [
        (None, (1, 18), 1, 4000, 4, 2, 2),
        ("0:100us", (1, 18), 1, 4000, 4, 2, 2),
        ("0us:4us", (1, 4), 1, 4000, 1, 1, 0),
        ("4us:18us", (4, 18), 0, 0, 3, 1, 2),
        ("3us:7us", (3, 7), 1, 4000, 4, 2, 2),
        ("4us:6us", (4, 6), 0, 0, 2, 1, 1),
        (":5us", (1, 5), 1, 4000, 2, 2, 0),
        ("5us:", (5, 18), 0, 0, 2, 0, 2),
        ("7us:12us", (7, 12), 0, 0, 0, 0, 0),
    ],
)
def test_times_are_clipped_and_counts_go_by_start(
    drawn: Path,
    window: str | None,
    measured_us: tuple[int, int],
    n: int,
    n_bytes: int,
    wall_us: int,
    hidden_us: int,
    exposed_us: int,
) -> None:
    found = device(drawn, window)
    assert found.window_ns == (measured_us[0] * 1000, measured_us[1] * 1000)
    assert (found.d2h.n, found.d2h.bytes) == (n, n_bytes)
    assert found.d2h.wall_ns == found.d2h.busy_ns == wall_us * 1000
    assert found.d2h.hidden_by_compute_ns == hidden_us * 1000
    assert found.d2h.exposed_ns == exposed_us * 1000
    assert found.time_budget.total_ns == 1000 * (measured_us[1] - measured_us[0])


def test_bandwidth_is_that_of_whole_copies(drawn: Path) -> None:
    # 4000 bytes in 4 us, of which 1 us lies in the window.
    assert device(drawn, "0:4us").d2h.gb_per_s == 1.0
    assert device(drawn, "4us:7us").d2h.gb_per_s is None


def test_the_border_belongs_to_the_window_that_starts_there(drawn: Path) -> None:
    before, after = device(drawn, "0:12us"), device(drawn, "12us:20us")
    assert (before.h2d.n, after.h2d.n) == (0, 1)
    assert (before.h2d.wall_ns, after.h2d.wall_ns) == (0, 4000)


def test_a_window_that_misses_the_trace_says_where_the_trace_is(drawn: Path) -> None:
    for window in (":1000", "18us:20us", "1s:2s"):
        with pytest.raises(UsageError) as caught:
            analyze(drawn, window=parse_window(window))
        assert "drawn.sqlite: no GPU activity in window" in caught.value.message
        assert caught.value.hint == "The trace has GPU activity from 1000ns to 18000ns."


def test_a_device_that_is_idle_in_the_window_is_still_there(tmp_path: Path) -> None:
    path = build(
        tmp_path / "t.sqlite",
        """
        dev0 s7 compute: ##........
        dev0 s8 d2h:     .##.......
        dev1 s7 compute: ......####
        dev1 s8 d2h:     .......#..
        """,
    )
    early, late = analyze(path, window=parse_window("0:4us")).devices
    assert (early.d2h.n, early.time_budget.total_ns) == (1, 3000)
    assert (late.d2h.n, late.d2h.wall_ns, late.time_budget.total_ns) == (0, 0, 0)


def test_the_report_says_what_it_is_over(drawn: Path) -> None:
    assert analyze(drawn).basis.kind == "trace"
    basis = analyze(drawn, window=parse_window("2us:")).basis
    assert (basis.kind, basis.window_ns) == ("window", (2000, None))


@pytest.mark.parametrize("name", ["jax_unroll_lhs", "jax_fsdp2_lhs", "jax_scan_pipelined"])
def test_windows_of_a_real_trace_add_up(name: str) -> None:
    path = h200(name)
    whole = analyze(path, steps="none")
    low = min(d.window_ns[0] for d in whole.devices)
    high = max(d.window_ns[1] for d in whole.devices)
    cuts = [None, *(low + (high - low) * i // 7 for i in range(1, 7)), None]
    parts = [analyze(path, window=Window(a, b)) for a, b in pairwise(cuts)]
    for index, expected in enumerate(whole.devices):
        mine = [part.devices[index] for part in parts]
        for direction in ("h2d", "d2h", "both"):
            summed = sum((getattr(part, direction) for part in mine), Overlap())
            assert summed == getattr(expected, direction)
        assert sum((part.time_budget for part in mine), TimeBudget()) == expected.time_budget


@pytest.mark.parametrize(
    ("window", "message", "option"),
    [
        ((0, None), "steps 0 to 3 in it (XlaModule jit_train_step) are", "--step 0:3 "),
        ((400 * MS, 500 * MS), "step 1 in it (XlaModule jit_train_step) is", "--step 1 "),
    ],
)
def test_steps_that_a_window_leaves_out_are_said(
    window: tuple[int, int | None], message: str, option: str
) -> None:
    report = analyze(h200("jax_unroll_lhs"), window=window)
    (note,) = [entry for entry in report.health if entry.code == "steps-not-told-apart"]
    assert note.severity == "note"
    assert note.message == f"The window is measured as one piece: {message} not told apart."
    assert f"Give {option}" in note.hint
    assert report.basis.kind == "window"
    silent = analyze(h200("jax_unroll_lhs"), window=window, steps="none")
    assert "steps-not-told-apart" not in {entry.code for entry in silent.health}
    assert silent.devices == report.devices


def test_a_trace_without_steps_has_none_to_leave_out(drawn: Path) -> None:
    report = analyze(drawn, window=(0, 5_000))
    assert "steps-not-told-apart" not in {entry.code for entry in report.health}
