"""What a replay says: plain blocks."""

from __future__ import annotations

from itertools import pairwise

from ..core.formatting import (
    NONE,
    format_bytes,
    format_error,
    format_ns,
    format_range,
    format_share,
    number_of,
    short_kernel,
)
from ..replay.answer import ENOUGH, ScenarioAnswer, WhatIf
from ..result.metrics import STEP_MEAN
from .blocks import Block, Paragraph, Section, Table

_NOW = "as now"


def whatif_sections(result: WhatIf) -> list[Section]:
    """Everything to print, in order."""
    said = (Paragraph(headline(result), _tone(result)), Paragraph(_basis(result)))
    answers: list[Block] = []
    if result.withheld is None:
        answers = [*_scenarios(result), *_findings(result), *_copies(result)]
        answers += [*_bounds(result), *_path(result)]
    return [
        Section("summary", "Summary", said),
        Section("answers", "Answers", tuple(answers)),
        Section("link", "Link", tuple(_sweep(result) if result.withheld is None else ())),
        Section("notes", "Notes", tuple(Paragraph(_sentence(note)) for note in result.notes)),
    ]


def headline(result: WhatIf) -> str:
    """The answer to what was asked first, or why there is none."""
    if result.withheld is not None:
        return f"Nothing is predicted of {result.path}: {result.withheld}."
    now = f"The mean step takes {format_ns(result.step_ns or 0)}"
    if not result.scenarios:
        return f"{now}."
    first = result.scenarios[0]
    return f"{now}; it would take {stepformat_range(first)} ({first.name})."


def stepformat_range(answer: ScenarioAnswer) -> str:
    """The predicted step as a range, or one time where both ends are the same."""
    return format_range(answer.step_low_ns, answer.step_high_ns)


def _tone(result: WhatIf) -> str:
    return "headline" if result.withheld is None else "alarm"


def _basis(result: WhatIf) -> str:
    if not result.n_steps:
        return f"{result.path}: no step was replayed."
    parts = [f"{result.path}, {number_of(result.n_steps, 'step')} replayed ({result.basis})."]
    if result.replay_error is not None:
        error = format_error(result.replay_error)
        worst = format_error(result.worst_step_error or 0.0)
        parts.append(
            f"Unmodified the replay is off by {error} of the step, of single steps to {worst}: "
            "necessary for what follows, and no evidence for it."
        )
    if result.withheld is None:
        parts.append(f"Ranges: {result.clock}.")
    return " ".join(parts)


def _scenarios(result: WhatIf) -> list[Block]:
    answers = [*([result.now] if result.now else []), *result.scenarios]
    rows = tuple(
        (
            answer.name,
            stepformat_range(answer),
            _gain(result, answer),
            format_ns(answer.h2d.exposed_ns),
            format_ns(answer.d2h.exposed_ns),
            _relief(answer),
        )
        for answer in answers
    )
    columns = ("scenario", "step", "gain", "H2D, exposed", "D2H, exposed", "relief, GiB")
    blocks: list[Block] = [
        Table(f"What would happen, {STEP_MEAN}", columns, rows, _cautions(result))
    ]
    for answer in result.scenarios:
        blocks += [Paragraph(f"{answer.name}: {note}.") for note in answer.notes]
    return blocks


def _cautions(result: WhatIf) -> str:
    if not result.scenarios:
        return ""
    untested = [answer.name for answer in result.scenarios if not answer.tested]
    if not untested:
        return "Dropping copies was tested against measured steps (docs/whatif.md)."
    return f"Not tested against a measurement (docs/whatif.md): {', '.join(untested)}."


def _gain(result: WhatIf, answer: ScenarioAnswer) -> str:
    """Against the unmodified replay, so that its own error cancels out."""
    base = result.replay_step_ns or 0
    if answer.name == _NOW:
        return NONE
    return format_range(base - answer.step_high_ns, base - answer.step_low_ns)


def _relief(answer: ScenarioAnswer) -> str:
    return f"{answer.relief_bytes / 2**30:.2f}" if answer.offloaded_bytes else NONE


def _findings(result: WhatIf) -> list[Block]:
    """What each finding would give, as far as that can be replayed."""
    if not result.findings:
        return []
    rows = tuple(
        (
            one.code,
            one.scenario or f"none: {one.reason}",
            format_ns(one.cost_ns) if one.cost_ns else NONE,
            NONE
            if one.gain_low_ns is None or one.gain_high_ns is None
            else format_range(one.gain_low_ns, one.gain_high_ns),
            "yes" if one.tested else "no" if one.scenario else NONE,
        )
        for one in result.findings
    )
    columns = ("finding", "what was replayed", "cost", "gain", "tested")
    note = (
        "Each by itself: they do not add up. Tested says whether such a scenario was held against "
        "a measurement (docs/whatif.md)."
    )
    title = f"What each finding would give, {STEP_MEAN}"
    return [Table(title, columns, rows, note, n_words=2)]


def _copies(result: WhatIf) -> list[Block]:
    """Copies still exposed, and how many have too little time, of each scenario."""
    rows = []
    for answer in ([result.now] if result.now else []) + list(result.scenarios):
        windows = answer.windows
        if not windows.n:
            continue
        worst = answer.exposed_ops[0] if answer.exposed_ops else None
        rows.append(
            (
                answer.name,
                f"{worst.op} ({worst.direction.upper()})" if worst else NONE,
                format_ns(worst.exposed_ns) if worst else NONE,
                f"{windows.n_short} of {windows.n}",
                str(windows.n_none),
                NONE if windows.median_ns is None else format_ns(windows.median_ns),
            )
        )
    if not rows:
        return []
    columns = (
        *("scenario", "copies most exposed", f"exposed, {STEP_MEAN}"),
        *("too short", "no time", "median window"),
    )
    note = (
        "A window is the time from when a copy could start to when what waits for it could; it is "
        "too short where the copy takes longer, and no time where it ends before the copy could "
        "start."
    )
    return [Table("Copies still exposed", columns, tuple(rows), note, n_words=2)]


def _bounds(result: WhatIf) -> list[Block]:
    if result.bound_withheld is not None:
        return [Paragraph(f"No bound by order: {result.bound_withheld}.")]
    rows = tuple(
        (
            bound.window_words,
            format_ns(bound.step_ns),
            format_ns(bound.exposed_h2d_ns),
            format_ns(bound.exposed_d2h_ns),
            format_bytes(max(0, bound.kept_bytes)),
        )
        for bound in result.bounds
    )
    columns = ("tensors ahead", "step", "H2D, exposed", "D2H, exposed", "kept on device")
    return [
        Table(
            f"Bound by order, {STEP_MEAN}: copies as soon as data allows, compute as now",
            columns,
            rows,
            "What stays exposed no schedule of these copies hides: their engine is busy longer "
            "than there is compute that can run beside them.",
        )
    ]


def _path(result: WhatIf) -> list[Block]:
    total = sum(part.ns for part in result.critical_path)
    if not total:
        return []
    rows = tuple(
        (part.kind, format_ns(part.ns), format_share(part.ns / total))
        for part in result.critical_path
        if part.ns
    )
    longest = ", ".join(
        f"{short_kernel(op.name or op.kind)} {format_ns(op.ns)}" for op in result.critical_ops[:3]
    )
    return [
        Table(
            f"Critical path of the {STEP_MEAN}",
            ("kind", "time", "share"),
            rows,
            f"Most: {longest}.",
        )
    ]


def _sweep(result: WhatIf) -> list[Block]:
    if not result.sweep:
        return []
    rows = tuple(
        (
            f"{point.times:.3g}x",
            format_ns(point.step_low_ns),
            format_ns(point.step_high_ns),
            format_ns(point.exposed_ns),
            format_share(point.exposed_ns / point.step_ns if point.step_ns else None),
        )
        for point in result.sweep
    )
    enough = (
        f"From {result.enough_link:.2g}x on at most {100 * ENOUGH:.0f} % of the step is exposed."
        if result.enough_link is not None
        else f"At all of these rates more than {100 * ENOUGH:.0f} % of the step is exposed."
    )
    columns = ("link", "step from", "step to", "exposed", "share exposed")
    note = f"{enough}{_slower_with_more(result)} Not tested."
    return [Table(f"Link rate, both directions, {STEP_MEAN}", columns, rows, note)]


_NOTABLE = 1e-3
"""Share of the step by which it must get longer for that to be said."""


def _slower_with_more(result: WhatIf) -> str:
    """Copies that queue can come in another order where the link is faster, and a step last longer;
    without a word that would look like a fault.
    """
    worse = [
        f"{point.times:.3g}x"
        for before, point in pairwise(result.sweep)
        if point.step_low_ns > (1 + _NOTABLE) * before.step_low_ns
    ]
    if not worse:
        return ""
    return (
        f" At {', '.join(worse)} a step takes longer than at a slower link: copies that queue for "
        "an engine then come in another order."
    )


def _sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}."
