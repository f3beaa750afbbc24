#!/bin/sh
# SPDX-License-Identifier: MIT
# numbers.sh [MORE OPTIONS of qkv train]: trains a small encoder-decoder that writes numbers in
# words, "40,127" to "forty thousand one hundred twenty-seven", in minutes, and tests it on unseen
# numbers.
. "$(dirname "$0")/common.sh"
need python3 python3
[ -f "$data/numbers/test.tsv" ] || python3 "$here/numbers.py" "$data"

train numbers "$data/numbers/train.tsv" --valid "$data/numbers/valid.tsv" --tokenizer characters \
    --arch vaswani --layers 2 --heads 4 --width 96 --inner 384 --context 128 --steps 3000 \
    --batch-tokens 8192 --rate 1.5e-3 --schedule cosine --dropout 0 --smoothing 0 --precision bf16 \
    --seed 1 --export "$runs/numbers/export" --export-type bf16 --force "$@"
qkv eval "$out/export" "$data/numbers/test.tsv" --beam 1 --show 3 --alignment
