"""The Slurm scripts: they parse, shellcheck passes, and a dry run prints the right commands."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from capture.arms import find_arm
from capture.cli import slurm_ranks
from capture.config import load_config
from capture.errors import RefusedError

from .kit import ROOT, say

SCRIPTS = ROOT / "capture" / "slurm"
NAMES = sorted(path.name for path in SCRIPTS.iterdir())


def run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        command, env={**kept, **variables}, capture_output=True, text=True, check=False
    )


def test_the_scripts_are_there() -> None:
    assert NAMES == ["arms.sbatch", "rank.sh", "submit.sh"]


OPEN_RUNS = "../open_runs.sh"


@pytest.mark.parametrize("name", [*NAMES, OPEN_RUNS])
def test_bash_reads_them(name: str) -> None:
    done = run(["bash", "-n", str(SCRIPTS / name)])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", [*NAMES, OPEN_RUNS])
def test_shellcheck_finds_nothing(name: str) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("needs shellcheck")
    done = run(["shellcheck", str(SCRIPTS / name)])
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("gpus", ["1", "2"])
def test_the_open_runs_are_arms_that_exist(gpus: str) -> None:
    script, variables = str(SCRIPTS / OPEN_RUNS), {"MAXTEXT_PYTHON": "env/bin/python"}
    done = run([script, "--dry-run", "out", gpus], **variables)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == (8 if gpus == "2" else 6)
    assert sum("--find-batch" in line for line in lines) == 2
    assert sum(" maxtext " in line for line in lines) == 2
    folders = set()
    for line in lines:
        words = shlex.split(line)
        options = {w: after for w, after in itertools.pairwise(words) if w.startswith("--")}
        config = load_config(options["--config"])
        for arm in filter(None, options.get("--arms", "").split(",")):
            assert find_arm(config, arm).name == arm
        assert options["--budget-s"] == "1500"
        folders.add(options["--out"])
    assert len(folders) == len(lines), "no two groups write into one folder"


@pytest.mark.parametrize("given", [[], ["out", "3"], ["out", "1", "more"]])
def test_open_runs_say_how_they_are_called(given: list[str]) -> None:
    done = run([str(SCRIPTS / OPEN_RUNS), *given])
    assert done.returncode == 2
    assert done.stderr.startswith("\n  open_runs.sh [--dry-run] OUT [GPUS]")


def test_a_group_that_fails_stops_no_other(tmp_path: Path) -> None:
    """With a Python that always fails all groups are begun, and the script says so."""
    done = run([str(SCRIPTS / OPEN_RUNS), str(tmp_path), "2"], PYTHON="false")
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 6


def dry_run(*arguments: str, **variables: str) -> list[str]:
    """The commands that submit.sh and the job would run."""
    done = run([str(SCRIPTS / "submit.sh"), "--dry-run", *arguments], **variables)
    assert done.returncode == 0, done.stderr
    return [line.rstrip().replace(str(SCRIPTS), "SLURM") for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("nodes", "segment"), [(1, 1), (2, 2), (18, 18), (32, 16)])
def test_the_printed_commands(nodes: int, segment: int) -> None:
    printed = dry_run(str(nodes), "llama3.1-405b-gb200", "results", "save-scan", "lhs-scan")
    devices = 4 * nodes
    ranks = (
        f"srun --ntasks={devices} --ntasks-per-node=4 --gpu-bind=none --cpu-bind=none "
        "--kill-on-bad-exit=1 SLURM/rank.sh python3 -m capture run "
        f"--config llama3.1-405b-gb200 --devices {devices}"
    )
    rest = "--coordinator auto --trace --arm-timeout-s 1800 --out results"
    assert printed == [
        f"sbatch --nodes={nodes} --segment={segment} --export=ALL SLURM/arms.sbatch",
        f"python3 -m capture preflight --config llama3.1-405b-gb200 --devices {devices} "
        "--arms save-scan\\,lhs-scan",
        f"{ranks} --arm save-scan {rest}",
        f"{ranks} --arm lhs-scan {rest}",
        "python3 -m capture report results --reanalyze",
    ]


def test_names_with_spaces_and_site_options() -> None:
    printed = dry_run("1", "my config.toml", "out", "keep", SBATCH_EXTRA="--account=a --time=2:00")
    assert printed[0].endswith("--export=ALL --account=a --time=2:00 SLURM/arms.sbatch")
    assert "--config my\\ config.toml" in printed[2]


@pytest.mark.parametrize(
    "arguments", [[], ["1", "toy", "out"], ["many", "toy", "out", "keep"], ["0", "toy", "o", "k"]]
)
def test_wrong_use_is_explained(arguments: list[str]) -> None:
    done = run([str(SCRIPTS / "submit.sh"), *arguments])
    assert done.returncode == 2
    assert "NODES" in done.stderr


def test_a_job_that_cannot_be_split_into_equal_domains() -> None:
    done = run([str(SCRIPTS / "submit.sh"), "20", "toy", "out", "keep"])
    assert done.returncode == 2
    assert "20 does not split into equal NVLink domains" in done.stderr


def stand_ins(folder: Path) -> str:
    """A PATH whose numactl prints and whose nvidia-smi knows four GPUs."""
    for name, text in (
        ("numactl", 'echo "$@"'),
        ("nvidia-smi", 'echo "0000000$((${1#--id=} + 1)):0A:00.0"'),
    ):
        path = folder / name
        path.write_text(f"#!/usr/bin/env bash\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.parametrize(("rank", "node"), [(0, 7), (1, 0), (2, 1), (3, 1)])
def test_a_rank_is_bound_next_to_its_gpu(tmp_path: Path, rank: int, node: int) -> None:
    # The kernel knows about GPU 0, hides GPU 1, and has nothing of the others.
    for bus, known in (("0001:0a:00.0", "7"), ("0002:0a:00.0", "-1")):
        device = tmp_path / "sys" / "bus" / "pci" / "devices" / bus
        device.mkdir(parents=True)
        (device / "numa_node").write_text(f"{known}\n", encoding="utf-8")
    done = run(
        [str(SCRIPTS / "rank.sh"), "train", "--fast"],
        PATH=stand_ins(tmp_path),
        SLURM_LOCALID=str(rank),
        SYSFS=str(tmp_path / "sys"),
    )
    assert done.stdout == f"--cpunodebind={node} --membind={node} train --fast\n"


def test_the_node_can_be_given(tmp_path: Path) -> None:
    done = run(
        [str(SCRIPTS / "rank.sh"), "x"],
        PATH=stand_ins(tmp_path),
        SLURM_LOCALID="3",
        NUMA_NODE="0",
    )
    assert done.stdout == "--cpunodebind=0 --membind=0 x\n"


def test_ranks_are_read_from_slurm() -> None:
    assert slurm_ranks({"SLURM_NTASKS": "128", "SLURM_PROCID": "127"}) == (128, 127)
    with pytest.raises(RefusedError, match="SLURM_NTASKS and SLURM_PROCID are not set"):
        slurm_ranks({"SLURM_NTASKS": "4"})


def test_auto_outside_of_slurm(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SLURM_PROCID", raising=False)
    command = ["run", "--config", "toy", "--arm", "keep", "--no-trace", "--out", tmp_path]
    said = say(capsys, monkeypatch, *command, "--coordinator", "auto")
    assert said.status == 2
    assert "Start the ranks with srun" in said.err
