"""Which tensor a transfer moves where nothing names it: by size, kernel before it and order.

A program does the same in every step, so the third copy of 32 MiB behind a kernel moves the same
tensor in each. What comes back was sent out in the same step: of equal sizes the last one out comes
back first, as the backward pass needs it.
"""

from __future__ import annotations

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.formatting import format_bytes
from ..roles.rules import Role
from ..trace.contents import short_name
from .case import DeviceCase
from .lanes import Transfers

_MOST = 2_000
"""Of more tensors a step than that the order is left out, for no one reads so many rows."""
_FEWEST_STEPS = 2
_EVER = np.iinfo(np.int64).min


def tensors(case: DeviceCase, unnamed: BoolArray, call: Int64Array) -> tuple[list[str], Int64Array]:
    """Names of tensors, and for each of the device's transfers the index of its name, -1 for none.

    Only transfers that `unnamed` picks and that one of at least two steps launched get one. `call`
    (n,) is the launch of each transfer, -1 for none.
    """
    code = np.full(len(case.rows), -1, np.int64)
    if len(case.steps) < _FEWEST_STEPS:
        return [], code
    step = _step(case, call)
    rows = np.flatnonzero(unnamed & (step >= 0))
    if not len(rows):
        return [], code
    moved, step = case.rows.select(rows), step[rows]
    kernel = _kernel_before(case, moved, call[rows], step)
    size = moved.n_bytes + moved.bytes_estimated
    out = _sent_before(moved, step, size)
    # Reloads are the tensor that was sent out; only what was not has an identity of its own.
    own = np.flatnonzero(out < 0)
    place = np.full(len(rows), -1, np.int64)
    names, place[own] = _named(case, size[own], kernel[own], moved.role[own], step[own])
    back = np.flatnonzero(out >= 0)
    place[back] = place[out[back]]
    code[rows] = place
    return names, code


def _step(case: DeviceCase, call: Int64Array) -> Int64Array:
    """The step that launched each transfer, -1 for none.

    Not the one that it starts in: a copy that is fetched early does so in the step before. Only
    where no range marks the steps that is all there is to go by.
    """
    trace, rows = case.classified.trace, case.rows
    pid, host = trace.stream_pid[rows.stream], trace.host
    at = np.where(call >= 0, host.calls.start_ns[call] if len(host.calls) else 0, rows.start_ns)
    result = np.full(len(rows), -1, np.int64)
    for number, step in enumerate(case.steps):
        if step.marked_by is None:
            inside = (rows.start_ns >= step.start_ns) & (rows.start_ns < step.end_ns)
        else:
            start, end = host.ranges.start_ns, host.ranges.end_ns
            inside = (at >= start[step.marked_by]) & (at <= end[step.marked_by]) & (call >= 0)
        result[inside & ((pid == step.global_pid) | (pid == 0))] = number
    return result


def _kernel_before(
    case: DeviceCase, moved: Transfers, call: Int64Array, step: Int64Array
) -> Int64Array:
    """Name of the kernel that was launched last before each transfer was, -1 for none in its step.

    By the order of launches, which is the same in every step; where those are unknown by that on
    the GPU.
    """
    trace, host = case.classified.trace, case.classified.trace.host
    kernels = case.classified.kernel_rows(case.device.index, Role.COMPUTE)
    result = np.full(len(moved), -1, np.int64)
    if not len(kernels):
        return result
    launch = case.launches.of(trace.kernels, kernels)
    if (call >= 0).all() and (launch >= 0).all():
        at, asked = host.calls.start_ns[launch], host.calls.start_ns[call]
        marks = [one.marked_by for one in case.steps]
        begun = np.array([_EVER if mark is None else host.ranges.start_ns[mark] for mark in marks])
    else:
        at, asked = trace.kernels.start_ns[kernels], moved.start_ns
        begun = np.array([one.start_ns for one in case.steps])
    order = np.argsort(at, kind="stable")
    found = np.searchsorted(at[order], asked, side="left") - 1
    found[(found >= 0) & (at[order][found] < begun[step])] = -1
    name = trace.kernels.name[kernels[order]].astype(np.int64)
    result[found >= 0] = name[found[found >= 0]]
    return result


def _sent_before(moved: Transfers, step: Int64Array, size: Int64Array) -> Int64Array:
    """For each H2D the D2H of the same tensor in its step, -1 for none and for D2H.

    Within a step and size they nest like brackets: what left last comes back first. Sizes are told
    apart before, so that a bracket that never closes disturbs no other size.
    """
    out = moved.role == Role.D2H
    at = np.where(out, moved.end_ns, moved.start_ns)
    result = np.full(len(moved), -1, np.int64)
    order = np.lexsort((~out, at, size, step))
    first = np.ones(len(order), np.bool_)
    first[1:] = (np.diff(step[order]) != 0) | (np.diff(size[order]) != 0)
    group = np.cumsum(first) - 1
    change = np.where(out[order], 1, -1)
    level = np.cumsum(change)
    level -= (level - change)[first][group]
    # The lowest level until now is the ground of a group, no higher than 0. Each group lies below
    # all before it, so that the lowest of those says nothing.
    apart = group * (2 * len(order) + 2)
    ground = np.minimum.accumulate(np.minimum(level, 0) - apart) + apart
    before = np.where(first, 0, np.concatenate(([0], ground[:-1])))
    # Of a D2H the depth that it makes, of an H2D the one that it ends; a reload of what never left
    # ends none.
    depth = level - ground + ~out[order]
    depth[~out[order] & (level < before)] = -1
    nested = np.lexsort((np.arange(len(order)), depth, group))
    left, back = nested[:-1], nested[1:]
    pair = out[order][left] & ~out[order][back]
    pair &= (depth[left] == depth[back]) & (group[left] == group[back])
    # Where not all of a size come back, as with parameters whose gradients leave, none is the same.
    n_paired = np.bincount(group[left[pair]], minlength=group[-1] + 1)
    whole = 2 * n_paired == np.bincount(group)
    pair &= whole[group[left]]
    result[order[back[pair]]] = order[left[pair]]
    return result


def _named(
    case: DeviceCase, size: Int64Array, kernel: Int64Array, role: Int64Array, step: Int64Array
) -> tuple[list[str], Int64Array]:
    """Names, and the index of the name of each transfer: those alike counted within their step."""
    # Names that differ in template arguments only are one, for the order tells them apart.
    full = case.classified.trace.names
    used, place = np.unique(kernel, return_inverse=True)
    shown = [short_name(full[name]) if name >= 0 else "" for name in used.tolist()]
    short = sorted(set(shown))
    kernel = np.array([short.index(name) for name in shown], np.int64)[place.reshape(-1)]
    kinds, kind = np.unique(np.stack([size, kernel, role], axis=1), axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    order = np.lexsort((np.arange(len(kind)), step, kind))
    new = np.ones(len(kind), np.bool_)
    new[1:] = (np.diff(kind[order]) != 0) | (np.diff(step[order]) != 0)
    first = np.maximum.accumulate(np.where(new, np.arange(len(kind)), 0))
    turn = np.empty(len(kind), np.int64)
    turn[order] = np.arange(len(kind)) - first
    most = np.zeros(len(kinds), np.int64)
    np.maximum.at(most, kind, turn + 1)
    if most.sum() > _MOST:
        turn[:], most[:] = 0, 1
    offset = np.cumsum(most) - most
    names = []
    for (n_bytes, name, _), n in zip(kinds.tolist(), most.tolist(), strict=True):
        behind = f" after {short[name]}" if short[name] else ""
        what = f"{format_bytes(n_bytes)}{behind}"
        names += [f"{what} ({i + 1} of {n})" if n > 1 else what for i in range(n)]
    return names, offset[kind] + turn
