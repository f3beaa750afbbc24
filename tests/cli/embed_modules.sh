# SPDX-License-Identifier: MIT
# embed_modules.sh: tests embed, similar, info and convert with folders of sentence-transformers whose modules are more
# than pooling and normalisation. tests/task/embed/test_sentence_golden.c compares the vectors.
. tests/cli/lib.sh
golden=$here/../golden/sentences
fresh() { # NAME: makes the folder NAME of that golden case
    rm -rf "$1" && cp -r "$golden/model" "$1" && cp -r "$golden/$1"/. "$1"
}
json() { python3 -c "import json, sys; d = json.load(open('$out')); $1" || failed "json: $1"; }

title 'convert copies the modules: the new folder gives the same vectors'
fresh labse
runs 0 embed 'the cat' 'A Dog' -m labse
cp "$out" want
runs 0 convert labse whole --precision f32
[ -s whole/2_Dense/model.safetensors ] || failed 'the weights of a module were not copied'
runs 0 embed 'the cat' 'A Dog' -m whole
check cmp -s "$out" want
runs 0 convert labse eight --precision int8
runs 0 embed 'the cat' -m eight
mkdir labse/other && cp labse/2_Dense/model.safetensors labse/other
runs 0 convert labse less --precision f32
[ ! -e less/other ] || failed 'weights of no module were copied'

title 'a module that cannot be used is refused in one line'
fresh labse
mv labse/2_Dense/model.safetensors labse/2_Dense/pytorch_model.bin
runs 4 embed a -m labse
says_part 'labse/2_Dense/pytorch_model.bin: PyTorch and pickle files are never loaded'
fresh labse
sed -i 's/models.Dense/models.CNN/' labse/modules.json
runs 4 embed a -m labse
says_part 'expected Transformer, then Pooling, then any of Dense, LayerNorm, Normalize and Dropout, found CNN: a convolution over tokens'

title '--pool replaces one pooling; --no-normalize leaves out the last Normalize alone'
fresh weighted
runs 0 embed 'the cat' -m weighted
cp "$out" weighted.txt
runs 0 embed 'the cat' -m weighted --pool weighted
check cmp -s "$out" weighted.txt
runs 0 embed 'the cat' -m weighted --pool mean-sqrt
! cmp -s "$out" weighted.txt || failed '--pool had no effect'
fresh several
runs 3 embed a -m several --pool mean
says_part 'module reads vectors of another width, expected the width of the preceding module 16, found 64'
fresh sentence-t5
runs 0 embed 'the cat' -m sentence-t5 --no-normalize
awk '{ for (i = 1; i <= NF; i++) s += $i * $i } END { exit !(s < .99 || s > 1.01) }' "$out" || failed 'still of length 1'

title 'a prompt and a Dense module: terms, widths, bytes of a text'
fresh embeddinggemma
runs 0 similar 'the cat' 'A dog' -m embeddinggemma --json
json 'open("cosine", "w").write(repr(d["cosine"][0][1]))'
runs 0 similar 'the cat' 'A dog' -m embeddinggemma --why --json
json 's = sum(map(sum, d["terms"])); c = float(open("cosine").read())
assert abs(s - c) < 1e-6, (s, c)
assert d["tokens"][0][1:3] == ["se", "arch"] and d["tokens"][0][-2:] == ["cat", "[SEP]"], d["tokens"]'
printf 'a\377' >bad
"$QKV_BIN" similar "$(cat bad)" a -m embeddinggemma --why >/dev/null 2>"$err"
says 'qkv: note: invalid UTF-8 was replaced by U+FFFD in 1 place, the first at byte 1'
runs 0 info embeddinggemma
prints_part 'embedding   9 numbers per text of at most 24 tokens'

title 'the length of tokenizer_config.json, which may be too large for an integer'
runs 0 embed 'the the the the the the the the the the the the the the the the the the the the the the the the' \
    -m embeddinggemma --truncate
says 'qkv: note: the text was cut to 24 tokens: 7 tokens were dropped'
sed -i 's/"model_max_length": 24/"model_max_length": 1000000000000000019884624838656/' embeddinggemma/tokenizer_config.json
runs 0 info embeddinggemma
prints_part 'embedding   9 numbers per text of at most 40 tokens'
finish
