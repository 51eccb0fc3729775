#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job, for `make demo`: two processes with two software RNICs each run a ring all-reduce from 8 B to
# 64 MiB through libnccl-net-detour.so, as NCCL would, and every byte is checked. No hardware is touched.
# usage: scripts/demo.sh BUILD
set -euo pipefail
build=${1:?usage: scripts/demo.sh BUILD}

[ -x "$build/bin/detour" ] || { echo "demo: $build/bin/detour is missing; build first: make" >&2; exit 1; }
export DETOUR_VERBS=soft DETOUR_SOFT_DEVICES=2
set -x
exec "$build/bin/detour" perf all_reduce --ranks 2 -b 8 -e 64M -f 2
