"""Configurations: model, training, what is offloaded, how it is recorded; read from TOML."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import RefusedError

PRESETS = Path(__file__).parent / "presets"

DENSE_NAMES = (
    "decoder_layer_input",
    "qkv_proj",
    "context",
    "out_proj",
    "mlpwi_0",
    "mlpwi_1",
    "mlpwo",
)
MLA_NAMES = (
    "decoder_layer_input",
    "query_wa_proj",
    "mla_q",
    "query_proj",
    "kv_wa_proj",
    "mla_kv",
    "key_proj",
    "value_proj",
    "context",
    "out_proj",
)
MOE_NAMES = ("moe_mlpwi_0", "moe_mlpwi_1", "moe_mlpwo")
MLP_NAMES = ("mlpwi_0", "mlpwi_1", "mlpwo")


@dataclass(frozen=True)
class ModelConfig:
    """Shape of a decoder. `kind`: dense (Llama) or moe (DeepSeek: MLA and routed experts).

    Widths are numbers of features. The fields after `rope_theta` belong to `moe`; `dense_layers`
    of its layers come first and have a plain MLP of `mlp_width`.
    """

    kind: str
    layers: int
    width: int
    heads: int
    mlp_width: int
    vocabulary: int
    head_width: int = 128
    kv_heads: int = 0
    rope_theta: float = 500_000.0
    dense_layers: int = 0
    q_rank: int = 0
    kv_rank: int = 0
    nope_width: int = 0
    rope_width: int = 0
    value_width: int = 0
    experts: int = 0
    experts_per_token: int = 0
    shared_experts: int = 0
    expert_width: int = 0
    capacity_factor: float = 1.25

    @property
    def names(self) -> tuple[str, ...]:
        """Tensors of a layer that can be saved or offloaded, under MaxText's names."""
        if self.kind == "dense":
            return DENSE_NAMES
        return MLA_NAMES + MLP_NAMES + MOE_NAMES


@dataclass(frozen=True)
class TrainingConfig:
    """One training step. `fsdp` 0 means all devices there are; dtypes are numpy names."""

    sequence: int
    batch_per_device: int
    fsdp: int = 0
    compute_dtype: str = "bfloat16"
    parameter_dtype: str = "bfloat16"
    learning_rate: float = 1e-4
    loss_steps: int = 4
    loss_rtol: float = 5e-3
    """Largest relative difference of an arm's first `loss_steps` losses from those of `keep`."""
    drift_rtol: float = 0.2
    """The same for later steps, to which rounding has spread."""
    seed: int = 0


@dataclass(frozen=True)
class OffloadConfig:
    """What is offloaded, and how the prefetching arms cut it.

    A tensor of `names` leaves in every layer, unless `host` or `device` names layers for it
    ("0-9" or "0-3,7"): it leaves in those of `host`, stays on the device in those of `device`,
    and is computed again in all others. `piece_mib`: XLA assumes 5 ms for a copy of any size, so
    a piece should take about that long on the link of the machine. `ahead`: layers by which a
    reload may precede its use. `copies` and `cast` are for tests of predictions: every copy is
    made that often, and tensors leave in another dtype.
    """

    names: tuple[str, ...]
    piece_mib: int = 250
    ahead: int = 2
    slop_factors: tuple[int, ...] = (40, 25, 15)
    host: Mapping[str, str] = field(default_factory=dict)
    device: Mapping[str, str] = field(default_factory=dict)
    copies: int = 1
    cast: str = ""

    def place(self, name: str, layer: int) -> str:
        """Where the backward pass finds a tensor: "host", "device", or "" to compute it again."""
        if name not in self.names:
            return ""
        if name not in self.host and name not in self.device:
            return "host"
        if layer in layers_of(self.host.get(name, "")):
            return "host"
        return "device" if layer in layers_of(self.device.get(name, "")) else ""


@dataclass(frozen=True)
class RecordingConfig:
    """Steps: `warm_up` not measured, `timed` without the profiler, `traced` with it."""

    trace: bool = True
    warm_up: int = 3
    timed: int = 4
    traced: int = 4


@dataclass(frozen=True)
class Config:
    """Everything about an experiment that is not an arm."""

    name: str
    model: ModelConfig
    training: TrainingConfig
    offload: OffloadConfig
    recording: RecordingConfig = field(default_factory=RecordingConfig)
    environment: Mapping[str, str] = field(default_factory=dict)
    arms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Arms of the user by name: `like` another one, and what of [offload] is different."""
    maxtext: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the published run that only `capture maxtext` uses."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, which `config_from` reads back."""
        return dataclasses.asdict(self)


def layers_of(text: str) -> frozenset[int]:
    """Layers named as "0-9" or "0-3,7", both ends included. Raises `RefusedError`."""
    found: set[int] = set()
    for part in filter(None, text.replace(" ", "").split(",")):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise RefusedError(f"{text!r} names no layers.", 'Such as "0-9" or "0-3,7".')
        found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)


def layer_text(layers: Iterable[int]) -> str:
    """What `layers_of` reads back."""
    runs: list[list[int]] = []
    for layer in sorted(layers):
        if runs and layer == runs[-1][1] + 1:
            runs[-1][1] = layer
        else:
            runs.append([layer, layer])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def preset_names() -> list[str]:
    """Names of the configurations that come with the package."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def load_config(name_or_path: str) -> Config:
    """A preset by name, or a TOML file by path. Raises `RefusedError` naming what is wrong."""
    path = Path(name_or_path)
    if path.suffix != ".toml":
        path = PRESETS / f"{name_or_path}.toml"
    if not path.is_file():
        raise RefusedError(
            f"{Path(name_or_path).name}: no such configuration.",
            f"Give a .toml file or one of: {', '.join(preset_names())}.",
        )
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise RefusedError(f"{path.name}: no TOML ({error}).", "Correct the file.") from None
    return config_from({"name": path.stem, **values})


def config_from(values: Mapping[str, Any]) -> Config:
    """A checked `Config` from nested plain data."""
    sections = {
        "model": ModelConfig,
        "training": TrainingConfig,
        "offload": OffloadConfig,
        "recording": RecordingConfig,
    }
    name = str(values.get("name", "config"))
    parts: dict[str, Any] = {"name": name}
    for key, value in values.items():
        if key != "name" and not isinstance(value, Mapping):
            raise RefusedError(f"{name}: {key} is no section.", f"Write [{key}] and its fields.")
        if key in sections:
            parts[key] = _section(name, key, sections[key], value)
        elif key in ("environment", "maxtext", "arms"):
            parts[key] = dict(value)
        elif key != "name":
            raise RefusedError(
                f"{name}: unknown section [{key}].", f"Known: {', '.join(sections)}."
            )
    missing = [key for key in ("model", "training", "offload") if key not in parts]
    if missing:
        raise RefusedError(f"{name}: section [{missing[0]}] is missing.", "Compare with a preset.")
    config = Config(**parts)
    _check(config)
    return config


def _section(name: str, key: str, kind: type[Any], values: Mapping[str, Any]) -> Any:
    known = {entry.name for entry in dataclasses.fields(kind)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise RefusedError(
            f"{name}: [{key}] has no field {unknown[0]!r}.", f"Known: {', '.join(sorted(known))}."
        )
    try:
        return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
    except TypeError as error:
        raise RefusedError(f"{name}: [{key}] is incomplete ({error}).", "Add the field.") from None


def _check(config: Config) -> None:
    model = config.model
    if model.kind not in ("dense", "moe"):
        raise RefusedError(f"{config.name}: model kind {model.kind!r}.", "Use dense or moe.")
    if model.kind == "dense" and (not model.kv_heads or model.heads % model.kv_heads):
        raise RefusedError(
            f"{config.name}: {model.heads} heads cannot share {model.kv_heads} key-value heads.",
            "Make heads a multiple of kv_heads.",
        )
    check_offload(config.name, model, config.offload)


def check_offload(where: str, model: ModelConfig, offload: OffloadConfig) -> None:
    """Raise `RefusedError` for tensors or layers that the model does not have."""
    for name in offload.names:
        if name not in model.names:
            raise RefusedError(
                f"{where}: a {model.kind} layer has no tensor named {name!r}.",
                f"Choose from: {', '.join(model.names)}.",
            )
    if not offload.names:
        raise RefusedError(f"{where}: nothing to offload.", "Name a tensor in [offload].")
    if offload.copies < 1 or offload.ahead < 1 or offload.piece_mib < 1:
        raise RefusedError(f"{where}: [offload] has a number below 1.", "Give at least 1.")
    for name in (*offload.host, *offload.device):
        both = layers_of(offload.host.get(name, "")), layers_of(offload.device.get(name, ""))
        if name not in offload.names:
            raise RefusedError(f"{where}: layers for {name!r}, which is not in names.", "Add it.")
        if both[0] & both[1] or max(both[0] | both[1], default=0) >= model.layers:
            raise RefusedError(
                f"{where}: {name} is to be in two places, or in a layer that is not there.",
                f"Layers count from 0 to {model.layers - 1}; host and device share none.",
            )
