#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Stock NCCL of every pinned release through Detour: fetches the wheels (5 GB, once), compares kernels/layout.c with their
# debug information and prints the table of docs/nccl.md. Takes an hour or so on two cores.
# usage: scripts/nccl_versions.sh BUILD [VERSION...]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:?usage: scripts/nccl_versions.sh BUILD [VERSION...]}" && pwd)
shift
"$root/scripts/nccl_wheels.sh" "${@:-all}" >/dev/null
cmake --build "$build" -j "$(nproc)" --target detour nccl-net-detour nccl-rank nccl-layout nccl-net-gpu-double fake_cuda >/dev/null
python3 "$root/tests/nccl/layout_test.py" "$build" "$@"
python3 "$root/tests/nccl/versions.py" "$build" "$@"
