#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The full tests; `make test-full` calls this after scripts/setup.sh ci. The quick tests again under
# ASan + UBSan and under TSan, the units for 64-bit ARM under qemu-user, then the release build's tests with the label
# `full`.
#
# Labels that keep a test out: no-sanitizer (of both; its CMakeLists.txt says why), no-tsan (one thread only).
set -euo pipefail
jobs=$(nproc)
hang_s=900 # a test that takes longer hangs; nothing here takes a third of it on two idle cores

# PRESET FOLDER: configures and builds; says only what is wrong.
build() {
    cmake --preset "$1" >/dev/null
    echo "test_full: building $2"
    cmake --build "$2" -j "$jobs" >"$2/build.log" 2>&1 || { tail -50 "$2/build.log"; exit 1; }
}

build asan build-asan
ctest --test-dir build-asan -L quick -LE no-sanitizer --output-on-failure --timeout "$hang_s"
build tsan build-tsan
ctest --test-dir build-tsan -L quick -LE 'no-sanitizer|no-tsan' --output-on-failure --timeout "$hang_s"
# In one process each: what waits for other processes takes minutes in the emulator.
scripts/sysroot_aarch64.sh build-aarch64/sysroot
build aarch64 build-aarch64
ctest --test-dir build-aarch64 --output-on-failure --timeout "$hang_s" \
    -R '^(base|verbs|obs|delay|detect|failover|hostpath)\.unit|^transport\.(unit|owner)|^softrnic\.(unit|engine|local_ring)$'
build release build
# The guests of tests/vm are part of it; DETOUR_VM=optional lets a machine without network skip them.
DETOUR_VM=${DETOUR_VM:-required} ctest --test-dir build -L full --output-on-failure --timeout "$hang_s"
