"""The rules as data: what a kernel name or a copy's numbers say about what the GPU was doing.

Both tables are ordered and the first match wins. A new kernel family is one `Rule` here; its
`examples` are real names, and a test demands that each is won by its own rule.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from ..trace.cupti import CopyKind


class Role(IntEnum):
    """What an activity counts as in the metric; fits in uint8."""

    COMPUTE = 0
    COMM = 1
    H2D = 2
    D2H = 3
    OTHER = 4
    UNIFIED_H2D = 5
    UNIFIED_D2H = 6
    OPAQUE = 7


@dataclass(frozen=True)
class Rule:
    """One kernel family: names that `pattern` is found in take `role`.

    The patterns of this file are searched in the qualified name (no return type, template
    arguments or parameters). With `needs_proof` a launch takes `role` only if it is as slow as
    a host link, and is compute otherwise.
    """

    name: str
    category: str
    role: Role
    pattern: str
    examples: tuple[str, ...] = ()
    why: str = ""
    needs_proof: bool = False

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """`pattern`, compiled."""
        return re.compile(self.pattern)


@dataclass(frozen=True)
class CopyRule:
    """Copies of one of `copy_kinds` that meet the conditions set here."""

    name: str
    role: Role
    copy_kinds: tuple[CopyKind, ...]
    why: str
    both_on_device: bool = False
    """Source and destination memory must both be device memory."""
    between_devices: bool = False
    """Source and destination device must be known and differ."""


KERNEL_RULES: tuple[Rule, ...] = (
    Rule(
        "xla-host-write",
        "transfer kernel",
        Role.D2H,
        r"^wrapped_dynamic_update_slice",
        ("wrapped_dynamic_update_slice_2", "wrapped_dynamic_update_slice_3"),
        "XLA writes an offloaded tensor to pinned host memory with a kernel.",
        needs_proof=True,
    ),
    Rule(
        "xla-host-read",
        "transfer kernel",
        Role.H2D,
        r"^wrapped_dynamic_slice",
        ("wrapped_dynamic_slice", "wrapped_dynamic_slice_1"),
        "XLA reads an offloaded tensor from pinned host memory with a kernel.",
        needs_proof=True,
    ),
    Rule(
        "xla-fusion",
        "xla fusion",
        Role.COMPUTE,
        r"^(\w+_)?fusion(_dot\w*)?[_\d]*$",
        (
            "all_reduce_32_0_fusion_1",
            "loop_broadcast_fusion",
            "gemm_fusion_dot_14",
            "input_convert_reduce_fusion",
        ),
        "An XLA fusion computes, even when it is named after the collective it feeds.",
    ),
    Rule(
        "nccl",
        "nccl",
        Role.COMM,
        r"^nccl(Dev)?Kernel(Debug)?_",
        (
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
            "(ncclDevKernelArgsStorage<(unsigned long)4096>)",
            "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
            "ncclDevKernel_SendRecv",
            "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm *, ncclWorkElem)",
            "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm *, unsigned long, ncclWork *)",
            "ncclDevKernelDebug_Generic_1(ncclDevKernelArgsStorage<(unsigned long)4096>)",
        ),
        "A collective or send/receive of NCCL 2.12 and later, or of RCCL.",
    ),
    Rule(
        "nccl-symmetric",
        "nccl",
        Role.COMM,
        r"^ncclSymk?DevKernel_",
        (
            "ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16(ncclSymkDevWorkArgs4K)",
            "ncclSymkDevKernel_ReduceScatter_LL_sum_f32(ncclSymkDevWorkArgs4K)",
            "ncclSymDevKernel_AllReduce_RSxLD_AGxST_sum_bf16(ncclSymDevArgs)",
        ),
        "An NCCL collective on symmetric memory (2.27 and later).",
    ),
    Rule(
        "ncclx",
        "nccl",
        Role.COMM,
        r"(^|^ctran::([\w{}]+::)*)ncclKernel[A-Z]",
        (
            "ncclKernelAllGatherCtranRing(int *, CtranAlgoDeviceState *, CtranKernelAllGatherArgs)",
            "ctran::allgatherp::ncclKernelAllGatherPDirect(int *, CtranAlgoDeviceState *)",
            "void ncclKernelSendRecv<(bool)0>(int *, CtranAlgoDeviceState *, "
            "ctran::sendrecv::KernelSendRecvArgs)",
        ),
        "A collective of ncclx, Meta's NCCL with its own transport (CTran).",
    ),
    Rule(
        "nccl-classic",
        "nccl",
        Role.COMM,
        r"^nccl[A-Z][A-Za-z0-9]*Kernel(_|$)",
        (
            "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
            "ncclBroadcastRingLLKernel_copy_i8(ncclColl)",
            "ncclSendRecvKernel_copy_i8(ncclColl)",
        ),
        "A collective of NCCL before 2.12.",
    ),
    Rule(
        "nvshmem",
        "nvshmem",
        Role.COMM,
        r"(^|::)nvshmem[ix]?_",
        (
            "nvshmemi_proxy_rma_entrypoint_blocking(void *, void *, rma_bytesdesc_t, int, "
            "nvshmemi_op_t)",
            "nvshmemi_transfer_rma_p",
            "c10d::nvshmem_extension::allToAllV(void *, void *, long *, unsigned long, int, int)",
        ),
        "One-sided communication through NVSHMEM.",
    ),
    Rule(
        "nvshmem-on-stream",
        "nvshmem",
        Role.COMM,
        r"^(barrier|sync|sync_all|alltoall|broadcast|fcollect|rdxn|reducescatter)"
        r"_on_stream_kernel(_\w+)?$",
        (
            "void barrier_on_stream_kernel_threadgroup<(threadgroup_t)1>(int, int)",
            "void alltoall_on_stream_kernel<char>(int, T1 *, const T1 *, unsigned long)",
            "sync_all_on_stream_kernel_warp()",
        ),
        "An NVSHMEM collective that the host put on a stream.",
    ),
    Rule(
        "deepep",
        "deepep",
        Role.COMM,
        r"(^|::)(deep_ep|hybrid_ep)::|^(cached_)?notify_(dispatch|combine)$",
        (
            "void deep_ep::internode::dispatch<false, 4>(int4*)",
            "void deep_ep::intranode::combine<__nv_bfloat16, (int)8, (int)768, (int)4096>(T1 *)",
            "void deep_ep::internode_ll::dispatch<(bool)1, (bool)1, (int)6144>(void *, void *)",
            "void primus_turbo::deep_ep::intranode::notify_dispatch<8>(int const*)",
            "cached_notify_combine",
        ),
        "DeepEP sends tokens to their experts (dispatch) or back (combine).",
    ),
    Rule(
        "cross-device-reduce",
        "custom all-reduce",
        Role.COMM,
        r"(^|::)(cross_device_(reduce|all_gather|reduce_scatter)"
        r"|reduce_scatter_cross_device_store)",
        (
            "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, "
            "vllm::RankSignals, vllm::Signal*, __nv_bfloat16*, int, int)",
            "void sglang::cross_device_reduce_2stage<__half, 8>(sglang::RankData*, "
            "sglang::RankSignals, sglang::Signal*, __half*, int, int)",
            "cross_device_reduce_1stage",
            "aiter::reduce_scatter_cross_device_store",
        ),
        "The all-reduce of vLLM, SGLang and AITER over peer memory.",
    ),
    Rule(
        "tensorrt-llm-all-reduce",
        "custom all-reduce",
        Role.COMM,
        r"(^|::)(([Oo]ne|[Tt]wo)[Ss]hotAll[Rr]educe\w*Kernel|lowPrecision\w*AllReduceKernel"
        r"|allreduce_fusion_kernel_\w+|rmsNormLamport|multiGpuBarrierKernel)",
        (
            "void tensorrt_llm::kernels::oneShotAllReduceKernel<__nv_bfloat16, (int)2, (bool)1, "
            "(bool)0>(tensorrt_llm::kernels::AllReduceParams)",
            "twoShotAllReduceKernel",
            "lowPrecisionTwoShotAllReduceKernel",
            "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport"
            "<(flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern)1, __nv_bfloat16, 8, "
            "false, false>(flashinfer::trtllm_allreduce_fusion::AllReduceFusionParams"
            "<__nv_bfloat16>)",
            "void flashinfer::trtllm_mnnvl_allreduce::oneshotAllreduceFusionKernel<(unsigned "
            "char)2, __nv_bfloat16, true>(flashinfer::trtllm_mnnvl_allreduce::"
            "AllReduceFusionParams)",
            "void flashinfer::trtllm_mnnvl_allreduce::twoshotAllreduceKernel<(unsigned char)4, "
            "__nv_bfloat16, true, float4>(int)",
        ),
        "The all-reduce of TensorRT-LLM and FlashInfer (one shot, two shots, Lamport, MNNVL).",
    ),
    Rule(
        "tensorrt-llm-all-to-all",
        "custom all-to-all",
        Role.COMM,
        r"(^|::)(moe_comm::|moeA2A\w+Kernel|moeAllToAllKernel)",
        ("tensorrt_llm::kernels::moe_comm::moeA2ADispatchKernel", "moeA2ACombineKernel"),
        "TensorRT-LLM sends tokens to their experts or back.",
    ),
    Rule(
        "userbuffers",
        "userbuffers",
        Role.COMM,
        r"(^|::)k?userbuffers_",
        (
            "userbuffers_fp16_sum_inplace_gpu_rw_ag",
            "userbuffers_fp16_sum_inplace_gpu_rr_rs_oop",
            "kuserbuffers_pushrecv(int, int, int, int, int *, int *, int, unsigned long)",
        ),
        "Transformer Engine's communication that overlaps a GEMM (userbuffers).",
    ),
    Rule(
        "symmetric-memory",
        "symmetric memory",
        Role.COMM,
        r"(^|::)(multimem_(one_shot_)?(all_reduce|reduce|all_gather|reduce_scatter)"
        r"|(one|two)_shot_all_reduce)_kernel(_inplace)?$|^c10d::symmetric_memory::",
        (
            "void <unnamed>::multimem_all_reduce_kernel<c10::BFloat16, (int)16>(T1 *)",
            "void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 2>"
            "(c10::BFloat16**, unsigned long, unsigned long, unsigned int**, unsigned long, "
            "unsigned long)",
            "one_shot_all_reduce_kernel",
            "c10d::symmetric_memory::barrier_kernel",
        ),
        "A collective of PyTorch's symmetric memory.",
    ),
    Rule(
        "xla-collective",
        "xla collective",
        Role.COMM,
        r"(^|::)(AllReduceKernelImpl|RaggedAllToAll\w*KernelImpl|MultiGpuBarrierKernelImpl)$",
        (
            "void stream_executor::gpu::AllReduceKernelImpl<float, (xla::ReductionKind)0, "
            "(stream_executor::gpu::AllReduceStrategy)0>(int)",
            "void stream_executor::gpu::RaggedAllToAllKernelImpl<8l>(void const*)",
            "MultiGpuBarrierKernelImpl",
        ),
        "XLA's own all-reduce or ragged all-to-all over peer memory, used instead of NCCL.",
    ),
    Rule(
        "msccl",
        "msccl",
        Role.COMM,
        r"^mscclKernel_|^mscclpp::(collective|algorithm)::"
        r"|^(allreduce(Packet|Fullmesh|NvlsPacket)|allgatherFullmesh2?)$",
        (
            "mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)",
            "mscclpp::collective::allreducePacket",
            "mscclpp::collective::allgatherFullmesh2",
        ),
        "A collective of MSCCL or MSCCL++.",
    ),
    Rule(
        "rccl",
        "rccl",
        Role.COMM,
        r"^rccl[A-Z]",
        ("void rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)",),
        "A collective of RCCL under its own name.",
    ),
    Rule(
        "compute",
        "compute",
        Role.COMPUTE,
        r"",
        (
            "nvjet_sm90_tst_128x160_64x5_2x1_v_bz_NNT",
            "void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor"
            "<float>, std::array<char *, (unsigned long)1>>(int, T2, T3)",
            "wrapped_concatenate_7",
        ),
        "No other rule takes it.",
    ),
)

COPY_RULES: tuple[CopyRule, ...] = (
    CopyRule(
        "unified-h2d", Role.UNIFIED_H2D, (CopyKind.UVM_HTOD,), "Unified memory moved to the GPU."
    ),
    CopyRule(
        "unified-d2h", Role.UNIFIED_D2H, (CopyKind.UVM_DTOH,), "Unified memory moved to the host."
    ),
    CopyRule(
        "staged-peer-copy",
        Role.COMM,
        (CopyKind.HTOD, CopyKind.DTOH),
        "One half of a GPU-to-GPU copy that goes through the host.",
        both_on_device=True,
    ),
    CopyRule("h2d", Role.H2D, (CopyKind.HTOD, CopyKind.HTOA), "Host memory to the GPU."),
    CopyRule("d2h", Role.D2H, (CopyKind.DTOH, CopyKind.ATOH), "GPU memory to the host."),
    CopyRule("peer-copy", Role.COMM, (CopyKind.PTOP,), "GPU to GPU."),
    CopyRule(
        "peer-copy-by-device",
        Role.COMM,
        (CopyKind.DTOD,),
        "Device-to-device copy between two GPUs.",
        between_devices=True,
    ),
)
"""Copies that none of these takes are `Role.OTHER`."""
