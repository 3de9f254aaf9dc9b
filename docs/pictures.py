"""Draw the pictures of the documentation anew from the H200 traces: `python docs/pictures.py`.

`tests/plots/test_pictures.py` fails where a picture in the repository shows something else.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from nsysoverlap import read_trace
from nsysoverlap.draw.picture import picture
from nsysoverlap.run.analysis import Options
from nsysoverlap.steps.plan import StepSpec

HERE = Path(__file__).parent
TRACES = HERE.parent / "tests" / "fixtures"
DPI = 130
KEPT = HERE / "validation"
# `capture` is not installed; it runs from a checkout.
sys.path.insert(0, str(HERE.parent))


@dataclass(frozen=True)
class Shot:
    """One picture: the trace, the kind of plot, and the step to show of it.

    `frontier` draws the arms of a file in docs/validation, which ran on one machine.
    """

    name: str
    trace: str
    kind: str
    options: Options = field(default_factory=Options)


def _step(index: int) -> Options:
    return Options(steps=StepSpec(first=index, last=index))


SHOTS = (
    Shot("timeline", "jax_unroll_lhs", "timeline"),
    Shot("timeline_nolhs", "jax_unroll_nolhs", "timeline", _step(1)),
    Shot("timeline_lhs", "jax_unroll_lhs", "timeline", _step(1)),
    Shot("timeline_two_gpus", "jax_fsdp2_lhs", "timeline", _step(1)),
    Shot("steps", "jax_fsdp2_lhs", "steps"),
    Shot("bandwidth", "jax_fsdp2_lhs", "bandwidth"),
    Shot("ops", "jax_unroll_lhs", "ops"),
    Shot("frontier_dense", "dense-1", "frontier"),
    Shot("frontier_dense_b", "dense-2", "frontier"),
)


def draw(shot: Shot) -> bytes:
    """The picture as PNG."""
    if shot.kind == "frontier":
        # `capture` is imported where it is needed: it is not installed.
        from capture.frontier import draw as draw_frontier
        from capture.kept import read_kept

        return draw_frontier(read_kept(KEPT / f"{shot.trace}.json").rows)
    trace = read_trace(TRACES / f"{shot.trace}.sqlite")
    return picture(trace, shot.kind, "png", shot.options, dpi=DPI)


def main() -> None:
    """Write all pictures to docs/pictures."""
    folder = HERE / "pictures"
    folder.mkdir(exist_ok=True)
    for shot in SHOTS:
        (folder / f"{shot.name}.png").write_bytes(draw(shot))


if __name__ == "__main__":
    main()
