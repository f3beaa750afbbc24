#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# sysroot.sh [FOLDER]: downloads the arm64 libraries and headers that the library and its tests
# need, from this system's package archive, into FOLDER (default build/aarch64-sysroot).  The
# packages are unpacked there and not installed: the system, its package lists and its architectures
# do not change.
# Exit 1 with one line if that fails (no apt-get, no network, an archive without arm64).
set -eu
cd "$(dirname "$0")/.."
folder=${1:-build/aarch64-sysroot}
packages=(libjansson4 libjansson-dev libpcre2-8-0 libpcre2-dev libutf8proc-dev zlib1g zlib1g-dev libcmocka0 libcmocka-dev
    libcairo2 libcairo2-dev libfontconfig1 libfontconfig-dev)
# Dependencies of cairo, needed to link and run, not to compile.
packages+=(libfreetype6 libpixman-1-0 libpng16-16 libx11-6 libxcb1 libxcb-render0 libxcb-shm0 libxext6 libxrender1
    libxau6 libxdmcp6 libbsd0 libmd0 libexpat1 libbrotli1)
utf8proc=(libutf8proc2 libutf8proc3) # one of these: the name depends on the version of libutf8proc-dev

[ "$(cat "$folder/complete" 2>/dev/null)" != "${packages[*]}" ] || exit 0 # a folder of other packages is made again
give_up() {
    echo "sysroot.sh: $1"
    exit 1
}
command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 ||
    give_up "no apt-get here to get the arm64 libraries with"

rm -rf "$folder" "$folder.apt"
mkdir -p "$folder" "$folder.apt/lists/partial" "$folder.apt/archives/partial"
folder=$(realpath "$folder") apt=$(realpath "$folder.apt")
trap 'rm -rf "$apt"' EXIT
# An apt-get configuration of an arm64 system without installed packages.
cat >"$apt/conf" <<END
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "2";
Dir::State "$apt";
Dir::State::lists "$apt/lists";
Dir::State::status "/dev/null";
Dir::Cache "$apt";
END
export APT_CONFIG=$apt/conf
# Errors of sources without arm64 are ignored as long as the packages are found.
apt-get update >"$apt/log" 2>&1 || true
(
    cd "$apt"
    apt-get download "${packages[@]}" >>log 2>&1 || # some archives have a library under another name
        for package in "${packages[@]}"; do
            apt-get download "$package" >>log 2>&1 || apt-get download "${package}t64" >>log 2>&1 || exit 1
        done
    for package in "${utf8proc[@]}"; do
        if apt-get download "$package" >>log 2>&1; then exit 0; fi
    done
    exit 1
) || give_up "this system's archive does not give the arm64 libraries ($(sed -n 's/^E: //p' "$apt/log" | head -n 1))"
for package in "$apt"/*.deb; do dpkg-deb -x "$package" "$folder"; done
# The layout of an installed system: /lib is /usr/lib, and absolute links point into this folder.
[ ! -d "$folder/lib" ] || { cp -a "$folder/lib/." "$folder/usr/lib/" && rm -r "$folder/lib"; }
ln -s usr/lib "$folder/lib"
find "$folder" -type l -lname '/*' | while read -r link; do
    ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$folder$(readlink "$link")")" "$link"
done
echo "${packages[*]}" >"$folder/complete"
