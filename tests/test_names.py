"""Demangled names, as nsys and other tools write them, to the names that rules look at."""

from __future__ import annotations

import pytest

from nsysoverlap.trace.contents import qualified_name, short_name


@pytest.mark.parametrize(
    ("demangled", "qualified", "short"),
    [
        ("loop_add_fusion_3", "loop_add_fusion_3", "loop_add_fusion_3"),
        ("", "", ""),
        (
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
            "(ncclDevKernelArgsStorage<(unsigned long)4096>)",
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
        ),
        (
            "void deep_ep::internode::dispatch<false, 4>(int4*)",
            "deep_ep::internode::dispatch",
            "dispatch",
        ),
        (
            "void <unnamed>::multimem_all_reduce_kernel<c10::BFloat16, (int)16>(T1 *)",
            "{anonymous}::multimem_all_reduce_kernel",
            "multimem_all_reduce_kernel",
        ),
        (
            "void at::native::(anonymous namespace)::pow_kernel<float, float>(int)",
            "at::native::{anonymous}::pow_kernel",
            "pow_kernel",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<(int)8, at::native::GeluCUDAKernelImpl"
            "(at::TensorIteratorBase &, at::native::GeluType)::[lambda() (instance 1)]::"
            "operator ()() const::[lambda() (instance 2)], std::array<char *, (unsigned long)2>>"
            "(int, T2, T3)",
            "at::native::vectorized_elementwise_kernel",
            "vectorized_elementwise_kernel",
        ),
        (
            "void cub::CUB_200300_89_NS::DeviceScanKernel<cub::DeviceScanPolicy<int>::Policy900, "
            "unsigned long *>(T1, int)",
            "cub::CUB_200300_89_NS::DeviceScanKernel",
            "DeviceScanKernel",
        ),
        (
            "std::enable_if<true, void>::type outer::inner<int>::kernel<float>(float *)",
            "outer::inner::kernel",
            "kernel",
        ),
    ],
)
def test_names_without_types_templates_and_parameters(
    demangled: str, qualified: str, short: str
) -> None:
    assert qualified_name(demangled) == qualified
    assert short_name(demangled) == short
