"""The same arms through MaxText: its command, options and environment.

Option names are those of MaxText's `configs/base.yml` and of NVIDIA's own MaxText scripts.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import nsys
from .arms import Arm
from .config import Config, ModelConfig
from .errors import RefusedError

MODULE = "maxtext.trainers.pre_train.train"
BASE = "src/maxtext/configs/base.yml"
_PLACED = """
decoder_layer_input context mlpwi mlpwi_0 mlpwi_1 mlpwo moe_mlpwi_0 moe_mlpwi_1 moe_mlpwo
query_proj key_proj value_proj kv_proj qkv_proj out_proj query_wa_proj kv_wa_proj mla_q mla_kv
attention_out
"""
_PLAIN = """
run_name model_name hardware dataset_type dataset_path enable_checkpointing
enable_goodput_recording monitor_goodput enable_checkpoint_cloud_logger reuse_example_batch
base_output_directory steps dtype attention max_target_length per_device_batch_size
ici_fsdp_parallelism dcn_fsdp_parallelism remat_policy scan_layers param_scan_axis profiler
skip_first_n_steps_for_profiler profiler_steps profile_cleanly upload_all_profiler_results
optimizer_memory_host_offload parameter_memory_host_offload quantization weight_dtype
skip_jax_distributed_system
"""
_SIZES = """
base_emb_dim base_num_query_heads base_num_kv_heads head_dim base_mlp_dim base_num_decoder_layers
vocab_size rope_max_timescale decoder_block attention_type q_lora_rank kv_lora_rank
qk_nope_head_dim qk_rope_head_dim v_head_dim first_num_dense_layers num_experts
num_experts_per_tok shared_experts base_moe_mlp_dim sparse_matmul megablox capacity_factor
"""
OPTION_NAMES = frozenset((_PLACED + _PLAIN + _SIZES).split())
"""Options known here: tensors that `remat_policy=custom` places, plain ones, sizes of a model."""
# MaxText projects queries, keys and values apart; its own policies treat the three alike.
SPLIT_NAMES = {"qkv_proj": ("query_proj", "key_proj", "value_proj")}
TE_ATTENTION = "cudnn_flash_te"
ENVIRONMENT = {"NVTE_FUSED_ATTN": "1"}
ALWAYS = {
    "hardware": "gpu_multiprocess",
    "dataset_type": "synthetic",
    "dataset_path": "local",
    "enable_checkpointing": "false",
    "enable_goodput_recording": "false",
    "monitor_goodput": "false",
    "enable_checkpoint_cloud_logger": "false",
    "reuse_example_batch": "1",
    "attention": TE_ATTENTION,
}


@dataclass(frozen=True)
class MaxTextRun:
    """A command, and the variables it needs beside the inherited ones."""

    command: tuple[str, ...]
    environment: Mapping[str, str]

    def shell(self) -> str:
        """What a user can paste: variables first, one option a line."""
        lines = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        # nsys replaces %q{NAME} itself, and no shell touches it inside quotes.
        return " \\\n  ".join([*lines, *(shlex.quote(word) for word in self.command)])


def maxtext_run(config: Config, arm: Arm, nsys_path: Path | None, folder: Path) -> MaxTextRun:
    """MaxText training the configuration's model as the arm says, recorded with nsys if given.

    Raises `RefusedError` for an arm that needs a program of our own, and for a configuration
    without [maxtext].
    """
    command = ["python3", "-m", MODULE, BASE]
    command += maxtext_options(config, arm, folder, recorded=nsys_path is not None)
    if nsys_path is not None:
        command = nsys.profile_command(nsys_path, folder / "rank%q{SLURM_PROCID}", command)
    environment = {**ENVIRONMENT, **config.environment, "XLA_FLAGS": xla_flags(arm)}
    return MaxTextRun(tuple(command), environment)


def maxtext_options(config: Config, arm: Arm, folder: Path, *, recorded: bool) -> list[str]:
    """`NAME=VALUE` as MaxText takes them. Raises `RefusedError` as `maxtext_run` does."""
    options = _options(config, arm, folder, recorded=recorded)
    return [f"{name}={value}" for name, value in options.items()]


def xla_flags(arm: Arm) -> str:
    """The arm's options as XLA_FLAGS; MaxText gives none of its own on a GPU."""
    flags = [f"--{name}={value}" for name, value in arm.options.items()]
    # XLA's own rematerialisation would blur what the arm keeps.
    return " ".join([*flags, "--xla_disable_hlo_passes=rematerialization"])


def _options(config: Config, arm: Arm, folder: Path, *, recorded: bool) -> dict[str, str]:
    if not config.maxtext:
        raise RefusedError(
            f"{config.name}: has no MaxText model.",
            "Give [maxtext] with model_name, or with other options to take the sizes of [model].",
        )
    _check_arm(arm)
    recording, training = config.recording, config.training
    options = {
        "run_name": f"{config.name}-{arm.name}",
        "base_output_directory": str(folder),
        **ALWAYS,
        "dtype": training.compute_dtype,
        "max_target_length": str(training.sequence),
        "per_device_batch_size": str(training.batch_per_device),
        "steps": str(recording.warm_up + 2 * recording.timed + recording.traced),
        **({} if "model_name" in config.maxtext else model_sizes(config.model)),
        **{name: _text(value) for name, value in config.maxtext.items()},
        "scan_layers": "true" if arm.scan else "false",
        **remat_options(config, arm),
    }
    if arm.optimizer_on_host:
        options["optimizer_memory_host_offload"] = "true"
    if arm.parameters_on_host:
        options |= {"parameter_memory_host_offload": "true", "param_scan_axis": "0"}
    if recorded:
        options |= {
            "profiler": "nsys",
            "skip_first_n_steps_for_profiler": str(recording.warm_up + 2 * recording.timed),
            "profiler_steps": str(recording.traced),
            # Else only process 0 opens the window, and the other ranks record nothing.
            "upload_all_profiler_results": "true",
        }
    unknown = sorted(set(options) - OPTION_NAMES)
    if unknown:
        raise RefusedError(
            f"{config.name}: [maxtext] has {unknown[0]}, which is no option known here.",
            "Check the name against MaxText's configs/base.yml.",
        )
    return options


def model_sizes(model: ModelConfig) -> dict[str, str]:
    """[model] as MaxText's options; the sparse one with the capacity that its experts have here."""
    sizes: dict[str, Any] = {
        "base_emb_dim": model.width,
        "base_num_query_heads": model.heads,
        "base_num_kv_heads": model.kv_heads or model.heads,
        "base_mlp_dim": model.mlp_width,
        "base_num_decoder_layers": model.layers,
        "vocab_size": model.vocabulary,
        "rope_max_timescale": int(model.rope_theta),
    }
    if model.kind == "dense":
        sizes["head_dim"] = model.head_width
    else:
        sizes |= {
            "decoder_block": "deepseek",
            "attention_type": "mla",
            "q_lora_rank": model.q_rank,
            "kv_lora_rank": model.kv_rank,
            "qk_nope_head_dim": model.nope_width,
            "qk_rope_head_dim": model.rope_width,
            "v_head_dim": model.value_width,
            "first_num_dense_layers": model.dense_layers,
            "num_experts": model.experts,
            "num_experts_per_tok": model.experts_per_token,
            "shared_experts": model.shared_experts,
            "base_moe_mlp_dim": model.expert_width,
            "capacity_factor": model.capacity_factor,
            # Its kernels for sparse products are for TPUs.
            "sparse_matmul": False,
            "megablox": False,
        }
    return {name: _text(value) for name, value in sizes.items()}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def remat_options(config: Config, arm: Arm) -> dict[str, str]:
    """The remat policy, and with `custom` the place of each named tensor."""
    if arm.keeps == "none":
        return {"remat_policy": "full"}
    if arm.keeps == "all":
        # MaxText always wraps its layers; this policy saves every product and the attention.
        return {"remat_policy": "minimal_with_context"}
    leaves = "offload" if arm.offloads else "device"
    words = {"host": leaves, "device": "device", "": "remat"}
    offload, layers = arm.offload_of(config), range(config.model.layers)
    options = {"remat_policy": "custom"}
    for name in offload.names:
        if not nameable(config, name):
            raise RefusedError(
                f"{arm.name}: MaxText names {name} with attention={TE_ATTENTION} only.",
                "Leave the tensor out.",
            )
        places = {offload.place(name, layer) for layer in layers}
        if len(places) > 1:
            raise RefusedError(
                f"{arm.name}: {name} is not in one place in all layers, and MaxText's policies are "
                "the same for all.",
                "Name all layers for it, or none.",
            )
        options |= dict.fromkeys(maxtext_names([name]), words[places.pop()])
    return options


def nameable(config: Config, name: str) -> bool:
    """Whether keeping a tensor spares MaxText what it spares here.

    The output of attention is named together with what its backward pass needs in Transformer
    Engine's kernel alone.
    """
    attention = config.maxtext.get("attention", ALWAYS["attention"])
    return name != "context" or attention == TE_ATTENTION


def maxtext_names(names: Sequence[str]) -> list[str]:
    """Our tensor names as MaxText's unfused projections have them."""
    return [new for name in names for new in SPLIT_NAMES.get(name, (name,))]


def _check_arm(arm: Arm) -> None:
    own = arm.keeps == "prefetch" or arm.barrier or arm.feed
    if own or arm.profile_from:
        reason = "builds on our own recording" if arm.profile_from else "is a program of our own"
        raise RefusedError(
            f"Arm {arm.name} {reason}; MaxText has no option for it.",
            "Run it with `python -m capture run`.",
        )
