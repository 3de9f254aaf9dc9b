"""The texts of a generated export: kernels, NVTX ranges and API calls of a large XLA program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.builder.capture import CaptureRows

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Names:
    """Ids of the texts in StringIds, by what they name."""

    compute: Ints
    comm: Ints
    thunks: Ints
    module: int
    launch: int
    copy: int
    memset: int
    graph: int
    record: int
    wait: int
    other: int


def name_texts(capture: CaptureRows) -> Names:
    """Put the texts of a large XLA program into StringIds."""

    def ids(texts: Iterator[str]) -> Ints:
        return np.array([capture.string(text) for text in texts], np.int64)

    return Names(
        compute=ids(
            f"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_{i}>(T1::Params)"
            if i % 4 == 0
            else f"loop_multiply_add_fusion_{i}"
            for i in range(400)
        ),
        comm=ids(
            f"ncclDevKernel_{op}(ncclDevKernelArgsStorage<4096ul>)"
            for op in ("AllGather_RING_LL", "ReduceScatter_Sum_bf16_RING_LL", "SendRecv")
        ),
        thunks=ids(
            f"Thunk:#hlo_op=copy-start.{i},name=jit(train_step)/layer_{i % 32}/attn#"
            for i in range(200)
        ),
        module=capture.string("XlaModule:#hlo_module=jit_train_step,program_id=7#"),
        launch=capture.string("cuLaunchKernelEx"),
        copy=capture.string("cuMemcpyDtoHAsync_v2"),
        memset=capture.string("cuMemsetD32Async"),
        graph=capture.string("cudaGraphLaunch_v10000"),
        record=capture.string("cuEventRecord"),
        wait=capture.string("cuStreamWaitEvent"),
        other=capture.string("cuKernelGetAttribute"),
    )
