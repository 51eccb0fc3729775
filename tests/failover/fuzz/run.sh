#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the copying of send queue elements with clang, sanitizers and libFuzzer, and fuzzes it on plain memory.
# usage: run.sh OUT [RUNS]   OUT keeps what was built, the growing corpus and any crash. RUNS: 500000, or what
# DETOUR_FUZZ_SECONDS (60) are enough for; -1 for no end.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
out=${1:?usage: run.sh OUT [RUNS]}
runs=${2:-500000}
clang=${CLANG:-clang}

command -v "$clang" >/dev/null || { echo "fuzz: clang is not installed: skipped"; exit 77; }
mkdir -p "$out/corpus"
out=$(cd "$out" && pwd)
cd "$out"
flags=(-g -O1 -std=gnu17 -D_GNU_SOURCE "-I$root" "-I$root/include" -fsanitize=fuzzer-no-link,address,undefined
       -fno-sanitize-recover=all)
echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return d && n < 0; }' >probe.c
"$clang" -fsanitize=fuzzer probe.c -o probe 2>/dev/null || { echo "fuzz: clang has no libFuzzer: skipped"; exit 77; }

rm -rf objects
for layer in tests/failover/fuzz verbs softrnic base; do # whole layers: a list of files goes out of date unnoticed
    mkdir -p "objects/$layer"
    (cd "objects/$layer" && "$clang" "${flags[@]}" -c "$root/$layer"/*.c)
done
"$clang" "${flags[@]}" -fsanitize=fuzzer $(find objects -name '*.o') -lpthread -o fuzz_rewind
echo "fuzz: rewind, $runs runs, seed 1"
./fuzz_rewind -seed=1 "-runs=$runs" -max_total_time="${DETOUR_FUZZ_SECONDS:-60}" -timeout=60 -error_exitcode=1 -timeout_exitcode=1 -rss_limit_mb=1024 \
    -max_len=4096 -len_control=0 -verbosity=0 -print_final_stats=1 "-artifact_prefix=$out/crash." corpus 2>&1 | tail -n 12
