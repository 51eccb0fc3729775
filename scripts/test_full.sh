#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The full tests; `make test-full` calls this after scripts/setup.sh ci. The quick tests again under
# ASan + UBSan and under TSan, then the release build's tests with the label `full`.
#
# Labels that keep a test out: no-sanitizer (of both; its CMakeLists.txt says why), no-tsan (one thread only).
set -euo pipefail
jobs=$(nproc)

# PRESET EXCLUDED-LABELS
run_sanitized() {
    cmake --preset "$1" >/dev/null
    cmake --build "build-$1" -j "$jobs" | grep -vE '^\[ *[0-9]+%\]' || true
    ctest --test-dir "build-$1" -L quick -LE "$2" --output-on-failure --timeout 300
}

run_sanitized asan 'no-sanitizer'
run_sanitized tsan 'no-sanitizer|no-tsan'
cmake --preset release >/dev/null
cmake --build build -j "$jobs" | grep -vE '^\[ *[0-9]+%\]' || true
ctest --test-dir build -L full --output-on-failure
