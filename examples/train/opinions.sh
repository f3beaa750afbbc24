#!/bin/sh
# SPDX-License-Identifier: MIT
# opinions.sh [MORE OPTIONS of qkv train]: trains models/opinions, a small classifier of opinions, positive or negative, and
# tests it on forms of sentences that do not occur in training.
. "$(dirname "$0")/common.sh"
need python3 python3
[ -f "$data/opinions/test.tsv" ] || python3 "$here/opinions.py" "$data"

train opinions "$data/opinions/train.tsv" --valid "$data/opinions/valid.tsv" --objective classify --arch bert --layers 2 \
    --heads 4 --width 64 --inner 128 --context 32 --tokenizer wordpiece --vocab 1024 --lowercase --steps 900 \
    --batch-tokens 1024 --rate 1e-3 --warmup 100 --dropout 0.2 --eval-every 100 --seed 1 \
    --export "$runs/opinions/export" --export-type bf16 --force "$@"
qkv eval "$out/export" "$data/opinions/valid.tsv"
qkv eval "$out/export" "$data/opinions/test.tsv"
