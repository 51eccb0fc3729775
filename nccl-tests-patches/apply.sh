#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Applies the patches of this folder to a copy of nccl-tests v2.19.6, or prints why not and changes nothing.
# usage: apply.sh [--check] DIRECTORY        a source tree, patched in place
#        apply.sh [--check] TARBALL [OUT]    unpacked to OUT first (default: ./nccl-tests-2.19.6-detour)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
wanted=2.19.6
say() { echo "apply.sh: $*" >&2; }

check=false
if [ "${1:-}" = --check ]; then
    check=true
    shift
fi
if [ $# -lt 1 ] || [ $# -gt 2 ] || [ "${1#-}" != "$1" ]; then
    say "usage: apply.sh [--check] DIRECTORY | TARBALL [OUT]"
    exit 2
fi
command -v patch >/dev/null || { say "the program patch is not installed"; exit 1; }

# Everything is tried in a copy: a tree is patched whole or not at all.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree"
if [ -d "$1" ]; then
    [ $# -eq 1 ] || { say "OUT is for tarballs"; exit 2; }
    out=$1
    [ -d "$1/src" ] || { say "$1: there is no src/ in it: expected the source of nccl-tests"; exit 1; }
    cp -R "$1/src" "$work/tree/src"
elif [ -f "$1" ]; then
    out=${2:-nccl-tests-$wanted-detour}
    [ ! -e "$out" ] || { say "$out is there already: name another OUT"; exit 1; }
    tar -xf "$1" -C "$work/tree" --strip-components=1 2>/dev/null || { say "$1: tar cannot unpack it"; exit 1; }
    [ -d "$work/tree/src" ] || { say "$1: there is no NAME/src/ in it: expected the source of nccl-tests"; exit 1; }
else
    say "$1: no such file or directory"
    exit 1
fi

found=$(sed -n 's/^#define NCCL_TESTS_VERSION "\(.*\)"/\1/p' "$work/tree/src/common.h" 2>/dev/null || true)
if [ "$found" != "$wanted" ]; then
    say "$1 is nccl-tests ${found:-of an unknown version}; the patches are for $wanted"
    exit 1
fi
if [ -e "$work/tree/src/iterlog.h" ]; then
    say "$1 has the patches already"
    exit 1
fi
for file in "$here"/0*.patch; do
    if ! text=$(patch -d "$work/tree" -p1 --forward --fuzz=0 --no-backup-if-mismatch <"$file" 2>&1); then
        say "$(basename "$file") does not apply: $text"
        exit 1
    fi
done
if $check; then
    echo "the patches apply to $1"
    exit 0
fi
if [ -d "$1" ]; then
    cp -R "$work/tree/src/." "$1/src/"
else
    cp -R "$work/tree" "$out"
fi
echo "patched: $out"
