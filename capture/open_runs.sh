#!/usr/bin/env bash
# Runs all arms of the experiment that docs/validation.md names as not run, on one machine.
#
#   open_runs.sh [--dry-run] OUT [GPUS]
#
# GPUS 1 or 2 (default 1). With two the sparse model runs beside the dense one, then both run over
# both GPUs. What has a result in OUT is not run again: call it again after an interruption. A group
# ends after CAPTURE_GROUP_SECONDS (default 1500). MAXTEXT_PYTHON names a Python that has MaxText.
set -euo pipefail

dry_run=
if [[ ${1:-} == --dry-run ]]; then
    dry_run=1
    shift
fi
if (($# < 1 || $# > 2)) || [[ ! ${2:-1} =~ ^[12]$ ]]; then
    sed -n 's/^# \{0,1\}//; 3,8p' "$0" >&2
    exit 2
fi
out=$1 gpus=${2:-1} seconds=${CAPTURE_GROUP_SECONDS:-1500} python=${PYTHON:-python3}
failed=0

# capture GPU COMMAND...: one command on some GPUs; a group that fails stops no other.
capture() {
    local visible=$1
    shift
    local command=("$python" -m capture "$@")
    printf 'CUDA_VISIBLE_DEVICES=%s %s\n' "$visible" "${command[*]}"
    [[ -n $dry_run ]] || CUDA_VISIBLE_DEVICES=$visible "${command[@]}" || failed=1
}

dense() {
    capture "$1" matrix --config h200-dense --budget-s "$seconds" --out "$out/dense" \
        --arms parameters-scan,save-scan,offload,pressure-12,pressure-10,pressure-8
    capture "$1" matrix --config h200-dense --find-batch --no-trace --budget-s "$seconds" \
        --out "$out/dense-batch"
}
sparse() {
    capture "$1" matrix --config h200-moe --budget-s "$seconds" --out "$out/moe" \
        --arms parameters-scan,save-scan,offload,pressure-14,pressure-11
    capture "$1" matrix --config h200-moe --find-batch --no-trace --budget-s "$seconds" \
        --out "$out/moe-batch"
}
maxtext() {
    [[ -n ${MAXTEXT_PYTHON:-} ]] || return 0
    capture "$1" maxtext --config "$2" --python "$MAXTEXT_PYTHON" --budget-s "$seconds" \
        --out "$out/maxtext-$2"
}

if ((gpus == 1)); then
    # What the published claim needs comes first: the search takes about three minutes an arm.
    maxtext 0 h200-dense
    dense 0
    sparse 0
    maxtext 0 h200-moe
else
    # A group of its own exit status each: what failed in one is not lost.
    (sparse 1; maxtext 1 h200-moe; exit $failed) &
    beside=$!
    dense 0
    maxtext 0 h200-dense
    wait "$beside" || failed=1
    capture 0,1 matrix --config h200-moe --devices 2 --batch 8 --budget-s "$seconds" \
        --arms keep,remat,save,save-tied,offload-control,lhs,published,prefetch --out "$out/moe-x2"
    capture 0,1 matrix --config h200-dense --devices 2 --batch 16 --budget-s "$seconds" \
        --arms remat,offload,published,published-graphs,feed,optimizer,offload-control-scan \
        --out "$out/dense-x2"
fi
exit $failed
