"""Remedies as data: for each finding and framework the setting or call that helps.

Here those for where copies go: memory, streams, graphs, engines; `remedy_times` and `remedy_bytes`
have the others.

Where a fact is asked for, it is one of:

- `NAME=VALUE`, a flag of the captured XLA_FLAGS; `slop`, its memory limit is among them
- `optimization-level`, JAX was asked for one
- `on-host`, what is fetched was on the host before the step began (optimizer state, parameters)
- `scan`, the copies belong to a loop
- `prefetched`, migrations were asked for by the program
- `pinned-no-faster`, the pinned copies of the trace are no faster than the pageable ones
- `c2c`, GPU and CPU are joined by NVLink-C2C
- `large`, the copies are of at least 1 MB on average: offload, not a loss that is read
- `allocates`, the host is mostly in calls that allocate, pin or free memory
- `infers`, attention runs and no kernel of a backward pass or an optimizer
- `works`, the CPU works between the copies while the GPU idles (an optimizer)
- `unchanged`, what goes out is what had come in
- `small`, the finding costs less than the flag behind it is known to win elsewhere
"""

from __future__ import annotations

from ..core.records import dataclass

SCHEDULER = "xla_gpu_enable_latency_hiding_scheduler"
PIPELINED = "xla_gpu_enable_pipelined_host_offloading"
SLOP = "xla_gpu_memory_limit_slop_factor"
COMMAND_BUFFERS_OFF = "--xla_gpu_enable_command_buffer="
_PARALLEL = "xla_gpu_experimental_parallel_async_compute_limit"


@dataclass(frozen=True)
class Remedy:
    """What helps programs of one framework, '' for any, where all of `when` and none of `unless`
    is known. `since` is the version it needs, `cost` what it is known to cost.
    """

    framework: str
    text: str
    when: frozenset[str] = frozenset()
    unless: frozenset[str] = frozenset()
    since: str = ""
    cost: str = ""


def facts(*names: str) -> frozenset[str]:
    """Names of facts as a set."""
    return frozenset(names)


WHERE: dict[str, tuple[Remedy, ...]] = {
    "pageable-memory": (
        Remedy(
            "",
            "Over NVLink-C2C the GPU reaches pageable memory itself (cudaDevAttrPageableMemory"
            "Access): let kernels read it in place, or use pinned memory for copies "
            "(cudaHostAlloc), which run at the link's rate.",
            when=facts("c2c"),
            unless=facts("pinned-no-faster"),
        ),
        Remedy(
            "",
            "Pinned copies of this trace are no faster: look for what holds both up (NUMA, the "
            "link, small sizes) before pinning more.",
            when=facts("pinned-no-faster"),
        ),
        Remedy(
            "JAX",
            'Use pinned memory: memory_kind="pinned_host" for what JAX offloads; NumPy arrays and '
            '"unpinned_host" are pageable.',
        ),
        Remedy(
            "FSDP2",
            "CPUOffloadPolicy(pin_memory=True), which is its default; for batches "
            "DataLoader(pin_memory=True) and non_blocking=True.",
            since="PyTorch 2.4",
            cost="host memory that cannot be swapped",
        ),
        Remedy(
            "DeepSpeed",
            'Set "pin_memory": true in offload_optimizer and offload_param (the default from '
            "DeepSpeed 0.19.5 on).",
            cost="locked host memory; the backward pass was 18 to 28 % shorter with it",
        ),
        Remedy(
            "PyTorch",
            "Allocate host tensors once with pin_memory=True, keep them, and copy with "
            "non_blocking=True: DataLoader(pin_memory=True), save_on_cpu(pin_memory=True). Do not "
            "call .pin_memory() inside the step.",
            cost="locked host memory; pinning anew takes up to 12 ms a call",
        ),
        Remedy(
            "Kokkos",
            "Mirror views in Kokkos::CudaHostPinnedSpace, and deep_copy(exec_space, ...): without "
            "an execution space it fences.",
        ),
        Remedy("", "Use pinned host memory: cudaHostAlloc once, not malloc and not per copy."),
    ),
    "unified-memory": (
        Remedy(
            "",
            "The pages were asked for with cudaMemPrefetchAsync already: issue it earlier and on a "
            "stream of its own, or keep the data on the GPU (cudaMemAdvise, preferred location).",
            when=facts("prefetched"),
        ),
        Remedy(
            "JAX",
            "Keep the data in pinned host memory and copy it ahead of its use: "
            'memory_kind="pinned_host", and no unified memory for the allocator '
            "(XLA_PYTHON_CLIENT_ALLOCATOR, TF_FORCE_UNIFIED_MEMORY).",
        ),
        Remedy(
            "PyTorch",
            "Keep the data in pinned tensors and copy them ahead of their use with "
            "non_blocking=True on a torch.cuda.Stream of their own, in place of managed memory.",
        ),
        Remedy(
            "",
            "Call cudaMemPrefetchAsync on a copy stream before the kernels that touch the data, or "
            "keep it in pinned host memory and copy it ahead of its use (cudaHostAlloc, "
            "cudaMemcpyAsync).",
        ),
    ),
    "graph-serialises": (
        Remedy(
            "JAX",
            f"Set {COMMAND_BUFFERS_OFF} in XLA_FLAGS (empty: no command buffers; what is put into "
            "them by default depends on the version of XLA).",
        ),
        Remedy(
            "PyTorch",
            "Copy on a side stream inside torch.cuda.graph, forked and joined with wait_stream, so "
            "that the copies become a branch of the graph beside the kernels.",
            since="PyTorch 2.11, or retain_pinned_cpu_buffers=True before",
        ),
        Remedy(
            "",
            "Fork the stream while capturing (cudaEventRecord, cudaStreamWaitEvent), so that the "
            "copies become a branch of the graph beside the kernels.",
        ),
    ),
    "graph-opaque": (
        Remedy(
            "JAX",
            "Capture with nsys profile --cuda-graph-trace=node, or set "
            f"{COMMAND_BUFFERS_OFF} in XLA_FLAGS.",
            unless=facts("xla_gpu_enable_command_buffer="),
        ),
        Remedy("", "Capture with nsys profile --cuda-graph-trace=node."),
    ),
    "same-stream-as-compute": (
        Remedy(
            "FSDP2",
            "These are FSDP2's own streams: let it prefetch further ahead "
            "(set_modules_to_forward_prefetch, set_modules_to_backward_prefetch), so that other "
            "layers compute meanwhile.",
            cost="one more unsharded module in device memory for each",
        ),
        Remedy(
            "JAX",
            f"Set --{SCHEDULER}=true in XLA_FLAGS: without it XLA waits for each copy right after "
            "issuing it.",
            unless=facts(f"{SCHEDULER}=true"),
        ),
        Remedy(
            "DeepSpeed",
            'Set "overlap_comm": true (ZeRO-3): gradients then leave on a stream of their own.',
            cost="extra buffers on the device",
        ),
        Remedy(
            "Megatron-Core",
            "--overlap-cpu-optimizer-d2h-h2d for the optimizer; fine-grained activation offloading "
            "(--fine-grained-activation-offloading) has streams of its own.",
            cost="not always a gain: 1.187 s became 1.216 s on a 0.6B model on one GPU",
        ),
        Remedy(
            "PyTorch",
            ".to() and .copy_() copy on the stream they are called on. Call them with "
            "non_blocking=True and pinned memory inside torch.cuda.stream of a stream of their "
            "own, one for each direction, with events and record_stream.",
            when=facts("infers"),
            cost="it keeps a few tensors on the device for longer",
        ),
        Remedy(
            "PyTorch",
            "torch.autograd.graph.save_on_cpu and .to() copy on the stream they are called on. "
            "Copy on a torch.cuda.Stream of its own, one for each direction, with events and "
            "record_stream; torchtune's OffloadActivations(use_streams=True) does that for "
            "activations.",
            since="PyTorch 2.5 for OffloadActivations",
            cost="it keeps a few tensors on the device for longer",
        ),
        Remedy(
            "",
            "Issue the copies on a stream of their own, and hand data over with cudaEventRecord "
            "and cudaStreamWaitEvent.",
        ),
    ),
    "head-of-line": (
        Remedy(
            "JAX",
            "Let the transfer start after that work: pass the offloaded tensor and what the layer "
            "still needs through one jax.lax.optimization_barrier (XLA issues asynchronous copies "
            "on a few streams in turn; depends on the version).",
            when=facts("on-host"),
        ),
        Remedy(
            "JAX",
            "Let the transfer start after that work: pass the offloaded tensor and what the layer "
            "still needs through one jax.lax.optimization_barrier before checkpoint_name (XLA "
            "issues asynchronous copies on a few streams in turn; depends on the version).",
        ),
        Remedy(
            "PyTorch",
            "Give long transfers a torch.cuda.Stream of their own, and issue short copies that "
            "compute needs on another.",
        ),
        Remedy(
            "",
            "Give long transfers streams of their own, and issue short copies that compute needs "
            "on another.",
        ),
    ),
    "same-direction-queue": (
        Remedy(
            "",
            "Issue the copies at different times, each with compute beside it, or move fewer "
            "bytes; more streams do not help.",
        ),
    ),
    "no-duplex": (
        Remedy(
            "JAX",
            f"Let copies of both directions run at once: --{_PARALLEL}=8 in XLA_FLAGS (in JAX 0.11 "
            "for copies between unrolled layers, not for those of a scan; depends on the version).",
        ),
        Remedy(
            "PyTorch",
            "Give each direction a torch.cuda.Stream of its own (Transformer Engine's CPU offload "
            "has one for both).",
        ),
        Remedy("", "Give each direction a stream of its own."),
    ),
    "transfer-kernels": (
        Remedy(
            "JAX",
            f"Leave --{PIPELINED} as it is: NVIDIA publishes it among its flags, and it may win "
            "more than these kernels cost.",
            when=facts("small"),
        ),
        Remedy(
            "JAX",
            "Leave JAX_OPTIMIZATION_LEVEL=$JAX_OPTIMIZATION_LEVEL out: it pipelines host copies "
            f"whatever --{PIPELINED} says (depends on the version of XLA).",
            when=facts("optimization-level"),
            unless=facts("small"),
        ),
        Remedy(
            "JAX",
            f"Set --{PIPELINED}=false in XLA_FLAGS (this run set it to true), and leave "
            "JAX_OPTIMIZATION_LEVEL unset: O1 pipelines host copies whatever the flag says "
            "(depends on the version of XLA).",
            when=facts(f"{PIPELINED}=true"),
            unless=facts("small"),
        ),
        Remedy(
            "JAX",
            f"Set --{PIPELINED}=false in XLA_FLAGS, and leave JAX_OPTIMIZATION_LEVEL unset: O1 "
            "pipelines host copies whatever the flag says (depends on the version of XLA).",
        ),
        Remedy(
            "SGLang",
            "--hicache-io-backend direct copies with the copy engine; the kernels' share of the "
            "GPU is set by SGLANG_HICACHE_BLOCK_QUOTA (2 blocks by default).",
            cost="direct submits on the scheduler's thread",
        ),
        Remedy(
            "vLLM",
            "Prefer the offloading connector's copies by DMA: kernels are used for loads of small "
            "blocks only, so raise --block-size.",
            since="CUDA 12.8",
        ),
        Remedy("", "Use cudaMemcpyAsync in place of kernels that read or write host memory."),
    ),
    "hidden-by-other-process": (
        Remedy("", "Give each process a GPU of its own (CUDA_VISIBLE_DEVICES), and measure again."),
    ),
}
