"""What offloading frees, what could still be won, and what hiding cost."""

from __future__ import annotations

from statistics import median

from ..core.formatting import format_bytes, format_error, format_ns, format_rate, format_span
from ..result.device_names import FEW_DEVICES, device_names
from ..result.model import (
    DeviceReport,
    Memory,
    OverlapReport,
    Rate,
    Relief,
    ReplayReport,
    Slowdown,
    StepReport,
    format_share,
)
from ..result.numbers import OFFLOAD_BYTES
from ..result.quantities import MEMORY
from .blocks import Block, Paragraph, Table
from .cells import cell
from .view import View

_WORTH_A_WORD = 1000
"""Bytes left out of relief are named where they are offload by size, or one part in so many of
what was offloaded.
"""


def gain_section(report: OverlapReport, view: View) -> list[Block]:
    """Relief, bounds and the cost of hiding, in words; nothing where nothing was transferred.

    Copy rates, and what could not be compared, only with `by="op"`.
    """
    if len(report.devices) > FEW_DEVICES:
        lowest = _lowest_relief(report)
        return [Paragraph(lowest)] if lowest else []
    tables: list[Block] = []
    for name, device in zip(device_names(report), report.devices, strict=True):
        replay = next((t.replay for t in report.traces if t.path == device.trace), None)
        rows = _rows(device, replay, in_full=view.by == "op")
        if rows:
            tables.append(Table(f"Gain and cost, {name}", ("", ""), tuple(rows), n_words=2))
    return tables


def _rows(
    device: DeviceReport, replay: ReplayReport | None, in_full: bool
) -> list[tuple[str, str]]:
    memory = ("memory", _memory_text(device.memory))
    if not (device.both.n or device.both.wall_ns):
        return [memory] if memory[1] else []
    texts = [("relief", _relief_text(device)), memory, *_bound_rows(device, replay)]
    effective = device.effective
    if effective is not None:
        if in_full:
            texts += [
                ("H2D rate", _rate_text(effective.h2d_hidden, effective.h2d_exposed)),
                ("D2H rate", _rate_text(effective.d2h_hidden, effective.d2h_exposed)),
            ]
        for role, slowdown in (("compute", effective.compute), ("comm", effective.comm)):
            # Without communication there is nothing to say about it.
            if _is_known(slowdown) or (in_full and (role == "compute" or slowdown.beside_ns)):
                texts.append((role, _slowdown_text(slowdown, len(device.steps))))
    return [(name, text) for name, text in texts if text]


def _is_known(slowdown: Slowdown) -> bool:
    return slowdown.n_beside > 0 and slowdown.n_alone > 0 and slowdown.ratio is not None


def _relief_text(device: DeviceReport) -> str:
    relief = device.relief or Relief()
    excluded = format_bytes(relief.excluded_bytes)
    if not relief.offloaded_bytes:
        # Losses and counters that were read are no offload that could have come back.
        if relief.excluded_bytes < OFFLOAD_BYTES:
            return ""
        return f"Nothing came back: all {excluded} moved in sizes seen in one direction only."
    freed, offloaded = format_bytes(relief.relief_bytes), format_bytes(relief.offloaded_bytes)
    if device.steps:
        text = (
            f"{freed} of the {offloaded} offloaded a step were on the host at once "
            f"({format_share(relief.relief_share)}): the most device memory it can free."
        )
    else:
        text = (
            f"{freed} were on the host at once, of {offloaded} offloaded in all: the "
            "most device memory it can free."
        )
    if relief.relief_bytes > relief.offloaded_bytes:
        text += " More than was offloaded: some came back that had not left in that time."
    least = min(OFFLOAD_BYTES, relief.offloaded_bytes / _WORTH_A_WORD)
    if relief.excluded_bytes >= least:
        text += f" Left out: {excluded} in sizes that moved in one direction only."
    return text


def _memory_text(memory: Memory | None) -> str:
    """What the manifest beside the trace says, and of the control where that is known."""
    if memory is None or memory.peak_bytes is None:
        return ""
    peak, planned, host = (cell(column, memory) for column in MEMORY)
    text = f"At most {peak} of device memory in use"
    if memory.allocated_peak_bytes is None:
        text += ", as the compiler planned"
    elif memory.planned_bytes is not None:
        text += f" ({planned} planned)"
    if memory.host_bytes is not None:
        text += f", {host} pinned on the host"
    text += ", by the manifest beside the trace."
    if memory.control_peak_bytes is not None:
        control = memory.control or "its control"
        text += f" With the tensors kept ({control}): {format_bytes(memory.control_peak_bytes)}."
    return text


def _bound_rows(device: DeviceReport, replay: ReplayReport | None) -> list[tuple[str, str]]:
    """The shortest step by the order of work, and what no order hides; or why that is not known."""
    share = _share_text(device)
    if replay is None:
        return [("at most", f"{share}; a bound, not a promise.")] if share else []
    error = "" if replay.error is None else f" The replay is off by {format_error(replay.error)}."
    if replay.bound_step_ns is None:
        reason = replay.bound_withheld or replay.withheld
        return [("bound", f"None by order: {reason}.{error}")]
    now = format_span(replay.step_ns or 0)
    text = (
        f"No order of these copies makes a step shorter than {format_span(replay.bound_step_ns)}, "
        f"now {now}.{error}"
    )
    return [("bound", text), *_left_rows(device, replay)]


def _left_rows(device: DeviceReport, replay: ReplayReport) -> list[tuple[str, str]]:
    """What stays exposed in the best order, and why."""
    h2d, d2h = replay.bound_exposed_h2d_ns or 0, replay.bound_exposed_d2h_ns or 0
    if not h2d + d2h:
        return []
    # The median, for a replay is of steady steps, which one slow or cut step must not outweigh.
    spans: tuple[StepReport | DeviceReport, ...] = device.steps or (device,)
    parts = [
        f"{format_ns(left)} of the {format_ns(round(median(whole)))} of {name}"
        for name, left, whole in (
            ("H2D", h2d, [span.h2d.wall_ns for span in spans]),
            ("D2H", d2h, [span.d2h.wall_ns for span in spans]),
        )
        if left
    ]
    compute = format_ns(round(median(span.time_budget.compute_ns for span in spans)))
    text = (
        f"Still exposed: {' and '.join(parts)}. Of {compute} of compute a D2H can hide only behind "
        "what comes after its tensor is made, an H2D only behind what comes before it is needed."
    )
    return [("even so", text)]


def _share_text(device: DeviceReport) -> str:
    bounds = device.bounds
    if bounds is None or bounds.best_hidden_share is None:
        return ""
    work = "compute or communication" if device.time_budget.comm_ns else "compute"
    short = ", for there is no more of it" if bounds.best_hidden_share < 1 else ""
    return f"{format_share(bounds.best_hidden_share)} behind {work}{short}"


def _rate_text(hidden: Rate, exposed: Rate) -> str:
    if not hidden.n and not exposed.n:
        return ""
    return f"{_one_rate(hidden, 'hidden')}, {_one_rate(exposed, 'exposed')}."


def _one_rate(rate: Rate, how: str) -> str:
    """Such as `50.1 GB/s hidden (n 12, p10-p90 48.0-53.1)`."""
    if not rate.n or rate.gb_per_s is None:
        return f"no copy mostly {how}"
    spread = ""
    if rate.p10 is not None and rate.p90 is not None:
        spread = f", p10-p90 {format_rate(rate.p10)}-{format_rate(rate.p90)}"
    return f"{format_rate(rate.gb_per_s)} GB/s {how} (n {rate.n:,}{spread})"


_NOTICEABLE = 0.01
"""A smaller change of duration says nothing: clocks alone move that much."""


def _slowdown_text(slowdown: Slowdown, n_steps: int) -> str:
    if not slowdown.beside_ns:
        return "No launch ran mostly beside a transfer."
    beside = format_ns(slowdown.beside_ns)
    if not _is_known(slowdown) or slowdown.ratio is None:
        return (
            f"Not comparable: nothing in {beside} beside transfers ran often and evenly enough, "
            "with the same name and shape, both there and alone."
        )
    if slowdown.is_other_work:
        return (
            f"Not comparable: launches beside transfers took {slowdown.ratio:.2f}x as long as "
            "those of the same name and shape alone, so they did other work; transfers speed "
            "nothing up."
        )
    change = slowdown.ratio - 1
    if change < _NOTICEABLE:
        # Transfers speed nothing up: what is faster beside them is so by chance.
        within = f", within {format_share(_NOTICEABLE, 0)}" if change > -_NOTICEABLE else ""
        effect = f"No slower beside transfers{within}"
    else:
        effect = f"{format_share(change)} slower beside transfers{_cost(slowdown, n_steps)}"
    spread = ""
    if slowdown.p10_ratio is not None and slowdown.p90_ratio is not None:
        spread = f", p10-p90 {slowdown.p10_ratio:.2f}x-{slowdown.p90_ratio:.2f}x"
    compared = f"{format_share(slowdown.compared_share)} of {beside} compared"
    launches = f"n {slowdown.n_beside:,} against {slowdown.n_alone:,} alone"
    return f"{effect} ({launches}{spread}; {compared})."


def _cost(slowdown: Slowdown, n_steps: int) -> str:
    """What hiding cost; nothing is said of a gain, which is chance."""
    if slowdown.cost_ns <= 0:
        return ""
    if not n_steps:
        return f", {format_ns(slowdown.cost_ns)} in all"
    return f", {format_ns(round(slowdown.cost_ns / n_steps))} a step"


def _lowest_relief(report: OverlapReport) -> str:
    known = [
        (device.relief.relief_share, name)
        for name, device in zip(device_names(report), report.devices, strict=True)
        if device.relief is not None and device.relief.relief_share is not None and device.steps
    ]
    if not known:
        return ""
    share, name = min(known)
    return (
        f"Least relief: on {name} {format_share(share)} of the bytes offloaded a step were on the "
        "host at once. Relief, bounds and the cost of hiding of each device are in the JSON report."
    )
