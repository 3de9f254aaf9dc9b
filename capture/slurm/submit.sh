#!/usr/bin/env bash
# Submits arms to Slurm on GB200 nodes of four GPUs.
#
#   submit.sh [--dry-run] NODES CONFIG OUT ARM...
#
# NODES 1 to 32. Up to 18 nodes fit into one NVLink domain and are asked for as one segment; more
# are asked for in segments of 16. Further sbatch options: SBATCH_EXTRA="--account=... --time=...".
set -euo pipefail

dry_run=
if [[ ${1:-} == --dry-run ]]; then
    dry_run=1
    shift
fi
if (($# < 4)) || [[ ! $1 =~ ^[0-9]+$ ]]; then
    sed -n 's/^# \{0,1\}//; 3,7p' "$0" >&2
    exit 2
fi
nodes=$1 config=$2 out=$3
shift 3
if ((nodes < 1 || nodes > 32)) || ((nodes > 18 && nodes % 16)); then
    echo "NODES is 1 to 18, or 32: $nodes does not split into equal NVLink domains." >&2
    exit 2
fi
segment=$((nodes > 18 ? 16 : nodes))
scripts=$(cd "$(dirname "$0")" && pwd)
read -ra extra <<<"${SBATCH_EXTRA:-}"

export CAPTURE_CONFIG=$config CAPTURE_OUT=$out CAPTURE_ARMS="$*" CAPTURE_SCRIPTS=$scripts
command=(sbatch --nodes="$nodes" --segment="$segment" --export=ALL "${extra[@]}"
    "$scripts/arms.sbatch")
printf '%q ' "${command[@]}"
echo
if [[ -n $dry_run ]]; then
    CAPTURE_DRY_RUN=1 SLURM_JOB_NUM_NODES=$nodes bash "$scripts/arms.sbatch"
else
    "${command[@]}"
fi
