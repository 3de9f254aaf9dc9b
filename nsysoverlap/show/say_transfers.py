"""Tables of transfers: two rows a direction, the amounts and below them their shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..core.formatting import format_bytes, format_ns, format_rate
from ..core.limits import Unit
from ..result.columns import Column, lifted, named
from ..result.device_names import FEW_DEVICES, NAMES, device_names
from ..result.model import DeviceReport, Overlap, OverlapReport
from ..result.quantities import OVERLAP
from .blocks import Block, Paragraph, Table
from .cells import cell, table_of


def transfers_section(report: OverlapReport) -> list[Block]:
    """Host transfers per direction: all devices together, then each."""
    if not _any_transfers(report.devices, ("h2d", "d2h")):
        return []
    names = device_names(report)
    several = len(names) > 1
    comm = report.time_budget.comm_ns > 0 or report.total("both").hidden_by_comm_ns > 0
    result: list[Block] = []
    if several:
        sums = {name: report.total(name) for name in ("h2d", "d2h", "both")}
        result.append(_split_table(f"Transfers, all {len(names)} devices", sums, comm))
    if len(names) > FEW_DEVICES:
        first = _with_once(result[0], report)
        return [first, _many_devices(report, names)]
    for name, device in zip(names, report.devices, strict=True):
        title = f"Transfers, {name}"
        if device.both.n or device.both.wall_ns:
            parts = {"h2d": device.h2d, "d2h": device.d2h, "both": device.both}
            result.append(_split_table(title, parts, comm, device))
        else:
            result.append(Paragraph(f"{title}: none."))
    return [_with_once(result[0], report), *result[1:]]


def _with_once(block: Block, report: OverlapReport) -> Block:
    """The first table, which says why both directions come to less than their sum."""
    apart = report.total("h2d").wall_ns + report.total("d2h").wall_ns
    if not isinstance(block, Table) or apart == report.total("both").wall_ns:
        return block
    note = "'both' is less than the sum: time in which both directions ran counts once."
    return replace(block, note=f"{note} {block.note}".rstrip())


def _any_transfers(devices: Sequence[DeviceReport], directions: Sequence[str]) -> bool:
    parts = [getattr(device, name) for device in devices for name in directions]
    return any(part.n or part.wall_ns for part in parts)


_SPLIT = {
    "compute": ("hidden_by_compute_ns", "hidden_share"),
    "comm": ("hidden_by_comm_ns", "comm_share"),
    "exposed": ("exposed_ns", "exposed_share"),
}
"""What the transfer time splits into: its column, and that of its share."""


def _split_table(
    title: str, parts: dict[str, Overlap], comm: bool, device: DeviceReport | None = None
) -> Table:
    """Two rows a direction: the amounts, and below them their share of the wall time.

    What ran behind communication gets a column where there was any communication at all.
    """
    split = ["compute", *(["comm"] if comm else []), "exposed"]
    amounts = named(OVERLAP, "n", "bytes", "wall_ns", *(_SPLIT[part][0] for part in split))
    shares = named(OVERLAP, *(_SPLIT[part][1] for part in split))
    rate = named(OVERLAP, "gb_per_s")
    rows: list[tuple[str, ...]] = []
    for direction, part in parts.items():
        peak = getattr(device.link, f"{direction}_gbps", None) if device else None
        known_rate = peak is not None and part.gb_per_s is not None
        by_kernel = f"{part.n_by_kernel} by kernel" if part.n_by_kernel else ""
        rows.append((NAMES[direction], *(cell(column, part) for column in (*amounts, *rate))))
        below = (cell(column, part) for column in shares)
        rows.append(("", by_kernel, "", "", *below, f"of {peak:g}" if known_rate else ""))
    columns = ("", *(column.heading for column in (*amounts, *rate)))
    return Table(title, columns, tuple(rows), _split_note(parts, device))


def _split_note(parts: dict[str, Overlap], device: DeviceReport | None) -> str:
    both = parts.get("both", Overlap())
    sentences = []
    if both.exposed_under_other_ns:
        under = format_ns(both.exposed_under_other_ns)
        sentences.append(
            f"During {under} of the exposed time only memsets, on-device copies or page "
            f"migrations ran."
        )
    if both.n_by_kernel:
        sentences.append(
            f"'By kernel' are copies that ran as kernels; their bytes, about "
            f"{format_bytes(both.bytes_estimated)}, are in neither size nor GB/s."
        )
    if device is not None and device.opaque_bounds:
        sentences.append("Work inside opaque CUDA graphs counts as nothing here; bounds below.")
    if device is not None:
        sentences += [_outside_note(device), _link_note(device)]
    return " ".join(sentence for sentence in sentences if sentence)


def _outside_note(device: DeviceReport) -> str:
    """What the steps leave out."""
    outside = device.outside_steps
    if outside is None:
        return ""
    parts = [
        f"{part.n:,} {name} ({format_bytes(part.bytes)}, {format_ns(part.exposed_ns)} exposed)"
        for name, part in (("H2D", outside.h2d), ("D2H", outside.d2h))
        if part.n or part.wall_ns
    ]
    return f"Outside the steps, not counted: {', '.join(parts)}." if parts else ""


def _link_note(device: DeviceReport) -> str:
    link = device.link
    if link.h2d_gbps is None and link.d2h_gbps is None:
        text = "Host link of this GPU unknown (set it with --link-gbps H2D,D2H)."
    else:
        peaks = " H2D, ".join(format_rate(v) for v in (link.h2d_gbps, link.d2h_gbps))
        same = link.h2d_gbps == link.d2h_gbps
        rates = f"{link.h2d_gbps:g} GB/s each way" if same else f"{peaks} D2H GB/s"
        text = f"Link: {rates} ({link.source})."
    best = [
        f"{name} {format_rate(rate)}"
        for name, rate in (("H2D", link.best_h2d_gbps), ("D2H", link.best_d2h_gbps))
        if rate is not None
    ]
    fastest = f"{', '.join(best)} GB/s" if best else "none"
    return f"{text} Fastest copy of at least 64 MB in this trace: {fastest}."


_Row = tuple[str, str, Overlap]


def _many_devices(report: OverlapReport, names: Sequence[str]) -> Table:
    shown = ("wall_ns", "hidden_share", "comm_share", "exposed_ns", "gb_per_s")
    columns = (
        Column[_Row]("device", Unit.NAME, "", lambda row: row[0], "device", show=lambda r: r[0]),
        Column[_Row]("direction", Unit.NAME, "", lambda row: NAMES[row[1]]),
        *lifted(named(OVERLAP, "n"), lambda row: row[2]),
        *lifted(named(OVERLAP, *shown), lambda row: row[2] if row[2].wall_ns else None),
    )
    rows = [
        (owner, direction, getattr(device, direction))
        for name, device in zip(names, report.devices, strict=True)
        for direction, owner in (("h2d", name), ("d2h", ""))
    ]
    worst = max(range(len(names)), key=lambda i: report.devices[i].both.exposed_ns)
    exposed = format_ns(report.devices[worst].both.exposed_ns)
    note = f"Most exposed: {names[worst]} with {exposed}. Links are in the JSON report."
    return table_of("Transfers, each device", columns, rows, note)


def unified_section(report: OverlapReport) -> list[Block]:
    """Unified-memory migrations, where there are any."""
    directions = ("unified_h2d", "unified_d2h")
    if not _any_transfers(report.devices, directions):
        return []
    sums = {name: report.total(name) for name in directions}
    comm = any(part.hidden_by_comm_ns for part in sums.values())
    note = (
        "Never counted as transfers above: a kernel that faults on a page is waiting for it, "
        "not hiding it."
    )
    return [replace(_split_table("Unified-memory migrations", sums, comm), note=note)]
