#!/bin/sh
# SPDX-License-Identifier: MIT
# words.sh: trains word vectors on two English Bibles and prints analogies of kings and queens.
. "$(dirname "$0")/common.sh"
need diatheke diatheke sword-text-kjv sword-text-web
need python3 python3
[ -f "$data/verse/train.txt" ] || python3 "$here/verses.py" "$data"

qkv train "$data/verse/train.txt" --per-line --objective words --cbow --out "$runs/words" --force
qkv analogy -m "$runs/words" king - man + woman
qkv analogy -m "$runs/words" three
