"""Hand-made reports: reporters are tested without any trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nsysoverlap.result.model import (
    Attribution,
    Basis,
    Bounds,
    Collective,
    DeviceReport,
    Effective,
    Evidence,
    Finding,
    Gpu,
    HealthEntry,
    KernelReport,
    LinkReport,
    Memory,
    OpaqueBounds,
    OperationReport,
    OutsideSteps,
    Overlap,
    OverlapReport,
    Rate,
    Relief,
    Slowdown,
    StepReport,
    StreamReport,
    TimeBudget,
    TraceReport,
)

MS = 1_000_000
GIB = 1 << 30
GENERATOR = "nsysoverlap 0.0.test"
PCIE = LinkReport(63.0, 63.0, "PCIe Gen5 x16, peak by data sheet", 55.3, 53.06)


def overlap(
    n: int, wall: float, compute: float, comm: float = 0, gib: float = 0.0, by_kernel: int = 0
) -> Overlap:
    """Transfers whose times are given in ms and whose copies ran at the link's 55 GB/s."""
    wall_ns, compute_ns, comm_ns = (round(t * MS) for t in (wall, compute, comm))
    n_bytes = round(gib * GIB)
    return Overlap(
        n=n,
        n_by_kernel=by_kernel,
        bytes=n_bytes,
        bytes_estimated=by_kernel * 402_653_184,
        busy_ns=wall_ns,
        wall_ns=wall_ns,
        hidden_by_compute_ns=compute_ns,
        hidden_by_comm_ns=comm_ns,
        exposed_ns=wall_ns - compute_ns - comm_ns,
        copy_ns=round(n_bytes / 55),
    )


def device(pid: int = 17025, device_id: int = 0, trace: str = "train.sqlite") -> DeviceReport:
    """An H200 that did nothing but compute."""
    return DeviceReport(
        trace=trace,
        pid=pid,
        device_id=device_id,
        gpu=Gpu(device_id, "NVIDIA H200", "00112233-4455-6677-8899-aabbccddeeff"),
        window_ns=(0, 1_230 * MS),
        h2d=Overlap(),
        d2h=Overlap(),
        both=Overlap(),
        unified_h2d=Overlap(),
        unified_d2h=Overlap(),
        time_budget=TimeBudget(compute_ns=1_100 * MS, other_ns=7_300_000, idle_ns=122_700_000),
        link=PCIE,
    )


def busy_device(pid: int = 17025, device_id: int = 0, trace: str = "train.sqlite") -> DeviceReport:
    """An H200 that offloads; 59.5 % of 477.6 ms hidden."""
    h2d = overlap(128, 240.1, 72.4, gib=12.0)
    d2h = replace(overlap(128, 248.9, 216.7, gib=12.75), exposed_under_other_ns=9_100_000)
    streams = (
        StreamReport(pid, 1, 7, "compute", {"compute": 1_000 * MS}, Overlap(), Overlap()),
        StreamReport(pid, 1, 20, "h2d", {"h2d": h2d.busy_ns}, h2d, Overlap()),
        StreamReport(pid, 1, 21, "mixed", {"d2h": d2h.busy_ns, "other": 450}, Overlap(), d2h),
    )
    return replace(
        device(pid, device_id, trace),
        h2d=h2d,
        d2h=d2h,
        both=replace(overlap(256, 477.6, 284.2, gib=24.75), exposed_under_other_ns=9_100_000),
        time_budget=TimeBudget(
            compute_ns=1_000 * MS, transfer_ns=193_400_000, other_ns=450, idle_ns=36_599_550
        ),
        streams=streams,
    )


def report(*devices: DeviceReport, health: tuple[HealthEntry, ...] = ()) -> OverlapReport:
    """A report of one trace."""
    trace = TraceReport("train.sqlite", None, "2025.3.2.474", "3.20.3", {"XLA_FLAGS": "--xla_x=1"})
    return OverlapReport((trace,), health, devices, generator=GENERATOR)


def plain() -> OverlapReport:
    """One device, half hidden."""
    note = HealthEntry(
        "diagnostics", "note", "Not all CUDA events might have been collected.", count=2
    )
    return report(busy_device(), health=(note,))


def two_devices() -> OverlapReport:
    """Two devices with communication and some transfer kernels."""
    h2d = overlap(64, 240.1, 72.4, 21.0, gib=12.0)
    d2h = overlap(64, 1_548.9, 1_316.7, 132.2, gib=70.0, by_kernel=8)
    both = overlap(128, 1_700.5, 1_389.1, 153.2, gib=82.0, by_kernel=8)
    second = replace(
        device(17025, 1),
        window_ns=(0, 2_460 * MS),
        h2d=h2d,
        d2h=d2h,
        both=both,
        time_budget=TimeBudget(2_000 * MS, 200 * MS, 158_200_000, 0, 0, 101_800_000),
    )
    return report(busy_device(), second)


def many_devices() -> OverlapReport:
    """64 ranks, one device each."""
    parts = []
    for rank in range(64):
        name = f"rank{rank}.sqlite"
        one = busy_device(17025 + rank, 0, name)
        if rank == 12:
            slow = overlap(128, 348.9, 216.7, gib=12.75)
            one = replace(one, d2h=slow, both=overlap(256, 577.6, 284.2, gib=24.75))
        entry = HealthEntry("diagnostics", "note", f"{rank} events may be missing.", trace=name)
        part = report(one, health=(entry,))
        parts.append(replace(part, traces=(TraceReport(name, rank, "2025.3.2.474", "3.20.3"),)))
    return OverlapReport.merge(parts)


def no_transfers() -> OverlapReport:
    """Healthy, and nothing was offloaded."""
    note = HealthEntry(
        "no-transfers", "note", "No host transfers.", "Check that offload is switched on."
    )
    return report(device(), health=(note,))


def unified_only() -> OverlapReport:
    """Managed memory: migrations, no copies."""
    moved = replace(
        device(),
        unified_h2d=overlap(300, 12.5, 4.0, gib=0.25),
        unified_d2h=overlap(120, 0.4321, 0.0, gib=0.002),
    )
    return report(moved)


def opaque_bounds() -> OverlapReport:
    """Copies beside CUDA graphs recorded as a whole: inconclusive, with bounds."""
    error = HealthEntry(
        "graph-opaque",
        "error",
        "96.1 % of the GPU time lies in 68 CUDA graph launches recorded as a whole",
        "Profile again with --cuda-graph-trace=node.",
    )
    one = replace(
        busy_device(),
        opaque_bounds=OpaqueBounds((0.3015, 0.9999), None, (0.5951, 1.0)),
        time_budget=TimeBudget(opaque_ns=1_000 * MS, transfer_ns=193_400_000, idle_ns=36_600_000),
    )
    return report(one, health=(error,))


def opaque_nothing() -> OverlapReport:
    """Only opaque graphs."""
    one = replace(device(), time_budget=TimeBudget(opaque_ns=1_200 * MS, idle_ns=30 * MS))
    return report(one)


def events_lost() -> OverlapReport:
    """No GPU rows at all: errors, warnings and notes, given in the wrong order."""
    health = (
        HealthEntry("overhead", "note", "Profiler overhead inside the window: 2.1 ms."),
        HealthEntry("unknown-kind", "warning", "3 copies of unknown kind", count=3),
        HealthEntry(
            "events-lost",
            "error",
            "Nsight Systems lost the GPU events of this run",
            "Profile a shorter part, or raise the buffer with --cuda-flush-interval=100.",
        ),
    )
    return report(health=health)


def window() -> OverlapReport:
    """Part of a trace, with rules and options of the user's own."""
    basis = Basis("window", (1_500_000, None), "my rules.toml", "off")
    return replace(plain(), basis=basis)


def stepped_device(step_ms: tuple[float, ...] = (306.2, 305.9, 306.4, 401.7)) -> DeviceReport:
    """An H200 that offloads 3 GiB in each of some steps, the last of which is slow."""
    steps = []
    at = 80 * MS
    for index, time in enumerate(step_ms, 1):
        end = at + round(time * MS)
        h2d, d2h = overlap(8, 58.9, 14.3, gib=3.0), overlap(8, 60.5, 56.7, gib=3.0)
        both = overlap(16, 119.4, 71.0, gib=6.0)
        rest = end - at - 250 * MS - both.exposed_ns
        budget = TimeBudget(250 * MS, 0, both.exposed_ns, 0, 0, rest)
        relief = Relief((768 + 128 * (index == 2)) << 20, 3 * GIB)
        steps.append(
            StepReport(index, "jit_train_step", 17025, at, end, h2d, d2h, both, budget, relief)
        )
        at = end
    h2d, d2h, both = (
        sum((getattr(step, name) for step in steps), Overlap()) for name in ("h2d", "d2h", "both")
    )
    return replace(
        busy_device(),
        window_ns=(80 * MS, at),
        h2d=h2d,
        d2h=d2h,
        both=both,
        time_budget=sum((step.time_budget for step in steps), TimeBudget()),
        steps=tuple(steps),
        outside_steps=OutsideSteps(overlap(3, 22.5, 0, gib=1.2), Overlap()),
        relief=Relief(768 << 20, 3 * GIB, 1 << 20),
        effective=Effective(
            Rate(12, 50.1, 48.0, 53.1),
            Rate(20, 55.0, 54.8, 55.4),
            Rate(31, 53.3, 52.9, 54.3),
            Rate(),
            Slowdown(120, 340, 240 * MS, 150 * MS, 4_200_000, 1.032, 1.01, 1.06),
        ),
        bounds=Bounds(1.0, round(257.8 * MS)),
        collectives=(
            Collective("ncclDevKernel_AllGather_RING_LL", 12, 940 * MS, 0),
            Collective("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclArgs)", 4, 9 * MS, 0),
        ),
    )


def findings() -> tuple[Finding, ...]:
    """Seven, in no order."""
    late = Finding(
        "late-h2d",
        "warning",
        "Compute waits for copies to the device that start too late",
        "In every step 7 of 8 H2D copies end less than 20 µs before the kernel that needs them, "
        "after compute stood still.",
        "let the scheduler start them earlier: "
        "--xla_gpu_enable_latency_hiding_scheduler=true (depends on the version of XLA).",
        40_500_000,
        tuple(
            Evidence(
                round(at * MS), round((at + 7.4) * MS), "H2D of 384.0 MiB", f"copy-start.{i}.1"
            )
            for i, at in enumerate((83.516, 121.25, 173.0015))
        ),
    )
    trip = Finding(
        "round-trip",
        "warning",
        "Tensors come back right after they left",
        "Only 25.0 % of 3.00 GiB a step is ever on the host at once; the median stay is 3.1 ms.",
        "offload less, or save these tensors on the device.",
        119_400_000,
        (Evidence(83_516_000, 91_709_000, "copy-start.12 leaves and is back after 3.1 ms"),),
    )
    small_ones = tuple(
        Finding(code, severity, title, "Details.", "Do something about it.", cost)
        for code, severity, title, cost in (
            ("d2h-tail", "warning", "Nothing follows the last copy from the device.", 2_100_000),
            ("head-of-line", "warning", "Work waits behind a transfer on its stream", 900),
            ("no-duplex", "warning", "The two directions take turns", 0),
            ("transfer-kernels", "note", "Some copies run as kernels", 0),
            ("slow-link", "note", "The link is slower than it was", 3_000_000),
        )
    )
    return (late, *small_ones, trip)


def operations() -> tuple[OperationReport, ...]:
    """24, with names and followers as XLA writes them."""
    gemm = "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_NTN"
    add = "void cutlass::device_kernel<flash::FlashAttnFwdSm90<flash::CollectiveMainloop<2>>>(T)"
    result = []
    for i in range(12):
        h2d = overlap(4, 29.5, i * 2.0, gib=1.5)
        waits = {"blocking_ns": (12 - i) * MS, "host_blocking_ns": 0}
        h2d = replace(h2d, **waits, unawaited_ns=h2d.exposed_ns - (12 - i) * MS)
        d2h = overlap(4, 30.25, 30.25 - i * 0.1, gib=1.5)
        result += [
            OperationReport(f"copy-start.{i}.1", "", "h2d", h2d, h2d.exposed_ns // 4, gemm),
            OperationReport(f"copy-start.{i}", "graph", "d2h", d2h, d2h.exposed_ns // 4, None),
        ]
    first = replace(result[0], followed_by=add)
    return (first, *result[1:])


def stepped() -> OverlapReport:
    """Four steps of a JAX training run, one left out, with all that can be said about them."""
    diagnostics = tuple(
        HealthEntry("diagnostic", "note", f"nsys says: {text}", hint)
        for text, hint in (
            (
                "Not all CUDA events might have been collected.",
                "100.0 % of 1,428 launches and async copies have a GPU row.",
            ),
            ("Not all NVTX events might have been collected.", ""),
            ("Unsupported NVTX extension module id: 1.", ""),
        )
    )
    kernels = (
        KernelReport("nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_NTN", "compute", 64, 9, 300 * MS),
        KernelReport("loop_add_fusion_35", "compute", 1_600, 120 * MS, 0),
        KernelReport(
            "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
            "comm",
            12,
            40 * MS,
            900 * MS,
        ),
    )
    return replace(
        report(stepped_device(), health=diagnostics),
        basis=Basis("steps", steps="XlaModule jit_train_step", n_steps=4, skipped=1),
        operations=operations(),
        kernels=kernels,
        findings=findings(),
        attribution=Attribution(982, 1000, 76, 100),
    )


def small() -> OverlapReport:
    """One of everything a report can hold, as little of each as possible."""
    moved = Overlap(2, 1, 100, 50, 9, 9, 4, 2, 3, 1, 2, copy_ns=2)
    step = StepReport(
        1, "step 1", 17025, 0, 20, moved, moved, moved, TimeBudget(9, 2, 3, 1, 0, 5), Relief(5, 100)
    )
    rate = Rate(3, 50.0, 49.0, 51.0)
    compute = Slowdown(3, 4, 200, 100, 5, 1.05, 1.01, 1.09)
    comm = Slowdown(3, 4, 200, 100, -5, 0.95, 0.9, 1.0)
    one = replace(
        busy_device(),
        streams=busy_device().streams[:1],
        opaque_bounds=OpaqueBounds((0.25, 0.75), (0.0, 1.0), (0.125, 0.875)),
        steps=(step,),
        outside_steps=OutsideSteps(moved, Overlap()),
        relief=Relief(25, 100, 7),
        memory=Memory(31 << 30, 30 << 30, 3 << 30, "save", 33 << 30),
        effective=Effective(rate, rate, rate, rate, compute, comm),
        bounds=Bounds(0.75, 17),
        collectives=(Collective("ncclDevKernel_AllGather_RING_LL", 2, 3, 2),),
    )
    evidence = Evidence(3, 5, "D2H of 100 B", "copy-start.1", "H200 dev 0", "train.sqlite")
    return replace(
        plain(),
        devices=(one,),
        basis=Basis("steps", (0, 20), "rules.toml", "auto", "NVTX ranges like 'step 1'", 1, 1),
        operations=(OperationReport("copy-start.1", "graph", "d2h", moved, 3, "gemm"),),
        kernels=(KernelReport("gemm", "compute", 3, 4, 5),),
        findings=(Finding("d2h-tail", "warning", "T", "Because.", "Do.", 3, (evidence,)),),
        attribution=Attribution(80, 100, 2, 3),
    )


HOSTILE = (
    "<b>[red]|\x1b[31mker`nel\x1b]0;title\x07\n# *x* __y__ \u202e\x9b2J\ud800&amp; \\ a_b ~~z~~"
)


def hostile() -> OverlapReport:
    """Strings a trace may hold and nobody wants in a terminal, a table or a page."""
    entry = HealthEntry("names", "warning", f"Kernel {HOSTILE}", HOSTILE, HOSTILE)
    step = replace(stepped_device().steps[0], label=HOSTILE)
    steps = (step, replace(step, index=2, label="plain"))
    gpu = replace(busy_device().gpu, name=HOSTILE)
    collectives = (Collective(HOSTILE, 1, 2, 10**9),)
    one = replace(busy_device(), gpu=gpu, trace=HOSTILE, steps=steps, collectives=collectives)
    moved = overlap(1, 3, 0, gib=0.5)
    found = Evidence(1, 2, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    part = replace(
        report(one, health=(entry,)),
        basis=Basis("steps", None, HOSTILE, "auto", HOSTILE, 2, 0),
        operations=(OperationReport(HOSTILE, HOSTILE, "h2d", moved, 1, HOSTILE),),
        kernels=(KernelReport(HOSTILE, "compute", 1, 2, 3),),
        findings=(Finding(HOSTILE, "warning", HOSTILE, HOSTILE, HOSTILE, 1, (found,)),),
    )
    return replace(part, traces=(TraceReport(HOSTILE, None, HOSTILE, HOSTILE, {HOSTILE: HOSTILE}),))


SAMPLES: dict[str, Callable[[], OverlapReport]] = {
    "plain": plain,
    "two_devices": two_devices,
    "many_devices": many_devices,
    "no_transfers": no_transfers,
    "unified_only": unified_only,
    "opaque_bounds": opaque_bounds,
    "opaque_nothing": opaque_nothing,
    "events_lost": events_lost,
    "window": window,
    "stepped": stepped,
    "small": small,
    "hostile": hostile,
}
