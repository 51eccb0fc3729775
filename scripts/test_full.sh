#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The full tests: the release build's `full` label, then everything again under ASan+UBSan and TSan.
# `make test-full` calls this after scripts/setup.sh ci.
set -euo pipefail
jobs=$(nproc)

for preset in asan tsan; do
    cmake --preset "$preset" >/dev/null
    cmake --build "build-$preset" -j "$jobs" --quiet 2>/dev/null || cmake --build "build-$preset" -j "$jobs"
    ctest --test-dir "build-$preset" -L quick -LE no-sanitizer --output-on-failure --timeout 300
done
cmake --preset release >/dev/null
cmake --build build -j "$jobs"
ctest --test-dir build -L full --output-on-failure --no-tests=ignore
