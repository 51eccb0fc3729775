#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fetches stock NCCL for tests/nccl: NVIDIA's wheels, pinned by hash, unpacked into a cache outside the repository
# (DETOUR_NCCL_CACHE, else ~/.cache/detour/nccl). Prints the folder of each version, which holds libnccl.so.2 and
# include/. What is in the cache already is not fetched again. Exit status 77, with the reason, where a wheel cannot be had.
# usage: scripts/nccl_wheels.sh [--cached] [VERSION...|all]     a VERSION is cu12-2.28.9; --cached: fetch nothing
set -euo pipefail
default=cu12-2.28.9
cache=${DETOUR_NCCL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/detour/nccl}

# Package, and the SHA-256 of its wheel for x86-64.
hashes='
cu12-2.20.5 057f6bf9685f75215d0c53bf3ac4a10b3e6578351de307abad9e18a99182af56
cu12-2.21.5 8579076d30a8c24988834445f8d633c697d42397e92ffc3f63fa26766d25e0a0
cu12-2.22.3 f9f5e03c00269dee2cd1aa57019f9a024478a74ae6e9b32d5341c849fe6f6302
cu12-2.23.4 b097258d9aab2fa9f686e33c6fe40ae57b27df60cedbd15d139701bb5509e0c1
cu12-2.24.3 e5c5167351e8936b96ddad8ac6f687199e22d09db07cf08af9457a123b34cac0
cu12-2.25.1 362aed5963fb9ea2ed2f264409baae30143498fd0e5c503aeaa1badd88cdc54a
cu12-2.26.2 694cf3879a206553cc9d7dbda76b13efaf610fdb70a50cba303de1b0d1530ac6
cu12-2.27.5 ad730cf15cb5d25fe849c6e6ca9eb5b76db16a80f13f425ac68d8e2e55624457
cu12-2.27.7 de5ba5562f08029a19cb1cd659404b18411ed0d6c90ac5f52f30bf99ad5809aa
cu12-2.28.9 485776daa8447da5da39681af455aa3b2c2586ddcf4af8772495e7c532c7e5ab
cu12-2.29.7 ecd0a012051abc20c1aa87328841efa8cade3ced65803046e38c2f03c0891fea
cu12-2.30.7 8ce1b8213f61f2bfac132e6df890af6450b77cbd140c6ce4e98cb0c2d8e678c9
cu12-2.32.3 bb94b2348e4861d5e8aa00b36c3d12d9bdf9c6369b82cbb723de0b582280a21c
cu13-2.28.9 e4553a30f34195f3fa1da02a6da3d6337d28f2003943aa0a3d247bbc25fefc42
cu13-2.30.7 cefa7fdb9710efd0f39c5f1be1d61ff6fc9a996c451265bd7fbdcf9455ed4b50
cu13-2.32.3 1459723080ac889d73a26edfa3e04383a7928ab31ac8f0ec43b3ea9548b04ff3
'

skip() { echo "nccl_wheels: $*" >&2; exit 77; }
fetches=yes
[ "${1:-}" != --cached ] || { fetches=; shift; }
[ "$(uname -m)" = x86_64 ] || skip "the wheels are for x86-64 only"
versions=("${@:-$default}")
[ "${versions[*]}" != all ] || mapfile -t versions < <(awk 'NF { print $1 }' <<<"$hashes")

# VERSION FOLDER: one wheel, checked by pip against its hash, unpacked under its final name only when it is whole.
fetch() {
    local version=$1 folder=$2 hash new
    hash=$(awk -v version="$version" '$1 == version { print $2 }' <<<"$hashes")
    [ -n "$hash" ] || { echo "nccl_wheels: $version is not pinned here; known: $(awk 'NF { printf "%s ", $1 }' <<<"$hashes")" >&2; exit 2; }
    python3 -m pip --version >/dev/null 2>&1 || skip "$version: python3 has no pip (Debian: python3-pip)"
    mkdir -p "$cache"
    new=$(mktemp -d "$cache/new.XXXXXX")
    trap 'rm -rf "$new"' EXIT
    echo "nvidia-nccl-${version%%-*}==${version#*-} --hash=sha256:$hash" >"$new/requirements.txt"
    echo "nccl_wheels: fetching nvidia-nccl-${version%%-*} ${version#*-}" >&2
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
        -d "$new" -r "$new/requirements.txt" >"$new/log" 2>&1 || skip "$version: not fetched: $(tail -1 "$new/log")"
    python3 - "$new" <<'EOF'
import pathlib, shutil, sys, zipfile

new = pathlib.Path(sys.argv[1])
(new / "whole").mkdir()
with zipfile.ZipFile(next(new.glob("*.whl"))) as wheel:
    for name in wheel.namelist():
        if name.startswith("nvidia/nccl/") and (name.endswith("libnccl.so.2") or name.endswith(".h")):
            target = new / "whole" / name.removeprefix("nvidia/nccl/").removeprefix("lib/")
            target.parent.mkdir(parents=True, exist_ok=True)
            with wheel.open(name) as source, target.open("wb") as copy:
                shutil.copyfileobj(source, copy)
EOF
    mv -T "$new/whole" "$folder" 2>/dev/null || [ -e "$folder/libnccl.so.2" ] # another run may have been faster
    rm -rf "$new"
    trap - EXIT
}

for version in "${versions[@]}"; do
    folder=$cache/$version
    if [ ! -e "$folder/libnccl.so.2" ]; then
        [ -n "$fetches" ] || skip "$folder/libnccl.so.2 is missing; scripts/nccl_wheels.sh $version fetches it"
        fetch "$version" "$folder"
    fi
    echo "$folder"
done
