"""Remedies as data, continued: copies at the wrong time, and what waits for them."""

from __future__ import annotations

from .remedy_table import SCHEDULER, Remedy, facts

_LATE_JAX = (
    " XLA's scheduler counts a fixed time for a host copy whatever its size (5 ms in 2026, depends "
    "on the version), so split tensors that take longer into pieces."
)
_ON_HOST_JAX = (
    "the reload earlier. Most of this was on the host when the step began (optimizer state, "
    "parameters), so that no work of the step has to come first: tie its source to an earlier "
    f"result with jax.lax.optimization_barrier.{_LATE_JAX}"
)
_AHEAD_JAX = (
    "the reload one or two layers ahead: tie its source to an earlier gradient with "
    "jax.lax.optimization_barrier, or carry the reloaded tensor through the scan."
    f"{_LATE_JAX}"
)
_MAKE_SURE = (
    f"Make sure that --{SCHEDULER}=true is set: XLA_FLAGS of this run does not say so, and options "
    "given to the compiler are not in a trace. If it is, start "
)
_SET_SCHEDULER = f"Set --{SCHEDULER}=true in XLA_FLAGS"
_SCHEDULER_COST = (
    "look at relief and peak memory afterwards: on an unrolled model it brought tensors back right "
    "after they left (relief 3.0 to 0.75 GiB, peak 9.7 to 16.8 GiB)"
)

_AWAITED_JAX = (
    "Let the copy run longer before its memory is needed again: offload fewer names, or put a "
    "jax.lax.optimization_barrier between the copy and what waits for it."
)

WHEN: dict[str, tuple[Remedy, ...]] = {
    "late-h2d": (
        Remedy(
            "JAX",
            f"{_SET_SCHEDULER}; without it XLA issues a copy only where its data is used.",
            when=facts(f"{SCHEDULER}=false"),
            unless=facts("scan"),
            cost=_SCHEDULER_COST,
        ),
        Remedy(
            "MaxText",
            f"{_SET_SCHEDULER}: one dense model of 8 scanned layers went from 882 to 828 ms a step "
            "(q, k and v offloaded, one H200).",
            when=facts(f"{SCHEDULER}=false"),
        ),
        Remedy("JAX", f"Start {_ON_HOST_JAX}", when=facts("on-host", f"{SCHEDULER}=true")),
        Remedy("JAX", f"{_MAKE_SURE}{_ON_HOST_JAX}", when=facts("on-host"), unless=facts("scan")),
        Remedy("JAX", f"Start {_AHEAD_JAX}", when=facts(f"{SCHEDULER}=true")),
        Remedy("JAX", f"Start {_AHEAD_JAX}", when=facts("scan")),
        Remedy("JAX", f"{_MAKE_SURE}{_AHEAD_JAX}"),
        Remedy(
            "FSDP2",
            "Prefetch further ahead: set_modules_to_forward_prefetch and "
            "set_modules_to_backward_prefetch with two or more modules.",
            cost="one more unsharded module in device memory for each",
        ),
        Remedy(
            "FSDP1",
            "forward_prefetch=True and BackwardPrefetch.BACKWARD_PRE.",
            cost="one more unsharded unit in device memory",
        ),
        Remedy(
            "DeepSpeed",
            "Raise stage3_prefetch_bucket_size and stage3_max_live_parameters.",
            cost="device memory",
        ),
        Remedy(
            "Megatron-Core",
            "Lower --activation-offload-fraction: the last groups, which come back first, then "
            "stay on the device.",
            cost="less memory saved",
        ),
        Remedy("vLLM", "Set offload_prefetch_step above 1.", cost="device memory"),
        Remedy(
            "PyTorch",
            "Start the copy one or two layers ahead: .to(device, non_blocking=True) from pinned "
            "memory on a torch.cuda.Stream of its own, and wait_event only before the layer that "
            "uses it.",
            cost="the tensors that were fetched ahead, in device memory",
        ),
        Remedy(
            "",
            "Issue the copy one layer ahead: cudaMemcpyAsync on a stream of its own, and "
            "cudaStreamWaitEvent on its event only before the kernel that uses the data.",
        ),
    ),
    "nothing-beside": (
        Remedy(
            "JAX",
            f"--{SCHEDULER}=true is set, so what is left is dependence: each copy's result is "
            "needed at once. Start H2D copies earlier with jax.lax.optimization_barrier.",
            when=facts(f"{SCHEDULER}=true"),
        ),
        Remedy(
            "JAX",
            f"{_SET_SCHEDULER}: without it XLA waits for each copy right after issuing it.",
            when=facts(f"{SCHEDULER}=false"),
            unless=facts("scan"),
            cost=_SCHEDULER_COST,
        ),
        Remedy("JAX", f"Start {_AHEAD_JAX}", when=facts("scan")),
        Remedy(
            "JAX",
            f"{_SET_SCHEDULER} (options given to the compiler are not in a trace): without it XLA "
            "waits for each copy right after issuing it.",
        ),
        Remedy(
            "PyTorch",
            "Copy with non_blocking=True between pinned memory and the device on a "
            "torch.cuda.Stream of its own, and do not wait for it (wait_stream, synchronize, "
            ".item()) before there is other work to run.",
        ),
        Remedy(
            "",
            "Copy with cudaMemcpyAsync on a stream of its own and do not wait for it "
            "(cudaStreamWaitEvent, cudaStreamSynchronize) before there is other work to run.",
        ),
    ),
    "d2h-tail": (
        Remedy(
            "FSDP2",
            "These are the last gradients, which the optimizer on the CPU waits for: a part of the "
            "price of CPUOffloadPolicy.",
            when=facts("works"),
        ),
        Remedy(
            "",
            "The CPU works on what these copies bring: send it in parts, so that it starts on the "
            "first while the last is under way, and let those made first leave first.",
            when=facts("works"),
        ),
        Remedy(
            "JAX",
            "Issue these copies earlier, right behind the kernel that made the data, or let the "
            "next step's work start before they are done: no jax.block_until_ready and no "
            "float(loss) between steps.",
        ),
        Remedy(
            "PyTorch",
            "Issue these copies earlier, right behind the kernel that made the data, or let the "
            "next step's work start before they are done: no torch.cuda.synchronize() and no "
            ".item() between steps.",
        ),
        Remedy(
            "",
            "Issue these copies earlier, right behind the kernel that made the data, or let the "
            "next step's work start before they are done: no cudaDeviceSynchronize between steps.",
        ),
    ),
    "host-waits": (
        Remedy(
            "JAX",
            "Fetch results every N steps, not each step: no jax.block_until_ready, float(loss) or "
            "np.asarray in the loop.",
        ),
        Remedy(
            "FSDP2",
            "The optimizer on the CPU waits for the last gradients: a part of the price of "
            "CPUOffloadPolicy, which ends with it.",
            when=facts("large"),
        ),
        Remedy(
            "PyTorch",
            "Copy with non_blocking=True into pinned memory and hand over with an event: "
            "save_on_cpu and .cpu() wait for each copy out, torchtune's "
            "OffloadActivations(use_streams=True) does not.",
            when=facts("large"),
        ),
        Remedy(
            "DeepSpeed",
            "Train in bf16 in place of fp16: the overflow check reads a value back every step. "
            "Replace .item() and print(loss) by logging every N steps.",
        ),
        Remedy(
            "PyTorch",
            "Replace .item(), .cpu() and print(loss) by logging every N steps or by a copy with "
            "non_blocking=True and an event; a copy to unpinned memory also holds its thread, and "
            "so does .pin_memory() inside the step.",
        ),
        Remedy(
            "",
            "Use cudaMemcpyAsync with pinned memory, and wait with cudaStreamWaitEvent on the GPU "
            "in place of cudaStreamSynchronize, cudaMemcpy and cudaFree on the host.",
        ),
    ),
    "d2h-awaited": (
        Remedy("JAX", _AWAITED_JAX),
        Remedy(
            "Megatron-Core",
            "Raise --fine-grained-offloading-max-inflight-offloads, or leave it out.",
            cost="device memory",
        ),
        Remedy(
            "FSDP2",
            "Do not accumulate sharded gradients for each micro-batch with offload, and no "
            "optimizer in the backward pass: both make the gradients' copies blocking.",
        ),
        Remedy(
            "PyTorch",
            "Let more copies be under way before compute waits: torchtune's "
            "OffloadActivations(max_fwd_stash_size) up; record_stream in place of waiting for the "
            "copy to free its source.",
            cost="device memory",
        ),
        Remedy(
            "",
            "Wait for the copy only before its source is written again, with an event, or give it "
            "a second buffer.",
            cost="device memory",
        ),
    ),
    "gpu-idle-beside-offload": (
        Remedy(
            "PyTorch",
            "Allocate host buffers once with pin_memory=True and reuse them; no .pin_memory() and "
            "no torch.cuda.empty_cache() between the copies.",
            when=facts("allocates"),
        ),
        Remedy(
            "",
            "Allocate and pin memory once, before the work, and reuse it (cudaHostAlloc, "
            "cudaMalloc); cudaFree and cudaFreeHost also wait for the GPU.",
            when=facts("allocates"),
        ),
        Remedy(
            "DeepSpeed",
            '"super_offload": true on Grace (ZeRO-3), or "zenflow" with "overlap_step": true; or '
            '"ratio" below 1.0 in offload_optimizer, so that a part of the update runs on the GPU.',
            since="DeepSpeed 0.18.0 for super_offload, 0.17.5 for zenflow",
            cost="device memory for ratio; zenflow's asynchronous update changes the numerics",
        ),
        Remedy(
            "Megatron-Core",
            "--optimizer-offload-fraction below 1 with --overlap-cpu-optimizer-d2h-h2d.",
            cost="device memory; a 0.6B model took 0.75 s a step without, 1.19 s with a half and "
            "1.68 s with all of it offloaded",
        ),
        Remedy(
            "FSDP2",
            "The optimizer on the CPU is the price of CPUOffloadPolicy: AdamW(fused=True) on the "
            "CPU, more CPU threads for each rank (OMP_NUM_THREADS), fewer updates (gradient "
            "accumulation), or parameters kept on the GPU with an 8-bit optimizer.",
        ),
        Remedy(
            "MaxText",
            "optimizer_memory_host_offload brings the state to the GPU each step: expect exposed "
            "copies; shard it over more devices instead.",
        ),
        Remedy(
            "PyTorch",
            "Shorten the optimizer on the CPU: AdamW(fused=True), more CPU threads, or torchao's "
            "CPUOffloadOptimizer, which copies gradients while the backward pass runs; an 8-bit "
            "optimizer on the GPU needs no offload.",
        ),
        Remedy(
            "",
            "Shorten what the CPU does between the two copies, or split it so that the first part "
            "goes back while the next one is worked on.",
        ),
    ),
}
