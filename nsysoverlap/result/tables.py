"""The kinds of rows of a report, each with its columns in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from operator import attrgetter
from typing import Any

from ..core.formatting import NONE, short_kernel
from ..core.limits import Unit, format_difference
from .columns import Column, Place, lifted, placed
from .device_names import NAMES
from .metrics import STEP_MEAN
from .model import (
    DIRECTIONS,
    Collective,
    DeviceReport,
    Finding,
    HealthEntry,
    KernelReport,
    OperationReport,
    StepReport,
    StreamReport,
)
from .quantities import BUDGET, OVERLAP, RELIEF

BUSY_ROLES = ("compute", "comm", "h2d", "d2h", "other", "unified_h2d", "unified_d2h", "opaque")
_FRAME, _STORED, _TEXT, _PAGE = Place.FRAME, Place.STORED, Place.TEXT, Place.PAGE
_KEPT, _SHOWN = _FRAME | _STORED, _TEXT | _PAGE
_WIDTH = 26
"""Characters of the kernel that followed, beside five other columns of a screen."""


def own(name: str, unit: Unit, meaning: str, places: Place = _FRAME) -> Column[Any]:
    """The column of a field, under its own name."""
    return Column(name, unit, meaning, attrgetter(name), name, places)


def words(name: str, meaning: str, places: Place = _FRAME) -> Column[Any]:
    """The column of a field that holds text."""
    return own(name, Unit.NAME, meaning, places)


def directed(directions: Sequence[str]) -> tuple[Column[Any], ...]:
    """The columns of several directions beside each other: `h2d_wall_ns` and so on."""
    return tuple(
        replace(column, heading=f"{NAMES[direction]} {column.heading}".removeprefix("both "))
        for direction in directions
        for column in lifted(OVERLAP, attrgetter(direction), f"{direction}_")
    )


_PID = own("pid", Unit.ID, "process")

DEVICE: tuple[Column[DeviceReport], ...] = (
    own("pid", Unit.ID, "process; missing where several share the GPU", _KEPT),
    own("device_id", Unit.ID, "CUDA ordinal; missing where processes differ", _KEPT),
    own("gpu_id", Unit.ID, "GPU as nsys numbers it"),
    words("gpu_name", "such as NVIDIA H200", _KEPT),
    words("gpu_uuid", "UUID"),
)


def _relieved(step: StepReport) -> int | None:
    return step.relief.relief_bytes if step.relief.offloaded_bytes else None


_STEP_SHOWN = (
    *("duration_ns", "h2d_hidden_share", "d2h_hidden_share", "both_exposed_ns", "relief_share"),
)
STEP: tuple[Column[StepReport], ...] = placed(
    (
        own("index", Unit.ID, "number of the step in the trace, from 0", _KEPT),
        words("label", "text that marks it", _KEPT),
        _PID,
        own("start_ns", Unit.TIME, "start in trace time", _KEPT),
        own("end_ns", Unit.TIME, "end in trace time"),
        Column("duration_ns", Unit.TIME, "step time", attrgetter("duration_ns"), "time", _KEPT),
        *directed(DIRECTIONS),
        *lifted(BUDGET, lambda step: step.time_budget, places=_FRAME),
        Column("relief", Unit.BYTES, "of a step that offloaded", _relieved, "relief", _SHOWN),
        *lifted(RELIEF, lambda step: step.relief),
    ),
    {
        _TEXT: _STEP_SHOWN,
        _PAGE: (*_STEP_SHOWN, "both_blocking_ns", "both_host_blocking_ns"),
    },
)


def _busy(role: str, stream: StreamReport) -> int:
    return stream.busy_ns.get(role, 0)


STREAM: tuple[Column[StreamReport], ...] = (
    _PID,
    own("context_id", Unit.ID, "CUDA context"),
    own("stream_id", Unit.ID, "CUDA stream"),
    words("role", "compute, comm, h2d, d2h, other, opaque or mixed"),
    *(
        Column(
            f"busy_{role}_ns", Unit.TIME, f"sum of durations: {role}",
            partial(_busy, role),
        )
        for role in BUSY_ROLES
    ),
    *directed(("h2d", "d2h")),
)  # fmt: skip


def labelled(op: str, label: str) -> str:
    """An op with its label behind it, where that is another text."""
    return f"{op} ({label})" if label not in ("", op) else op


def op_name(operation: Any) -> str:
    """The op of an operation, or of a change of one, with its label where that says more."""
    return labelled(operation.op, operation.label)


def operation_name(operation: OperationReport) -> str:
    """Direction, op and label, as a row is called."""
    named = operation if operation.op else replace(operation, op="no operation known")
    return f"{NAMES[operation.direction]} {op_name(named)}"


def change_columns(*sides: tuple[str, str]) -> tuple[Column[Any], ...]:
    """Columns of how the exposed time of an operation changed; sides are (name, field)."""
    times = [own(field, Unit.TIME, "", _FRAME) for _, field in sides]

    def change(row: Any) -> int:
        before, after = (time.take(row) or 0 for time in times)
        return int(after - before)

    return (
        Column("op", Unit.NAME, "", op_name, "operation"),
        Column("direction", Unit.NAME, "", lambda row: row.direction.upper()),
        *(replace(t, heading=f"exposed {n}") for t, (n, _) in zip(times, sides, strict=True)),
        Column(
            "change", Unit.TIME, "", change, "change",
            show=lambda row: format_difference(Fraction(change(row)), Unit.TIME),
        ),
    )  # fmt: skip


def _with_step(
    columns: Sequence[Column[OperationReport]],
) -> tuple[Column[OperationReport], ...]:
    """The columns with that of the mean step behind the exposed time."""
    a_step = Column[OperationReport](
        "exposed_per_step_ns", Unit.TIME,
        "exposed time of the mean step, the mean over devices too; missing without steps",
        attrgetter("exposed_per_step_ns"), f"exposed, {STEP_MEAN}", _KEPT | _SHOWN,
    )  # fmt: skip
    behind = 1 + [column.name for column in columns].index("exposed_ns")
    return (*columns[:behind], a_step, *columns[behind:])


OPERATION: tuple[Column[OperationReport], ...] = (
    words("op", "HLO op, NVTX label or API call", _KEPT),
    words("label", "scope, or `graph` inside a CUDA graph", _KEPT),
    words("direction", "h2d or d2h", _KEPT),
    Column("operation", Unit.NAME, "", operation_name, "operation", _SHOWN),
    Column(
        "followed_by", Unit.NAME, "kernel that followed most of the exposed time",
        attrgetter("followed_by"), "followed by", _KEPT | _SHOWN,
        show=lambda o: short_kernel(o.followed_by, _WIDTH) if o.followed_by else NONE,
    ),
    *_with_step(
        placed(
            lifted(OVERLAP, lambda operation: operation.overlap),
            {
                _TEXT: (
                    *("n", "exposed_ns", "blocking_share", "host_blocking_share"),
                    "hidden_share",
                ),
                _PAGE: (
                    *("n", "size", "wall_ns", "exposed_ns", "blocking_ns", "host_blocking_ns"),
                    *("hidden_share", "gb_per_s"),
                ),
            },
        ),
    ),
)  # fmt: skip

KERNEL: tuple[Column[KernelReport], ...] = (
    Column(
        "name", Unit.NAME, "kernel", lambda kernel: kernel.name, "kernel", _FRAME | _SHOWN,
        show=lambda kernel: short_kernel(kernel.name) or "(no name)",
    ),
    words("role", "compute or comm", _FRAME | _SHOWN),
    own("n", Unit.COUNT, "launches", _FRAME | _SHOWN),
    Column(
        "beside_ns", Unit.TIME, "duration of those beside transfers", attrgetter("beside_ns"),
        "beside transfers", _FRAME | _SHOWN,
    ),
    Column(
        "alone_ns", Unit.TIME, "duration of those with none beside them", attrgetter("alone_ns"),
        "alone", _FRAME | _SHOWN,
    ),
)  # fmt: skip

COLLECTIVE: tuple[Column[Collective], ...] = (
    Column(
        "name", Unit.NAME, "communication kernel", lambda one: one.name, "collective",
        _FRAME | _SHOWN, show=lambda one: short_kernel(one.name) or "(no name)",
    ),
    own("n", Unit.COUNT, "launches", _FRAME | _SHOWN),
    Column(
        "busy_ns", Unit.TIME, "sum of durations", attrgetter("busy_ns"), "time", _FRAME | _SHOWN
    ),
    Column(
        "exposed_ns", Unit.TIME, "part of it with no compute beside it", attrgetter("exposed_ns"),
        "exposed", _FRAME | _SHOWN,
    ),
)  # fmt: skip

FINDING: tuple[Column[Finding], ...] = (
    words("code", "name of the finding", _KEPT),
    words("severity", "warning or note", _KEPT),
    words("title", "what is wrong", _KEPT),
    words("detail", "numbers behind it", _KEPT),
    words("remedy", "what to change", _KEPT),
    own("cost_ns", Unit.TIME, "cost a step, or over the window without steps", _KEPT),
    Column("evidence", Unit.COUNT, "number of examples", lambda finding: len(finding.evidence)),
)

HEALTH: tuple[Column[HealthEntry], ...] = (
    words("code", "name of the entry"),
    words("severity", "error, warning or note"),
    words("message", "what to know"),
    words("hint", "what to do"),
    words("trace", "file name"),
    own("count", Unit.COUNT, "how often"),
)
