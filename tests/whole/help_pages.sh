#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# help_pages.sh QKV BUILD: checks that every command of command.def has help, examples, a man page and a completion,
# and that the pages of the build, where it has them (a build with a sanitizer has none), equal what the command prints.
set -eu
qkv=$1 built=$2/cli/docs
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# same FILE: the file of the build has the bytes of the one made here
same() { [ ! -e "$built" ] || cmp "$dir/$1" "$built/$1"; }
"$qkv" help >/dev/null
for shell in bash zsh fish; do
    "$qkv" help --completion $shell >"$dir/qkv.$shell"
    same qkv.$shell
done
bash -n "$dir/qkv.bash"
for name in $(sed -n 's/^COMMAND(\([a-z_]*\))$/\1/p' cli/command.def | tr _ -); do
    "$qkv" help | grep -qE "^ +$name( |\$)" || { echo "qkv help does not name $name"; exit 1; }
    "$qkv" $name --help | grep -q "qkv $name" || { echo "qkv $name --help has no example"; exit 1; }
    page=$dir/qkv-$name.1
    "$qkv" help --man $name >"$page"
    same qkv-$name.1
    head -n 1 "$page" | grep -q '^\.TH' || { echo "$page is no man page"; exit 1; }
    grep -q "$name" "$dir/qkv.bash" || { echo "no completion of $name"; exit 1; }
    if command -v mandoc >/dev/null; then mandoc -T lint -W error "$page"; fi
    if command -v groff >/dev/null; then
        said=$(groff -man -Tutf8 -ww -z "$page" 2>&1)
        [ -z "$said" ] || { echo "$said"; exit 1; }
    fi
done
