"""What is replayed to price each finding: its remedy, as far as a trace can tell."""

from __future__ import annotations

from dataclasses import dataclass

WORDS = {
    "drop": "without these copies",
    "earlier": "these copies issued one copy earlier",
    "not behind": "these copies on streams of their own",
    "not awaited": "these copies not waited for",
    "link": "these copies at {:.1f} GB/s",
    "pinned": "these copies at {:.1f} GB/s, their calls return at once",
    "bytes": "these copies with {:.2g} of their bytes",
}
"""What a kind of scenario is called, with its target."""
TESTED = frozenset({"drop"})
"""Kinds that docs/whatif.md shows held against a measurement. Only these show gains in reports."""


@dataclass(frozen=True)
class Remedied:
    """The kind of scenario that a finding's remedy is, '' for none, and why that one or none."""

    kind: str
    why: str


SCENARIOS: dict[str, Remedied] = {
    "integrated-gpu": Remedied("", "how fast kernels read mapped memory is not in the trace"),
    "pageable-memory": Remedied(
        "pinned", "the rate is that of pinned copies of the trace, else 60 % of the peak"
    ),
    "unified-memory": Remedied("", "migrations are not replayed"),
    "graph-serialises": Remedied(
        "", "inner edges of a graph are not in the trace, so what needs a copy is not known"
    ),
    "graph-opaque": Remedied("", "what runs inside is not known"),
    "offloaded-again": Remedied("drop", "what did not change need not leave again"),
    "link-bound": Remedied("bytes", "as many as the compute of the phase can hide"),
    "one-time-transfers": Remedied("", "no step pays for them"),
    "immaterial-transfers": Remedied("", "there is nothing to win"),
    "gpu-idle-beside-offload": Remedied("", "how much faster the CPU's work can be is not known"),
    "d2h-awaited": Remedied("not awaited", "a second buffer, at the cost of device memory"),
    "host-waits": Remedied("not awaited", "the host waits for what came before the copy only"),
    "same-stream-as-compute": Remedied(
        "not behind", "a stream for each direction; the kernel behind an H2D still waits for it"
    ),
    "head-of-line": Remedied("not behind", "what is queued behind the transfer goes on"),
    "same-direction-queue": Remedied(
        "", "there is one engine a direction: other times of issue help, and which is not known"
    ),
    "no-duplex": Remedied("not behind", "a stream for each direction"),
    "transfer-kernels": Remedied("", "which copies a compiler makes instead is not known"),
    "hidden-by-other-process": Remedied("", "it costs no time of its own"),
    "late-h2d": Remedied("earlier", "each H2D is issued when the one before it is now"),
    "nothing-beside": Remedied(
        "earlier", "the same, and what fills a D2H waits for the one before it only"
    ),
    "d2h-tail": Remedied("not awaited", "the next step begins before these copies are done"),
    "not-enough-compute": Remedied("bytes", "as many as there is compute to hide"),
    "hiding-costs-compute": Remedied("", "slower kernels beside copies are not replayed"),
    "hiding-costs-comm": Remedied("", "slower kernels beside copies are not replayed"),
    "slow-link": Remedied("link", "the rate below which the finding calls a copy slow"),
    "latency-bound-copies": Remedied("drop", "one packed copy takes next to nothing"),
    "round-trip": Remedied("drop", "saved on the device the same tensors take no transfers"),
    "offload-missing": Remedied("", "nothing was transferred"),
    "relief-is-not-memory": Remedied("", "it costs memory, not time"),
}
"""For the code of every finding what is replayed."""


def table() -> list[tuple[str, str, str]]:
    """Code, kind of scenario, and why; the rows of the table in docs/whatif.md."""
    return [(code, one.kind or "none", one.why) for code, one in SCENARIOS.items()]
