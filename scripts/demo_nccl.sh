#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The end of `make demo`: stock NCCL (NVIDIA's libnccl.so.2, unmodified, on host memory; docs/nccl.md) with two ranks through
# Detour. In the middle of its all-reduces the cable of soft0 is pulled at both ends and put back; every element is checked.
# Prints the reason, and succeeds, where NCCL cannot be had. DETOUR_DEMO_NCCL=off leaves it out.
# usage: scripts/demo_nccl.sh BUILD
set -euo pipefail
build=$(cd "${1:?usage: scripts/demo_nccl.sh BUILD}" && pwd)
[ "${DETOUR_DEMO_NCCL:-on}" != off ] || exit 0

echo
if ! nccl=$("$(dirname "$0")/nccl_wheels.sh" 2>"$build/nccl.log"); then
    echo "Stock NCCL is left out: $(tail -1 "$build/nccl.log")"
    exit 0
fi
cmake --build "$build" -j "$(nproc)" --target nccl-rank >"$build/nccl.log" 2>&1 || { tail -20 "$build/nccl.log"; exit 1; }

. "$(dirname "$0")/rank_processes.sh"
export DETOUR_RUNTIME_DIR="$work" DETOUR_VERBS=soft DETOUR_SOCKET_IFNAME==lo DETOUR_STABLE_MS=100
export NCCL_NET=Detour NCCL_NET_PLUGIN=detour NCCL_SOCKET_IFNAME=lo NCCL_ALGO=Ring NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1
export NCCL_CUMEM_ENABLE=0 NCCL_NVLS_ENABLE=0 NCCL_RAS_ENABLE=0 NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=NET
export LD_LIBRARY_PATH="$build/tests/nccl:$build/lib"

# CAUSE ACTION: waits until rank 0 has printed the mark, then acts on the RNICs of both ranks.
at_mark() {
    until grep -q "^mark $1\$" "$work/out.0" 2>/dev/null; do
        kill -0 "${pids[0]}" 2>/dev/null || return 0
        sleep 0.02
    done
    echo "+ detour nic soft0 $1"
    "$build/bin/detour" nic soft0 "$1" >/dev/null
}

echo "Stock NCCL without a GPU: two ranks of $(basename "$nccl"), all-reduces of 1 MB, and the cable of soft0 again."
for rank in 0 1; do
    NCCL_HOSTID=demo-$rank "$build/tests/nccl/nccl-rank" "$rank" 2 "$work/id" "$nccl/libnccl.so.2" all_reduce:1048576:40 \
        mark:down all_reduce:1048576:100 mark:up all_reduce:1048576:60 sleep:200 all_reduce:1048576:20 >"$work/out.$rank" 2>&1 &
    pids+=($!)
done
at_mark down
at_mark up
wait_for_ranks || { status=$?; cat "$work"/out.?; exit "$status"; }
grep -hoE 'is (settled|fenced): [^;]*|is in use again' "$work/out.0" | sort | uniq -c |
    sed -E 's/^ *([0-9]+) (.*)/  Detour at rank 0, \1 times: a path \2/' || true
sed -nE 's/^rank 0: all_reduce ([0-9]+) type 7 op 0 x ([0-9]+): .*(slowest [0-9.]+ ms), ([0-9]+ wrong)$/  \2 all-reduces of \1 bytes: \3, \4/p' "$work/out.0"
