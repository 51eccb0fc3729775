#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Head-of-line blocking: how long a slot is occupied, the cost of the copy, and the wait of a late receiver.
# bench/hostpath.sh BUILD free|rate|late [ROUNDS]
# "rate" does so for both ways in which software RNICs move large messages.
set -euo pipefail
build=${1:?the build folder}
what=${2:?free, rate or late}
rounds=${3:-3}
export DETOUR_VERBS=soft DETOUR_SOCKET_IFNAME==lo

run() { # hostpath inject words...
  DETOUR_HOSTPATH=$1 DETOUR_INJECT=$2 "$build/bench/bench-hostpath" "${@:3}"
}

median() { sort -g | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

if [ "$what" = free ]; then
  export DETOUR_HOSTPATH_BYTES=1G # so that no message waits for room
  echo "| bytes | delay, ms | direct, all at once, ms | host path, all at once, ms | host path, one, us | memcpy, us | one / memcpy |"
  echo "| --- | --- | --- | --- | --- | --- | --- |"
  for bytes in 1024 65536 1048576 4194304 67108864; do
    slots=8
    [ "$bytes" -gt 4194304 ] && slots=2
    for ms in 0 10 30 60; do
      rule=""
      [ $ms -gt 0 ] && rule="serial=${ms}ms"
      read -r _ _ _ _ _ direct _ _ _ _ <<<"$(run off "$rule" free $bytes $slots "$rounds")"
      read -r _ _ one _ _ staged _ _ copied _ <<<"$(run on "$rule" free $bytes $slots "$rounds")"
      awk -v b=$bytes -v ms=$ms -v d="$direct" -v s="$staged" -v o="$one" -v c="$copied" \
        'BEGIN {printf "| %d | %d | %.2f | %.2f | %.1f | %.1f | %.2f |\n", b, ms, d / 1000, s / 1000, o, c, o / c}'
    done
  done
elif [ "$what" = late ]; then
  echo "| bytes | delay, ms | direct, us | host path, us | memcpy, us |"
  echo "| --- | --- | --- | --- | --- |"
  for bytes in 1024 65536 524288 1048576; do
    for ms in 0 10 30; do
      rule=""
      [ $ms -gt 0 ] && rule="latency=${ms}ms"
      read -r _ _ direct _ <<<"$(run off "$rule" late $bytes 1 "$rounds")"
      read -r _ _ staged _ <<<"$(run on "$rule" late $bytes 1 "$rounds")"
      read -r _ _ _ _ _ _ _ _ copied _ <<<"$(run off "" free $bytes 1 "$rounds")"
      awk -v b=$bytes -v ms=$ms -v d="$direct" -v s="$staged" -v c="$copied" \
        'BEGIN {printf "| %d | %d | %.1f | %.1f | %.1f |\n", b, ms, d, s, c}'
    done
  done
else
  tmp=$(mktemp -d)
  trap 'rm -rf "$tmp"' EXIT
  echo "| way | bytes | direct, GB/s | host path, GB/s | host path / direct |"
  echo "| --- | --- | --- | --- | --- |"
  for way in fetch copies; do
    for bytes in 65536 1048576 4194304 16777216; do
      count=$((1073741824 / bytes))
      for _ in $(seq "$rounds"); do # side by side, so that other work is shared
        run off "" rate $bytes 8 $count $way | awk '{print $3}' >>"$tmp/direct"
        run on "" rate $bytes 8 $count $way | awk '{print $3}' >>"$tmp/staged"
      done
      awk -v w=$way -v b=$bytes -v d="$(median <"$tmp/direct")" -v s="$(median <"$tmp/staged")" \
        'BEGIN {printf "| %s | %d | %.2f | %.2f | %.2f |\n", w, b, d, s, s / d}'
      rm -f "$tmp"/*
    done
  done
fi
