#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that a tier needs and that are missing; does nothing when all are there.
#   demo  compiler, cmake and headers
#   test  + GoogleTest and what the quick tests use (with them the verbs programs of Debian)
#   ci    + what the full tests use (sanitizer run-time, valgrind, spin, clang, an emulator for tests/vm,
#         the compilers for 64-bit ARM and an emulator for their programs)
# Installs packages only: no kernel and no setting of the host is touched, and the services that come with the
# programs of tests (Redis' server, promtool) are stopped and disabled.
set -euo pipefail

demo_packages=(gcc libc6-dev make cmake pkg-config libibverbs-dev libjansson-dev)
test_packages=("${demo_packages[@]}" g++ libgtest-dev libgmock-dev python3 patch ibverbs-utils perftest
               libhiredis-dev libmicrohttpd-dev libssl-dev openssl redis-server ibverbs-providers)
ci_packages=("${test_packages[@]}" clang libclang-rt-14-dev valgrind spin clang-tidy cppcheck
             python3-scipy python3-pip gdb debootstrap git help2man man-db mandoc qemu-system-x86 busybox-static kmod cpio iproute2 libibverbs1 prometheus
             gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user-static googletest)

case "${1:-}" in
demo) packages=("${demo_packages[@]}") ;;
test) packages=("${test_packages[@]}") ;;
ci) packages=("${ci_packages[@]}") ;;
*)
    echo "usage: scripts/setup.sh demo|test|ci" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "setup: not a Debian system; install the equivalents of: ${packages[*]}" >&2
    exit 1
fi

missing=()
for package in "${packages[@]}"; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

install="apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" -ne 0 ]; then
    echo "setup: packages are missing; run: sudo $install" >&2
    exit 1
fi
echo "setup: installing ${missing[*]}"
apt-get update -qq
DEBIAN_FRONTEND=noninteractive $install -qq >/dev/null

services=()
for package in "${missing[@]}"; do
    case "$package" in redis-server | prometheus) services+=("$package") ;; esac
done
if [ ${#services[@]} -gt 0 ] && [ -d /run/systemd/system ]; then
    systemctl --quiet disable --now "${services[@]}"
fi
