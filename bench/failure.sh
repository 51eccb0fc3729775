#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Cost of a failing link, as tables: pauses of 1 and 256 connections with verbs that cost 0, 0.3 and 1 ms, the bandwidth
# that remains afterwards, and the time until the death of the peer is detected. Medians over ROUNDS runs; cases that are
# compared run in turn.
# usage: bench/failure.sh [BUILD [ROUNDS]]
set -euo pipefail
build=${1:-build}
rounds=${2:-9}
plugin=$build/lib/libnccl-net-detour.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export DETOUR_RUNTIME_DIR=$work/run
mkdir -m 0700 "$DETOUR_RUNTIME_DIR"

# The median of the numbers on standard input.
median() { sort -g | awk '{v[NR] = $1} END {print NR ? v[int((NR + 1) / 2)] : "-"}'; }
least() { sort -g | head -1; }
# case CONNECTIONS VERB_US FAULT
case_name() { echo "$1.$2.$3"; }

cases=("1 0 down" "1 300 down" "1 1000 down" "1 0 silent" "256 0 down" "256 300 down" "256 1000 down" "256 0 silent")
for _ in $(seq "$rounds"); do
    for case in "${cases[@]}"; do
        read -r connections verb_us fault <<<"$case"
        name=$(case_name $case)
        NCCL_DEBUG=INFO "$build/bench/bench-failure" "$plugin" pause "$connections" "$verb_us" "$fault" \
            >>"$work/$name.out" 2>"$work/log" || { grep -a bench-failure "$work/log" >&2; exit 1; }
        # Rank 0 detects the fault; its peer is notified.
        grep -a 'rank 0 .*is settled' "$work/log" | grep -ao '[0-9]* us in all' | cut -d' ' -f1 >>"$work/$name.switch" || true
    done
done
echo "| connections | a verb costs, us | link | switch, us: least | median | pause, us: median | longest | device thread, us of processor | woken | control thread | woken |"
echo "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
for case in "${cases[@]}"; do
    read -r connections verb_us fault <<<"$case"
    name=$(case_name $case)
    field() { awk -v line="$1" -v at="$2" '$0 ~ line {print $at}' "$work/$name.out" | median; }
    echo "| $connections | $verb_us | $fault | $(least <"$work/$name.switch") | $(median <"$work/$name.switch") | $(field '^connections' 8) | $(field '^connections' 10)" \
        "| $(field detour-soft0 4) | $(field detour-soft0 6) | $(field detour-control 4) | $(field detour-control 6) |"
done

echo
echo "| connections | the peer is killed: error after, ms: median | longest |"
echo "| --- | --- | --- |"
for connections in 1 256; do
    for _ in $(seq "$rounds"); do
        "$build/bench/bench-failure" "$plugin" death "$connections" 2>/dev/null
    done >"$work/death"
    middle() { awk -v at="$1" '{print $at / 1000}' "$work/death" | median; }
    echo "| $connections | $(middle 6) | $(middle 8) |"
done

echo
echo "| connections on | MB/s each, before | together | MB/s each, after soft0's link is down | together | share of the remaining rate |"
echo "| --- | --- | --- | --- | --- | --- |"
export DETOUR_SOFT_DEVICES=3 DETOUR_BACKUP=soft0=soft2,soft1=soft2
for connections in 2 3; do
    for _ in $(seq "$rounds"); do
        "$build/bench/bench-failure" "$plugin" bandwidth "$connections" 500M,500M,250M 2>/dev/null
    done >"$work/bandwidth"
    column() { awk -v when="$1" -v at="$2" '$1 == when {print $at}' "$work/bandwidth" | median; }
    each() { for i in $(seq "$connections"); do column "$1" $((4 + i)); done | paste -sd' '; }
    after=$(column after $((6 + connections)))
    echo "| soft0 to soft$((connections - 1)) | $(each before) | $(column before $((6 + connections))) | $(each after) | $after" \
        "| $(awk -v after="$after" 'BEGIN {printf "%.1f %%", 100 * after / (750 * 1.048576)}') |"
done
