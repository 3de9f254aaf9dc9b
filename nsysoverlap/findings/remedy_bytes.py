"""Remedies as data, continued: too many bytes, too many copies, or none."""

from __future__ import annotations

from .remedy_table import SLOP, Remedy, facts

_FEWER = "Move fewer bytes: "

WHAT: dict[str, tuple[Remedy, ...]] = {
    "not-enough-compute": (
        *(
            Remedy(
                framework,
                f"{_FEWER}leave a part of the optimizer state or parameters on the device.",
                when=facts("on-host"),
            )
            for framework in ("JAX", "PyTorch")
        ),
        Remedy(
            "MaxText",
            f"{_FEWER}offload tensors that take much compute to make for their size, and recompute "
            "or keep the others (remat_policy=custom with device or remat for some of "
            "query_proj, key_proj, value_proj, mlpwi, ...).",
        ),
        Remedy(
            "JAX",
            f"{_FEWER}offload tensors that take much compute to make for their size, and recompute "
            "or keep the others (fewer names in "
            "jax.checkpoint_policies.save_and_offload_only_these_names).",
        ),
        Remedy(
            "Megatron-Core",
            f"{_FEWER}lower --activation-offload-fraction, or recompute "
            "(--recompute-granularity selective) what is cheap to make.",
        ),
        Remedy(
            "PyTorch",
            f"{_FEWER}offload only what takes much compute to make for its size "
            "(saved_tensors_hooks that let the others through) and recompute the rest with "
            "torch.utils.checkpoint; a larger micro-batch or sequence gives more compute for "
            "weights and optimizer state, not for activations.",
        ),
        Remedy(
            "",
            f"{_FEWER}keep on the device what its kernels use again, send smaller types or packed "
            "data, or give each byte more work while it is there.",
        ),
    ),
    "hiding-costs-compute": (
        Remedy(
            "",
            "Put transfers beside kernels that are bound by arithmetic, not by memory bandwidth, "
            "or move fewer bytes.",
        ),
    ),
    "hiding-costs-comm": (
        Remedy(
            "",
            "Hide host copies behind compute, away from collectives, above all from those that "
            "cross PCIe or the network.",
        ),
    ),
    "slow-link": (
        Remedy(
            "",
            "Bind each process and its memory to the CPU socket of its GPU: nvidia-smi topo -m "
            "shows which, then numactl --cpunodebind=N --membind=N. From the wrong socket GB200 "
            "was seen at a third of its rate.",
            when=facts("c2c"),
        ),
        Remedy(
            "DeepSpeed",
            "Launch with --bind_cores_to_rank, which binds each process and its memory to the CPU "
            "socket of its GPU. Check that the link runs at full width: nvidia-smi "
            "--query-gpu=pcie.link.gen.current,pcie.link.width.current --format=csv.",
        ),
        Remedy(
            "",
            "Bind each process and its memory to the CPU socket of its GPU: nvidia-smi topo -m "
            "shows which, then numactl --cpunodebind=N --membind=N. Check that the link runs at "
            "full width: nvidia-smi "
            "--query-gpu=pcie.link.gen.current,pcie.link.width.current --format=csv.",
        ),
    ),
    "latency-bound-copies": (
        Remedy(
            "JAX",
            "Pack them into one copy, or leave the data on the device: no .item(), float(loss) or "
            "np.asarray inside the step.",
        ),
        Remedy(
            "FSDP2",
            "Wrap larger units with fully_shard: each parameter of a unit is a copy of its own.",
            cost="more unsharded memory at once",
        ),
        Remedy(
            "DeepSpeed",
            "Raise stage3_param_persistence_threshold: small parameters then stay on the device.",
            cost="device memory",
        ),
        Remedy(
            "Megatron-Core",
            "Raise --min-offloaded-tensor-size: small tensors then stay on the device.",
            cost="device memory",
        ),
        Remedy(
            "SGLang",
            "--hicache-mem-layout page_first (kernel) or page_first_direct (direct), or a larger "
            "--page-size: one contiguous page is one copy.",
        ),
        Remedy(
            "vLLM",
            "Raise --block-size; copies of many blocks are batched with cuMemcpyBatchAsync.",
            since="CUDA 12.8 and a vLLM of March 2026 for the batches",
        ),
        Remedy(
            "PyTorch",
            "Pack them into one copy, or leave the data on the device: no .item(), .cpu() or "
            "print(loss) inside the step, or only every N steps.",
        ),
        Remedy("", "Pack them into one copy, or leave the data on the device."),
    ),
    "round-trip": (
        Remedy(
            "JAX",
            "Save these tensors on the device instead (save_only_these_names): about the same "
            "memory, no transfers. If they do not fit, make each D2H finish early: tie it to the "
            "next layer's output with jax.lax.optimization_barrier, or put the scheduler under "
            f"memory pressure with a lower --{SLOP} (${SLOP} here; depends on the version; it "
            "costs time).",
            when=facts("slop"),
        ),
        Remedy(
            "JAX",
            "Save these tensors on the device instead (save_only_these_names): about the same "
            "memory, no transfers. If they do not fit, make each D2H finish early: tie it to the "
            "next layer's output with jax.lax.optimization_barrier, or put the scheduler under "
            f"memory pressure with a lower --{SLOP} (95 by default; depends on the version; it "
            "costs time).",
        ),
        Remedy(
            "PyTorch",
            "Keep these tensors on the device, which takes about the same memory, or bring them "
            "back only one layer before they are used. Weights that did not change need no copy "
            "back out: diffusers' enable_group_offload(use_stream=True) keeps the host copy.",
        ),
        Remedy(
            "",
            "Keep these tensors on the device, which takes about the same memory; or copy them out "
            "as soon as they are made and back only one layer before they are used.",
        ),
    ),
    "relief-is-not-memory": (
        Remedy(
            "",
            "What comes in before it goes out is on the device twice, old and new: update it piece "
            "by piece, each as soon as its gradient is there, or leave it on the device.",
            when=facts("on-host"),
        ),
        Remedy(
            "JAX",
            "Look at what else is on the device at the peak (compiled.memory_analysis(), or "
            "XLA_FLAGS=--xla_dump_to for the buffer assignment): tensors in flight and temporaries "
            "of the schedule. Save on the device what frees nothing, or offload in more layers.",
        ),
        Remedy(
            "",
            "Look at what else is on the device at the peak: tensors in flight, caches of the "
            "allocator. Keep on the device what frees nothing.",
        ),
    ),
    "offload-missing": (
        Remedy(
            "MaxText",
            "remat_policy=custom with offload for tensors that the backward pass needs "
            "(decoder_layer_input, query_proj, ...), and on a GPU backend: on CPU pinned_host is "
            "dropped in silence.",
        ),
        Remedy(
            "JAX",
            "Name values that the backward pass needs (checkpoint_name on a layer's input, not on "
            "the output of a scan) and offload them to pinned_host; "
            "str(jax.jit(step).trace(...).jaxpr) shows <host> for what is offloaded.",
        ),
        Remedy("", "Check that the setting that asks for offloading has reached the program."),
    ),
    "offloaded-again": (
        Remedy(
            "PyTorch",
            "Keep a cache on the device, quantized or with a sliding window, or send only the new "
            "positions. Weights did not change: diffusers' enable_group_offload(use_stream=True) "
            "and accelerate keep the host's copy and send nothing back.",
            when=facts("unchanged"),
            cost="device memory for the cache",
        ),
        Remedy(
            "SGLang",
            "Incremental offload of the decode server sends only new pages.",
            since="SGLang of October 2025",
        ),
        Remedy(
            "PyTorch",
            'cache_implementation="offloaded" sends the whole cache out for every token: keep it '
            "on the device, use a quantized or sliding-window cache, or "
            '"offloaded_static", whose positions change in place.',
            cost="device memory for the cache",
        ),
        Remedy("", "Copy only what changed since the last copy, or keep the data on the device."),
    ),
    "one-time-transfers": (
        Remedy(
            "",
            "To see what a step does, record some steps after the warm-up (cudaProfilerStart and "
            "nsys profile --capture-range=cudaProfilerApi).",
        ),
    ),
    "immaterial-transfers": (
        Remedy("", "Look at what takes the time instead: the time budget below names it."),
    ),
    "integrated-gpu": (
        Remedy(
            "",
            "Map the host's memory in place of copying it: cudaHostAlloc with "
            "cudaHostAllocMapped and cudaHostGetDevicePointer, or managed memory.",
        ),
    ),
    "link-bound": (
        Remedy(
            "MaxText",
            f"{_FEWER}device in place of offload for some tensors of remat_policy=custom.",
        ),
        Remedy(
            "JAX",
            f"{_FEWER}fewer names in save_and_offload_only_these_names; keep or recompute the "
            "rest.",
        ),
        Remedy(
            "PyTorch",
            f"{_FEWER}let saved_tensors_hooks pass the smaller or cheaper tensors through, and "
            "recompute them with torch.utils.checkpoint.",
        ),
        Remedy("", f"{_FEWER}keep or recompute a part of what is offloaded."),
    ),
}
