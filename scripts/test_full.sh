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

build asan build-asan quick
"${tests[@]}" --test-dir build-asan -L quick -LE no-sanitizer
build tsan build-tsan quick
"${tests[@]}" --test-dir build-tsan -L quick -LE 'no-sanitizer|no-tsan'
# Units that use one process: moving bytes between processes needs process_vm_readv, which qemu-user lacks.
units=(base.unit softrnic.unit verbs.unit obs.unit delay.unit detect.unit failover.unit transport.protocol transport.path)
scripts/sysroot_aarch64.sh build-aarch64/sysroot
build aarch64 build-aarch64 "${units[@]}" nccl-net-detour detour detour-sched
names=$(IFS='|' && echo "${units[*]//./\\.}")
# One at a time: under emulation, polling threads slow each other down.
"${tests[@]}" -j 1 --test-dir build-aarch64 -R "^($names|cross\..*)\$"
build release build all
# Stock NCCL for tests/nccl; without it they are skipped, with the reason.
scripts/nccl_wheels.sh || [ $? -eq 77 ]
# The fuzzers begin with their whole corpus, which no time limits; the search behind it is short here.
export DETOUR_FUZZ_SECONDS=${DETOUR_FUZZ_SECONDS:-10}
# The guests of tests/vm are part of it; DETOUR_VM=optional lets a machine without network skip them.
DETOUR_VM=${DETOUR_VM:-required} "${tests[@]}" --test-dir build -L full
