"""Remedies: in the words of the program's library, and never what is in place already."""

from __future__ import annotations

import re
from itertools import product

import pytest

from nsysoverlap import analyze
from nsysoverlap.findings import CODES
from nsysoverlap.findings.remedies import REMEDIES, remedy
from nsysoverlap.roles.frameworks import FRAMEWORKS, lineage

from ..traces import h200, programs

NAMES = sorted({proof.name for proof in FRAMEWORKS} | {"unknown"})
JAX_WORDS = re.compile(r"\bjax|xla|memory_kind|checkpoint_name|HLO", re.IGNORECASE)
TORCH_WORDS = re.compile(r"\btorch|pin_memory=|non_blocking|save_on_cpu|DataLoader", re.IGNORECASE)
SCHEDULER = "--xla_gpu_enable_latency_hiding_scheduler"
FACTS = sorted({fact for entries in REMEDIES.values() for e in entries for fact in e.when})


def test_every_finding_has_its_remedies_in_the_table() -> None:
    assert set(CODES) <= set(REMEDIES)


@pytest.mark.parametrize(("code", "framework"), [*product(sorted(REMEDIES), NAMES)])
def test_every_framework_is_spoken_to_in_its_own_words(code: str, framework: str) -> None:
    for facts in (frozenset[str](), *(frozenset([fact]) for fact in FACTS)):
        text = remedy(code, framework, {}, facts)
        assert text.endswith(".")
        if "JAX" not in lineage(framework):
            assert not JAX_WORDS.search(text), text
        if "PyTorch" not in lineage(framework):
            assert not TORCH_WORDS.search(text), text


@pytest.mark.parametrize("code", ["late-h2d", "nothing-beside", "same-stream-as-compute"])
def test_a_flag_that_is_set_is_not_asked_for(code: str) -> None:
    for framework in ("JAX", "MaxText"):
        text = remedy(code, framework, {"XLA_FLAGS": f"{SCHEDULER}=true"})
        assert f"Set {SCHEDULER}" not in text
        assert "Make sure" not in text
    assert f"Set {SCHEDULER}=true" in remedy(code, "JAX", {"XLA_FLAGS": f"{SCHEDULER}=false"})


def test_the_scheduler_is_not_advised_for_copies_of_a_scan() -> None:
    text = remedy("late-h2d", "JAX", {"XLA_FLAGS": f"{SCHEDULER}=false"}, {"scan"})
    assert SCHEDULER not in text
    assert "through the scan" in text


def test_what_the_trace_shows_in_place_is_not_advised() -> None:
    assert "Call cudaMemPrefetchAsync" in remedy("unified-memory", "unknown", {})
    asked = remedy("unified-memory", "unknown", {}, {"prefetched"})
    assert "already" in asked
    assert "Call cudaMemPrefetchAsync" not in asked
    no_faster = remedy("pageable-memory", "PyTorch", {}, {"pinned-no-faster"})
    assert "pin_memory" not in no_faster
    assert "no faster" in no_faster
    empty = {"XLA_FLAGS": "--xla_gpu_enable_command_buffer="}
    assert "command_buffer" in remedy("graph-opaque", "JAX", {})
    assert "command_buffer" not in remedy("graph-opaque", "JAX", empty)


def test_values_of_the_capture_stand_in_the_text() -> None:
    slop = {"XLA_FLAGS": "--xla_gpu_memory_limit_slop_factor=70"}
    assert "(70 here;" in remedy("round-trip", "JAX", slop)
    assert "(95 by default;" in remedy("round-trip", "JAX", {})
    level = {"JAX_OPTIMIZATION_LEVEL": "O2"}
    assert "JAX_OPTIMIZATION_LEVEL=O2 out" in remedy("transfer-kernels", "MaxText", level)


@pytest.mark.parametrize(
    ("code", "framework", "setting"),
    [
        ("pageable-memory", "DeepSpeed", '"pin_memory": true'),
        ("pageable-memory", "FSDP2", "CPUOffloadPolicy(pin_memory=True)"),
        ("pageable-memory", "Lightning", "DataLoader(pin_memory=True)"),
        ("pageable-memory", "MaxText", 'memory_kind="pinned_host"'),
        ("same-stream-as-compute", "Megatron-Core", "--overlap-cpu-optimizer-d2h-h2d"),
        ("same-stream-as-compute", "PyTorch", "save_on_cpu"),
        ("late-h2d", "FSDP2", "set_modules_to_backward_prefetch"),
        ("late-h2d", "vLLM", "offload_prefetch_step"),
        ("gpu-idle-beside-offload", "FSDP2", "AdamW(fused=True)"),
        ("gpu-idle-beside-offload", "DeepSpeed", "super_offload"),
        ("offloaded-again", "PyTorch", 'cache_implementation="offloaded"'),
        ("latency-bound-copies", "SGLang", "--hicache-mem-layout page_first"),
        ("slow-link", "DeepSpeed", "--bind_cores_to_rank"),
    ],
)
def test_settings(code: str, framework: str, setting: str) -> None:
    assert setting in remedy(code, framework, {})


@pytest.mark.parametrize("name", programs())
def test_real_programs_are_spoken_to_in_their_own_words(name: str) -> None:
    foreign = TORCH_WORDS if name.startswith("maxtext") else JAX_WORDS
    report = analyze(h200(name))
    assert report.findings
    for finding in report.findings:
        assert not foreign.search(f"{finding.title} {finding.detail} {finding.remedy}"), finding


def test_versions_and_costs_are_said() -> None:
    text = remedy("gpu-idle-beside-offload", "DeepSpeed", {})
    assert "Needs DeepSpeed 0.18.0 for super_offload" in text
    assert "Cost: device memory" in text
