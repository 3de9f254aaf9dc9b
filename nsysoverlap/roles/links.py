"""Peak rate of the host link by GPU name, always with the source of the figure."""

from __future__ import annotations

import re

from ..core.errors import UsageError
from ..core.records import dataclass

MOST_GBPS = 1e6
"""No rate that a user gives is as high; beyond it are slips and what no float holds."""


@dataclass(frozen=True)
class LinkPeak:
    """Peak of the host link of one GPU per direction in GB/s (10^9), and where it comes from."""

    h2d_gbps: float
    d2h_gbps: float
    source: str


@dataclass(frozen=True)
class LinkOverride:
    """Link peaks in GB/s given by the user; they win over the table."""

    h2d: float
    d2h: float

    @property
    def words(self) -> str:
        """As the option takes it."""
        return f"{self.h2d:g},{self.d2h:g} GB/s"


def _pcie(generation: int, lanes: int, gbps: float) -> LinkPeak:
    return LinkPeak(gbps, gbps, f"PCIe Gen{generation} x{lanes}, peak by data sheet")


def _c2c(gbps: float, measured: str) -> LinkPeak:
    return LinkPeak(gbps, gbps, f"NVLink-C2C, peak by data sheet; {measured}")


# Board partners and laptop makers wire fewer lanes than the chip has.
C2C = "NVLink-C2C"
"""How the source of a peak of that link begins."""
_INTEGRATED = re.compile(r"\b(Xavier|Orin|Thor|Tegra|Jetson|GB10)\b", re.IGNORECASE)
_UNKNOWN_LANES = re.compile(r"Laptop|Mobile|with Max-Q|\bSFF\b")

_PEAKS: tuple[tuple[str, LinkPeak], ...] = (
    (r"\bVR200\b|\bRubin\b", _c2c(900.0, "no measurement known")),
    (r"\bGB[23]00\b", _c2c(450.0, "about 170 to 210 GB/s measured per GPU")),
    (r"\bGH200\b", _c2c(450.0, "users measured about 411 GB/s H2D and 170 GB/s D2H")),
    (r"\bRTX 50[56]0\b|\bRTX PRO 2000\b", _pcie(5, 8, 31.5)),
    (r"\bH(100|200|800|20)\b|\bB[12]00\b", _pcie(5, 16, 63.0)),
    (r"\bRTX 50\d0\b|\bRTX PRO \d{4}\b.*Blackwell", _pcie(5, 16, 63.0)),
    (r"\bRTX (3050|4060)\b|\bRTX 2000 Ada\b|\bRTX A1000\b|\bA2\b", _pcie(4, 8, 15.75)),
    (r"\bA(100|800|40|30|16|10|10G)\b|\bL(40S?|20|4|2)\b", _pcie(4, 16, 31.5)),
    (r"\bRTX [34]0\d0\b|\bRTX A\d{4}\b|\bRTX \d{4} Ada\b", _pcie(4, 16, 31.5)),
    (r"\b[GT]?V100S?\b|\bT4\b|\b[GT]?P(100|40|4)\b", _pcie(3, 16, 15.75)),
    (r"\bRTX 20\d0\b|\bGTX 1[06]\d0\b|\bQuadro RTX\b|\bTITAN\b", _pcie(3, 16, 15.75)),
)


def link_for(gpu_name: str | None) -> LinkPeak | None:
    """Peak of the host link of a GPU as nsys names it (`NVIDIA H200`); None when unknown.

    The first matching entry wins. What the host really offers may be less: compare with the
    fastest copy of the trace.
    """
    if not gpu_name or _UNKNOWN_LANES.search(gpu_name):
        return None
    return next((peak for pattern, peak in _PEAKS if re.search(pattern, gpu_name)), None)


def is_integrated(gpu_name: str | None) -> bool:
    """Whether a GPU shares the memory of the CPU, so that mapped memory needs no copy."""
    return bool(gpu_name and _INTEGRATED.search(gpu_name))


def parse_link_override(text: str) -> LinkOverride:
    """Read `H2D,D2H` in GB/s, such as `55,53`. Raises `UsageError` for anything else."""
    try:
        h2d, d2h = (float(part) for part in text.split(","))
    except ValueError:
        raise _bad_override(text) from None
    if not all(0 < rate < MOST_GBPS for rate in (h2d, d2h)):
        raise _bad_override(text)
    return LinkOverride(h2d, d2h)


def _bad_override(text: str) -> UsageError:
    return UsageError(
        f"{text!r} is not a pair of link rates.",
        "Give two positive numbers in GB/s, host to device first, such as 55,53.",
    )
