"""The commands that need no GPU: `preflight`, and `maxtext --dry-run`."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from nsysoverlap.core.formatting import number_of
from nsysoverlap.trace.nsys_export import find_nsys

from .arms import select_arms
from .config import Config, load_config
from .errors import RefusedError
from .launch import launch
from .results import read_manifest
from .spec import Spec

PREFLIGHT_COLUMNS = ("arm", "D2H GB", "H2D GB", "host GB", "state GiB", "copies", "verdict")
CONFIG_OPTION = click.option("--config", "config_name", required=True, metavar="NAME|FILE")


@click.command()
@CONFIG_OPTION
@click.option("--arms", default="", metavar="A,B,...", help="Only these. Default: all.")
@click.option("--devices", type=click.IntRange(1), metavar="N", help="Devices in the FSDP mesh.")
@click.option("--timeout-s", default=1800.0, show_default=True)
def preflight(config_name: str, arms: str, devices: int | None, timeout_s: float) -> None:
    """Check every arm without a GPU: options, tensor names, bytes to the host, host memory.

    Sizes are those of one device and step. Exit status 1 where something speaks against an arm.
    """
    config = load_config(config_name)
    if devices is not None:
        config = replace(config, training=replace(config.training, fsdp=devices))
    wanted = [name for name in arms.split(",") if name]
    # The controls that `matrix` adds are of no interest here.
    chosen = [arm.name for arm in select_arms(config, wanted) if not wanted or arm.name in wanted]
    found = _examine(config, chosen, timeout_s)
    click.echo(preflight_table(found["arms"]))
    click.echo(
        f"\n{number_of(found['devices'], 'device')}; nsys: {'found' if find_nsys() else 'none'}"
    )
    if any(entry["problem"] for entry in found["arms"]):
        raise SystemExit(1)


def _examine(config: Config, arms: list[str], timeout_s: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        spec = Spec(config=config, arm=arms[0], arms=tuple(arms), folder=folder, mode="preflight")
        outcome = launch(spec, None, timeout_s)
        if outcome.status != "ok":
            missing = "ModuleNotFoundError" in outcome.reason
            hint = "Run: pip install -e '.[capture]'" if missing else ""
            raise RefusedError(f"{config.name}: {outcome.reason}", hint)
        return read_manifest(Path(folder)) or {}


def preflight_table(entries: list[dict[str, Any]]) -> str:
    """One Markdown line an arm."""
    lines = [list(PREFLIGHT_COLUMNS), ["---"] + ["---:"] * 5 + ["---"]]
    for entry in entries:
        sizes = [f"{entry[key]:.3g}" for key in ("d2h_gb", "h2d_gb", "host_gb", "state_gib")]
        verdict = f"**no**: {entry['problem']}" if entry["problem"] else "ok"
        lines.append([entry["arm"], *sizes, str(entry["d2h_copies"]), verdict])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
