"""Link peaks by GPU name as nsys writes it, and the override."""

from __future__ import annotations

import pytest

from nsysoverlap.core.errors import UsageError
from nsysoverlap.roles.links import LinkOverride, link_for, parse_link_override


@pytest.mark.parametrize(
    ("name", "gbps", "source"),
    [
        ("NVIDIA H200", 63, "PCIe Gen5 x16"),
        ("NVIDIA H100 80GB HBM3", 63, "PCIe Gen5 x16"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 63, "PCIe Gen5 x16"),
        ("NVIDIA H20-3e", 63, "PCIe Gen5 x16"),
        ("NVIDIA B200", 63, "PCIe Gen5 x16"),
        ("NVIDIA GeForce RTX 5090", 63, "PCIe Gen5 x16"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 63, "PCIe Gen5 x16"),
        ("NVIDIA GeForce RTX 5060 Ti", 31.5, "PCIe Gen5 x8"),
        ("NVIDIA A100-SXM4-80GB", 31.5, "PCIe Gen4 x16"),
        ("NVIDIA A100-PCIE-40GB", 31.5, "PCIe Gen4 x16"),
        ("NVIDIA A30", 31.5, "PCIe Gen4 x16"),
        ("NVIDIA L4", 31.5, "PCIe Gen4 x16"),
        ("NVIDIA L40S", 31.5, "PCIe Gen4 x16"),
        ("NVIDIA RTX A6000", 31.5, "PCIe Gen4 x16"),
        ("NVIDIA RTX 6000 Ada Generation", 31.5, "PCIe Gen4 x16"),
        ("NVIDIA GeForce RTX 3060", 31.5, "PCIe Gen4 x16"),
        ("NVIDIA GeForce RTX 4070 SUPER", 31.5, "PCIe Gen4 x16"),
        ("NVIDIA GeForce RTX 4060", 15.75, "PCIe Gen4 x8"),
        ("Tesla V100-SXM2-16GB", 15.75, "PCIe Gen3 x16"),
        ("Tesla T4", 15.75, "PCIe Gen3 x16"),
        ("Tesla P100-PCIE-16GB", 15.75, "PCIe Gen3 x16"),
        ("Quadro GP100", 15.75, "PCIe Gen3 x16"),
        ("Quadro RTX 6000", 15.75, "PCIe Gen3 x16"),
        ("NVIDIA GeForce RTX 2080 Ti", 15.75, "PCIe Gen3 x16"),
        ("GeForce GTX 1080 Ti", 15.75, "PCIe Gen3 x16"),
        ("NVIDIA GH200 480GB", 450, "users measured about 411"),
        ("GH200 144G HBM3e", 450, "users measured about 411"),
        ("NVIDIA GB200", 450, "about 170 to 210"),
        ("NVIDIA GB300", 450, "about 170 to 210"),
        ("NVIDIA VR200", 900, "NVLink-C2C"),
        ("NVIDIA Rubin", 900, "NVLink-C2C"),
    ],
)
def test_peak_by_name(name: str, gbps: float, source: str) -> None:
    peak = link_for(name)
    assert peak is not None
    assert (peak.h2d_gbps, peak.d2h_gbps) == (gbps, gbps)
    assert source in peak.source
    assert "peak by data sheet" in peak.source


@pytest.mark.parametrize(
    "name",
    [
        *(None, "", "Graphics Device", "NVIDIA GB10", "Orin", "NVIDIA B300 SXM6 AC"),
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "GeForce GTX 1060 with Max-Q Design",
        "Intel(R) HD Graphics 630",
    ],
)
def test_unknown_gpus_have_no_peak(name: str | None) -> None:
    assert link_for(name) is None


@pytest.mark.parametrize("text", ["55,53", " 55 , 53.0 ", "5.5e1,53"])
def test_override_reads_both_directions(text: str) -> None:
    assert parse_link_override(text) == LinkOverride(h2d=55.0, d2h=53.0)


@pytest.mark.parametrize(
    "text",
    ["", "55", "55,", ",53", "55,53,51", "a,b", "0,53", "55,-1", "nan,53", "inf,53", "1e300,1"],
)
def test_nonsense_override_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="not a pair of link rates") as caught:
        parse_link_override(text)
    assert "55,53" in caught.value.hint
