#!/bin/sh
# SPDX-License-Identifier: MIT
# facts.sh [MORE OPTIONS of qkv train]: trains models/facts, a small masked encoder of simple facts: "the opposite of hot
# is [MASK]."; it prints how many of the held-out sentences it completes with the right word.
. "$(dirname "$0")/common.sh"
need python3 python3
[ -f "$data/facts/test.tsv" ] || python3 "$here/facts.py" "$data"

train facts "$data/facts/train.txt" --valid "$data/facts/valid.txt" --per-line --arch bert --layers 2 --heads 4 \
    --width 128 --inner 256 --context 24 --tokenizer wordpiece --vocab 1024 --lowercase --steps 4000 --batch-tokens 1024 \
    --rate 2e-3 --warmup 100 --dropout 0 --mask-share 0.2 --eval-every 500 --seed 1 \
    --export "$runs/facts/export" --export-type bf16 --force "$@"
qkv eval "$out"
right=0 all=0
while IFS="$(printf '\t')" read -r sentence word; do
    all=$((all + 1))
    case $(qkv fill -m "$out/export" "$sentence" -n 1) in *"1  $word "*) right=$((right + 1)) ;; esac
done <"$data/facts/test.tsv"
echo "$right of $all held-out sentences have the right word"
