# SPDX-License-Identifier: MIT
# why.sh: tests qkv similar --why: the cosine as a sum over pairs of tokens.
. tests/cli/lib.sh
bert=$here/../golden/bert
json() { python3 -c "import json, sys; d = json.load(open('$out')); $1" || failed "json: $1"; }

title 'terms add up to the cosine that similar prints'
runs 0 similar 'a b c' 'd' -m "$bert" --json
json 'open("cosine", "w").write(repr(d["cosine"][0][1]))'
runs 0 similar 'a b c' 'd' -m "$bert" --why --json
silent
json 's = sum(map(sum, d["terms"])); c = float(open("cosine").read())
assert abs(s - c) < 1e-6 and abs(d["cosine"] - c) < 1e-6, (s, c)
assert [len(d["terms"]), len(d["terms"][0])] == [len(x) for x in d["tokens"]] == [5, 3]
assert d["tokens"][1] == ["[CLS]", "d", "[SEP]"] and abs(sum(d["first"]) - s) < 1e-6 and abs(sum(d["second"]) - s) < 1e-6
assert all(abs(sum(r) - f) < 1e-6 for r, f in zip(d["terms"], d["first"]))'

title 'drawn in the terminal, and to a file'
runs 0 similar 'a b c' 'd' -m "$bert" --why
prints_part 'Which tokens make these texts alike?'
prints_part 'is the sum of 5 x 3 terms'
prints_part 'the largest terms'
for kind in svg html png; do
    runs 0 similar 'a <b> c' 'd' -m "$bert" --why -o why.$kind
    [ -s why.$kind ] || failed "why.$kind"
done
python3 -c "import xml.dom.minidom as m; m.parse('why.svg')" || failed 'well-formed'
runs 2 similar a b -m "$bert" --why -o why.svg
says_part 'why.svg'
runs 0 similar 'a' 'b' -m "$bert" --why -o -
prints_part '<svg'

title 'a model without terms is refused'
runs 2 similar a b c -m "$bert" --why
says 'qkv: --why: expected two texts, found 3'
runs 2 similar a b -m "$bert" --why --token a
says_part 'cannot be combined with --token'
runs 2 similar a b -m "$bert" -o x.svg
says 'qkv: -o requires --why'
mkdir cls cls/pool
cp "$bert/config.json" "$bert/tokenizer.json" "$bert/model.safetensors" cls
printf '[{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},{"idx":1,"name":"1","path":"pool","type":"sentence_transformers.models.Pooling"}]' >cls/modules.json
printf '{"word_embedding_dimension":%s,"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":false}' \
    "$(python3 -c "import json; print(json.load(open('cls/config.json'))['hidden_size'])")" >cls/pool/config.json
runs 4 similar a b -m cls --why
says "qkv: a cosine cannot be split by tokens, expected one pooling to a mean (mean, mean-sqrt, weighted), found pooling 'cls'"
finish
