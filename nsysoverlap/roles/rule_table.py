"""The rules as data: what a kernel name says about what the GPU was doing.

The table is ordered and the first match wins. A new kernel family is one `Rule` here, or in
`transfer_rules` where it moves host memory; its `examples` are real names, and a test demands that
each is won by its own rule.
"""

from __future__ import annotations

from .rule_kinds import COPY_RULES, CopyRule, Role, Rule
from .transfer_rules import TRANSFER_RULES

__all__ = ["COPY_RULES", "KERNEL_RULES", "CopyRule", "Role", "Rule"]

KERNEL_RULES: tuple[Rule, ...] = (
    *TRANSFER_RULES,
    Rule(
        "library",
        "compute",
        Role.COMPUTE,
        r"^triton_(poi|per|red|tem|for)_|(^|::)(at::native|cub|thrust)::",
        (
            "triton_red_fused_all_reduce_mul_3",
            "void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float>>(T3)",
            "void cub::CUB_200200_900_NS::DeviceReduceKernel<T1>(T1)",
        ),
        "Kernels of these libraries and compilers compute, whatever they are named after.",
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
        r"_on_stream_kernel(_\w+)?$|(^|::)_?(signal_)?wait_until\w*_on_stream_kernel$",
        (
            "void barrier_on_stream_kernel_threadgroup<(threadgroup_t)1>(int, int)",
            "void alltoall_on_stream_kernel<char>(int, T1 *, const T1 *, unsigned long)",
            "sync_all_on_stream_kernel_warp()",
            "_wait_until_all_on_stream_kernel(int *)",
        ),
        "An NVSHMEM collective that the host put on a stream.",
    ),
    Rule(
        "deepep",
        "deepep",
        Role.COMM,
        r"(^|::)(deep_ep|hybrid_ep|uccl::(intranode|internode|internode_ll))::"
        r"|(^|::)(intranode|internode|internode_ll)::(dispatch|combine|(cached_)?notify\w*|barrier"
        r"|clean_low_latency_buffer)$|^(cached_)?notify_(dispatch|combine)$"
        r"|(^|::)((hybrid_)?(dispatch|combine)|pp_send|engram_fetch)_impl$",
        (
            "void deep_ep::internode::dispatch<false, 4>(int4*)",
            "void deep_ep::intranode::combine<__nv_bfloat16, (int)8, (int)768, (int)4096>(T1 *)",
            "void deep_ep::internode_ll::dispatch<(bool)1, (bool)1, (int)6144>(void *, void *)",
            "void primus_turbo::deep_ep::intranode::notify_dispatch<8>(int const*)",
            "cached_notify_combine",
            "void uccl::internode_ll::combine<(bool)1>(void *)",
            "void internode::dispatch<(bool)0>(int4 *)",
            "hybrid_dispatch_impl",
        ),
        "DeepEP, UCCL-EP and HybridEP send tokens to their experts (dispatch) or back (combine).",
    ),
    Rule(
        "pplx",
        "pplx",
        Role.COMM,
        r"(^|::)a2a_(dispatch|combine)_(send|recv)_kernel$|(^|::)(dispatch|combine)Kernel$",
        (
            "a2a_dispatch_send_kernel(int)",
            "void pplx::a2a::dispatchKernel<true>(int)",
            "void <unnamed>::combineKernel<__nv_bfloat16>(T1 *)",
        ),
        "The all-to-all of pplx-kernels and pplx-garden.",
        arguments=r"a2a_|pplx::|Kernel<",
    ),
    Rule(
        "mori",
        "mori",
        Role.COMM,
        r"(^|::)(Ep(Dispatch|Combine)[A-Z]\w*|ShmemBarrier\w*|OneShotAll(2all|Gather|Reduce)\w*)$",
        (
            "EpDispatchIntraNodeKernel_bf16",
            "void mori::moe::EpCombineSync<T1>(T1 *)",
            "ShmemBarrierAllBlock",
            "OneShotAll2allKernel",
        ),
        "MORI sends tokens to their experts, or waits for the others.",
    ),
    Rule(
        "cross-device-reduce",
        "custom all-reduce",
        Role.COMM,
        r"(^|::)(cross_device_(reduce|all_gather|reduce_scatter)"
        r"|reduce_scatter_cross_device_store|quickreduce::|allreduce_prototype_(one|two)shot)",
        (
            "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, "
            "vllm::RankSignals, vllm::Signal*, __nv_bfloat16*, int, int)",
            "void sglang::cross_device_reduce_2stage<__half, 8>(sglang::RankData*, "
            "sglang::RankSignals, sglang::Signal*, __half*, int, int)",
            "cross_device_reduce_1stage",
            "aiter::reduce_scatter_cross_device_store",
            "void quickreduce::allreduce_prototype_twoshot<T1>(T1)",
        ),
        "The all-reduce of vLLM, SGLang and AITER over peer memory, and quickreduce.",
    ),
    Rule(
        "tensorrt-llm-all-reduce",
        "custom all-reduce",
        Role.COMM,
        r"(^|::)(([Oo]ne|[Tt]wo)[Ss]hotAll[Rr]educe\w*Kernel|lowPrecision\w*AllReduceKernel"
        r"|(moe(reduce|finalize)_)?allreduce_fusion_kernel\w*|rmsNormLamport|lamport_style_\w+"
        r"|multiGpuBarrierKernel)",
        (
            "void tensorrt_llm::kernels::oneShotAllReduceKernel<__nv_bfloat16, (int)2, (bool)1, "
            "(bool)0>(tensorrt_llm::kernels::AllReduceParams)",
            "twoShotAllReduceKernel",
            "lowPrecisionTwoShotAllReduceKernel",
            "moefinalize_allreduce_fusion_kernel_oneshot_lamport",
            "lamport_style_one_shot_all_reduce_norm_kernel",
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
        r"(^|::)(moe_comm::|moeA2A\w*Kernel|moeAllToAllKernel|ulysses_a2a_kernel)",
        (
            "tensorrt_llm::kernels::moe_comm::moeA2ADispatchKernel",
            "moeA2ACombineKernel",
            "ulysses_a2a_kernel",
        ),
        "TensorRT-LLM or FlashInfer sends tokens to their experts or back.",
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
        r"(^|::)(multimem_(all_reduce|one_shot|reduce|all_gather|reduce_scatter)\w*"
        r"|(one|two)_shot_all_reduce\w*|(lsa_)?(put|wait)_signal_kernel)$"
        r"|^c10d::symmetric_memory::",
        (
            "void <unnamed>::multimem_all_reduce_kernel<c10::BFloat16, (int)16>(T1 *)",
            "void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 2>"
            "(c10::BFloat16**, unsigned long, unsigned long, unsigned int**, unsigned long, "
            "unsigned long)",
            "one_shot_all_reduce_kernel",
            "lsa_put_signal_kernel",
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
        r"^mscclKernel_|(^|::)mscclpp::|^(allreduce(AllPairs|Nvls\w*|Packet|Rsag\w*|Fullmesh)"
        r"|allgatherFullmesh2?)$",
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
            "wrapped_concatenate_7",
        ),
        "No other rule takes it.",
    ),
)
