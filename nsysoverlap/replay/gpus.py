"""How fast other GPUs are by their data sheets, for arithmetic on a trace of this one.

None of it was tested on those GPUs: kernels are scaled by class, the schedule stays as it is.
"""

from __future__ import annotations

from ..core.errors import UsageError
from ..core.records import dataclass


@dataclass(frozen=True)
class GpuSpeed:
    """Dense bf16 TFLOP/s, memory TB/s, and GB/s of the host link in each direction."""

    name: str
    bf16_tflops: float
    memory_tb_per_s: float
    h2d_gb_per_s: float
    d2h_gb_per_s: float
    source: str


_SHEET = "NVIDIA data sheet"
_PCIE5 = "host link as measured on PCIe Gen5 x16 hosts"
GPUS: tuple[GpuSpeed, ...] = (
    GpuSpeed("a100", 312, 2.04, 25, 25, f"{_SHEET} (A100 80GB SXM); PCIe Gen4 x16 in practice"),
    GpuSpeed("h100", 989, 3.35, 55, 53, f"{_SHEET} (H100 SXM); {_PCIE5}"),
    GpuSpeed("h200", 989, 4.8, 55, 53, f"{_SHEET} (H200 SXM); {_PCIE5}"),
    GpuSpeed("gh200", 989, 4.9, 415, 170, f"{_SHEET} (GH200 144GB); C2C measured by nvbandwidth"),
    GpuSpeed("b200", 2250, 8.0, 55, 53, f"{_SHEET} (HGX B200); {_PCIE5}"),
    GpuSpeed("gb200", 2500, 8.0, 200, 190, f"{_SHEET} (GB200 NVL72); C2C as measured, 170-210"),
    GpuSpeed("gb300", 2500, 8.0, 211, 193, f"{_SHEET} (GB300 NVL72); C2C measured by nvbandwidth"),
)


def gpu_speed(name: str) -> GpuSpeed:
    """The row of a GPU; raises `UsageError` for one that is not in the table."""
    found = next((gpu for gpu in GPUS if gpu.name == name.lower()), None)
    if found is None:
        known = ", ".join(gpu.name for gpu in GPUS)
        raise UsageError(f"there is no GPU {name!r} in the table.", f"Known GPUs: {known}.")
    return found


def traced_gpu(full_name: str | None) -> GpuSpeed | None:
    """The row of the GPU that a trace names, such as `NVIDIA H200`; None for others."""
    words = (full_name or "").lower().replace("-", " ").split()
    longest_first = sorted(GPUS, key=lambda gpu: -len(gpu.name))
    return next((gpu for gpu in longest_first if gpu.name in words), None)
