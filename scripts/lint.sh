#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The linters over the product's C files: clang-format (layout), clang-tidy and cppcheck (bugs).
# usage: scripts/lint.sh [BUILD] -- BUILD is a configured build folder (default: build)
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
[ -f "$build/compile_commands.json" ] || { echo "lint: $build has no compile_commands.json; configure it first" >&2; exit 2; }
mapfile -t files < <(git ls-files '*.c' ':!tests/*')
mapfile -t layout < <(git ls-files '*.c' '*.h' '*.cc')
failed=0
clang-format --dry-run -Werror "${layout[@]}" || failed=1
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p "$build" 2>/dev/null || failed=1
cppcheck --quiet --error-exitcode=1 --enable=warning,portability --inline-suppr --suppress=missingIncludeSystem \
    --std=c17 -D_GNU_SOURCE -I. -Iinclude "${files[@]}" || failed=1
exit $failed
