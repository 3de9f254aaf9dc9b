"""The arms of the experiment, as data: what is kept where, XLA's options, and the control.

Every arm computes the same training step. `control` names the arm that saves the same tensors on
the device: its step time plus the exposed transfer time predicts this arm's step time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from .config import Config, OffloadConfig, check_offload
from .errors import RefusedError

SCHEDULER = "xla_gpu_enable_latency_hiding_scheduler"
ESTIMATOR = "xla_gpu_enable_analytical_sol_latency_estimator"
PIPELINED = "xla_gpu_enable_pipelined_host_offloading"
ASYNC_LIMIT = "xla_gpu_experimental_parallel_async_compute_limit"
COMMAND_BUFFER = "xla_gpu_enable_command_buffer"
SLOP = "xla_gpu_memory_limit_slop_factor"
PROFILE = "xla_gpu_pgle_profile_file_or_directory_path"

NO_GRAPHS = {COMMAND_BUFFER: ""}
HIDING = {**NO_GRAPHS, SCHEDULER: "true"}
# The scheduler is also on when the estimator supports the module, whatever its own flag says.
SCHEDULER_OFF = {**NO_GRAPHS, SCHEDULER: "false", ESTIMATOR: "false"}
THREE_FLAGS = {SCHEDULER: "true", PIPELINED: "true", ASYNC_LIMIT: "8"}


@dataclass(frozen=True)
class Arm:
    """One way to run the step.

    `keeps` says what the backward pass finds: all (every residual on the device), none (inputs
    of layers only), saved (the named tensors on the device), offloaded (on the host), or
    prefetch (the program issues the copies itself; on the host if `offloads`).
    `feed` sends each batch from the host while the step before still runs. `profile_from` names
    the arm whose trace supplies the latencies. With `waits` each step is awaited before the next.
    """

    name: str
    title: str
    keeps: str
    scan: bool = False
    offloads: bool = False
    options: Mapping[str, str] = field(default_factory=lambda: dict(HIDING))
    control: str | None = None
    barrier: bool = False
    optimizer_on_host: bool = False
    parameters_on_host: bool = False
    feed: bool = False
    profile_from: str | None = None
    offload: Mapping[str, Any] = field(default_factory=dict)
    """Fields of [offload] that are other than the configuration's."""
    waits: bool = False
    beside: bool = False
    """Whether the same program runs on a second GPU of the host meanwhile."""

    @property
    def expects_transfers(self) -> bool:
        """Whether a run without host transfers in its program is void."""
        return self.offloads or self.optimizer_on_host or self.parameters_on_host

    def offload_of(self, config: Config) -> OffloadConfig:
        """[offload] as this arm has it."""
        return replace(config.offload, **self.offload)


def _offload(name: str, title: str, options: Mapping[str, str] = HIDING, **more: object) -> Arm:
    arm = Arm(name, title, "offloaded", offloads=True, options=options, control="save")
    return replace(arm, **more)  # type: ignore[arg-type]


def _scan(name: str, title: str, options: Mapping[str, str] = HIDING, **more: object) -> Arm:
    return _offload(name, title, options, scan=True, control="save-scan", **more)


FIXED = (
    Arm("keep", "keep every activation", "all"),
    Arm("keep-scan", "keep every activation, scan", "all", scan=True),
    Arm("remat", "full rematerialisation", "none"),
    Arm("remat-scan", "full rematerialisation, scan", "none", scan=True),
    Arm("save", "save the named tensors on the device", "saved"),
    Arm("save-scan", "save the named tensors on the device, scan", "saved", scan=True),
    Arm("save-tied", "the prefetching program without its copies", "prefetch"),
    _offload("offload-control", "offload, scheduler truly off", SCHEDULER_OFF),
    _offload("offload", "offload, XLA's defaults", NO_GRAPHS),
    _offload("lhs", "offload + latency-hiding scheduler"),
    _offload("published", "offload + the three published flags", {**NO_GRAPHS, **THREE_FLAGS}),
    _offload("published-graphs", "the three flags, command buffers left on", THREE_FLAGS),
    _offload("feed", "offload + scheduler, batches fed from the host", feed=True),
    _offload("pgle", "offload + scheduler, latencies from our trace", profile_from="lhs"),
    Arm(
        "prefetch", "the program issues the reloads", "prefetch", offloads=True, control="save-tied"
    ),
    _scan("offload-control-scan", "offload, scheduler truly off, scan", SCHEDULER_OFF),
    _scan("lhs-scan", "offload + scheduler, scan"),
    _scan("published-scan", "the three published flags, scan", {**NO_GRAPHS, **THREE_FLAGS}),
    _scan("published-graphs-scan", "the three flags, command buffers on, scan", THREE_FLAGS),
    _scan("barrier-scan", "scheduler + barrier before the copy, scan", barrier=True),
    _scan("prefetch-scan", "the backward scan carries the reloads", keeps="prefetch"),
    Arm(
        "optimizer",
        "save + optimizer state on the host",
        "saved",
        optimizer_on_host=True,
        control="save",
    ),
    Arm(
        "parameters-scan",
        "save + layer parameters on the host, scan",
        "saved",
        scan=True,
        parameters_on_host=True,
        control="save-scan",
    ),
)


OWN_FIELDS = frozenset(("like", "title", "offload", "control", "waits", "options", "beside"))
"""What [arms.NAME] of a configuration may say."""


def all_arms(config: Config) -> tuple[Arm, ...]:
    """Every arm of a configuration, controls first; memory pressure once per slop factor."""
    return (*_built_in(config), *_own(config))


def _built_in(config: Config) -> tuple[Arm, ...]:
    pressure = (
        _offload(
            f"pressure-{factor}",
            f"offload + scheduler, memory limit {factor} %",
            {**HIDING, SLOP: str(factor)},
        )
        for factor in config.offload.slop_factors
    )
    return (*FIXED, *pressure)


def _own(config: Config) -> tuple[Arm, ...]:
    """The arms that the configuration itself describes, in its order."""
    known = {arm.name: arm for arm in _built_in(config)}
    for name, values in config.arms.items():
        known[name] = own_arm(config, known, name, values)
    return tuple(known[name] for name in config.arms)


def own_arm(config: Config, known: Mapping[str, Arm], name: str, values: Mapping[str, Any]) -> Arm:
    """An arm that is like a known one but for some fields. Raises `RefusedError`."""
    where = f"{config.name}: [arms.{name}]"
    wrong = sorted(set(values) - OWN_FIELDS)
    if wrong or values.get("like") not in known or not name.replace("-", "").isalnum():
        raise RefusedError(
            f"{where} has no known `like`, a field that is none, or no plain name.",
            f"Fields: {', '.join(sorted(OWN_FIELDS))}; names of letters and digits.",
        )
    arm = known[values["like"]]
    given = {
        k: tuple(v) if isinstance(v, list) else v for k, v in values.get("offload", {}).items()
    }
    unknown = sorted(set(given) - {entry.name for entry in fields(OffloadConfig)})
    if unknown or values.get("control", arm.name) not in known:
        raise RefusedError(f"{where}: {(unknown or [values['control']])[0]!r}?", "There is none.")
    fields_of = {**arm.offload, **given}
    check_offload(where, config.model, replace(config.offload, **fields_of))
    return replace(
        arm,
        name=name,
        title=values.get("title", f"{arm.title}, its own tensors"),
        offload=fields_of,
        control=values.get("control", arm.control if not given else None),
        waits=values.get("waits", arm.waits),
        beside=values.get("beside", arm.beside),
        options={**arm.options, **values.get("options", {})},
    )


def find_arm(config: Config, name: str) -> Arm:
    """The arm of that name. Raises `RefusedError` with the names there are."""
    for arm in all_arms(config):
        if arm.name == name:
            return arm
    names = ", ".join(arm.name for arm in all_arms(config))
    raise RefusedError(f"There is no arm {name!r}.", f"Choose from: {names}.")


def select_arms(config: Config, names: Iterable[str]) -> tuple[Arm, ...]:
    """The named arms in the order of the experiment, with the controls and profiles they need."""
    wanted = {find_arm(config, name).name for name in names}
    if not wanted:
        return all_arms(config)
    for name in list(wanted):
        arm = find_arm(config, name)
        wanted |= {needed for needed in (arm.control, arm.profile_from) if needed}
    wanted.add("keep")
    return tuple(arm for arm in all_arms(config) if arm.name in wanted)
