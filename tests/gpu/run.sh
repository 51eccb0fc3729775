#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Stock NCCL with two ranks on one GPU, through the plugin and the software RNIC: all-reduce and send/receive, every
# element checked, by a small C program and, where it is installed, by torch.distributed. Prints the versions and NCCL's
# lines about the plugin. Exit code 77, and why, where there is no GPU, no CUDA toolkit or no NCCL.
# usage: tests/gpu/run.sh [BUILD]     CUDA_HOME: the toolkit (/usr/local/cuda); PYTHON: one with torch (python3)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)
cuda=${CUDA_HOME:-/usr/local/cuda}
python=${PYTHON:-python3}

skip() { echo "gpu: skipped: $*"; exit 77; }
fail() { echo "gpu: $*" >&2; exit 1; }

[ -e "$build/lib/libnccl-net-detour.so" ] || fail "$build/lib/libnccl-net-detour.so is missing: build first"
for include in "$cuda/include" /usr/local/include /usr/include; do
    [ -n "${cuda_h:-}" ] || { [ -e "$include/cuda_runtime.h" ] && cuda_h=$include; } || true
    [ -n "${nccl_h:-}" ] || { [ -e "$include/nccl.h" ] && nccl_h=$include; } || true
done
[ -n "${cuda_h:-}" ] || skip "no cuda_runtime.h under $cuda or /usr; CUDA_HOME names the toolkit"
[ -n "${nccl_h:-}" ] || skip "no nccl.h"

. "$here/../../scripts/rank_processes.sh"
gcc -std=gnu17 -O2 -Wall -Wextra -Werror -isystem "$cuda_h" -isystem "$nccl_h" "$here/two_ranks.c" -o "$work/two_ranks" \
    -L"$cuda/lib64" -L"$cuda/lib" -lcudart -lnccl "-Wl,-rpath,$cuda/lib64:$cuda/lib" || fail "two_ranks.c does not build"
command -v nvidia-smi >/dev/null || skip "no GPU: nvidia-smi is not installed"
nvidia-smi -L >"$work/gpus" 2>&1 || skip "no GPU: $(head -1 "$work/gpus")"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader

# Different host ids make NCCL take the network between two processes of one host, also for one GPU.
export NCCL_NET_PLUGIN=detour NCCL_NET=Detour NCCL_MNNVL_ENABLE=0 NCCL_NVLS_ENABLE=0 NCCL_SOCKET_IFNAME=lo NCCL_MAX_CTAS=4
export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET DETOUR_VERBS=soft LD_LIBRARY_PATH="$build/lib:${LD_LIBRARY_PATH:-}"

# NAME COMMAND...: both ranks, with RANK as the first argument and a fresh file as the second.
both_ranks() {
    local name=$1 rank status=0
    shift
    pids=()
    for rank in 0 1; do
        NCCL_HOSTID=detour-$rank timeout 300 "$@" "$rank" "$work/$name.id" >"$work/$name.$rank" 2>&1 &
        pids+=($!)
    done
    wait_for_ranks || status=$?
    grep -hE '^rank ' "$work/$name".? || true
    grep -hE 'NET/Plugin|NET/Detour|Initialized NET plugin|Assigned NET plugin' "$work/$name.0" | head -8 || true
    [ "$status" -eq 0 ] || { tail -20 "$work/$name".?; fail "$name failed ($status)"; }
    grep -qE 'via NET/Detour|Initialized NET plugin Detour|Using network Detour' "$work/$name".? ||
        fail "$name: NCCL has not used the plugin"
}

both_ranks nccl "$work/two_ranks"
if "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    both_ranks torch "$python" "$here/two_ranks_torch.py"
else
    echo "gpu: $python has no torch with CUDA: torch.distributed was not tried"
fi
echo "gpu: all right, $(date +%F)"
