#!/bin/sh
# SPDX-License-Identifier: MIT
# pairs.sh [MORE OPTIONS of qkv train]: trains all-MiniLM-L6-v2 to match the verses of two
# translations.
#
# Contrastive learning on 7,680 of 29,000 pairs; prints retrieval@1 on 1,000 unseen verses before
# and after: the share of verses whose nearest of the 1,000 is the matching one.
. "$(dirname "$0")/common.sh"
need diatheke diatheke sword-text-kjv sword-text-web
need python3 python3
[ -f "$data/pairs/test.tsv" ] || python3 "$here/verses.py" "$data"
(cd "$top" && tools/model.sh)
model=$top/models/all-MiniLM-L6-v2

echo "before:"
qkv eval "$model" "$data/pairs/test.tsv" --objective contrastive
train pairs "$data/pairs/train.tsv" --valid "$data/pairs/valid.tsv" --from "$model" --objective contrastive \
    --context 96 --batch-tokens 8192 --batch-sequences 64 --steps 120 --rate 2e-5 --warmup 12 \
    --precision bf16 --seed 1 --export "$runs/pairs/export" --force "$@"
echo "after:"
qkv eval "$out/export" "$data/pairs/test.tsv" --objective contrastive
