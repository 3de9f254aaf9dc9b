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
