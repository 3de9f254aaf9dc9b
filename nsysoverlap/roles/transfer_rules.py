"""Rules for kernels that move host memory, or may: they come before all others."""

from __future__ import annotations

from .rule_kinds import Role, Rule

MAY_TRANSFER = "may be a transfer"
"""Category of kernels that copy, where nothing says from where to where."""

# Layer-first is the GPU's pool, page-first and page-head the host's.
_HICACHE = (
    (
        Role.H2D,
        "",
        r"(^|::)transfer_(page_head_)?kernel_impl$",
        r"_impl<&?(\w+::)*\w*_p[fh]\b[^,]*, ?&?(\w+::)*\w*_lf(_tbl)?\b",
        (
            "void transfer_kernel_impl<&get_global_offset_pf<const char>, "
            "&get_global_offset_lf<char>, false>(const void *)",
        ),
        ", from page-first to layer-first",
    ),
    (
        Role.D2H,
        "",
        r"(^|::)transfer_(page_head_)?kernel_impl$",
        r"_impl<&?(\w+::)*\w*_lf(_tbl)?\b[^,]*, ?&?(\w+::)*\w*_p[fh]\b",
        (
            "void transfer_page_head_kernel_impl<&get_global_offset_lf_tbl<const char>, "
            "&get_global_offset_ph<char>, false>(const void *)",
        ),
        ", from layer-first to page-first",
    ),
    (
        Role.H2D,
        "-by-layer",
        r"(^|::)hicache_transfer_per_layer\w*$",
        "",
        ("void hicache_transfer_per_layer<128, 4>(HicacheKernelParams)",),
        ", one layer at a time as its attention needs it",
    ),
    (
        Role.D2H,
        "-of-all-layers",
        r"(^|::)hicache_transfer_all_layer\w*$",
        "",
        ("void hicache_transfer_all_layer<128, 4>(HicacheKernelParams)",),
        ", all layers at once",
    ),
)

TRANSFER_RULES: tuple[Rule, ...] = (
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
    *(
        Rule(
            f"hicache-{'load' if role == Role.H2D else 'write-back'}{suffix}",
            "transfer kernel",
            role,
            pattern,
            examples,
            "SGLang's HiCache moves KV pages between the host's pool and the GPU's with a kernel"
            f"{why}.",
            needs_proof=True,
            arguments=arguments,
            bytes_per_thread=0,
        )
        for role, suffix, pattern, arguments, examples, why in _HICACHE
    ),
    Rule(
        "kv-copy",
        MAY_TRANSFER,
        Role.OTHER,
        r"(^|::)(transfer_(page_head_)?kernel_impl|transfer_kv_blocks_kernel(_8b)?"
        r"|load_and_reshape_multi_layer_kernel\w*|single_layer_kv_transfer\w*|staging_transfer_kernel"
        r"|kv[cC]ache\w*PartialCopy\w*)$",
        (
            "void transfer_kernel_impl<&get_global_offset_lf<const char>, "
            "&get_global_offset_lf<char>, false>(const void *)",
            "void flexkv::transfer_kv_blocks_kernel<0>(int)",
            "void lmc::load_and_reshape_multi_layer_kernel<signed char, (bool)0>(T1 *)",
            "void tensorrt_llm::kernels::kvCacheBlockPartialCopy<T1>(T1 *)",
        ),
        "It copies KV blocks, but its name does not say which way, nor if one side is the host.",
    ),
)
