# SPDX-License-Identifier: MIT
# ablate.sh: tests ablation on the command line: a scan, several heads together, --ablate of every command.
. tests/cli/lib.sh
top=$here/../..
for name in verse dates; do
    [ -d "$top/models/$name" ] || { echo "skipped: models/$name is not there"; exit 77; }
done
ln -s "$top/models" models
bert=$top/tests/golden/bert
json() { python3 -c "import json, sys; d = json.load(open('$out')); $1" || failed "json: $1"; }

title 'a scan lists heads by the size of their effect'
runs 0 ablate --ids 2,7,9,11,3 -m "$bert" -n 3
silent
prints_part '5 tokens, each of '
prints_part "1 - cosine of the text's vector"
[ "$(grep -c '^ *[1-3]  L[0-9]*\.H[0-9]* ' "$out")" -eq 3 ] || failed 'three heads'
runs 0 ablate --ids 2,7,9,11,3 -m "$bert" --json
json 's, = d["stacks"]; r = d["ranked"]; e = s["effect"]
assert d["unit"] == "1 - cosine" and d["kind"] == "zero" and s["part"] == "attention" and "loss" not in d
assert len(e) == s["layers"] and all(len(x) == s["heads"] for x in e) and len(r) == s["layers"] * s["heads"]
v = [abs(x["effect"]) for x in r]; assert v == sorted(v, reverse=True) and v[0] > 0
import re
assert all(e[int(l)][int(h)] == x["effect"] for x in r for l, h in re.findall(r"^L(\d+)\.H(\d+)$", x["head"]))
c = s["changes"][0][0]; assert c and all(x["before"] == 0 and x["after"] > 0 and x["text"][0] == "#" for x in c)'

title 'the scan of a decoder uses its loss, which agrees with its perplexity'
printf 'In the beginning God created' >text
runs 0 ablate 'In the beginning God created' -m models/verse --json --kind mean
json 'assert d["unit"] == "nats" and d["kind"] == "mean" and d["loss"] > 0; open("loss", "w").write(repr(d["loss"]))
c = d["stacks"][0]["changes"][0][0]; assert all(0 <= x["before"] <= 1 and 0 <= x["after"] <= 1 for x in c)'
runs 0 eval models/verse --perplexity text --json
json 'assert abs(d["loss"] - float(open("loss").read())) < 1e-5, d'

title 'two stacks: the target is an argument, or the model generates it'
runs 0 ablate 'the third of May 1987' 1987-05-03 -m models/dates --json
json 'assert [s["part"] for s in d["stacks"]] == ["encoder", "decoder", "cross"]'
cp "$out" given
runs 0 ablate 'the third of May 1987' -m models/dates --json
check cmp -s "$out" given

title 'heads together: the same effect as in a scan, token by token'
runs 0 ablate 'In the beginning' -m models/verse --ablate L1.H2=uniform --json
json 'open("one", "w").write(repr(d["effect"])); assert d["ablate"] == ["L1.H2=uniform"]'
runs 0 ablate 'In the beginning' -m models/verse --kind uniform --json
json 'assert abs(d["stacks"][0]["effect"][1][2] - float(open("one").read())) < 1e-6'
runs 0 ablate 'In the beginning' -m models/verse --ablate 'L0.H*,L1.H2=mean' -n 2
prints_part 'without L0.H*=zero,L1.H2=mean: '
[ "$(grep -c ' p 0\.' "$out")" -eq 2 ] || failed 'two tokens'
runs 0 ablate 'In the beginning' -m models/verse --ablate L1.H2 --scan --json
json 'assert d["stacks"][0]["effect"][1][2] == 0'

title 'eval measures the model without the ablated heads'
heads='cross.L0.H*=mean,enc.L0.H0=uniform,dec.L1.H2,cross.L1.H1=uniform,enc.L1.H1=mean'
runs 0 ablate 'the third of May 1987' 1987-05-03 -m models/dates --ablate "$heads" --json
json 'open("loss2", "w").write(repr(d["loss"] + d["effect"]))'
printf 'the third of May 1987\t1987-05-03\n' >pairs.tsv
runs 0 eval models/dates pairs.tsv --ablate "$heads" --json
json 'w = float(open("loss2").read()); assert w > 1e-3 and abs(d["loss"] - w) < 1e-5 * (1 + w), (d, w)'
printf 'The word of the LORD came to me' >lord
runs 0 eval models/verse lord --json
json 'open("losses", "w").write(repr(d["loss"] * d["targets"]))'
runs 0 eval models/verse lord --ablate 'L0.H0=uniform,L2.H*' --json
json 'open("losses", "a").write(" " + repr(d["loss"] * d["targets"]))'
python3 -c "
x, y = map(float, open('losses').read().split()); assert y > x + 1" || failed 'a decoder without heads'

title 'the page of qkv view contains the map and opens at the head with the largest effect'
runs 0 ablate 'the third of May 1987' -m models/dates -o map.html -n 1
prints_part 'map.html'
[ "$(grep -o '"effects":{"unit":"nats"' map.html | wc -l)" -eq 3 ] || failed 'a map of each stack'
grep -q '"start":' map.html || failed 'a start'
runs 0 ablate --ids 2,7,9,3 -m "$bert" -o ids.html --json
grep -q '"effects":{"unit":"1 - cosine"' ids.html || failed 'a map'
runs 0 view 'the third of May 1987' -m models/dates --ablate-map -o same.html
[ "$(grep -o '"effects":{"unit":"nats","values":[^a-z]*' same.html)" = "$(grep -o '"effects":{"unit":"nats","values":[^a-z]*' map.html)" ] || failed 'other maps'
runs 2 ablate x -m models/verse -o map.txt
says "qkv: -o: expected a name that ends with .html, found 'map.txt'"
runs 2 ablate x -m models/verse -o map.html --ablate L0.H0
says_part 'requires --scan'
runs 2 ablate 'a b c' -m models/verse -o map.html
says_part 'map.html'
runs 0 view --ids 2,7,9,3 -m "$bert" --ablate L0.H1=uniform -o v.html
grep -q 'ablated: L0.H1=uniform' v.html || failed 'the page does not say so'

title 'a negative effect is a bar to the left of 0, in the terminal and in the picture'
runs 0 ablate 'And the LORD spake unto the people' -m models/verse --json
cp "$out" effects.json
runs 0 ablate 'And the LORD spake unto the people' -m models/verse -n 12
cp "$out" bars
runs 0 view 'And the LORD spake unto the people' -m models/verse --ablate-map --view model -o bars.svg
python3 - <<'PY' >"$out" 2>&1 || failed 'bars'
import json, re
effect = [x for layer in json.load(open("effects.json"))["stacks"][0]["effect"] for x in layer]
low, high = min(effect), max(effect)
assert low < 0 < high, (low, high)
rows = re.findall(r"^ +\d+  (L\d\.H\d) +([-.\d]+)  (.{17})", open("bars", encoding="utf-8").read().replace("−", "-"), re.M)
assert len(rows) == len(effect) == 12, rows
zero = rows[0][2].index("│")
for name, x, bar in rows:
    assert bar[zero] == "│", (name, bar)
    left, right = bar[:zero], bar[zero + 1:]
    assert (right if float(x) < 0 else left).strip() == "", (name, x, bar)
    assert left.lstrip() == left.strip() and right.rstrip() == right.strip(), (name, bar)
    columns = abs(float(x)) / (high - low) * 16
    assert abs(len(left.strip() + right.strip()) - columns) <= 1, (name, x, bar)
number = lambda name, text: float(re.search(rf'\b{name}="([-.\d]+)"', text)[1])
boxes = re.findall(r'<rect[^>]* height="3"[^>]*>', open("bars.svg").read())
assert len(boxes) == 24, len(boxes)
for x, rule, bar in zip(effect, boxes[::2], boxes[1::2]):
    scale = number("width", rule) / (high - low)
    assert abs(number("x", bar) - number("x", rule) - scale * (min(0, x) - low)) < .02, (x, rule, bar)
    assert abs(number("width", bar) - scale * abs(x)) < .02, (x, rule, bar)
PY

title '--ablate is an option of every command that runs a model, repeated or with commas'
runs 0 generate 'In the beginning' -m models/verse -n 12
cp "$out" whole
runs 0 generate 'In the beginning' -m models/verse -n 12 --ablate L0.H0,L0.H1=mean
! cmp -s "$out" whole || failed 'the same text'
cp "$out" comma
runs 0 generate 'In the beginning' -m models/verse -n 12 --ablate L0.H0 --ablate L0.H1=mean
check cmp -s "$out" comma
runs 0 generate 'In the beginning' -m models/verse -n 12 --ablate L0.H0=zero,L0.H1=mean --json
prints_part '"ablate":["L0.H0=zero","L0.H1=mean"]'
runs 0 translate 'the third of May 1987' -m models/dates --ablate 'cross.L0.H*,cross.L1.H*'
! grep -q 1987-05-03 "$out" || failed 'a date from nowhere'
runs 0 eval models/verse --perplexity text --json --ablate 'L0.H*=uniform'
json 'assert abs(d["loss"] - float(open("loss").read())) > 1e-3'
runs 0 embed --ids 2,7,9,3 -m "$bert"
cp "$out" whole
runs 0 embed --ids 2,7,9,3 -m "$bert" --ablate L0.H1
! cmp -s "$out" whole || failed 'the same vector'
for name in labels tokens; do
    mkdir $name
    cp "$bert/tokenizer.json" "$bert-$name/"*.json "$bert-$name/model.safetensors" $name
done
runs 0 classify 'a b c' -m labels --ablate L0.H0 --json
prints_part '"ablate":["L0.H0=zero"]'
runs 0 fill 'a [MASK] b' -m tokens --ablate L0.H0 --json
prints_part '"ablate":["L0.H0=zero"]'
runs 0 similar 'a b' 'c d' -m "$bert" --ablate L0.H0 --json
prints_part '"ablate":["L0.H0=zero"]'
runs 0 trace --ids 2,7,9,3 -m "$bert" --ablate L0.H1=uniform --what attention -o a.safetensors
grep -q '"ablate":"L0.H1=uniform"' a.safetensors || failed 'metadata'

title 'an invalid head is refused with its name'
runs 2 embed x -m "$bert" --ablate L99.H0
says "qkv: $bert: cannot ablate L99.H0=zero: no such layer, expected 0 to $(python3 -c "import json; print(json.load(open('$bert/config.json'))['num_hidden_layers'] - 1)"), found 99"
runs 2 embed x -m "$bert" --ablate L0.H0,L0.H0=mean
says "qkv: $bert: cannot ablate L0.H0=mean: the head is named twice, expected each head once"
runs 2 embed x --ablate L0.H0=none
says "qkv: --ablate: unknown replacement of a head, expected =zero, =mean or =uniform, found '=none'"
runs 2 embed x --ablate L0.H0,
says_part "qkv: --ablate: unknown head to ablate, expected a name such as L3.H5"
runs 2 embed x -m "$bert" --ablate cross.L0.H0
says_part 'wrong part of the model, expected a layer without enc., dec. or cross. before it, since the model has one stack'
runs 2 translate x -m models/dates --ablate L0.H0
says_part 'wrong part of the model, expected enc., dec. or cross. before the layer'
runs 2 eval models/verse text --ablate L9.H0
says_part 'no such layer'
runs 2 ablate x -m models/verse --kind mean --ablate L0.H0
says_part 'qkv: --kind requires --scan'
runs 2 ablate
says_part 'expected a text'
runs 2 ablate --ids 1 -m models/verse
says_part 'expected 2 or more tokens, found 1'

title 'a word that occurs more than once carries its place in lists'
runs 0 ablate "the cat saw the dog and the bird" -m models/verse --ablate L1.H1
python3 - "$out" <<'PY' || failed 'places'
import re, sys
rows = [line.split()[:2] for line in open(sys.argv[1], encoding="utf-8") if re.match(r" +\d+  ", line)]
for token, word in rows:
    place = "".join(chr(0x2080 + int(c)) for c in token)
    assert word.endswith(place) == word.startswith("the"), rows
assert any(word.startswith("the") for _, word in rows), rows
PY
LC_ALL=C runs 0 ablate "the cat saw the dog and the bird" -m models/verse --ablate L1.H1
prints_part ' the_5'
finish
