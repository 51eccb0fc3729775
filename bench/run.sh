#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The numbers of docs/benchmarks.md, as Markdown on standard output. Alternatives are measured in turn,
# round by round, so that a busy moment of the machine affects all of them; each number is the median.
# With BENCH_WAIT_S set, every measurement first waits at most this many seconds for half a second in which the
# machine is idle: programs that yield lose more to others than threads that sleep.
# usage: [BENCH_WAIT_S=60] bench/run.sh [BUILD [ROUNDS]]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
rounds=${2:-9}
detour=$build/bin/detour
own=$build/lib/libnccl-net-detour.so
tcp=$build/bench/libnccl-net-benchtcp.so
loops=$build/bench/bench-loops
out=$(mktemp -d)
touch "$out/busy"
trap 'rm -rf "$out"' EXIT

# Jiffies of all processors: total and idle.
jiffies() { awk '/^cpu / { for (i = 2; i <= 9; i++) total += $i; print total, $5 + $6 }' /proc/stat; }

await_idle() {
    local end=$((SECONDS + ${BENCH_WAIT_S:-0})) before after
    while ((SECONDS < end)); do
        before=$(jiffies)
        sleep 0.5
        after=$(jiffies)
        # shellcheck disable=SC2086
        set -- $before $after
        (($3 > $1 && 100 * ($4 - $2) / ($3 - $1) >= 85)) && return
    done
    ((${BENCH_WAIT_S:-0} == 0)) || echo busy >>"$out/busy"
}

# column COLUMN ARGUMENT...: that column of the row that `detour perf` prints (6 is time, 7 algbw, 8 busbw).
column() {
    local column=$1
    shift
    await_idle
    "$detour" perf "$@" | awk -v column="$column" '!/^#/ && NF { print $column }'
}

# Stores a number under a name; `median NAME` is their median.
keep() { cat >>"$out/$1"; }
median() { sort -g "$out/$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }

# One connection each way, as the loops have.
raw=(sendrecv --raw -b 4M --window 8 --channels 1 -n 400 -w 40 -c 0)
for ((round = 0; round < rounds; round++)); do
    column 7 "${raw[@]}" --plugin "$own" | keep raw.own
    column 7 "${raw[@]}" --plugin "$tcp" | keep raw.tcp
    await_idle
    "$loops" tcp 4194304 8 400 | keep loop.tcp
    await_idle
    "$loops" vm 4194304 8 400 | keep loop.vm
    for size in 64K 1M 16M; do
        column 8 all_reduce --protocol simple -b "$size" -n 40 -w 4 -c 0 --plugin "$own" | keep "all.own.$size"
        column 8 all_reduce --protocol simple -b "$size" -n 40 -w 4 -c 0 --plugin "$tcp" | keep "all.tcp.$size"
    done
    column 6 latency -b 8 -n 20000 -w 1000 -c 0 --plugin "$own" | keep latency.own
    column 6 latency -b 8 -n 20000 -w 1000 -c 0 --plugin "$tcp" | keep latency.tcp
done

raw_own=$(median raw.own)
echo "$(date -u +%F), $(nproc) x $(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo)," \
    "Linux $(uname -r), medians of $rounds" \
    "(load average $(cut -d' ' -f1 /proc/loadavg), $(wc -l <"$out/busy") measurements on a busy machine)"
echo
echo "| \`detour perf ${raw[*]}\` | GB/s per direction | Detour is |"
echo "| --- | --- | --- |"
echo "| Detour | $raw_own | |"
echo "| same driver over TCP | $(median raw.tcp) | $(ratio "$raw_own" "$(median raw.tcp)") x |"
echo "| TCP sockets alone | $(median loop.tcp) | $(ratio "$raw_own" "$(median loop.tcp)") x |"
echo "| process_vm_readv alone | $(median loop.vm) | $(ratio "$raw_own" "$(median loop.vm)") x |"
echo
echo "| \`detour perf all_reduce --protocol simple\`, 2 ranks, busbw | Detour GB/s | TCP GB/s |"
echo "| --- | --- | --- |"
for size in 64K 1M 16M; do
    echo "| $size | $(median "all.own.$size") | $(median "all.tcp.$size") |"
done
echo
echo "| \`detour perf latency -b 8\`, one way | us |"
echo "| --- | --- |"
echo "| Detour | $(median latency.own) |"
echo "| TCP | $(median latency.tcp) |"
