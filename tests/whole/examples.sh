#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# examples.sh QKV BUILD: checks that every program of examples/ is short, runs, and prints the same output twice.
set -eu
build=$2
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
printf 'The cat sat on the mat.\nStocks fell sharply today.\nA kitten rests on a rug.\n' >"$temp/lines"
none=1
for source in examples/*.c; do
    [ -f "$source" ] || continue
    none=0
    name=$(basename "$source" .c)
    [ "$(wc -l <"$source")" -lt 60 ] || { echo "$source: 60 lines or more"; exit 1; }
    arguments=()
    if grep -q qkv_embed "$source"; then
        [ -f models/all-MiniLM-L6-v2/model.safetensors ] || continue
        arguments=("$temp/lines" a small cat)
    elif grep -q 'qkv_generate(' "$source"; then
        arguments=(models/verse "In the beginning" "And it came to pass")
    fi
    "$build/examples/$name" ${arguments[@]+"${arguments[@]}"} >"$temp/$name.1"
    [ -s "$temp/$name.1" ] || { echo "$name prints nothing"; exit 1; }
    "$build/examples/$name" ${arguments[@]+"${arguments[@]}"} >"$temp/$name.2"
    cmp "$temp/$name.1" "$temp/$name.2"
done
[ $none = 0 ] || { echo "no examples"; exit 77; }
