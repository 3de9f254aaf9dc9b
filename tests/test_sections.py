"""What the report says, before any markup."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import pytest

from nsysoverlap.cli.formats import render
from nsysoverlap.core.errors import UsageError
from nsysoverlap.core.formatting import (
    clean_text,
    format_at,
    format_bytes,
    format_ms,
    format_ns,
    format_rate,
    format_span,
    number_of,
    short_kernel,
)
from nsysoverlap.result.device_names import device_names
from nsysoverlap.result.evidence import evidence_device
from nsysoverlap.result.model import (
    Basis,
    DeviceReport,
    Evidence,
    HealthEntry,
    LinkReport,
    OpaqueBounds,
    OutsideSteps,
    Overlap,
    OverlapReport,
    StepReport,
    StreamReport,
    TimeBudget,
    TraceReport,
)
from nsysoverlap.result.sentences import basis_line, headline, next_step
from nsysoverlap.show.blocks import Command, Entries, Paragraph, Table
from nsysoverlap.show.sections import blocks_of as blocks
from nsysoverlap.show.view import View

from . import sample_reports as samples

STREAMS = View(by="stream")


def tables(report: OverlapReport, view: View | None = None) -> dict[str, Table]:
    return {block.title: block for block in blocks(report, view) if isinstance(block, Table)}


def words(report: OverlapReport, view: View) -> str:
    return " ".join(str(block) for block in blocks(report, view))


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        *((0, "0 ms"), (1, "1 ns"), (999, "999 ns"), (1_000, "1.0 µs"), (193_440, "193.4 µs")),
        *((999_949, "999.9 µs"), (999_950, "1.0 ms"), (193_440_000, "193.4 ms")),
        *((9_999_949_999, "9999.9 ms"), (9_999_960_000, "10.00 s"), (12_345_000_000, "12.35 s")),
    ],
)
def test_times(ns: int, text: str) -> None:
    assert format_ns(ns) == text


def test_spans_are_told_in_seconds_from_one_second_on() -> None:
    assert [format_span(ns) for ns in (999_000_000, 999_970_000, 1_230_000_000)] == [
        "999.0 ms",
        "1.00 s",
        "1.23 s",
    ]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        *((0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (2**20 - 1, "1.0 MiB")),
        *((2**28, "256.0 MiB"), (2**30 - 1, "1.00 GiB"), (int(12.75 * 2**30), "12.75 GiB")),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_rates() -> None:
    rates = (None, 55.34, 1.0, 0.9994, 0.0042)
    assert [format_rate(rate) for rate in rates] == ["–", "55.3", "1.0", "0.999", "0.0042"]


def test_numbers_of_things() -> None:
    assert [number_of(n, "step") for n in (0, 1, 2)] == ["0 steps", "1 step", "2 steps"]
    assert number_of(1, "copy is", "copies are") == "1 copy is"
    assert number_of(1_024, "copy is", "copies are") == "1,024 copies are"


def test_stretches_of_trace_time() -> None:
    assert format_at(83_516_400, 91_709_000) == "83.516 to 91.709 ms"
    assert format_at(-1_500_000, 0) == "-1.500 to 0.000 ms"
    # Floats hold every second hundred of such a time, and would print others.
    at = 2**62 + 1
    assert format_at(at, at + 1_000_000) == "4611686018427.388 to 4611686018428.388 ms"
    assert format_ms(1_700_000_000_000_881_137, 6) == "1700000000000.881137"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("loop_add_fusion_35", "loop_add_fusion_35"),
        ("ncclKernel(ncclStorage<(unsigned long)4096>)", "ncclKernel"),
        ("void (anonymous)::f<(int)4>(int, float (*)(int))", "(anonymous)::f<(int)4>"),
        # A label of an operation, which tells it from others, is no list of arguments.
        ("512.0 MiB after gemm (1 of 8)", "512.0 MiB after gemm (1 of 8)"),
        ("copy-start.1 (graph)", "copy-start.1 (graph)"),
        ("f)", "f)"),
        ("(f)", "(f)"),
        ("a" * 30 + "b" * 30, "a" * 22 + "..." + "b" * 23),
        ("x" * 48, "x" * 48),
    ],
)
def test_short_kernel_names(name: str, short: str) -> None:
    assert short_kernel(name) == short


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x\x1b]8;;http://a\x1b\\y", "xy"),
        ("a\x9b2Jb\x1bMc", "abc"),
        ("line\nbreak\r\ttab\x00\x7f", "line break tab"),
        ("\u202eevil\u2066x\u2028y", "evil x y"),
        ("\ud800 kept: é 漢 µ", "? kept: é 漢 µ"),
        ("\x1b[31", "31"),
        ("a\u200bb\u200d\ufeff\u00adc\u200f\U000e0041", "abc"),
        ("##[error]x", "# #[error]x"),
        ("a" * 9_999 + "b", "a" * 9_999 + "b"),
        ("a" * 9_000 + "b" * 9_000, "a" * 5_000 + "..." + "b" * 5_000),
        ("#\u200b#[error]x", "# #[error]x"),
    ],
)
def test_clean_text(raw: str, clean: str) -> None:
    assert clean_text(raw) == clean


def test_headline_of_one_device() -> None:
    assert headline(samples.plain()) == (
        "59.5 % of 477.6 ms of host transfers ran behind compute; 193.4 ms were exposed."
    )


def test_headline_names_communication_and_devices() -> None:
    assert headline(samples.two_devices()) == (
        "76.8 % of 2178.1 ms of host transfers on 2 devices ran behind compute "
        "(another 7.0 % behind communication only); 351.6 ms were exposed."
    )


def test_headline_when_all_is_hidden() -> None:
    done = replace(samples.device(), both=samples.overlap(1, 5, 5), d2h=samples.overlap(1, 5, 5))
    assert headline(samples.report(done)) == (
        "100.0 % of 5.0 ms of host transfers ran behind compute; nothing was exposed. "
        "The GPU's time is compute 89.4 %, idle 10.0 %, other work 0.6 %."
    )


def test_headline_never_claims_all_when_a_nanosecond_is_exposed() -> None:
    part = Overlap(1, wall_ns=10**9, hidden_by_compute_ns=10**9 - 1, exposed_ns=1)
    text = headline(samples.report(replace(samples.device(), both=part)))
    assert text.startswith(">99.9 % of")
    assert "; 1 ns were exposed. " in text


def test_headline_without_transfers() -> None:
    assert headline(samples.no_transfers()) == (
        "No host transfers were recorded over 1.23 s of GPU activity: nothing to hide. "
        "The GPU's time is compute 89.4 %, idle 10.0 %, other work 0.6 %."
    )
    assert "over 2.46 s of GPU time on 2 devices: nothing" in headline(
        samples.report(samples.device(), samples.device(1))
    )
    assert headline(OverlapReport((), (), ())) == "No GPU activity was recorded."
    outside = replace(samples.device(), outside_steps=OutsideSteps(Overlap(3), Overlap(1)))
    assert headline(samples.report(outside)) == (
        "No host transfers were recorded in the steps, over 1.23 s of GPU activity; 4 lie outside."
    )
    one = replace(samples.device(), outside_steps=OutsideSteps(Overlap(1), Overlap()))
    assert headline(samples.report(one)).endswith("; 1 lies outside.")


def test_headline_of_unified_memory_only() -> None:
    assert headline(samples.unified_only()) == (
        "No host transfers were recorded over 1.23 s of GPU activity; unified memory migrated "
        "258.0 MiB instead."
    )


def test_headline_mentions_migrations_that_outweigh_the_copies() -> None:
    moved = replace(samples.busy_device(), unified_d2h=samples.overlap(1, 900, 0, gib=24.0))
    more = replace(moved, unified_h2d=samples.overlap(1, 900, 0, gib=1.0))
    assert headline(samples.report(moved)) == headline(samples.plain())
    assert headline(samples.report(more)) == (
        f"{headline(samples.plain())} Unified memory migrated 25.00 GiB besides."
    )


def test_headline_of_empty_transfers() -> None:
    part = Overlap(n=3)
    text = headline(samples.report(replace(samples.device(), both=part, h2d=part)))
    assert text.startswith("3 host transfers were recorded")
    assert "none of measurable length" in text
    one = Overlap(n=1)
    text = headline(samples.report(replace(samples.device(), both=one, h2d=one)))
    assert text.startswith("1 host transfer was recorded")


def test_headline_when_opaque_graphs_hide_the_copies() -> None:
    assert headline(samples.opaque_nothing()).startswith(
        "How much transfer time is hidden cannot be told: no host transfers were recorded over "
        "1.23 s of GPU activity, and 1200.0 ms of it"
    )


def test_headline_does_not_repeat_why_it_cannot_be_told() -> None:
    error = HealthEntry("graph-opaque", "error", "Graphs were recorded as a whole.")
    assert headline(replace(samples.opaque_nothing(), health=(error,))) == (
        "Inconclusive: Graphs were recorded as a whole. How much transfer time is hidden cannot "
        "be told."
    )


def test_headline_gives_bounds_and_never_a_lone_number() -> None:
    inconclusive = samples.opaque_bounds()
    assert headline(inconclusive) == (
        "Inconclusive: 96.1 % of the GPU time lies in 68 CUDA graph launches recorded as a whole. "
        "Between 59.5 % and 100.0 % of 477.6 ms of recorded host transfers ran behind compute."
    )
    assert headline(replace(inconclusive, health=())) == (
        "Between 59.5 % and 100.0 % of 477.6 ms of host transfers ran behind compute: 1000.0 ms "
        "of GPU time lies in CUDA graphs recorded as a whole."
    )


def test_bounds_of_several_devices_weigh_by_wall_time() -> None:
    unsure = replace(
        samples.busy_device(),
        both=samples.overlap(1, 300, 0),
        opaque_bounds=OpaqueBounds(both=(0.0, 1.0)),
    )
    sure = replace(samples.busy_device(), both=samples.overlap(1, 100, 50))
    assert headline(samples.report(unsure, sure)).startswith(
        "Between 12.5 % and 87.5 % of 400.0 ms"
    )


def test_opaque_time_beside_no_transfer_leaves_the_number_alone() -> None:
    one = replace(samples.busy_device(), opaque_bounds=OpaqueBounds(both=(0.5951, 0.5951)))
    assert headline(samples.report(one)).startswith("59.5 % of 477.6 ms")


def test_inconclusive_says_why_and_calls_numbers_recorded() -> None:
    error = HealthEntry("events-lost", "error", "Events were lost.")
    text = headline(samples.report(samples.busy_device(), health=(error,)))
    assert text.startswith("Inconclusive: Events were lost. 59.5 % of 477.6 ms of recorded host")
    assert headline(samples.report(samples.device(), health=(error,))) == (
        "Inconclusive: Events were lost. No host transfers were recorded over 1.23 s of GPU "
        "activity."
    )
    assert headline(samples.events_lost()) == (
        "Inconclusive: Nsight Systems lost the GPU events of this run."
    )


@pytest.mark.parametrize(
    ("window_ns", "text"),
    [
        ((1_500_000, 20_000_001), "the window 1.5 to 20.000001 ms of train.sqlite"),
        ((None, 20_000_000), "the window up to 20 ms of"),
        ((0, None), "the window from 0 ms on of"),
        ((-3_000_000, 0), "the window -3 to 0 ms of"),
        ((None, None), "the whole of train.sqlite"),
    ],
)
def test_basis_names_the_window(window_ns: tuple[int | None, int | None], text: str) -> None:
    report = samples.window()
    report = replace(report, basis=replace(report.basis, window_ns=window_ns))
    assert text in basis_line(report)


def test_basis_names_trace_configuration_and_options() -> None:
    assert basis_line(samples.plain()) == (
        "Over the whole of train.sqlite (nsys 2025.3.2.474); 1.23 s of GPU activity."
    )
    assert basis_line(samples.window()).endswith(
        "; rules of my rules.toml first; transfer kernels off."
    )
    assert basis_line(samples.many_devices()).startswith("Over the whole of 64 traces; 78.72 s")


def test_transfers_outside_the_steps_are_told() -> None:
    title = "Transfers, H200 dev 0, pid 17025"
    assert tables(samples.stepped())[title].note.startswith(
        "Outside the steps, not counted: 3 H2D (1.20 GiB, 22.5 ms exposed). Link: "
    )
    none = replace(samples.stepped_device(), outside_steps=OutsideSteps(Overlap(), Overlap()))
    assert tables(samples.report(none))[title].note.startswith("Link: ")


def test_basis_names_steps() -> None:
    assert basis_line(samples.stepped()) == (
        "Over 4 steps of train.sqlite (nsys 2025.3.2.474), XlaModule jit_train_step; 1 step left "
        "out; 1.32 s of GPU activity."
    )
    one = Basis("steps", (None, 5_000_000), steps="NVTX step", n_steps=1, skipped=2)
    assert basis_line(replace(samples.plain(), basis=one)).startswith(
        "Over 1 step in the window up to 5 ms of train.sqlite (nsys 2025.3.2.474), NVTX step; 2 "
        "steps left out; "
    )


Owner = TypeVar("Owner", DeviceReport, StepReport)


def more_exposed(owner: Owner, ns: int) -> Owner:
    """With so much less behind compute."""
    part = owner.both
    less = part.hidden_by_compute_ns - ns
    both = replace(part, exposed_ns=part.exposed_ns + ns, hidden_by_compute_ns=less)
    return replace(owner, both=both)


def test_headline_tells_exposed_time_a_step() -> None:
    assert headline(samples.stepped()).endswith("193.6 ms were exposed, a mean of 48.4 ms a step.")
    two = replace(samples.two_devices(), basis=samples.stepped().basis)
    assert headline(two).endswith("351.6 ms were exposed.")
    (one,) = samples.stepped().devices
    worse = replace(
        more_exposed(one, 100_000_000),
        device_id=1,
        steps=tuple(more_exposed(step, 25_000_000) for step in one.steps),
    )
    pair = replace(samples.stepped(), devices=(one, worse))
    assert headline(pair).endswith(
        "487.2 ms were exposed, a mean of 73.4 ms a step on the worst device "
        "(H200 dev 1, pid 17025)."
    )


def test_next_step_repeats_what_the_numbers_are_over() -> None:
    assert next_step(samples.window())[0] == (
        "nsysoverlap transfers train.sqlite --config 'my rules.toml' --window=1500000ns: "
        "--output copies.csv"
    )
    assert next_step(samples.many_devices())[0].startswith("nsysoverlap transfers rank12.sqlite ")


@pytest.mark.parametrize("name", ["no_transfers", "events_lost", "opaque_bounds"])
def test_next_step_without_numbers_to_trust_is_info(name: str) -> None:
    assert next_step(samples.SAMPLES[name]())[0] == "nsysoverlap info train.sqlite"


def test_health_comes_before_numbers_and_errors_come_first() -> None:
    found = blocks(samples.events_lost())
    assert isinstance(found[2], Table)
    assert [row[0] for row in found[2].rows] == ["error", "warning", "note"]
    assert found[2].rows[0][1].endswith("this run. Profile a shorter part, or raise the buffer "
                                        "with --cuda-flush-interval=100.")  # fmt: skip
    assert found[2].rows[1][1] == "3 copies of unknown kind."
    assert "Health" not in tables(samples.two_devices())


def test_messages_of_nsys_share_a_line() -> None:
    rows = tables(samples.stepped())["Health"].rows
    assert rows == (
        (
            "note",
            "nsys says (3 messages): Not all CUDA events might have been collected. 100.0 % of "
            "1,428 launches and async copies have a GPU row.",
        ),
    )


def test_severe_messages_of_nsys_are_all_told() -> None:
    entries = tuple(HealthEntry("diagnostic", "warning", f"nsys says: {i}.") for i in range(3))
    rows = tables(samples.report(samples.device(), health=entries))["Health"].rows
    assert [row[1] for row in rows] == ["nsys says: 0.", "nsys says: 1.", "nsys says: 2."]


def test_health_of_many_traces_is_told_once_per_code() -> None:
    rows = tables(samples.many_devices())["Health"].rows
    assert [row[1] for row in rows] == [
        "rank0.sqlite: 0 events may be missing.",
        "63 more like this one (diagnostics); all are in the JSON report.",
    ]


def test_transfers_of_one_device() -> None:
    table = tables(samples.plain())["Transfers, H200 dev 0, pid 17025"]
    assert table.rows[0] == (
        *("H2D", "128", "12.00 GiB", "240.1 ms", "72.4 ms", "167.7 ms", "55.0"),
    )
    assert table.rows[1] == ("", "", "", "", "30.2 %", "69.8 %", "of 63")
    assert [row[0] for row in table.rows[::2]] == ["H2D", "D2H", "both"]
    assert table.rows[5][-1] == "", "both directions together have no link to compare with"
    assert table.note == (
        "'both' is less than the sum: time in which both directions ran counts once. "
        "During 9.1 ms of the exposed time only memsets, on-device copies or page migrations "
        "ran. Link: 63 GB/s each way (PCIe Gen5 x16, peak by data sheet). Fastest copy of at "
        "least 64 MB in this trace: H2D 55.3, D2H 53.1 GB/s."
    )


def test_communication_has_a_column_where_there_was_any() -> None:
    title = "Transfers, H200 dev 0, pid 17025"
    assert "behind comm only" not in tables(samples.plain())[title].columns
    table = tables(samples.two_devices())[title]
    assert table.columns[5] == "behind comm only"
    assert table.rows[0][4:7] == ("72.4 ms", "0 ms", "167.7 ms")
    busy = samples.plain().devices[0]
    other = replace(busy, time_budget=replace(busy.time_budget, comm_ns=1))
    assert tables(samples.report(other))[title].rows[1][5] == "0.0 %"


@pytest.mark.parametrize(
    ("link", "text"),
    [
        (LinkReport(), "Host link of this GPU unknown (set it with --link-gbps H2D,D2H). Fastest"),
        (LinkReport(55, 53, "given"), "Link: 55.0 H2D, 53.0 D2H GB/s (given)."),
        (LinkReport(63, 63, "x", None, None), "in this trace: none."),
        (LinkReport(63, 63, "x", None, 50.0), "in this trace: D2H 50.0 GB/s."),
    ],
)
def test_link_note(link: LinkReport, text: str) -> None:
    report = samples.report(replace(samples.busy_device(), link=link))
    assert text in tables(report)["Transfers, H200 dev 0, pid 17025"].note


def test_transfer_kernels_are_marked() -> None:
    table = tables(samples.two_devices())["Transfers, H200 dev 1, pid 17025"]
    assert [row[1] for row in table.rows] == ["64", "", "64", "8 by kernel", "128", "8 by kernel"]
    assert "about 3.00 GiB, are in neither size nor GB/s" in table.note


def test_a_device_without_transfers_says_so_beside_one_with() -> None:
    report = samples.report(samples.busy_device(), samples.device(9, 1))
    assert Paragraph("Transfers, H200 dev 1, pid 9: none.") in blocks(report)
    assert tables(report)["Transfers, all 2 devices"].rows[0][1] == "128"


def test_many_devices_share_one_table_and_the_worst_is_named() -> None:
    table = tables(samples.many_devices())["Transfers, each device"]
    assert len(table.rows) == 128
    assert table.rows[24][:2] == ("rank 12: H200 dev 0", "H2D")
    assert table.rows[25] == (
        *("", "D2H", "128", "348.9 ms", "62.1 %", "0.0 %", "132.2 ms", "55.0"),
    )
    assert table.note.startswith("Most exposed: rank 12: H200 dev 0 with 293.4 ms.")


def test_device_names_tell_devices_apart() -> None:
    assert device_names(samples.two_devices()) == [
        "H200 dev 0, pid 17025",
        "H200 dev 1, pid 17025",
    ]
    two = (samples.busy_device(1, 0, "a.sqlite"), samples.busy_device(2, 0, "a.sqlite"))
    traces = (TraceReport("a.sqlite"), TraceReport("b.sqlite"))
    assert device_names(OverlapReport(traces, (), two)) == [
        "a.sqlite: H200 dev 0, pid 1",
        "a.sqlite: H200 dev 0, pid 2",
    ]
    # Processes of two virtual machines.
    alike = (two[0], two[0], two[1])
    report = OverlapReport(traces[:1], (), alike)
    assert device_names(report) == [
        "H200 dev 0, pid 1 (1 of 2)",
        "H200 dev 0, pid 1 (2 of 2)",
        "H200 dev 0, pid 2",
    ]
    rows = [Evidence(0, 1, "", None, device.label, "a.sqlite") for device in two]
    assert [evidence_device(report, row) for row in rows] == [None, 2]


def test_time_budget_parts_and_their_sum() -> None:
    table = tables(samples.plain())["Time budget, H200 dev 0, pid 17025"]
    assert table.columns == ("compute", "transfer", "other", "idle", "total")
    assert table.rows == (
        ("1000.0 ms", "193.4 ms", "450 ns", "36.6 ms", "1230.0 ms"),
        ("81.3 %", "15.7 %", "<0.1 %", "3.0 %", "100.0 %"),
    )


def test_time_budget_of_an_empty_window() -> None:
    empty = samples.report(replace(samples.device(), time_budget=TimeBudget()))
    table = tables(empty)["Time budget, H200 dev 0, pid 17025"]
    assert table.columns == ("compute", "transfer", "idle", "total")
    assert table.rows == (("0 ms",) * 4, ("–",) * 4)


def test_unified_memory_only_where_present() -> None:
    table = tables(samples.unified_only())["Unified-memory migrations"]
    assert [row[1] for row in table.rows[::2]] == ["300", "120"]
    assert "Never counted as transfers" in table.note
    assert "Unified-memory migrations" not in tables(samples.plain())


def test_opaque_bounds_only_where_present() -> None:
    title = "Bounds of the hidden share of recorded transfers"
    assert tables(samples.opaque_bounds())[title].rows == (
        ("H200 dev 0, pid 17025", "H2D", "30.1 %", ">99.9 %"),
        ("H200 dev 0, pid 17025", "both", "59.5 %", "100.0 %"),
    )
    assert title not in tables(samples.plain())


def test_streams_are_labelled_as_overlapping() -> None:
    table = tables(samples.plain(), STREAMS)["Streams, H200 dev 0, pid 17025"]
    assert table.rows[0] == ("7", "compute", "1000.0 ms", "–", "–", "–", "–")
    assert table.rows[1] == ("20", "h2d", "240.1 ms", "240.1 ms", "167.7 ms", "–", "–")
    assert table.note == "Streams overlap: rows do not add up to the device."


def test_streams_of_two_processes_carry_their_owner() -> None:
    streams = tuple(
        StreamReport(pid, 1, 7, "compute", {"compute": 10}, Overlap(), Overlap()) for pid in (5, 6)
    )
    report = samples.report(replace(samples.device(), streams=streams))
    rows = tables(report, STREAMS)["Streams, H200 dev 0, pid 17025"].rows
    assert [row[0] for row in rows] == ["pid 5 context 1 7", "pid 6 context 1 7"]


def test_many_streams_keep_those_with_transfers() -> None:
    d2h = Overlap(1, wall_ns=5, exposed_ns=5)
    idle = [
        StreamReport(1, 1, i, "compute", {"compute": 1000 + i}, Overlap(), Overlap())
        for i in range(30)
    ]
    copying = StreamReport(1, 1, 99, "d2h", {"d2h": 5}, Overlap(), d2h)
    report = samples.report(replace(samples.device(), streams=(*idle, copying)))
    table = tables(report, STREAMS)["Streams, H200 dev 0, pid 17025"]
    assert len(table.rows) == 20
    assert table.rows[-1][0] == "99"
    assert "Left out: 11 less busy streams (11.1 µs together), in the JSON report." in table.note


def test_streams_only_when_asked_for() -> None:
    assert not [title for title in tables(samples.plain()) if "Streams" in title]
    assert Paragraph("Streams of each device are in the JSON report.") in blocks(
        samples.many_devices(), STREAMS
    )


def test_another_grouping_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be grouped by 'kernel'") as caught:
        View(by="kernel")
    assert caught.value.hint == "Known: op, stream."


@pytest.mark.parametrize("by", [None, "op", "stream"])
def test_every_table_is_rectangular(by: str | None) -> None:
    for sample in samples.SAMPLES.values():
        for table in tables(sample(), View(by=by)).values():
            assert {len(row) for row in table.rows} == {len(table.columns)}


@pytest.mark.parametrize(
    ("by", "operations"),
    [
        (None, ["Most exposed operations"]),
        (
            "op",
            [
                "Operations by exposed time",
                "Kernels that ran beside transfers",
                "Compute with no transfer beside it",
            ],
        ),
    ],
)
def test_order_of_the_report(by: str | None, operations: list[str]) -> None:
    found = blocks(samples.stepped(), View(by=by))
    assert isinstance(found[0], Paragraph)
    assert found[0].tone == "headline"
    assert isinstance(found[-1], Command)
    titles = [b.title.split(",")[0] for b in found if isinstance(b, Table | Entries)]
    assert titles == [
        *("Health", "Findings", "Transfers", "Gain and cost", "Steps"),
        *operations,
        "Time budget",
    ]


def test_the_default_report_fits_a_long_screen() -> None:
    report = render(samples.stepped(), "text", view=View(findings="none"))
    assert report.count("\n") <= 70


@pytest.mark.parametrize("by", [None, "op", "stream"])
def test_no_control_character_of_the_trace_gets_out(by: str | None) -> None:
    text = words(samples.hostile(), View(by=by))
    assert text.count("[red]") >= 20
    assert not [char for char in text if ord(char) < 32 or char in "\x9b\u202e\ud800"]
