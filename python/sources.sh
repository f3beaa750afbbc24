#!/bin/sh
# SPDX-License-Identifier: MIT
# sources.sh FOLDER: downloads the source archives of cmake/sources.cmake into FOLDER by `apt-get source`, from the release of
# Debian that this machine has; archives that are there with the right SHA-256 are kept.  On other systems put them there.
set -eu
[ $# -eq 1 ] || { echo "usage: sources.sh FOLDER" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"
sed -n 's/^  "\([^|]*\)|\([0-9a-f]*\)|.*/\2  \1/p' "$here/../cmake/sources.cmake" >SHA256
if sha256sum --status -c SHA256 2>/dev/null; then exit 0; fi
command -v apt-get >/dev/null || { echo "no apt-get: put these files into $1:"; cat SHA256; exit 1; } >&2

# The sources of the releases that the system uses, in lists of our own: the system is not changed.
apt=$PWD/apt
rm -rf "$apt"
mkdir -p "$apt/parts" "$apt/lists/partial"
[ ! -f /etc/apt/sources.list ] || sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >"$apt/parts/list.list"
for file in /etc/apt/sources.list.d/*; do
    case $file in
    *.list) sed -n 's/^deb /deb-src /p' "$file" >"$apt/parts/$(basename "$file")" ;;
    *.sources) sed 's/^Types: deb$/Types: deb-src/' "$file" >"$apt/parts/$(basename "$file")" ;;
    esac
done
# The pinned SHA-256 is the proof of the archives: gpgv may be missing.
get() {
    apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$apt/parts" -o "Dir::State::lists=$apt/lists" \
        -o Acquire::AllowInsecureRepositories=true -o APT::Sandbox::User= "$@" >>"$apt/log" 2>&1 || { cat "$apt/log" >&2; exit 1; }
}
get update
for name in jansson utf8proc pcre2 zlib; do
    get source --download-only --tar-only --allow-unauthenticated $name
done
sha256sum -c --quiet SHA256
rm -rf "$apt"
