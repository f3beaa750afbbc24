#!/bin/sh
# SPDX-License-Identifier: MIT
# verse.sh [MORE OPTIONS of qkv train]: trains a small language model of two English Bibles, with
# about 2.2 million weights.
#
# Downloads the texts (public domain), trains, prints the bits per byte of held-out chapters, and
# writes models/verse.  A stopped script continues its run when it is started again.
. "$(dirname "$0")/common.sh"
need diatheke diatheke sword-text-kjv sword-text-web
need python3 python3
[ -f "$data/verse/valid.txt" ] || python3 "$here/verses.py" "$data"

train verse "$data/verse/train.txt" --valid "$data/verse/valid.txt" \
    --arch gpt --layers 4 --heads 3 --width 192 --context 256 --tokenizer bpe --vocab 2048 \
    --steps 800 --batch-tokens 8192 --rate 3e-3 --warmup 80 --eval-every 100 \
    --precision bf16 --seed 1 --probe every=50 \
    --export "$runs/verse/export" --export-type bf16 --force "$@"
qkv eval "$out/export" "$data/verse/valid.txt"
qkv plot "$out"
