"""What a trace proves about the program that was traced."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nsysoverlap.cli import main
from nsysoverlap.roles.frameworks import FRAMEWORKS, UNKNOWN, detect, lineage
from nsysoverlap.trace.load import read_trace

from .tracebuilder import GEMM, TraceBuilder
from .traces import h200, programs

NATIVE = "void at::native::elementwise_kernel<(int)128>(int, T2)"


def found(
    tmp_path: Path, text: str = "", kernels: tuple[str, ...] = (GEMM,)
) -> tuple[str, list[str]]:
    """Framework and components of a trace with one NVTX range and some kernels."""
    builder = TraceBuilder()
    if text:
        builder.nvtx(text, 0, 1000)
    for i, name in enumerate(kernels):
        builder.kernel(1000 * i, 1000 * i + 900, name)
    framework, components = detect(read_trace(builder.write(tmp_path / "t.sqlite")))
    return framework.name, [component.name for component in components]


@pytest.mark.parametrize(
    ("text", "framework"),
    [
        ("[Executor] _forward_step 12: 0 ctx reqs, 0 ctx tokens, 32 gen reqs", "TensorRT-LLM"),
        ("[Executor] _forward_step: 1 ctx reqs, 3 gen reqs", "TensorRT-LLM"),
        ("execute_context_1(8)_generation_0(0)", "vLLM"),
        ("execute_5_context_1(sq4sk4sqsq16sqsk16)_generation_1(sq1)", "vLLM"),
        ("gpu_model_runner: forward", "vLLM"),
        ("DeepSpeedEngine.forward", "DeepSpeed"),
        ("DeepSpeedZeroOptimizer_Stage3.step", "DeepSpeed"),
        ("SuperOffloadOptimizer_Stage3.step", "DeepSpeed"),
        ("PartitionedParameterCoordinator.fetch_sub_module", "DeepSpeed"),
        ("activation offloading layer.3", "Megatron-Core"),
        ("rl/rollout-collection", "Megatron-Core"),
        ("[pl][profile]run_training_batch", "Lightning"),
        ("[pl][module]torch.nn.Linear: fc", "Lightning"),
        ("FSDP::pre_forward (layers.3)", "FSDP2"),
        ("FSDP::all_gather (layers.3), op_id = 7", "FSDP2"),
        ("FullyShardedDataParallel._pre_forward", "FSDP1"),
        ("aten::mm, seq = 12, op_id = 345, sizes = [[2, 3], [3, 4]]", "PyTorch"),
        ("autograd::engine::evaluate_function: MmBackward0", "PyTorch"),
        ("XlaModule:#hlo_module=jit_f,program_id=1#", "JAX"),
        ("TSL:XlaModule:#prefix=jit(f),hlo_module=jit_f,program_id=1#", "JAX"),
        ("Kokkos::Initialization Complete", "Kokkos"),
        # What an engineer may write anywhere proves nothing.
        ("step 3", "unknown"),
        ("forward", "unknown"),
        ("ncclAllReduce", "unknown"),
        ("transformer_engine.FusedAttnFunc.forward", "unknown"),
    ],
)
def test_texts_that_prove_a_framework(tmp_path: Path, text: str, framework: str) -> None:
    assert found(tmp_path, text)[0] == framework


@pytest.mark.parametrize(
    ("kernels", "framework", "components"),
    [
        ((NATIVE,), "PyTorch", []),
        ((NATIVE, "void vllm::act_and_mul_kernel<T1>(T1 *)"), "vLLM", ["PyTorch"]),
        # SGLang runs kernels that it took from vLLM.
        (
            (
                "void vllm::cross_device_reduce_1stage<T1>(T1 *)",
                "transfer_kernel_impl",
            ),
            "SGLang",
            ["vLLM"],
        ),
        (
            (
                NATIVE,
                "void at::native::detail::chunk_cat_cuda_kernel<float>(T2 **)",
                "at::native::detail::split_with_sizes_copy_out_contiguous_no_cast_kernel(char **)",
            ),
            "FSDP2",
            ["PyTorch"],
        ),
        # One of the two is not enough.
        (("void at::native::detail::chunk_cat_cuda_kernel<float>(T2 **)",), "PyTorch", []),
        (("loop_add_fusion_3", "ncclDevKernel_AllGather_RING_LL(int)"), "unknown", ["NCCL"]),
        (("lmc::load_and_reshape_multi_layer_kernel", NATIVE), "PyTorch", ["LMCache"]),
        (("transfer_kv_blocks_kernel_8b",), "unknown", ["FlexKV"]),
        (("void deep_ep::intranode::dispatch<8>(int)",), "unknown", ["DeepEP"]),
        (("__omp_offloading_10302_2a_main_l12",), "OpenMP", []),
        (("compute_tendencies_x_278_gpu",), "OpenACC", []),
        # Kernels of libraries and compilers run under every framework.
        (
            (
                "triton_poi_fused_add_0",
                "void cutlass::Kernel<T1>(T1)",
                "void cub::DeviceReduceKernel<int>(int)",
                "nvjet_sm90_tst_128x160_64x5",
                "void tensorrt_llm::kernels::oneShotAllReduceKernel<T1>(int)",
                "void flashinfer::rope_kernel<T1>(int)",
            ),
            "unknown",
            ["FlashInfer"],
        ),
    ],
)
def test_kernels_that_prove_a_framework(
    tmp_path: Path, kernels: tuple[str, ...], framework: str, components: list[str]
) -> None:
    assert found(tmp_path, kernels=kernels) == (framework, components)


def test_the_most_specific_one_names_the_program(tmp_path: Path) -> None:
    assert found(tmp_path, "[pl][profile]run_training_batch", (NATIVE,)) == (
        "Lightning",
        ["PyTorch"],
    )


def test_flags_of_xla_prove_only_what_nothing_else_does(tmp_path: Path) -> None:
    for kernel, expected in ((GEMM, "JAX"), (NATIVE, "PyTorch")):
        builder = TraceBuilder()
        builder.env("XLA_FLAGS", "--xla_a=1")
        builder.kernel(0, 10, kernel)
        trace = read_trace(builder.write(tmp_path / f"{expected}.sqlite"))
        assert detect(trace)[0].name == expected


@pytest.mark.parametrize(
    ("name", "framework", "evidence"),
    [
        ("pytorch/save", "PyTorch", "kernel at::native::"),
        ("pytorch/save_on_cpu", "PyTorch", "kernel at::native::"),
        ("pytorch/offload_stream", "PyTorch", "kernel at::native::"),
        ("pytorch/fsdp2_cpu", "FSDP2", "kernel chunk_cat_cuda_kernel"),
        ("pytorch/gen_offloaded", "PyTorch", "kernel at::native::"),
        ("pytorch/lightning", "PyTorch", "NVTX range 'Optimizer.step#AdamW.step"),
        ("maxtext/maxtext_off_lhs", "MaxText", "NVTX range 'Thunk:#name=state['model']['decoder']"),
        ("maxtext/maxtext_off_nolhs", "MaxText", "NVTX range 'Thunk:#name=state['model']"),
        ("jax_unroll_lhs", "JAX", "NVTX range 'XlaModule:#hlo_module=jit_train_step"),
        ("ddp_two_procs", "PyTorch", "kernel at::native::"),
        ("micro_hidden", "unknown", UNKNOWN.evidence),
    ],
)
def test_real_programs(name: str, framework: str, evidence: str) -> None:
    program, _ = detect(read_trace(h200(name)))
    assert program.name == framework
    assert program.evidence.startswith(evidence)


def test_every_real_program_is_known() -> None:
    assert {detect(read_trace(h200(name)))[0].name for name in programs()} == {
        *("PyTorch", "FSDP2", "MaxText")
    }


def test_what_frameworks_are_built_on_is_known() -> None:
    names = {proof.name for proof in FRAMEWORKS}
    assert {parent for name in names for parent in lineage(name)} == names
    assert lineage("MaxText") == ("MaxText", "JAX")
    assert lineage("unknown") == ("unknown",)


def test_info_says_what_ran_and_what_proves_it() -> None:
    from click.testing import CliRunner

    path = str(h200("pytorch/fsdp2_cpu"))
    shown = CliRunner().invoke(main, ["info", path]).stdout
    assert "framework  FSDP2 (kernel chunk_cat_cuda_kernel" in shown
    assert "with       NCCL (NVTX range 'ncclAllGather')" in shown
    values = json.loads(CliRunner().invoke(main, ["info", path, "--format", "json"]).stdout)
    assert values["framework"]["name"] == "FSDP2"
    assert [component["name"] for component in values["components"]] == ["PyTorch", "NCCL"]
