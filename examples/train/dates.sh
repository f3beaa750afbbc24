#!/bin/sh
# SPDX-License-Identifier: MIT
# dates.sh [MORE OPTIONS of qkv train]: trains models that convert written dates to ISO 8601, with a
# Transformer and with its recurrent predecessor.
#
# Example: "the third of May 1987" to "1987-05-03".  The forms of the test set do not occur in
# training, only their parts.  The script trains the encoder-decoder of Vaswani et al. 2017, then
# GRUs with additive attention and about as many weights; it evaluates both and shows which letters
# of the source each output letter attends to.  ONLY=dates or ONLY=dates-gru trains one of them.
. "$(dirname "$0")/common.sh"
need python3 python3
[ -f "$data/dates/test.tsv" ] || python3 "$here/dates.py" "$data"

dates() { # NAME ARCHITECTURE...
    name=$1
    shift
    case " ${ONLY:-$name} " in *" $name "*) ;; *) return ;; esac
    train "$name" "$data/dates/train.tsv" --valid "$data/dates/valid.tsv" --tokenizer characters \
        --context 104 --batch-tokens 4096 --precision bf16 --seed 1 \
        --export "$runs/$name/export" --export-type bf16 --force "$@"
    qkv eval "$out/export" "$data/dates/test.tsv" --beam 1 --show 3 --alignment
}
dates dates --arch vaswani --layers 2 --heads 4 --width 128 --inner 512 --steps 4000 --rate 1e-3 \
    --schedule cosine --dropout 0.05 --smoothing 0 "$@"
dates dates-gru --arch gru-attention --width 176 --steps 2000 --rate 2e-3 --schedule cosine "$@"
[ -n "${ONLY:-}" ] || qkv plot "$runs/dates" "$runs/dates-gru"
