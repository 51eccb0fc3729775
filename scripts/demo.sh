#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The demonstration of `make demo`. Two processes with two software RNICs each use libnccl-net-detour.so as NCCL does, and
# check every byte: first a ring all-reduce from 8 B to 64 MiB, then an exchange during which the link of one RNIC goes
# down and comes up again; the bandwidth over that time is drawn here and in BUILD/demo.svg. No hardware is used.
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
# A private folder for the control sockets, so that `detour nic` below reaches only these processes.
export DETOUR_VERBS=soft DETOUR_SOFT_DEVICES=2 DETOUR_RUNTIME_DIR="$work"
detour() {
    echo "+ detour $*"
    "$build/bin/detour" "$@"
}

detour perf all_reduce --ranks 2 -b 8 -e 64M -f 2

echo
echo "Now both RNICs have links of 100 MB/s; the link of soft0 goes down at both ends and comes up two seconds later."
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
echo "The plugin's log at rank 0, and the result:"
grep -hoE 'rank 0 INFO.* (is settled|is fenced|is in use again).*' "$work/err" "$work/out" | sed 's/.*NET\/Detour : /  /' || true
grep -vE '^# *(rank|sendrecv,)' "$work/out" | sed -n '/out-of-place/,$p'
echo "The same as a picture: $build/demo.svg"
