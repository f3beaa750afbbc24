#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# grid.sh QKV [NAME]: runs the commands on all-MiniLM-L6-v2 with each instruction set of this machine, each precision,
# and 1 and 2 threads; for a build with sanitizers, which end a run at the first fault.  The outputs of 1 and 2 threads
# are equal.  NAME: only commands of this name.
set -eu
qkv=$(realpath "$1") only=${2:-}
model=$PWD/models/all-MiniLM-L6-v2
[ -f $model/model.safetensors ] || { echo "grid: $model is not there"; exit 77; }
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
# Lengths around the tiles, an empty line, and one text beyond the limit of the model.
for n in 1 7 16 17; do yes "owl sea boat" | head -n $n | tr '\n' ' '; echo; done >"$temp/lines"
printf '\nna\xc3\xafve \xe4\xb8\xad\xe6\x96\x87\n' >>"$temp/lines"
yes "pussycat" | head -n 300 | tr '\n' ' ' >>"$temp/lines"
runs=0

# both NAME ARGUMENTS...: runs the command with 1 and with 2 threads, each in a folder of its own, where the outputs have
# the same names (`view` prints them).
both() {
    local name=$1 n
    shift
    [ -z "$only" ] || [ "$only" = "$name" ] || return 0
    for n in 1 2; do
        rm -rf "${temp:?}/$n"
        mkdir "$temp/$n"
        (cd "$temp/$n" && QKV_ISA=$isa QKV_THREADS=$n "$qkv" "$name" "$@" >stdout 2>"$temp/err" </dev/null) || {
            echo "$isa: qkv $name $*, $n threads: exit $?"
            cat "$temp/err"
            exit 1
        }
        runs=$((runs + 1))
    done
    diff -r "$temp/1" "$temp/2" || {
        echo "$isa: qkv $name $*: 1 and 2 threads differ"
        exit 1
    }
}

read -ra sets < <("$qkv" info | sed -n 's/.*this machine supports: \([a-z0-9 ]*\);.*/\1/p')
for isa in "${sets[@]}"; do
    for precision in f32 f32-strict f32-fast bf16 f16 int8; do
        both embed -m $model -f "$temp/lines" --truncate --precision $precision -o out.npy
    done
    both embed -m $model -f "$temp/lines" --truncate --batch-tokens 100 -o out.npy
    both similar -m $model "the owl" "a bird" "the sea"
    both similar -m $model "the owl" "a bird" --why -o out.svg
    both view -m $model "the owl" "a bird" -o out.html
    both view -m $model "the owl and the pussycat" --view matrix -o out.svg
    both trace -m $model "the owl and the pussycat" -o out.safetensors
    both ablate -m $model "the owl went to sea" --json
    both explain -m $model "the owl went to sea"
    both tokenize -m $model -f "$temp/lines"
done
echo "grid: $runs runs of ${#sets[@]} instruction sets, nothing found"
