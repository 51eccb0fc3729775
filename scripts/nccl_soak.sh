#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What CI has no time for: stock NCCL with 4 and 8 ranks, all sizes up to 64 MiB, and alternating failures of RNICs for
# thousands of operations; with --asan everything with the plugin and the ranks under ASan and UBSan.
# usage: scripts/nccl_soak.sh [--asan] [VERSION]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=release build=build
if [ "${1:-}" = --asan ]; then
    preset=asan build=build-asan
    shift
fi
version=${1:-cu12-2.28.9}
scripts/nccl_wheels.sh "$version" >/dev/null
cmake --preset "$preset" >/dev/null
cmake --build "$build" -j "$(nproc)" --target detour nccl-net-detour nccl-rank nccl-net-gpu-double fake_cuda >/dev/null
# NCCL itself keeps some memory until the process ends.
export ASAN_OPTIONS=detect_leaks=0 DETOUR_NCCL_LIMIT_S=${DETOUR_NCCL_LIMIT_S:-900}
python3 tests/nccl/cases.py "$build" "$version" Many
