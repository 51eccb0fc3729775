#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the doors of the plugin with clang, sanitizers and libFuzzer, and fuzzes them: frames and handles (wire),
# settings (params), the control socket (session).
# usage: run.sh OUT [RUNS [TARGET...]]   OUT keeps what was built, the growing corpus and any crash. RUNS, per target:
# 1000000, or what DETOUR_FUZZ_SECONDS (20) are enough for; -1 for no end. TARGET: wire, params, session (all).
# What is worth keeping: run.sh OUT merge, which adds the inputs of OUT that reach code corpus/ does not.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
out=${1:?usage: run.sh OUT [RUNS [TARGET...]]}
runs=${2:-1000000}
targets=("${@:3}")
[ ${#targets[@]} -gt 0 ] || targets=(wire params session)
clang=${CLANG:-clang}

command -v "$clang" >/dev/null || { echo "fuzz: clang is not installed: skipped"; exit 77; }
mkdir -p "$out/objects"
out=$(cd "$out" && pwd)
cd "$out"
flags=(-g -O1 -std=gnu17 -D_GNU_SOURCE "-I$root" "-I$root/include" -fsanitize=fuzzer-no-link,address,undefined
       -fno-sanitize-recover=all)
echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return d && n < 0; }' >probe.c
"$clang" -fsanitize=fuzzer probe.c -o probe 2>/dev/null || { echo "fuzz: clang has no libFuzzer: skipped"; exit 77; }

rm -f objects/*
(cd objects && "$clang" "${flags[@]}" -c "$here"/*_fuzz.c "$root"/transport/protocol/{frames,address}.c "$root"/transport/session/pair_record.c \
    "$root"/obs/{command_session,command}.c "$root"/base/*.c)
for target in "${targets[@]}"; do
    "$clang" "${flags[@]}" -fsanitize=fuzzer "-DDETOUR_FUZZ=dt_fuzz_$target" "$here/fuzz_main.c" objects/*.o -lpthread \
        -o "fuzz_$target"
    mkdir -p "corpus.$target" "$here/corpus/$target"
    if [ "$runs" = merge ]; then
        "./fuzz_$target" -merge=1 -max_len=2100 -verbosity=0 "$here/corpus/$target" "corpus.$target"
        continue
    fi
    echo "fuzz: $target, $runs runs, seed 1"
    "./fuzz_$target" -seed=1 "-runs=$runs" -max_total_time="${DETOUR_FUZZ_SECONDS:-20}" -timeout=60 -error_exitcode=1 -timeout_exitcode=1 -rss_limit_mb=1024 \
        -max_len=2100 "-dict=$here/words.dict" -verbosity=0 -print_final_stats=1 "-artifact_prefix=$out/crash.$target." \
        "corpus.$target" "$here/corpus/$target" 2>&1 | tail -n 12
done
