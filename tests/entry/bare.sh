#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./demo on a bare Debian: a minimal system without make or a compiler is unpacked into BUILD/bare, this tree is copied into
# it, and ./demo runs there as root. Exit status 77 and the reason where that cannot be done (not root, no debootstrap, no
# network). The package mirror is the one that this system's apt uses.
# usage: tests/entry/bare.sh BUILD
set -euo pipefail
build=$(cd "${1:?usage: tests/entry/bare.sh BUILD}" && pwd)
source=$(cd "$(dirname "$0")/../.." && pwd)
root=$build/bare

skip() { echo "bare: skipped: $*"; exit 77; }
[ "$(id -u)" -eq 0 ] || skip "a chroot needs root"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"
. /etc/os-release
[ "${ID:-}" = debian ] || skip "not a Debian system"
mirror=$(apt-get indextargets --format '$(SITE) $(RELEASE)' 'Created-By: Packages' | awk -v r="$VERSION_CODENAME" '$2 == r { print $1; exit }')
[ -n "$mirror" ] || skip "apt has no mirror for $VERSION_CODENAME"

clean_up() {
    for mount in dev/shm proc; do
        mountpoint -q "$root/$mount" && umount "$root/$mount"
    done
    rm -rf --one-file-system "$root"
}
trap clean_up EXIT
clean_up
debootstrap --variant=minbase "$VERSION_CODENAME" "$root" "$mirror" >"$build/bare.log" 2>&1 ||
    skip "debootstrap failed: $(tail -1 "$build/bare.log")"
cp -L /etc/resolv.conf "$root/etc/" 2>/dev/null || true
cp -r /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/" # a proxy, if there is one
for file in /etc/apt/sources.list /etc/apt/sources.list.d; do
    [ ! -e "$file" ] || { rm -rf "$root$file"; cp -r "$file" "$root$file"; }
done
mount -t proc proc "$root/proc" || skip "proc cannot be mounted"
mkdir -p "$root/dev/shm" && mount -t tmpfs tmpfs "$root/dev/shm"
mkdir -p "$root/detour"
(cd "$source" && git ls-files -z | xargs -0 tar c) | tar x -C "$root/detour"

for name in make gcc cmake; do
    [ ! -e "$root/usr/bin/$name" ] || { echo "bare: $name is there before ./demo"; exit 1; }
done
# In the checkout's own folder, and from another one.
chroot "$root" /bin/sh -c 'cd / && PATH=/usr/sbin:/usr/bin:/sbin:/bin detour/demo' >"$build/bare.log" 2>&1 ||
    { tail -40 "$build/bare.log"; exit 1; }
grep -q '# Out of bounds values : 0 OK' "$build/bare.log" || { tail -40 "$build/bare.log"; exit 1; }
tail -5 "$build/bare.log"
echo "bare: ./demo runs on a bare $VERSION_CODENAME"
