"""How a result is painted."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from ..core.records import dataclass
from .view import View

if TYPE_CHECKING:
    from ..draw.timeline import Timeline
    from ..replay.link_curve import LinkCurve


@dataclass(frozen=True)
class Layout:
    """Where the text goes: columns of the terminal, whether it shows colours, and what to show.

    `timeline` is what ran when, `curve` the step against link rates, for formats that draw; they
    do without where there is none.
    """

    width: int = 80
    color: bool = False
    view: View = field(default_factory=View)
    timeline: Timeline | None = None
    curve: LinkCurve | None = None
