#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Instructions that one message costs its sender: isend and the test that reports it done, counted by
# callgrind and added up by folder. What softrnic/ does is the device's work and does not count.
# usage: bench/instructions.sh [BUILD [PLUGIN [BYTES [COUNT]]]]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
plugin=${2:-$build/lib/libnccl-net-detour.so}
bytes=${3:-8}
count=${4:-800}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

command -v valgrind >/dev/null || { echo "instructions: valgrind is missing (apt-get install valgrind)" >&2; exit 1; }
DETOUR_VERBS=${DETOUR_VERBS:-soft} valgrind --tool=callgrind --callgrind-out-file="$out/callgrind.out" \
    --collect-atstart=no --toggle-collect=counted_isend --toggle-collect=counted_test \
    "$build/bench/bench-messages" "$plugin" "$bytes" "$count" >"$out/calls" 2>"$out/log" ||
    { cat "$out/log" >&2; exit 1; }
calls=$(tail -1 "$out/calls")
echo "# $calls"
# Only lines of self cost count: the line after "calls=" is what the callee took, which its own lines say.
awk -v messages="$(echo "$calls" | awk '{print $2}')" -v root="$PWD/" '
    function name(text,   id) { # "(12) path" defines a name, "(12)" repeats it
        id = text; sub(/\).*/, ")", id)
        if (index(text, " ")) names[id] = substr(text, index(text, " ") + 1)
        return names[id]
    }
    /^(fl|fi|fe)=/ { file = name(substr($0, 4)); next }
    /^calls=/ { skip = 1; next }
    /^[0-9+*-]/ {
        if (skip) { skip = 0; next }
        folder = file
        if (index(folder, root) == 1) folder = substr(folder, length(root) + 1)
        if (folder == "bench/messages.c") folder = "caller"
        else if (folder ~ /^(base|softrnic|verbs|obs|delay|detect|failover|hostpath|transport|plugin|bench)\//)
            sub(/\/.*/, "/", folder)
        else folder = "C library"
        cost[folder] += $2
    }
    END {
        for (folder in cost) {
            counts = folder != "softrnic/" && folder != "caller"
            printf "%-12s %8.1f%s\n", folder, cost[folder] / messages, counts ? "" : "  (not counted)"
            if (counts) total += cost[folder]
        }
        printf "%-12s %8.1f instructions per message\n", "total", total / messages
    }' "$out/callgrind.out"
