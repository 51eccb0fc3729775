#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main jobs, for `make demo`. Two processes with two software RNICs each, through libnccl-net-detour.so as NCCL would
# use it, every byte checked: first a ring all-reduce from 8 B to 64 MiB, then an exchange in the middle of which the cable
# of one RNIC is pulled and put back; the bandwidth over that time is drawn here and in BUILD/demo.svg. No hardware is
# touched.
# usage: scripts/demo.sh BUILD
set -euo pipefail
build=${1:?usage: scripts/demo.sh BUILD}

[ -x "$build/bin/detour" ] || { echo "demo: $build/bin/detour is missing; build first: make" >&2; exit 1; }
work=$(mktemp -d)
perf=
clean_up() {
    [ -z "$perf" ] || kill "$perf" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
# A folder of its own for the control sockets: `detour nic` below reaches these processes and no others.
export DETOUR_VERBS=soft DETOUR_SOFT_DEVICES=2 DETOUR_RUNTIME_DIR="$work"
detour() {
    echo "+ detour $*"
    "$build/bin/detour" "$@"
}

detour perf all_reduce --ranks 2 -b 8 -e 64M -f 2

echo
echo "Now both RNICs have links of 100 MB/s, and the cable of soft0 is pulled at both ends and put back two seconds later."
NCCL_DEBUG=INFO DETOUR_SOFT_RATE=100000000 detour perf sendrecv --ranks 2 -b 1M -n 20 --seconds 7 -c 2 \
    --plot "$build/demo.svg" >"$work/out" 2>"$work/err" &
perf=$!
for _ in $(seq 100); do
    "$build/bin/detour" nic list 2>/dev/null | grep -q soft0 && break
    sleep 0.1
done
sleep 2
detour nic soft0 down
sleep 2
detour nic soft0 up
wait "$perf" || { perf=; cat "$work/out" "$work/err"; exit 1; }
perf=
echo "What the plugin said at rank 0, and the result:"
grep -hoE 'rank 0 INFO.* (is settled|is fenced|is in use again).*' "$work/err" "$work/out" | sed 's/.*NET\/Detour : /  /' || true
grep -vE '^# *(rank|sendrecv,)' "$work/out" | sed -n '/out-of-place/,$p'
echo "The same as a picture: $build/demo.svg"
