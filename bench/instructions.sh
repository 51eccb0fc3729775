#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Instructions that one message costs its sender: isend and the test that reports it done, counted by
# callgrind and added up by folder. With "both" the receiver's, too: irecv and its
# test. What softrnic/ does is the device's work and does not count, except that writing send queue elements is
# the driver's, also where the dv back end borrows softrnic's functions for it. Counting what was sent, with times, has
# a line of its own (transport/message/meter, obs/, base/ticks).
# usage: bench/instructions.sh [BUILD [PLUGIN [BYTES [COUNT [both]]]]]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
plugin=${2:-$build/lib/libnccl-net-detour.so}
bytes=${3:-8}
count=${4:-800}
calls=(--toggle-collect=counted_isend --toggle-collect=counted_test)
[ "${5:-}" != both ] || calls+=(--toggle-collect=counted_irecv --toggle-collect=counted_receive_test)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

command -v valgrind >/dev/null || { echo "instructions: valgrind is missing (apt-get install valgrind)" >&2; exit 1; }
# The calls are far apart here: the device thread would do the work of NCCL's polls in between.
export DETOUR_IDLE_TAKEOVER_US=1000000
DETOUR_VERBS=${DETOUR_VERBS:-soft} valgrind --tool=callgrind --callgrind-out-file="$out/callgrind.out" \
    --collect-atstart=no "${calls[@]}" \
    "$build/bench/bench-messages" "$plugin" "$bytes" "$count" >"$out/calls" 2>"$out/log" ||
    { cat "$out/log" >&2; exit 1; }
made=$(tail -1 "$out/calls")
echo "# $made"
# A folder's cost is what its own lines take, and what the C library takes on its behalf: the inclusive cost of
# calls from the folder into the library. Other calls are skipped; the lines of their callees contain their cost.
# What base/ does for softrnic/, inlined there or called from there, is the device's work too. The first reading finds
# the functions of softrnic/.
awk -v messages="$(echo "$made" | awk '{print $2}')" '
    function name(text,   id) { # "(12) path" defines a name, "(12)" repeats it
        id = text
        sub(/\).*/, ")", id)
        if (index(text, " ")) names[id] = substr(text, index(text, " ") + 1)
        return names[id]
    }
    function fn_name(text,   id) {
        id = text
        sub(/\).*/, ")", id)
        if (index(text, " ")) fns[id] = substr(text, index(text, " ") + 1)
        return fns[id]
    }
    function id_of(line) {
        sub(/^c?fn=/, "", line)
        sub(/\).*/, ")", line)
        return line
    }
    function folder_of(path) {
        # Absolute, or relative to the directory of the compiler: the module and the file name identify it.
        if (!match(path, /(^|\/)(base|softrnic|verbs|obs|delay|detect|failover(\/switchover)?|hostpath(\/staged)?|transport(\/[a-z]+)?|plugin|bench)\/[^\/]*$/))
            return "C library"
        path = substr(path, RSTART)
        sub(/^\//, "", path)
        if (path == "bench/messages.c") return "caller"
        if (path ~ /^(transport\/(message\/)?meter\.|obs\/|base\/ticks\.)/) return "counting"
        sub(/\/.*/, "/", path)
        return path
    }
    function place() {
        folder = callee = path ~ /softrnic\/wqe\./ && fn ~ /encode|put_/ ? "elements" : folder_of(path)
        if (is_device[fn_id] && folder ~ /^(base\/|counting)$/) folder = callee = "softrnic/"
    }
    /^(fl|fi|fe)=/ { path = name(substr($0, 4)); place(); next }
    /^fn=/ { fn = fn_name(substr($0, 4)); fn_id = id_of($0); place(); next }
    /^cfn=/ { fn_name(substr($0, 5)); is_device_called = is_device[id_of($0)]; next }
    /^(cfi|cfl)=/ { callee = folder_of(name(substr($0, 5))); next }
    /^calls=/ { called = 1; next }
    NR == FNR { # the first reading
        if (/^[0-9+*-]/ && !called && path ~ /softrnic\/[^\/]*\.c$/ && folder != "elements") is_device[fn_id] = 1
        if (/^[0-9+*-]/) called = 0
        next
    }
    /^[0-9+*-]/ {
        if (!called && folder != "C library") own[folder] += $2
        if (called && folder != "C library" && callee == "C library") library[folder] += $2
        if (called && is_device[fn_id] && callee == "base/" && !is_device_called) {
            own["base/"] -= $2
            own["softrnic/"] += $2
        }
        called = 0
        callee = folder
    }
    END {
        for (folder in own) {
            counts = folder != "softrnic/" && folder != "caller"
            cost = own[folder] + library[folder]
            printf "%-12s %8.1f%s\n", folder, cost / messages, counts ? "" : "  (not counted)"
            if (counts) total += cost
        }
        printf "%-12s %8.1f instructions per message\n", "total", total / messages
    }' "$out/callgrind.out" "$out/callgrind.out"
