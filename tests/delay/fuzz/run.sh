#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the readers of delay/ with clang, sanitizers and libFuzzer, and fuzzes each for a bounded time, from the
# examples in seeds/.
# usage: run.sh OUT [RUNS]   OUT keeps what was built, the growing corpus and any crash. RUNS: 300000 per target.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
out=${1:?usage: run.sh OUT [RUNS]}
runs=${2:-300000}
clang=${CLANG:-clang}

command -v "$clang" >/dev/null || { echo "fuzz: clang is not installed: skipped"; exit 77; }
mkdir -p "$out"
cd "$out"
echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return d && n < 0; }' >probe.c
"$clang" -fsanitize=fuzzer probe.c -o probe 2>/dev/null || { echo "fuzz: clang has no libFuzzer: skipped"; exit 77; }

flags=(-g -O1 -std=gnu17 -D_GNU_SOURCE "-I$root" -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
mkdir -p objects
rm -f objects/*
(cd objects && "$clang" "${flags[@]}" -c "$here/text_fuzz.c" "$root"/delay/*.c "$root"/base/{check,prng,status}.c)
for target in rules trace record; do
    "$clang" "${flags[@]}" -fsanitize=fuzzer "-DDETOUR_FUZZ=dt_fuzz_$target" "$here/fuzz_main.c" objects/*.o -lm \
        -o "fuzz_$target"
    mkdir -p "corpus.$target"
    cp "$here/seeds/$target"* "corpus.$target"
    echo "fuzz: $target, $runs runs, seed 1"
    "./fuzz_$target" -seed=1 "-runs=$runs" -max_total_time="${DETOUR_FUZZ_SECONDS:-60}" -timeout=60 -error_exitcode=1 -timeout_exitcode=1 -rss_limit_mb=2048 \
        -max_len=2048 "-dict=$here/words.dict" -verbosity=0 -print_final_stats=1 "-artifact_prefix=$out/crash.$target." \
        "corpus.$target" 2>&1 | tail -n 12
done
