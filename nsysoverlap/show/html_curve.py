"""The section of a report's page about other rates of the host link."""

from __future__ import annotations

from typing import Any

from ..core.formatting import format_error
from ..replay.answer import ENOUGH
from ..replay.link_curve import LinkCurve
from ..result.metrics import STEP_MEAN
from .blocks import Paragraph
from .curve import curve_svg

NAME, TITLE = "link", "Link rate"


def curve_parts(curve: LinkCurve) -> tuple[tuple[str, Any], ...]:
    """What it holds, as (macro, what it shows) pairs."""
    share = f"{100 * ENOUGH:.0f} %"
    enough = f"At all of these rates more than {share} of the step is exposed."
    if curve.enough_link is not None:
        enough = f"From {curve.enough_link:.2g}x on at most {share} of the step is exposed."
        if curve.enough_link <= 1:
            enough = f"At most {share} of the step is exposed at the rate of now."
    said = (
        f"The {STEP_MEAN} and its exposed time at other rates of the host link, both directions "
        f"together: two steps replayed, off by {format_error(curve.replay_error)} unmodified. "
        f"{enough} Not tested against a measurement; `nsysoverlap whatif {curve.path} --sweep "
        "link=0.25:16` has the numbers."
    )
    return (
        ("block", Paragraph(said)),
        ("drawing", curve_svg(curve.path, curve.points, curve.enough_link)),
    )
