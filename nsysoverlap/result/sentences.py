"""The sentences of a report: the answer, what it is over, and what to run next."""

from __future__ import annotations

import shlex

from ..core.formatting import (
    format_bytes,
    format_ms,
    format_ns,
    format_span,
    number_of,
    short_kernel,
)
from .metrics import METRICS, Scope
from .model import GUESSED, OverlapReport, format_share, share
from .scopes import measure

LITTLE = 0.05
"""Share of the time below which exposed transfers are not where it goes."""
_WIDTH = 40
"""Characters of a kernel."""


def headline(report: OverlapReport) -> str:
    """The answer in one or two sentences a person can act on."""
    answer = f"{_answer(report)}{_guessed(report)}"
    if report.conclusive:
        return answer
    reason = next(entry.message for entry in report.health if entry.severity == "error")
    stop = "" if reason.endswith((".", "!", "?")) else "."
    return f"Inconclusive: {reason}{stop} {answer if report.devices else ''}".rstrip()


def _guessed(report: OverlapReport) -> str:
    if report.basis.steps is None or GUESSED not in report.basis.steps:
        return ""
    return f" Its {number_of(report.basis.n_steps, 'step')} are a guess: nothing marks them."


def _answer(report: OverlapReport) -> str:
    if not report.devices:
        return "No GPU activity was recorded."
    total = report.total("both")
    if not total.wall_ns:
        return _nothing_measured(report)
    where = f" on {len(report.devices)} devices" if len(report.devices) > 1 else ""
    what = f"{format_ns(total.wall_ns)} of host transfers{where}"
    if not report.conclusive:
        what = f"{format_ns(total.wall_ns)} of recorded host transfers{where}"
    bounds = _opaque_range(report)
    if bounds is not None:
        low, high = (format_share(bound) for bound in bounds)
        opaque = format_ns(report.time_budget.opaque_ns)
        reason = f": {opaque} of GPU time lies in CUDA graphs recorded as a whole"
        # The error that makes a report inconclusive has said so already.
        return (
            f"Between {low} and {high} of {what} ran behind compute"
            f"{reason if report.conclusive else ''}."
        )
    comm = share(total.hidden_by_comm_ns, total.wall_ns)
    behind_comm = f" (another {format_share(comm)} behind communication only)" if comm else ""
    exposed = f"{format_ns(total.exposed_ns)} were" if total.exposed_ns else "nothing was"
    hidden = format_share(total.hidden_share)
    answer = f"{hidden} of {what} ran behind compute{behind_comm}; {exposed} exposed"
    answer += f"{_a_step(report)}.{_instead(report)}"
    migrated = _migrated_bytes(report)
    if migrated > total.bytes:
        answer += f" Unified memory migrated {format_bytes(migrated)} besides."
    return answer


def _a_step(report: OverlapReport) -> str:
    """How much that is a step; of several devices on the one that holds the others up most."""
    exposed = METRICS["both.exposed_ms"]
    found = measure(report, exposed, Scope.STEP_MEAN, least=False)
    if not found.value:
        return ""
    where = ""
    if len(report.devices) > 1:
        # `4 steps of rank 3: H200 dev 0` says which.
        where = f" on the worst device ({found.where.partition(' of ')[2]})"
    return f", a mean of {format_ns(round(found.value))} a step{where}"


def _instead(report: OverlapReport) -> str:
    """Where the time goes if not into transfers; '' where they may matter."""
    codes = {finding.code for finding in report.findings}
    budget = report.time_budget
    if "one-time-transfers" in codes:
        why = "All of them lie before the first kernel or after the last: data is loaded once"
    elif "immaterial-transfers" in codes:
        why = "That is less than 0.1 % of the time"
    elif not budget.transfer_ns:
        return f" The GPU's time is {_spent(report)}."
    elif budget.transfer_ns < LITTLE * budget.total_ns:
        why = f"That is {format_share(budget.transfer_ns / budget.total_ns)} of the time"
    else:
        return ""
    return f" {why}; the GPU's time is {_spent(report)}."


def _spent(report: OverlapReport) -> str:
    """What the GPU did for most of the time, with the worst of the collectives.

    The three largest parts but exposed transfers, and these where they are no less than one named.
    """
    budget = report.time_budget
    rest = {"compute": budget.compute_ns, "exposed communication": budget.comm_ns}
    rest |= {"other work": budget.other_ns, "opaque graphs": budget.opaque_ns}
    rest |= {"idle": budget.idle_ns}
    ordered = sorted(rest.items(), key=lambda item: -item[1])
    named = [(name, ns) for name, ns in ordered[:3] if ns]
    if named and budget.transfer_ns >= named[-1][1]:
        named.append(("exposed transfers", budget.transfer_ns))
        named.sort(key=lambda item: -item[1])
    shown = {name: format_share(ns / budget.total_ns) for name, ns in named}
    slowest = next(iter(report.collectives), None)
    if slowest is not None and "exposed communication" in shown:
        shown["exposed communication"] += f" (most in {short_kernel(slowest.name, _WIDTH)})"
    return ", ".join(f"{name} {part}" for name, part in shown.items())


def _opaque_range(report: OverlapReport) -> tuple[float, float] | None:
    """Bounds of the hidden share over all devices, weighted by wall time as the shares are.

    None where opaque time touches no transfer, so that the number stands.
    """
    pairs = [d.opaque_bounds.both for d in report.devices if d.opaque_bounds]
    if all(pair is None or pair[0] == pair[1] for pair in pairs):
        return None
    low = high = 0.0
    for device in report.devices:
        wall = device.both.wall_ns
        bounds = device.opaque_bounds.both if device.opaque_bounds else None
        known = device.both.hidden_share or 0.0
        low += (bounds[0] if bounds else known) * wall
        high += (bounds[1] if bounds else known) * wall
    wall = report.total("both").wall_ns
    return low / wall, high / wall


def _nothing_measured(report: OverlapReport) -> str:
    span = _span(report)
    n = report.total("both").n
    opaque = report.time_budget.opaque_ns
    if n:
        moved = number_of(n, "host transfer was", "host transfers were")
        return f"{moved} recorded over {span}, none of measurable length."
    if opaque and not report.conclusive:
        return "How much transfer time is hidden cannot be told."
    if opaque:
        return (
            f"How much transfer time is hidden cannot be told: no host transfers were recorded "
            f"over {span}, and {format_ns(opaque)} of it lies in CUDA graphs recorded as a whole."
        )
    outside = sum(device.n_outside_steps for device in report.devices)
    if outside:
        lie = "lies" if outside == 1 else "lie"
        return (
            f"No host transfers were recorded in the steps, over {span}; {outside:,} {lie} outside."
        )
    migrated = _migrated_bytes(report)
    if migrated:
        return (
            f"No host transfers were recorded over {span}; unified memory migrated "
            f"{format_bytes(migrated)} instead."
        )
    if not report.conclusive:
        return f"No host transfers were recorded over {span}."
    rest = f" The GPU's time is {_spent(report)}." if report.time_budget.total_ns else ""
    return f"No host transfers were recorded over {span}: nothing to hide.{rest}"


def _migrated_bytes(report: OverlapReport) -> int:
    return report.total("unified_h2d").bytes + report.total("unified_d2h").bytes


def _span(report: OverlapReport) -> str:
    span = format_span(report.time_budget.total_ns)
    if len(report.devices) == 1:
        return f"{span} of GPU activity"
    return f"{span} of GPU time on {len(report.devices)} devices"


def basis_line(report: OverlapReport) -> str:
    """What the numbers are over: trace, window, configuration."""
    basis = report.basis
    traces = report.traces
    if len(traces) == 1:
        version = f" (nsys {traces[0].nsys_version})" if traces[0].nsys_version else ""
        name = f"{traces[0].path}{version}"
    else:
        name = f"{len(traces)} traces"
    window = _window(basis.window_ns) if basis.window_ns else "the whole of"
    parts = [f"Over {window} {name}"]
    if basis.steps is not None:
        steps = number_of(basis.n_steps, "step")
        within = f"in {window}" if basis.window_ns else "of"
        parts = [f"Over {steps} {within} {name}, {basis.steps}"]
    if basis.skipped:
        parts.append(f"{basis.skipped} {'step' if basis.skipped == 1 else 'steps'} left out")
    if report.devices:
        parts.append(_span(report))
    if basis.config:
        parts.append(f"rules of {basis.config} first")
    if basis.transfer_kernels != "auto":
        parts.append(f"transfer kernels {basis.transfer_kernels}")
    return "; ".join(parts) + "."


def _window(window_ns: tuple[int | None, int | None]) -> str:
    start, end = (
        "" if at is None else format_ms(at, 6).rstrip("0").rstrip(".") for at in window_ns
    )
    if start and end:
        return f"the window {start} to {end} ms of"
    if start:
        return f"the window from {start} ms on of"
    return f"the window up to {end} ms of" if end else "the whole of"


def next_step(report: OverlapReport) -> tuple[str, str]:
    """The command to run next on one of the report's traces, and what for."""
    if not report.conclusive or not report.total("both").wall_ns:
        line = f"nsysoverlap info {shlex.quote(report.traces[0].path)}"
        return line, "Next, in the trace's folder, see what was recorded and with which settings"
    worst = max(report.devices, key=lambda device: device.both.exposed_ns)
    options = f" --config {shlex.quote(report.basis.config)}" if report.basis.config else ""
    if report.basis.window_ns:
        sides = ("" if at is None else f"{at}ns" for at in report.basis.window_ns)
        options += f" --window={':'.join(sides)}"
    return (
        f"nsysoverlap transfers {shlex.quote(worst.trace)}{options} --output copies.csv",
        "Next, in the trace's folder, list each copy and what hid it",
    )
