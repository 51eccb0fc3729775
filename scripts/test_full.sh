#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The full tests; `make test-full` calls this after scripts/setup.sh ci. The quick tests again under
# ASan + UBSan and under TSan, the units and the command for 64-bit ARM under qemu-user, then the release build's tests with the label
# `full`.
#
# Labels that keep a test out: no-sanitizer (of both; its CMakeLists.txt has the reason), no-tsan (one thread only).
set -euo pipefail
jobs=$(nproc)
hang_s=900 # a test that takes longer hangs; nothing here takes half of it on two idle cores
# One test more than there are cores: many wait, for a timeout or for each other.
tests=(ctest -j $((jobs + 1)) --output-on-failure --no-tests=error --timeout "$hang_s")

# Clang compiles GoogleTest's templates in half of GCC's time, and is a second compiler; without its sanitizers GCC is used.
# Not for TSan: Clang instruments atomics also in functions that are excluded (base/ascending.c).
asan_compilers=()
probe=$(mktemp)
if echo 'int main() {}' | clang++ -x c++ -fsanitize=address,undefined -o "$probe" - 2>/dev/null; then
    asan_compilers=(-DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++)
fi
rm -f "$probe"

# PRESET FOLDER TARGET...: configures and builds; prints errors only.
build() {
    local compilers=()
    [ "$1" != asan ] || compilers=(--fresh "${asan_compilers[@]}") # fresh: a folder keeps its compilers
    cmake --preset "$1" "${compilers[@]}" >/dev/null
    echo "test_full: building $2"
    cmake --build "$2" -j "$jobs" --target "${@:3}" >"$2/build.log" 2>&1 || { tail -50 "$2/build.log"; exit 1; }
}

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

# These wait for the network, not for a core. Without stock NCCL, tests/nccl is skipped, with the reason.
mkdir -p build-aarch64
fetch() {
    scripts/sysroot_aarch64.sh build-aarch64/sysroot
    scripts/nccl_wheels.sh || [ $? -eq 77 ]
}
fetch >build-aarch64/fetch.log 2>&1 &
fetching=$!

build asan build-asan quick
"${tests[@]}" --test-dir build-asan -L quick -LE no-sanitizer
build tsan build-tsan quick
"${tests[@]}" --test-dir build-tsan -L quick -LE 'no-sanitizer|no-tsan'
# Units that use one process: moving bytes between processes needs process_vm_readv, which qemu-user lacks.
units=(base.unit softrnic.unit verbs.unit obs.unit delay.unit detect.unit failover.unit transport.protocol transport.path)
wait "$fetching" || { cat build-aarch64/fetch.log; exit 1; }
cat build-aarch64/fetch.log
build aarch64 build-aarch64 "${units[@]}" nccl-net-detour detour detour-sched
names=$(IFS='|' && echo "${units[*]//./\\.}")
# One at a time, since polling threads slow each other down under emulation; meanwhile the compilers use both cores.
"${tests[@]}" -j 1 --test-dir build-aarch64 -R "^($names|cross\..*)\$" >build-aarch64/test.log 2>&1 &
emulated=$!
build release build all
wait "$emulated" || { cat build-aarch64/test.log; exit 1; }
cat build-aarch64/test.log
# The fuzzers begin with their whole corpus, which no time limits; the search behind it is short here.
export DETOUR_FUZZ_SECONDS=${DETOUR_FUZZ_SECONDS:-10}
# The guests of tests/vm are part of it; DETOUR_VM=optional lets a machine without network skip them.
DETOUR_VM=${DETOUR_VM:-required} "${tests[@]}" --test-dir build -L full
