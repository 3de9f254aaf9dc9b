"""Movements of host memory and collectives that a trace may hold without telling."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from ..core.formatting import format_ns, number_of
from ..result.model import HealthEntry
from ..roles.frameworks import detect
from ..roles.rules import Role
from ..roles.transfer_rules import MAY_TRANSFER
from ..trace.contents import short_name
from ..trace.cupti import CopyKind
from .subject import Case

_COLLECTIVE = re.compile(
    r"nccl(AllGather|AlltoAll|AllReduce|Broadcast|Gather|Scatter|ReduceScatter|Send|Recv"
    r"|PutSignal|WaitSignal)"
)
_SHOWN_NAMES = 3


def kernels_that_may_transfer(case: Case) -> Iterator[HealthEntry]:
    """Copy kernels of caches whose names do not say which way they copy."""
    classified, trace = case.classified, case.classified.trace
    rules = classified.rules.rules
    may = np.array([rule.category == MAY_TRANSFER for rule in rules], np.bool_)
    picked = may[classified.name_rule][trace.kernels.name]
    n = int(np.count_nonzero(picked))
    if n:
        kernels = trace.kernels
        total = int((kernels.end_ns[picked] - kernels.start_ns[picked]).sum())
        used = np.unique(kernels.name[picked]).tolist()
        names = list(dict.fromkeys(short_name(trace.names[i]) for i in used))
        yield HealthEntry(
            "kernels-may-transfer",
            "note",
            f"{number_of(n, 'launch', 'launches')} of {', '.join(names[:_SHOWN_NAMES])} "
            f"({format_ns(total)}) may move host memory: they count as other work, for neither "
            "their direction nor the memory is known.",
            "A rule in `--config FILE` with role h2d or d2h counts them as transfers.",
            count=n,
        )


def reads_without_copies(case: Case) -> Iterator[HealthEntry]:
    """vLLM's kernels can read weights in host memory themselves."""
    if case.has_rows and not case.has_transfers and detect(case.classified.trace)[0].name == "vLLM":
        yield HealthEntry(
            "zero-copy-unseen",
            "note",
            "Kernels of vLLM may read weights from host memory themselves (--cpu-offload-gb), "
            "which leaves no row: such reads are in their kernels' time.",
            "Compare kernel times with a run without offload.",
        )


def collectives_without_kernels(case: Case) -> Iterator[HealthEntry]:
    """NCCL can have copy engines do a collective, and then runs no kernel."""
    trace = case.classified.trace
    calls = sum(bool(_COLLECTIVE.match(text)) for text in trace.host.texts)
    if not calls or (case.classified.kernel_role == Role.COMM).any():
        return
    copies = (trace.copies.copy_kind == CopyKind.DTOD) & (case.classified.copy_role == Role.OTHER)
    n = int(np.count_nonzero(copies))
    if n:
        yield HealthEntry(
            "copy-engine-collectives",
            "note",
            "NCCL was called but ran no kernel, so copy engines may have done its collectives: "
            f"{number_of(n, 'copy', 'copies')} on the device may be communication and "
            f"{'counts' if n == 1 else 'count'} as other work.",
            "Copies from one GPU to another count as communication where the trace names both.",
            count=n,
        )
