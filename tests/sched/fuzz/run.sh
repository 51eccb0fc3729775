#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the schedule library with clang, sanitizers and libFuzzer, and fuzzes it from the examples in ../golden and
# the inputs kept in corpus/: the readers of profiles, delays, native JSON and CSV, and everything behind them (`plan`); models in layers (`model`)
# and the search for their pipelines (`optimize`); jobs and events (`mitigate`, all three tests/planner).
# usage: run.sh OUT [RUNS [TARGET...]]
#   OUT      keeps what was built, the growing corpus and any crash
#   RUNS     per target: 300000, or what DETOUR_FUZZ_SECONDS (60; model, optimize and mitigate: 20) are enough for; -1 for
#            no end
#   TARGET   profile, delays, json, csv, plan, model, optimize, mitigate (all)
# Millions: DETOUR_FUZZ_SECONDS=3600 run.sh OUT 2000000. What is worth keeping: run.sh OUT merge, which adds the
# inputs of OUT that reach code corpus/ does not.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
out=${1:?usage: run.sh OUT [RUNS [TARGET...]]}
runs=${2:-300000}
targets=("${@:3}")
[ ${#targets[@]} -gt 0 ] || targets=(profile delays json csv plan model optimize mitigate)
clang=${CLANG:-clang}

command -v "$clang" >/dev/null || { echo "fuzz: clang is not installed: skipped"; exit 77; }
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$out"
flags=(-g -O2 -std=gnu17 -D_GNU_SOURCE "-I$root" "-I$root/include" -fsanitize=fuzzer-no-link,address,undefined
       -fno-sanitize-recover=all)
echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return d && n < 0; }' >probe.c
"$clang" -fsanitize=fuzzer probe.c -o probe 2>/dev/null || { echo "fuzz: clang has no libFuzzer: skipped"; exit 77; }

read -ra jansson <<<"$(pkg-config --cflags --libs jansson)"
rm -rf objects
mkdir -p objects/format objects/search objects/planner objects/planner_format objects/planner_mitigate
# The comparisons of the readers guide the search to words and limits. Those of the schedulers' inner loops would only
# cost three quarters of the time.
(cd objects/format && "$clang" "${flags[@]}" -c "$root"/sched/format/*.c)
(cd objects/planner_format && "$clang" "${flags[@]}" -c "$root"/planner/format/*.c "$root"/tests/planner/fuzz/*_fuzz.c)
(cd objects/planner_mitigate && "$clang" "${flags[@]}" -c "$root"/planner/mitigate/*.c)
flags_quick=("${flags[@]}" -fno-sanitize-coverage=trace-cmp)
(cd objects/search && "$clang" "${flags_quick[@]}" -c "$root"/sched/search/*.c)
(cd objects/planner && "$clang" "${flags_quick[@]}" -c "$root"/planner/*.c)
(cd objects && "$clang" "${flags_quick[@]}" -c "$here"/*_fuzz.c "$root"/sched/*.c "$root"/base/{check,prng}.c)
for target in "${targets[@]}"; do
    "$clang" "${flags[@]}" -fsanitize=fuzzer "-DDETOUR_FUZZ=dt_fuzz_$target" "$here/fuzz_main.c" objects/*.o objects/*/*.o \
        "${jansson[@]}" -o "fuzz_$target"
done
seeds=$root/tests/sched/golden
for target in "${targets[@]}"; do
    mkdir -p "corpus.$target" "$here/corpus/$target"
    if [ "$runs" = merge ]; then
        "./fuzz_$target" -merge=1 -max_len=8192 -verbosity=0 "$here/corpus/$target" "corpus.$target"
        continue
    fi
    limits=()
    seconds=60
    case $target in
    profile) cp "$seeds"/*.profile.json "corpus.$target" ;;
    delays) cp "$seeds"/delays.json "corpus.$target" ;;
    json) cp "$seeds"/pair.json "$seeds"/v.json "corpus.$target" ;;
    csv) cp "$seeds"/*.csv "corpus.$target" ;;
    model) cp "$root"/tests/planner/golden/*.model.json "corpus.$target"
           seconds=20 ;;
    mitigate) cp "$root"/experiments/incidents/clusters/*.json "corpus.$target"
              seconds=20 ;;
    optimize) limits=(-max_len=256)
              seconds=20 ;;
    plan) limits=(-max_len=256) ;; # more bytes than there are choices
    esac
    echo "fuzz: $target, $runs runs, seed 1"
    "./fuzz_$target" -seed=1 "-runs=$runs" -max_total_time="${DETOUR_FUZZ_SECONDS:-$seconds}" -timeout=60 -error_exitcode=1 -timeout_exitcode=1 -rss_limit_mb=2048 \
        -max_len=8192 "-dict=$here/words.dict" -verbosity=0 -print_final_stats=1 "-artifact_prefix=$out/crash.$target." \
        "${limits[@]}" "corpus.$target" "$here/corpus/$target" 2>&1 | tail -n 12
done
