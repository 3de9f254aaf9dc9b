"""What hiding cost, drawn with the exact price, and what must not be compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nsysoverlap.core.window import Window
from nsysoverlap.measure.case import DeviceCase, device_case
from nsysoverlap.measure.effective import measure_effective
from nsysoverlap.result.model import Effective, Rate, Slowdown
from nsysoverlap.roles.rules import classify
from nsysoverlap.steps.launches import Launches
from nsysoverlap.steps.plan import StepPlan, StepSpec, plan_steps
from nsysoverlap.trace.load import read_trace

from .tracebuilder import ALL_REDUCE, TraceBuilder, build
from .traces import h200

US = 1000


def cases(path: Path, window: Window | None = None, steps: str = "none") -> list[DeviceCase]:
    classified = classify(read_trace(path))
    plan = StepPlan() if window else plan_steps(classified, StepSpec(steps))
    launches = Launches(classified.trace)
    devices = classified.trace.devices
    return [device_case(classified, launches, d, plan, window or Window()) for d in devices]


def effective(
    tmp_path: Path, drawing: str, window: Window | None = None, unit_ns: int = US
) -> Effective:
    (case,) = cases(build(tmp_path / "t.sqlite", drawing, unit_ns=unit_ns), window)
    found = measure_effective(case)
    assert found is not None
    return found


# Three launches of 4 us under nothing, three of 5 us under a transfer.
SLOWED = """
dev0 s7  compute: ####.####.####.#####.#####.#####
dev0 s20 h2d:     ...............#################
"""


def test_launches_beside_a_transfer_against_those_under_none(tmp_path: Path) -> None:
    assert effective(tmp_path, SLOWED).compute == Slowdown(
        n_beside=3,
        n_alone=3,
        beside_ns=15 * US,
        compared_ns=15 * US,
        cost_ns=3 * US,
        ratio=1.25,
        p10_ratio=1.25,
        p90_ratio=1.25,
    )


def test_the_same_for_collectives(tmp_path: Path) -> None:
    found = effective(tmp_path, SLOWED.replace("compute:", "comm:   "))
    assert (found.comm.cost_ns, found.comm.ratio) == (3 * US, 1.25)
    assert found.compute == Slowdown()


def test_kernels_that_got_faster_cost_less_than_nothing(tmp_path: Path) -> None:
    found = effective(
        tmp_path,
        """
        dev0 s7  compute: ####.####.####.#####.#####.#####
        dev0 s20 h2d:     ##############..................
        """,
    ).compute
    assert (found.cost_ns, found.ratio) == (-3 * US, 0.8)


@pytest.mark.parametrize(
    ("drawing", "beside_us"),
    [
        pytest.param(
            """
            dev0 s7  compute: ####.####......#####.#####.#####
            dev0 s20 h2d:     ...............#################
            """,
            15,
            id="two launches alone are too few",
        ),
        pytest.param(
            """
            dev0 s7  compute: ####.####.####.#####.#####......
            dev0 s20 h2d:     ...............#################
            """,
            10,
            id="two launches beside are too few",
        ),
        pytest.param(
            """
            dev0 s7  compute: ####.####.###..#####.#####.#####
            dev0 s20 h2d:     ...............#################
            """,
            15,
            id="those alone spread too widely",
        ),
        pytest.param(
            """
            dev0 s7  compute: ####.####.####.#####.#####.####
            dev0 s20 h2d:     ...............#################
            """,
            14,
            id="those beside spread too widely",
        ),
        pytest.param(
            """
            dev0 s7 grid=8  compute: ####.####.####..................
            dev0 s7 grid=9  compute: ...............#####.#####.#####
            dev0 s20 h2d:            ...............#################
            """,
            15,
            id="another grid",
        ),
        pytest.param(
            """
            dev0 s7 block=128 compute: ####.####.####..................
            dev0 s7 block=256 compute: ...............#####.#####.#####
            dev0 s20 h2d:              ...............#################
            """,
            15,
            id="another block",
        ),
        pytest.param(
            """
            dev0 s7 kernel gemm_a: ####.####.####..................
            dev0 s7 kernel gemm_b: ...............#####.#####.#####
            dev0 s20 h2d:          ...............#################
            """,
            15,
            id="another name",
        ),
        pytest.param(
            """
            dev0 s7  compute: ####.####.####.#####.#####.#####
            dev0 s9  comm:    ...............#################
            dev0 s20 h2d:     ...............#################
            """,
            15,
            id="a collective may be what slowed them",
        ),
        pytest.param(
            """
            dev0 s7  compute: ####.####.####.#####.#####.#####
            dev0 s20 h2d:     #..............#################
            """,
            15,
            id="a touch of a transfer is not under none",
        ),
        pytest.param(
            """
            dev0 s7  compute: ####.####.####.#####.#####.#####
            dev0 s20 h2d:     ...............##....##....##...
            """,
            0,
            id="less than half under a transfer is not beside",
        ),
        pytest.param(
            """
            dev0 s7  compute: ####.####.####.#####.#####.#####
            dev0 s20 unified_h2d: ...............#################
            dev0 s20 h2d:     ..............#.................
            """,
            0,
            id="migrations are no transfers here",
        ),
    ],
)
def test_what_is_not_comparable(tmp_path: Path, drawing: str, beside_us: int) -> None:
    assert effective(tmp_path, drawing).compute == Slowdown(beside_ns=beside_us * US)


def test_half_under_a_transfer_is_beside(tmp_path: Path) -> None:
    found = effective(
        tmp_path,
        """
        dev0 s7  compute: ####.####.####.####.####.####
        dev0 s20 h2d:     ...............##...##.....##
        """,
    )
    assert (found.compute.n_beside, found.compute.cost_ns) == (3, 0)


def test_launches_beside_a_collective_are_compared_among_themselves(tmp_path: Path) -> None:
    found = effective(
        tmp_path,
        """
        dev0 s7  compute: ####.####.####.#####.#####.#####.######.######.######
        dev0 s9  comm:    ...............#####################################
        dev0 s20 h2d:     .................................####################
        """,
    )
    assert (found.compute.n_beside, found.compute.n_alone) == (3, 3)
    assert (found.compute.cost_ns, found.compute.ratio) == (3 * US, 1.2)


def test_only_part_of_the_time_beside_may_be_compared(tmp_path: Path) -> None:
    found = effective(
        tmp_path,
        """
        dev0 s7 compute:       ####.####.####.#####.#####.#####........
        dev0 s7 kernel gelu_1: ................................#####...
        dev0 s20 h2d:          ...............#########################
        """,
    )
    assert (found.compute.beside_ns, found.compute.compared_ns) == (20 * US, 15 * US)
    assert found.compute.compared_share == 0.75


def test_long_kernels_weigh_more(tmp_path: Path) -> None:
    found = effective(
        tmp_path,
        """
        dev0 s7 compute:       ##########.##########.##########.............................
        dev0 s7 kernel gelu_1: .................................###.###.###................
        dev0 s8 compute:       ............................................###########......
        dev0 s9 compute:       ............................................###########......
        dev0 s10 compute:      ............................................###########......
        dev0 s11 kernel gelu_1: ............................................######..........
        dev0 s12 kernel gelu_1: ............................................######..........
        dev0 s13 kernel gelu_1: ............................................######..........
        dev0 s20 d2h:          ............................................###########......
        """,
    )
    # GEMMs 11 us against 10, small kernels 6 against 3: 51 us against 39, no mean of 1.1 and 2.
    assert found.compute.cost_ns == 12 * US
    assert found.compute.ratio == pytest.approx(51 / 39)
    assert (found.compute.p10_ratio, found.compute.p90_ratio) == pytest.approx((1.1, 2.0))


def test_cost_is_against_the_median_alone(tmp_path: Path) -> None:
    """Alone 20, 21, 21 and 22 us; beside 22, 23 and 24, which is 6 us more than three of 21."""
    lanes = ["dev0 s7 compute: " + ".".join("#" * n for n in (20, 22, 21, 21))]
    quiet = "." * (len(lanes[0]) - lanes[0].index("#"))
    lanes += [f"dev0 s{n} compute: {quiet}{'#' * n}" for n in (22, 23, 24)]
    found = effective(tmp_path, "\n".join([*lanes, f"dev0 s99 d2h: {quiet}{'#' * 24}"])).compute
    assert (found.n_beside, found.n_alone, found.cost_ns) == (3, 4, 6 * US)
    assert found.ratio == 69 / 63
    assert found.p10_ratio == pytest.approx(22.2 / 21)
    assert found.p90_ratio == pytest.approx(23.8 / 21)


def test_launches_and_copies_count_where_they_start(tmp_path: Path) -> None:
    window = Window(start_ns=0, end_ns=26 * US)
    found = effective(tmp_path, SLOWED, window).compute
    assert found == Slowdown(beside_ns=10 * US)
    assert effective(tmp_path, SLOWED, Window(end_ns=28 * US)).compute.cost_ns == 3 * US


def test_a_copy_counts_where_it_starts(tmp_path: Path) -> None:
    drawing = """
    dev0 s7  compute:           ##################
    dev0 s20 bytes=2000000 h2d: ####.####.########
    """
    window = Window(start_ns=10 * US, end_ns=70 * US)
    found = effective(tmp_path, drawing, window, unit_ns=10 * US)
    assert found.h2d_hidden == Rate(1, 50.0, 50.0, 50.0)


def test_nothing_without_transfers(tmp_path: Path) -> None:
    path = build(tmp_path / "t.sqlite", SLOWED)
    (before,) = cases(path, Window(end_ns=15 * US))
    assert measure_effective(before) is None
    (with_first_instant,) = cases(path, Window(end_ns=15 * US + 1))
    assert measure_effective(with_first_instant) is not None


def test_other_devices_do_not_slow_this_one(tmp_path: Path) -> None:
    drawing = SLOWED + "dev1 s7 compute: ###.###.###\ndev1 s20 d2h: ..............#"
    one, two = (measure_effective(case) for case in cases(build(tmp_path / "t.sqlite", drawing)))
    assert one is not None
    assert two is not None
    assert one.compute.n_alone == 3
    assert two.compute == Slowdown()


def test_rates_hidden_and_exposed(tmp_path: Path) -> None:
    found = effective(
        tmp_path,
        """
        dev0 s7  compute:               ######....................
        dev0 s9  comm:                  ......####................
        dev0 s20 bytes=2000000 h2d:     ####...#####..####........
        dev0 s21 bytes=1048576 d2h:     ............##............
        dev0 s22 bytes=1048575 d2h:     ................##........
        dev0 s23 bytes=4000000 d2h:     ....####..................
        """,
        unit_ns=10 * US,
    )
    # The copy from 7 to 12 lies three fifths under the collective.
    assert (found.h2d_hidden.n, found.h2d_hidden.gb_per_s) == (2, 4e6 / 90e3)
    assert (found.h2d_hidden.p10, found.h2d_hidden.p90) == pytest.approx((41.0, 49.0))
    assert found.h2d_exposed == Rate(1, 50.0, 50.0, 50.0)
    assert found.d2h_hidden == Rate(1, 100.0, 100.0, 100.0)
    # The copy of one byte less than 1 MiB does not count.
    assert found.d2h_exposed == Rate(1, 1_048_576 / 20e3, 1_048_576 / 20e3, 1_048_576 / 20e3)


def test_half_hidden_counts_as_hidden_and_less_does_not(tmp_path: Path) -> None:
    found = effective(
        tmp_path,
        """
        dev0 s7  compute:           ##......##........
        dev0 s20 bytes=2000000 h2d: ####....#####.....
        """,
        unit_ns=10 * US,
    )
    assert (found.h2d_hidden.n, found.h2d_exposed.n) == (1, 1)
    assert found.h2d_exposed.gb_per_s == 40.0


def test_transfer_kernels_have_no_rate() -> None:
    (case,) = cases(h200("jax_scan_pipelined"))
    found = measure_effective(case)
    assert found is not None
    assert int(case.rows.by_kernel.sum()) == 8
    assert found.d2h_hidden.n + found.d2h_exposed.n == 56


KERNELS = st.lists(
    st.tuples(
        st.sampled_from(["gemm_a", "gemm_b"]),
        st.integers(1, 2),
        st.integers(0, 60),
        st.sampled_from([10, 11, 12, 14]),
    ),
    min_size=8,
    max_size=24,
)
SPANS = st.lists(st.tuples(st.integers(0, 70), st.integers(1, 12)), min_size=1, max_size=3)


@pytest.mark.slow
@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(kernels=KERNELS, transfers=SPANS, collectives=SPANS)
def test_slowdown_equals_one_launch_at_a_time(
    tmp_path: Path,
    kernels: list[tuple[str, int, int, int]],
    transfers: list[tuple[int, int]],
    collectives: list[tuple[int, int]],
) -> None:
    builder = TraceBuilder()
    for name, grid, start, length in kernels:
        # Time 0 to 0 would mean "no timestamp", hence the offset.
        builder.kernel(1 + start, 1 + start + length, name, grid=(grid, 1, 1), stream=7)
    for start, length in transfers:
        builder.copy(1 + start, 1 + start + length, "d2h", stream=8)
    for start, length in collectives:
        builder.kernel(1 + start, 1 + start + length, ALL_REDUCE, stream=9)
    (case,) = cases(builder.write(tmp_path / "t.sqlite"))
    found = measure_effective(case)
    assert found is not None

    busy = {at for start, length in transfers for at in range(start, start + length)}
    comm = {at for start, length in collectives for at in range(start, start + length)}
    sides: dict[tuple[str, int, bool], tuple[list[int], list[int]]] = {}
    beside_ns = 0
    for name, grid, start, length in kernels:
        instants = set(range(start, start + length))
        key = (name, grid, 2 * len(instants & comm) >= length)
        beside, alone = sides.setdefault(key, ([], []))
        if 2 * len(instants & busy) >= length:
            beside.append(length)
            beside_ns += length
        elif not instants & busy:
            alone.append(length)
    compared = [(b, a) for b, a in sides.values() if _comparable(b) and _comparable(a)]
    cost = sum(sum(b) - len(b) * float(np.median(a)) for b, a in compared)
    assert found.compute.beside_ns == beside_ns
    assert found.compute.n_beside == sum(len(b) for b, _ in compared)
    assert found.compute.n_alone == sum(len(a) for _, a in compared)
    assert found.compute.compared_ns == sum(sum(b) for b, _ in compared)
    assert found.compute.cost_ns == round(cost)


def _comparable(durations: list[int]) -> bool:
    if len(durations) < 3:
        return False
    p10, p90 = np.percentile(durations, (10, 90))
    return bool(p90 / p10 <= 1.15)


@pytest.mark.parametrize("name", ["jax_unroll_save", "micro_managed", "micro_graph_graph"])
def test_real_traces_without_transfers(name: str) -> None:
    found = [measure_effective(case) for case in cases(h200(name))]
    assert found == [None]


@pytest.mark.parametrize(
    ("name", "least_compared"),
    [
        ("jax_fsdp2_lhs", 0.35),
        ("jax_unroll_lhs", 0.55),
        ("jax_scan_lhs", 0.45),
        ("jax_scan_pipelined", 0.45),
        ("micro_hidden", 1.0),
        ("micro_duplex", 1.0),
    ],
)
def test_no_slowdown_is_invented_on_real_traces(name: str, least_compared: float) -> None:
    for case in cases(h200(name), steps="auto"):
        found = measure_effective(case)
        assert found is not None
        slowdown = found.compute
        assert slowdown.compared_share is not None
        assert slowdown.compared_share >= least_compared
        assert slowdown.ratio == pytest.approx(1.0, abs=0.006)
        assert abs(slowdown.cost_ns) < 0.006 * slowdown.compared_ns
        assert replace(found.comm, beside_ns=0) == Slowdown()


def test_rates_of_a_real_trace() -> None:
    (case,) = cases(h200("jax_unroll_nolhs"))
    found = measure_effective(case)
    assert found is not None
    assert (found.h2d_hidden, found.d2h_hidden) == (Rate(), Rate())
    assert (found.h2d_exposed.n, found.d2h_exposed.n) == (32, 32)
    assert found.h2d_exposed.gb_per_s == pytest.approx(55.44, abs=0.01)
    assert found.d2h_exposed.gb_per_s == pytest.approx(53.24, abs=0.01)
    (case,) = cases(h200("jax_unroll_lhs"))
    found = measure_effective(case)
    assert found is not None
    assert (found.h2d_hidden.n, found.h2d_exposed.n, found.d2h_hidden.n) == (12, 20, 32)
