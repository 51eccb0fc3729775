#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unpacks the Debian packages for 64-bit ARM that the cross build needs (cmake/aarch64.cmake) into FOLDER. Nothing is
# installed, and this system's own package lists and architectures stay as they are.
# usage: scripts/sysroot_aarch64.sh FOLDER
set -euo pipefail
folder=${1:?usage: scripts/sysroot_aarch64.sh FOLDER}
packages=(libibverbs-dev libjansson-dev libjansson4)

[ ! -e "$folder/complete" ] || exit 0
command -v apt-get >/dev/null || { echo "sysroot: there is no apt-get here" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists/partial,archives/partial,debs} "$folder"
: >"$work/status"
cat >"$work/apt.conf" <<CONF
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "root";
Dir::State "$work";
Dir::State::lists "$work/lists";
Dir::State::status "$work/status";
Dir::Cache "$work";
CONF
export APT_CONFIG=$work/apt.conf
apt-get update -qq
(cd "$work/debs" && apt-get download -qq "${packages[@]}")
for deb in "$work"/debs/*.deb; do
    dpkg-deb -x "$deb" "$folder"
done
touch "$folder/complete"
