#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the readers of the schedule library with clang, sanitizers and libFuzzer, and fuzzes them for a bounded
# number of runs, from the examples in ../golden and the inputs kept in corpus/.
# usage: run.sh OUT [RUNS]   OUT keeps what was built, the growing corpus and any crash. RUNS: 300000 per target.
# For hours: run.sh OUT -1, then add what is worth keeping from OUT/corpus.* to corpus/ (-merge=1).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
out=${1:?usage: run.sh OUT [RUNS]}
runs=${2:-300000}
clang=${CLANG:-clang}

command -v "$clang" >/dev/null || { echo "fuzz: clang is not installed: skipped"; exit 77; }
mkdir -p "$out"
cd "$out"
flags=(-g -O1 -std=gnu17 -D_GNU_SOURCE "-I$root" "-I$root/include" -fsanitize=fuzzer-no-link,address,undefined
       -fno-sanitize-recover=all)
echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return d && n < 0; }' >probe.c
"$clang" -fsanitize=fuzzer probe.c -o probe 2>/dev/null || { echo "fuzz: clang has no libFuzzer: skipped"; exit 77; }

read -ra jansson <<<"$(pkg-config --cflags --libs jansson)"
mkdir -p objects
rm -f objects/*
(cd objects && "$clang" "${flags[@]}" -c "$here/format_fuzz.c" "$root"/sched/*.c "$root/base/check.c")
for target in profile schedule; do
    "$clang" "${flags[@]}" -fsanitize=fuzzer "-DDETOUR_FUZZ=dt_fuzz_$target" "$here/fuzz_main.c" objects/*.o \
        "${jansson[@]}" -o "fuzz_$target"
done
seeds=$root/tests/sched/golden
for target in profile schedule; do
    mkdir -p "corpus.$target"
    case $target in
    profile) cp "$seeds"/*.profile.json "corpus.$target" ;;
    schedule) cp "$seeds"/pair.json "$seeds"/v.json "$seeds"/*.csv "corpus.$target" ;;
    esac
    [ ! -d "$here/corpus/$target" ] || cp "$here/corpus/$target"/* "corpus.$target"
    echo "fuzz: $target, $runs runs, seed 1"
    "./fuzz_$target" -seed=1 "-runs=$runs" -max_total_time="${DETOUR_FUZZ_SECONDS:-90}" -timeout=10 -rss_limit_mb=2048 \
        -max_len=8192 "-dict=$here/words.dict" -verbosity=0 -print_final_stats=1 "-artifact_prefix=$out/crash.$target." \
        "corpus.$target" 2>&1 | tail -n 12
done
