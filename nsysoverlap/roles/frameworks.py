"""Which framework a program was written with, and which libraries it used, by what proves it.

One table, most specific first: the first row that a trace proves names the framework, further rows
and those of `COMPONENTS` name what it is built from. Only texts and names that no other program
writes count: cuBLAS, cuDNN, CUTLASS, CUB and Triton kernels run under every framework.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..core.records import dataclass
from ..result.model import Program
from ..trace.contents import Trace

UNKNOWN = Program("unknown", "nothing in the trace proves a framework")
_N_SHOWN = 60
"""Characters of a text or kernel name that are shown as evidence."""


@dataclass(frozen=True)
class Proof:
    """What proves a program: a text of an NVTX range that `nvtx` matches from its beginning, or
    names of launched kernels in which each of `kernels` is found.
    """

    name: str
    nvtx: str = ""
    kernels: tuple[str, ...] = ()


FRAMEWORKS: tuple[Proof, ...] = (
    Proof("TensorRT-LLM", r"\[Executor\] _forward_step"),
    Proof(
        "vLLM",
        r"execute(?:_\d+)?_context_\d+\(.*\)_generation_\d+\(|gpu_model_runner: ",
    ),
    Proof(
        "SGLang",
        kernels=(
            r"\bsglang::|\btransfer_(?:page_head_)?kernel_impl\b|\bhicache_transfer_per_layer",
        ),
    ),
    Proof("vLLM", kernels=(r"\bvllm::",)),
    Proof("DeepSpeed", r"DeepSpeed(?:Engine|ZeroOptimizer)|SuperOffloadOptimizer|PartitionedParam"),
    Proof("Megatron-Core", r"megatron\.core\.|activation (?:off|re)loading |rl/"),
    Proof("Lightning", r"\[pl\]\[(?:profile|module)\]"),
    Proof("FSDP2", r"FSDP::(?:pre_forward|all_gather|post_backward|backward_prefetch)"),
    Proof("FSDP2", kernels=(r"\bchunk_cat_cuda_kernel\b", r"\bsplit_with_sizes_copy_out")),
    Proof("FSDP1", r"FullyShardedDataParallel\._(?:pre_forward|post_backward|pre_backward)"),
    Proof(
        "PyTorch",
        r"aten::|autograd::engine::evaluate_function: |ProfilerStep#\d|Optimizer\.step#",
        (r"\bat::native::",),
    ),
    # The names that MaxText gives parameters, which XLA shows as names of arguments.
    Proof(
        "MaxText", r"Thunk:#name=\w+(?:\['\w+'\])*\['decoder'\].*\['(?:wi_0|wo|self_attention)'\]"
    ),
    Proof("JAX", r"XlaModule:#"),
    Proof("JAX", r"Thunk:#"),
    Proof("Kokkos", r"Kokkos::|Parallel(?:For|Reduce|Scan)\.", (r"\bKokkos::Impl::",)),
    Proof("OpenMP", kernels=(r"^(?:__omp_offloading_|nvkernel_)",)),
    Proof("OpenACC", kernels=(r"^\w+_\d+_gpu\b",)),
)
COMPONENTS: tuple[Proof, ...] = (
    Proof("NCCL", r"nccl[A-Z]\w+$", (r"^nccl\w*Kernel",)),
    Proof("NVSHMEM", kernels=(r"\bnvshmem[ix]?_",)),
    Proof("DeepEP", kernels=(r"\bdeep_ep::",)),
    Proof("FlashInfer", kernels=(r"\bflashinfer::",)),
    Proof("Transformer Engine", r"transformer_engine\.|nvte_", (r"\btransformer_engine::",)),
    Proof("LMCache", kernels=(r"\blmc::|\bload_and_reshape_multi_layer_kernel",)),
    Proof(
        "FlexKV",
        r"CacheEngine\.get_impl_local\[|take \d+ cpu blocks",
        (r"\btransfer_kv_blocks_kernel",),
    ),
)
PARENTS = {
    "vLLM": "PyTorch",
    "SGLang": "PyTorch",
    "TensorRT-LLM": "PyTorch",
    "DeepSpeed": "PyTorch",
    "Megatron-Core": "PyTorch",
    "Lightning": "PyTorch",
    "FSDP2": "PyTorch",
    "FSDP1": "PyTorch",
    "MaxText": "JAX",
}
"""What each framework is built on: what helps there helps here too."""


def lineage(framework: str) -> tuple[str, ...]:
    """A framework, then what it is built on."""
    found = [framework]
    while (parent := PARENTS.get(found[-1])) is not None:
        found.append(parent)
    return tuple(found)


def detect(trace: Trace) -> tuple[Program, tuple[Program, ...]]:
    """The framework of a trace, `UNKNOWN` where nothing proves one, and its components.

    Programs that prove more than one framework (a Lightning run shows PyTorch too) are the most
    specific one; the others come among the components.
    """
    texts = [text.removeprefix("TSL:") for text in trace.host.texts]
    found: dict[str, Program] = {}
    for proof in (*FRAMEWORKS, *COMPONENTS):
        evidence = _evidence(proof, texts, trace.names)
        if evidence is not None and proof.name not in found:
            found[proof.name] = Program(proof.name, evidence)
    frameworks = {proof.name for proof in FRAMEWORKS}
    if not frameworks & found.keys() and "XLA_FLAGS" in trace.info.capture:
        found["JAX"] = Program("JAX", "XLA_FLAGS in the environment")
    first = next((program for program in found.values() if program.name in frameworks), UNKNOWN)
    return first, tuple(program for program in found.values() if program != first)


def _evidence(proof: Proof, texts: Iterable[str], names: Iterable[str]) -> str | None:
    """In words what proves it; None where nothing does."""
    if proof.nvtx:
        regex = re.compile(proof.nvtx)
        # Not the first, for rows of an export come in any order.
        text = min((text for text in texts if regex.match(text)), default=None)
        if text is not None:
            return f"NVTX range '{_cut(text)}'"
    if proof.kernels:
        hits = [_first(pattern, names) for pattern in proof.kernels]
        if all(hits):
            return f"kernel {' and '.join(hit for hit in hits if hit)}"
    return None


def _first(pattern: str, names: Iterable[str]) -> str | None:
    """What the first name that a pattern is found in says from there on."""
    regex = re.compile(pattern)
    hits = (match for name in names if (match := regex.search(name)))
    return next((_cut(hit.string[hit.start() :].split("(")[0]) for hit in hits), None)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _N_SHOWN else f"{line[:_N_SHOWN]}…"
