"""What is said first of traces that others published, and is true of them. Skipped without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysoverlap.findings import find_all

from ..traces import PUBLIC
from .kit import context_of

FIRST = {
    # Calls of cudaFree and cudaHostAlloc fill what lies between its tests; no optimizer runs.
    "old2020-extrap-concurrent": "The GPU idles 48.2 % of the time between what leaves for the "
    "host and what comes back, while memory is allocated",
    "old2021-mordred-bb": "18 D2H copies into pageable memory: 2.6 GB/s",
    "rep-llmcommunity-a100x8": "The host waits for 3 copies before it launches more work",
    # Loaded once: no advice to pin what is copied a single time.
    "rep-snu-titanrtxx4-1proc": "All transfers lie before the first kernel or after the last: "
    "one-time loading",
    "v2024.6.2-cs336-a100-2p7b": "All transfers lie before the first kernel or after the last: "
    "one-time loading",
    "rep-xavier-darknet": "3,112 copies within one memory: this GPU shares that of the CPU",
    "v2022.2.1-pipit-saxpy-nonlazy": "10 H2D copies from pageable memory: 14.1 GB/s",
    "v2022.4.2-streams4-t4": "Too little compute to hide the transfers: at most 10.3 % can be "
    "hidden",
    "v2023.1.2-gtls-23k": "Transfers take less than 0.1 % of the time: nothing to win here",
    "v2025.3.1-nsightful-t4": "Transfers take less than 0.1 % of the time: nothing to win here",
    "v2026.2.1-nsysai-mfu2gpu-nccl": "Transfers take less than 0.1 % of the time: nothing to win "
    "here",
    # All that goes to the device is prefetched, all that comes back is not.
    "v2023.3.1-perlmutter-um": "Unified memory moves: 4.00 GiB to the device, 2.00 GiB to the host",
    "v2025.1.1-icon-um-4070s": "Unified memory migrates on demand: 192.1 MiB to the device, "
    "113.3 MiB to the host",
    "v2024.6.2-cs336-graphtrace": "10 CUDA graph launches recorded as a whole: nothing inside can "
    "be seen",
}


def public(name: str) -> Path:
    path = PUBLIC / f"{name}.sqlite"
    if not path.exists():
        pytest.skip("the public traces are not part of the repository")
    return path


@pytest.mark.parametrize("name", sorted(FIRST))
def test_the_first_finding(name: str) -> None:
    assert find_all(context_of(public(name)))[0].title == FIRST[name]


def test_few_gaps_do_not_speak_for_all_copies() -> None:
    """streams4: compute waits for 7 of 400 copies, where one gap once spoke for all of them."""
    context = context_of(public("v2022.4.2-streams4-t4"))
    (late,) = [f for f in find_all(context) if f.code == "late-h2d"]
    assert late.title == "Compute waits for 7 of 400 H2D copies, issued too late"
    assert late.severity == "warning"


def test_sums_and_maxima_are_not_mixed() -> None:
    """4.49 GiB over four devices take 214 ms on the one that takes longest."""
    (finding,) = find_all(context_of(public("rep-snu-titanrtxx4-1proc")))
    assert "4.49 GiB in all, 214.3 ms on the busiest of 4 devices" in finding.detail
