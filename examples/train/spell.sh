#!/bin/sh
# SPDX-License-Identifier: MIT
# spell.sh [MORE OPTIONS of qkv train]: trains an encoder-decoder that converts English spelling to
# pronunciation: "phone" to "F OW N".
#
# It learns from CMUdict (Carnegie Mellon University, BSD licence; 125,000 words without stress
# marks) and evaluates unseen words: a pronunciation is correct if the dictionary lists it.
. "$(dirname "$0")/common.sh"
dictionary=/usr/share/pocketsphinx/model/en-us/cmudict-en-us.dict
need $dictionary pocketsphinx-en-us
need python3 python3
[ -f "$data/spell/test.tsv" ] || python3 "$here/spell.py" $dictionary "$data"

train spell "$data/spell/train.tsv" --valid "$data/spell/valid.tsv" --tokenizer "$data/spell/tokenizer.json" \
    --arch vaswani --norm pre --layers 4 --decoder-layers 3 --heads 4 --width 160 --inner 512 --context 48 \
    --steps 30000 --batch-tokens 4096 --rate 2e-3 --schedule cosine --last-rate 0.02 --warmup 400 \
    --dropout 0.1 --smoothing 0.1 --precision bf16 --seed 1 --eval-every 1000 \
    --export "$runs/spell/export" --export-type bf16 --force "$@"
# A second run from these weights, with less dropout.
train spell-2 "$data/spell/train.tsv" --valid "$data/spell/valid.tsv" --from "$runs/spell/export" --context 48 \
    --steps 16000 --batch-tokens 4096 --rate 1e-3 --schedule cosine --last-rate 0.01 --warmup 200 --dropout 0.05 \
    --smoothing 0.1 --decay 0 --beta2 0.98 --precision bf16 --seed 2 --eval-every 1000 \
    --export "$runs/spell-2/export" --export-type bf16 --force "$@"
# A third one in larger steps, with a lower rate.
train spell-3 "$data/spell/train.tsv" --valid "$data/spell/valid.tsv" --from "$runs/spell-2/export" --context 48 \
    --steps 2400 --batch-tokens 8192 --rate 5e-4 --schedule cosine --last-rate 0.01 --warmup 100 --dropout 0.08 \
    --smoothing 0.1 --decay 0 --beta2 0.98 --precision bf16 --seed 3 --eval-every 200 \
    --export "$runs/spell-3/export" --export-type bf16 --force "$@"
qkv eval "$out/export" "$data/spell/test.tsv" --beam 4 --show 5
qkv plot "$out"
