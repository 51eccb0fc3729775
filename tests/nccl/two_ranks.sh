#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/gpu/two_ranks.c, unmodified, on the host runtime: compiled against the wheel's nccl.h and linked with libcudart
# and libnccl like a program for a GPU. Exit status 77 and the reason where the wheel is not in the cache.
# usage: tests/nccl/two_ranks.sh BUILD [VERSION] [SIZE_MAX_BYTES]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:?usage: tests/nccl/two_ranks.sh BUILD [VERSION] [SIZE_MAX_BYTES]}" && pwd)
nccl=$("$here/../../scripts/nccl_wheels.sh" --cached "${2:-cu12-2.28.9}") || exit $?
bytes=${3:-4194304}

. "$here/../../scripts/rank_processes.sh"
gcc -std=gnu17 -O2 -Wall -Wextra -Werror -isystem "$here/include" -isystem "$nccl/include" "$here/../gpu/two_ranks.c" \
    -o "$work/two_ranks" -L"$build/tests/nccl" -lcudart "$nccl/libnccl.so.2"
# The settings of tests/gpu/run.sh, and rings.
export NCCL_NET_PLUGIN=detour NCCL_NET=Detour NCCL_MNNVL_ENABLE=0 NCCL_NVLS_ENABLE=0 NCCL_SOCKET_IFNAME=lo NCCL_MAX_CTAS=4
export NCCL_ALGO=Ring DETOUR_VERBS=soft DETOUR_SOCKET_IFNAME==lo DETOUR_RUNTIME_DIR="$work"
export LD_LIBRARY_PATH="$build/tests/nccl:$build/lib:$nccl"
for rank in 0 1; do
    NCCL_HOSTID=detour-$rank "$work/two_ranks" "$rank" "$work/id" "$bytes" >"$work/out.$rank" 2>&1 &
    pids+=($!)
done
status=0
wait_for_ranks || status=$?
cat "$work"/out.?
exit "$status"
