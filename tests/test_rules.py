"""Rules for kernel names: every example won by its own rule, and look-alikes left alone."""

from __future__ import annotations

import pytest

from nsysoverlap.roles.rule_table import KERNEL_RULES
from nsysoverlap.roles.rules import Role, Rule, RuleSet


@pytest.mark.parametrize(
    ("rule", "example"),
    [(rule, example) for rule in KERNEL_RULES for example in rule.examples],
    ids=lambda value: value.name if isinstance(value, Rule) else value[:40],
)
def test_each_example_is_won_by_its_own_rule(rule: Rule, example: str) -> None:
    assert RuleSet().rule_for(example).name == rule.name


def test_every_rule_has_examples_and_a_reason_and_a_name_of_its_own() -> None:
    assert [rule.name for rule in KERNEL_RULES if not rule.examples or not rule.why] == []
    assert len({rule.name for rule in KERNEL_RULES}) == len(KERNEL_RULES)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("nccl_like_user_gemm", "compute"),
        ("my_ncclish", "compute"),
        ("void my::ncclDevKernel_lookalike<float>(int)", "compute"),
        ("void gemm<ncclDevKernel_AllReduce_Sum_f32_RING_LL>(int)", "compute"),
        ("void scale<vllm::cross_device_reduce_1stage>(float *)", "compute"),
        ("ncclish", "compute"),
        ("my_nvshmem_free_gemm", "compute"),
        ("across_device_reduce", "compute"),
        ("my_wrapped_dynamic_slice", "compute"),
        ("wrapped_concatenate_7", "compute"),
        ("void foo::dispatch<4>(int)", "compute"),
        ("combine", "compute"),
        ("not_deep_ep::dispatch", "compute"),
        ("TAllReduceKernelImpl", "compute"),
        ("reduce_scatter_gemm", "compute"),
        ("", "compute"),
    ],
)
def test_names_that_only_look_like_communication_are_compute(name: str, rule: str) -> None:
    assert RuleSet().rule_for(name).name == rule


COLLECTIVE_WORDS = (
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute", "send",
    "recv", "broadcast", "one_shot_all_reduce", "multimem_all_reduce", "nccl", "nvshmem",
)  # fmt: skip


@pytest.mark.parametrize("word", COLLECTIVE_WORDS)
@pytest.mark.parametrize(
    "shape", ["{}_fusion", "{}_32_0_fusion_1", "loop_{}_fusion", "{}_fusion_2"]
)
def test_an_xla_fusion_stays_compute_whatever_it_is_named_after(word: str, shape: str) -> None:
    rule = RuleSet().rule_for(shape.format(word))
    assert (rule.name, rule.role) == ("xla-fusion", Role.COMPUTE)


def test_the_first_rule_wins_and_the_last_takes_the_rest() -> None:
    first = Rule("first", "x", Role.COMM, "gemm")
    second = Rule("second", "x", Role.OTHER, "gemm")
    rest = Rule("rest", "x", Role.COMPUTE, "")
    rules = RuleSet(kernel_rules=(first, second, rest))
    assert rules.rule_for("my_gemm") is first
    assert rules.rule_for("softmax") is rest


def test_candidates_and_users_transfers_can_move_host_data_and_nothing_else() -> None:
    rules = RuleSet(user_rules=(Rule("mine", "config", Role.D2H, "^offload"),))
    names = ["gemm", "wrapped_dynamic_slice_1", "offload", "ncclDevKernel_SendRecv", ""]
    found = [rules.moves_host_data(rules.rule_for(name)) for name in names]
    assert found == [False, True, True, False, False]


def test_explain_states_the_test_of_a_candidate_and_no_test_of_others() -> None:
    candidate = RuleSet().explain("wrapped_dynamic_update_slice_2")
    assert candidate.rule.name == "xla-host-write"
    assert "20 us" in candidate.why
    assert "quarter" in candidate.why
    assert "500 GB/s" in candidate.why
    plain = RuleSet().explain("gemm")
    assert plain.why == plain.rule.why


def test_a_users_rule_is_searched_in_the_whole_demangled_name() -> None:
    rules = RuleSet(user_rules=(Rule("mine", "config", Role.COMM, "<ring_t>"),))
    assert rules.rule_for("void copy<ring_t>(int)").name == "mine"
    assert rules.rule_for("void copy<other_t>(int)").name == "compute"


# Names of frameworks.md, by family, and names that a careless rule would take with them.
COMMUNICATION = {
    "nccl": """
        ncclDevKernel_AllReduce_Sum_bf16_RING_LL ncclDevKernel_SendRecv ncclDevKernel_Generic_1
        ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16
        ncclKernel_AllGather_RING_LL_Sum_int8_t ncclSymDevKernel_AllGather_LL
        mscclKernel_Sum_half_Simple_false ncclAllReduceRingLLKernel_sum_f32
    """,
    "nvshmem": """
        barrier_on_stream_kernel_threadgroup sync_on_stream_kernel_threadgroup
        alltoall_on_stream_kernel broadcast_on_stream_kernel fcollect_on_stream_kernel
        reducescatter_on_stream_kernel rdxn_on_stream_kernel
        nvshmemi_signal_wait_until_on_stream_kernel nvshmemi_proxy_rma_signal_entrypoint
        _signal_wait_until_on_stream_kernel wait_until_any_on_stream_kernel
    """,
    "deepep": """
        deep_ep::intranode::dispatch deep_ep::internode::combine deep_ep::internode_ll::dispatch
        deep_ep::intranode::notify_dispatch deep_ep::internode::cached_notify
        deep_ep::intranode::barrier dispatch_impl combine_impl hybrid_dispatch_impl
        hybrid_combine_impl pp_send_impl engram_fetch_impl uccl::internode::dispatch
        uccl::internode_ll::combine hybrid_ep::dispatch_kernel hybrid_ep::combine_kernel
        hybrid_ep::device_sync_kernel internode_ll::clean_low_latency_buffer
    """,
    "pplx": """
        dispatchKernel<true> combineKernel<float> a2a_dispatch_send_kernel
        a2a_dispatch_recv_kernel a2a_combine_send_kernel a2a_combine_recv_kernel
    """,
    "mori": """
        EpDispatchIntraNodeKernel_bf16 EpDispatchInterNodeKernel_fp8 EpCombineInterNodeKernel
        EpCombineSync ShmemBarrierAllBlock OneShotAll2allKernel OneShotAllGatherKernel
    """,
    "custom": """
        allreduce_fusion_kernel_oneshot_lamport moereduce_allreduce_fusion_kernel_oneshot_lamport
        moefinalize_allreduce_fusion_kernel_oneshot_lamport oneshotAllreduceFusionKernel
        rmsNormLamport oneShotAllReduceKernel twoShotAllReduceKernel
        lamport_style_one_shot_all_reduce_norm_kernel moeA2APrepareDispatchKernel
        moeA2ADispatchKernel moeA2APrepareCombineKernel moeA2ACombineKernel moeAllToAllKernel
        ulysses_a2a_kernel cross_device_reduce_1stage cross_device_reduce_2stage
        cross_device_reduce_1stage_naive quickreduce::allreduce_prototype_twoshot
    """,
    "symmetric memory": """
        multimem_all_reduce_kernel one_shot_all_reduce_kernel multimem_all_gather_kernel
        two_shot_all_reduce_kernel two_shot_all_reduce_kernel_inplace put_signal_kernel
        multimem_one_shot_all_reduce_kernel multimem_reduce_scatter_kernel wait_signal_kernel
        lsa_put_signal_kernel
    """,
    "mscclpp": """
        allreduceAllPairs allreduceNvlsPacket allreducePacket allreduceFullmesh
        allreduceRsagZeroCopy mscclpp::executionKernel mscclpp::collective::allreducePacket
    """,
}
COMPUTATION = """
        reduce_kernel at::native::reduce_kernel splitKreduce_kernel cublasLt::splitKreduce_kernel
        cub::DeviceReduceKernel cub::DeviceReduceSingleTileKernel thrust::reduce_by_key
        triton_red_fused_all_reduce_add_3 triton_poi_fused_all_gather_0 triton_per_fused_nccl_1
        triton_tem_fused_multimem_all_reduce_2 all_reduce_32_0_fusion_1 loop_all_gather_fusion
        input_reduce_fusion_7 gemm_fusion_dot_all_reduce wrapped_all_reduce executionKernel
        moe_combine moe_sum_reduce moe_align_block_size_kernel moe_fused_gate_kernel
        topkGatingSoftmax finalizeMoeRoutingKernel expandInputRowsKernel routingMainKernel combine
        dispatch dispatchKernel combineKernel reshape_and_cache_flash_kernel
        reshape_and_cache_kernel at::native::elementwise_kernel broadcast_kernel
        all_reduce_weights wait_kernel signal_kernel put_kernel shot_kernel
        fused_add_rmsnorm_kernel rmsNormKernel lamport barrier sync_kernel EpDispatch epCombineX
        twoShotGemm allreduce nccl_user_gemm at::native::one_shot_all_reduce_kernel
"""


@pytest.mark.parametrize("family", COMMUNICATION)
def test_names_of_communication(family: str) -> None:
    for name in COMMUNICATION[family].split():
        for written in (name, f"void {name}(int *)"):
            assert RuleSet().rule_for(written).role is Role.COMM, written


@pytest.mark.parametrize("name", COMPUTATION.split())
def test_names_of_computation(name: str) -> None:
    for written in (name, f"void {name}(int *)"):
        assert RuleSet().rule_for(written).role is Role.COMPUTE, written


def hicache(source: str, target: str) -> str:
    return (
        f"void transfer_kernel_impl<&get_global_offset_{source}<const char>, "
        f"&get_global_offset_{target}<char>, false>(const void *, void *)"
    )


@pytest.mark.parametrize(
    ("name", "role"),
    [
        (hicache("pf", "lf"), Role.H2D),
        (hicache("ph", "lf"), Role.H2D),
        (hicache("lf_tbl", "pf"), Role.D2H),
        (hicache("lf", "ph"), Role.D2H),
        # Both sides may be the GPU's.
        (hicache("lf", "lf"), Role.OTHER),
        (hicache("lf_tbl", "lf_tbl"), Role.OTHER),
        ("transfer_kernel_impl", Role.OTHER),
        ("void hicache_transfer_per_layer<128>(int)", Role.H2D),
        ("void hicache_transfer_all_layer_mla<128>(int)", Role.D2H),
        ("void lmc::load_and_reshape_multi_layer_kernel<signed char, false>(int)", Role.OTHER),
        ("transfer_kv_blocks_kernel_8b", Role.OTHER),
        ("staging_transfer_kernel", Role.OTHER),
        ("kvCacheBlockPartialCopy", Role.OTHER),
        ("reshape_and_cache_kernel", Role.COMPUTE),
        ("my_transfer_kernel_impl_gemm", Role.COMPUTE),
    ],
)
def test_copy_kernels_of_caches(name: str, role: Role) -> None:
    assert RuleSet().rule_for(name).role is role
