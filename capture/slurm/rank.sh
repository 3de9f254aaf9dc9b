#!/usr/bin/env bash
# One rank: binds to the CPU cores and memory next to its GPU, then becomes its command.
#
#   srun ... rank.sh COMMAND...
#
# NUMA_NODE overrides what is found. On Grace the memory of the GPUs is NUMA nodes too, and pinned
# memory cannot move later: without the binding it may end up behind the other CPU, or on a GPU.
set -euo pipefail

gpus_per_cpu=2
local_rank=${SLURM_LOCALID:?rank.sh runs under srun}
node=${NUMA_NODE:-}
if [[ -z $node ]]; then
    bus=$(nvidia-smi --id="$local_rank" --query-gpu=pci.bus_id --format=csv,noheader | tr A-F a-f)
    # nvidia-smi writes the PCI domain with eight digits, the kernel with four.
    node=$(cat "${SYSFS:-/sys}/bus/pci/devices/${bus:4}/numa_node" 2>/dev/null || echo -1)
fi
if ((node < 0)); then
    # Containers and virtual machines often hide it.
    node=$((local_rank / gpus_per_cpu))
fi
echo "rank ${SLURM_PROCID:-?}: GPU $local_rank, NUMA node $node" >&2
exec numactl --cpunodebind="$node" --membind="$node" "$@"
