#!/bin/sh
# SPDX-License-Identifier: MIT
# explain.sh: recomputes the finding of each topic of qkv explain, from other commands or from its formula.
top=$PWD
. tests/cli/lib.sh
export QKV_MODEL="$top/models/verse" COLUMNS=100

title 'the six steps have the weights of trace, which sum to one'
runs 0 trace -o t.safetensors --what attention "In the beginning God created" --force
runs 0 explain --json --layer 2 --head 1 --token 3 "In the beginning God created"
silent
check python3 - "$out" t.safetensors <<'END'
import json, math, struct, sys
r = json.load(open(sys.argv[1]))
b = open(sys.argv[2], "rb").read()
n = struct.unpack("<Q", b[:8])[0]
head = json.loads(b[8:8 + n])
name, = [k for k in head if "attentions.2" in k]
H, T = head[name]["shape"][-3], head[name]["shape"][-1]
at = 8 + n + head[name]["data_offsets"][0]
row = struct.unpack(f"<{T}f", b[at + 4 * (1 * T + 3) * T:][:4 * T])
w, score, dot, e = r["weights"], r["scaled"], r["scores"], r["exp"]
assert r["layer"] == 2 and r["head"] == 1 and r["query"] == 3 and len(r["tokens"]) == T == len(w)
assert max(abs(x - y) for x, y in zip(w, row)) < 1e-6, (w, row)
assert score[4:] == [None] * (T - 4) and w[4:] == [0] * (T - 4), score
# each step from the one before it, in floats: the products sum to the score, 1 / sqrt(64) scales it, softmax
assert abs(sum(r["products"]) - dot[r["key"]]) < 1e-3 and max(w) in (w[0], w[r["key"]])
assert all(abs(a * b - c) < 1e-5 for a, b, c in zip(r["q"], r["k"], r["products"]))
for j in range(4):
    assert abs(dot[j] / 8 - score[j]) < 1e-4 and abs(math.exp(score[j] - max(score[:4])) - e[j]) < 1e-4
    assert abs(e[j] / r["sum"] - w[j]) < 1e-5 and abs(sum(w) - 1) < 1e-6
assert len(r["z"]) == len(r["v"]) == 64 and len(r["x"]) == 192
END
runs 0 explain --token 3 "In the beginning God created"
prints_part '1 Project q = x W_Q, k = x W_K, v = x W_V'
prints_part "The weights of this row in the kernel differ from these by less than 1e-05."
runs 0 explain --layer 2 --head 1 --token 3 "In the beginning God created" -o steps.svg
runs 0 view --view steps --layer 2 --heads 1 --token 3 "In the beginning God created" -o view.svg
check cmp steps.svg view.svg
check python3 - steps.svg <<'END'
import sys, xml.etree.ElementTree as xml
words = [t.text for t in xml.parse(sys.argv[1]).iter() if t.tag.endswith("}text")]
for name in ("Project", "Score", "Scale, mask", "Softmax", "Weigh", "Sum", "W_Q  192 × 64", "W_K  192 × 64", "W_V  192 × 64"):
    assert words.count(name) == 1, name
END
runs 0 explain --layer 2 --head 1 --token 3 "In the beginning God created" -o steps.html
check grep -q 'doctype html' steps.html

title 'what no option names, explain chooses as view does: the token, the layer, the head'
for given in '' '--token heaven' '--token God --layer 1' '--layer 3'; do
    runs 0 explain $given "In the beginning God created the heaven and the earth"
    sed -n '/^How does/,/^2 Score/p' "$out" >steps.txt
    runs 0 view --view steps --terminal $given "In the beginning God created the heaven and the earth"
    sed -n '/^How does/,/^2 Score/p' "$out" >view.txt
    check [ -s steps.txt ]
    check cmp steps.txt view.txt
done
runs 0 explain --head 1 --layer 2 "In the beginning God created the heaven" -o steps.svg --force
runs 0 view --view steps --layer 2 --heads 1 "In the beginning God created the heaven" -o view.svg --force
check cmp steps.svg view.svg
runs 0 explain --head 0 " . . " # no link between words: a row is shown all the same
prints_part 'How does'

title 'the scale: a hundred times the scores saturate, and the naive exponential is not a number'
runs 0 explain --scaling --json
check python3 - "$out" <<'END'
import json, math, sys
r = json.load(open(sys.argv[1]))
once, hundred, curve, spread, learn = r["panels"]
soft = lambda x: [math.exp(a - max(x)) / sum(math.exp(b - max(x)) for b in x) for a in x]
w = once["lines"][0]["y"]
s = [math.log(x) for x in w]
assert abs(sum(w) - 1) < 1e-6
assert max(abs(a - b) for a, b in zip(soft([100 * x for x in s]), hundred["lines"][0]["y"])) < 1e-4
d, var = spread["lines"][0]["x"], spread["lines"][0]["y"]
for x, y, z in zip(d, var, spread["lines"][1]["y"]):  # variance of 4000 draws: within 5 deviations
    assert abs(y / x - 1) < 5 * math.sqrt((2 + 6 / x) / 4000) and abs(z - y / x) < 1e-6, (x, y)
assert r["table"][-1][3] == "not a number" and float(r["table"][-1][4]) > .99
for row in r["table"][1:5]:  # e^s of the largest score, which has two decimals
    assert abs(float(row[2]) / math.exp(float(row[1])) - 1) < .006, row
END

title 'sinusoids equal the formula of the paper'
runs 0 explain --positions --d 16 --json
check python3 - "$out" <<'END'
import json, math, sys
v = json.load(open(sys.argv[1]))["panels"][0]["values"]
for p in range(64):
    for i in range(16):
        angle = p / 10000 ** (i // 2 * 2 / 16)
        assert abs(v[p][i] - (math.cos(angle) if i % 2 else math.sin(angle))) < 1e-6, (p, i)
END

title 'a width that leaves a sine without its cosine is refused'
runs 2 explain --positions --d 3
says_part '--d: expected an even number, found 3'

title 'both layouts of a mask, and norms'
for n in 6 3; do
runs 0 explain --mask --json --sizes $n,5
check python3 - "$out" $n <<'END'
import json, sys
rows, by_row, columns, by_column = [p["values"] for p in json.load(open(sys.argv[1]))["panels"]]
n = int(sys.argv[2])
assert len(rows) == n
for i in range(n):
    assert abs(sum(x or 0 for x in by_row[i]) - 1) < 1e-6
    for j in range(n):
        assert (rows[i][j] is None) == (j > i) and rows[i][j] == columns[j][i]
        assert by_row[i][j] is by_column[j][i] is None or abs(by_row[i][j] - by_column[j][i]) < 1e-6
END
done
runs 0 explain --mask
check test "$(grep -c -e '-inf' -e '−∞' "$out")" -ge 10
runs 0 explain --norm --json --sizes 5,7
check python3 - "$out" <<'END'
import json, sys
x, layer, batch, layer100, batch100 = [p["values"] for p in json.load(open(sys.argv[1]))["panels"]]
def normal(v):
    m = sum(v) / len(v)
    s = (sum((a - m) ** 2 for a in v) / len(v) + 1e-5) ** .5
    return [(a - m) / s for a in v]
for a, b in zip(x, layer):
    assert max(abs(p - q) for p, q in zip(normal(a), b)) < 1e-5
for a, b in zip(zip(*x), zip(*batch)):
    assert max(abs(p - q) for p, q in zip(normal(a), b)) < 1e-5
assert len(x) == 5 and len(x[0]) == 7
# a factor cancels in layer norm, but for eps = 1e-5 and the rounding of floats of size 1000
assert max(abs(p - q) for a, b in zip(layer, layer100) for p, q in zip(a, b)) < 1e-4
assert max(abs(p - q) for a, b in zip(batch[:4], batch100) for p, q in zip(a, b)) > .5
END
runs 0 explain --shapes --json --sizes 5,4,3,2
check python3 - "$out" <<'END'
import json, sys
r = json.load(open(sys.argv[1]))
x, wq, wk, wv, q, k, v, w, out = [p["values"] for p in r["panels"]]
mul = lambda a, b: [[sum(p * q for p, q in zip(row, col)) for col in zip(*b)] for row in a]
close = lambda a, b: all(abs(p - q) < 1e-5 for r, s in zip(a, b) for p, q in zip(r, s))
assert [len(wq), len(wq[0]), len(wv[0])] == [4, 3, 2]
assert close(mul(x, wq), q) and close(mul(x, wk), k) and close(mul(x, wv), v) and close(mul(w, v), out)
assert r["table"][2] == ["W_Q", "4", "3"], r["table"]
END
runs 2 explain --norm --sizes 5,4,3
says_part "--sizes: expected at most 2 numbers, N,D, found 3"
runs 2 explain --norm --sizes 1,4
says_part "--sizes"
runs 2 explain --norm --sizes 2,2
says "qkv: --norm: expected --sizes with 3 tokens or more, found 2"
for seed in 1 2 3; do # the least size: the other tokens change under batch norm only
    runs 0 explain --norm --json --sizes 3,2 --seed $seed
    check python3 - "$out" <<'END'
import json, sys
x, layer, batch, layer100, batch100 = [p["values"] for p in json.load(open(sys.argv[1]))["panels"]]
change = lambda a, b: max(abs(p - q) for r, s in zip(a[:2], b) for p, q in zip(r, s))
assert change(layer, layer100) == 0 and change(batch, batch100) > .01, (layer, batch)
END
done

title 'independence: alone, permuted or all at once, the outputs have the same bits'
runs 0 explain --independence --json --sizes 9,5
check python3 - "$out" <<'END'
import json, sys
r = json.load(open(sys.argv[1]))
once, turned, alone, states = [p["values"] for p in r["panels"]]
assert len(once) == 9 and len(once[0]) == 5 and once == turned == alone
assert all(row[1:] == ["0", "the same"] for row in r["table"][1:]), r["table"]
off = max(abs(a - b) for a, b in zip(*states))  # the state of a recurrence changes without the tokens before it
assert len(states) == 2 and f"changes by up to {off:.2f} if" in r["sentence"], (states, r["sentence"])
END

title 'the embedding: words are counted once, also of characters that are several tokens'
runs 0 explain --embedding "日本 über naïve"
prints_part 'The text has 3 words'

title 'paths: a convolution needs n / (k / 2) layers, a recurrence n steps, attention one layer'
for sizes in 8,3 9,5 2,3 32,3 3,31; do
    runs 0 explain --paths --json --sizes $sizes
    check python3 - "$out" $sizes <<'END'
import json, sys
n, k = (int(x) for x in sys.argv[2].split(","))
r = json.load(open(sys.argv[1]))
far = k // 2
near = sum(abs(t - j) <= far for t in range(n) for j in range(n))
assert [row[1:] for row in r["table"][1:]] == [[str(near), "1", str(-(-(n - 1) // far))],
       [str(2 * n - 1), str(n), str(n)], [str(n * n), "1", "1"]], r["table"]
END
done
runs 0 explain --paths
check [ "$(grep -c '^ *c path *$' "$out")" = 3 ]
grep -q '│.*[ab]' "$out" && failed 'a letter without a legend'
runs 2 explain --paths --sizes 8,4
says 'qkv: --paths: expected an odd width of the convolution, found 4'

title 'the embedding: the ids of the tokenizer select rows of E in the file'
runs 0 tokenize --ids "The bears were unbearably tired"
cp "$out" ids
runs 0 explain --embedding --json
check python3 - "$out" "$QKV_MODEL/model.safetensors" ids <<'END'
import json, struct, sys
r = json.load(open(sys.argv[1]))
ids = [int(i) for i in open(sys.argv[3]).read().split()]
b = open(sys.argv[2], "rb").read()
n = struct.unpack("<Q", b[:8])[0]
t = json.loads(b[8:8 + n])["transformer.wte.weight"]
D, at = t["shape"][1], 8 + n + t["data_offsets"][0]
assert t["dtype"] == "BF16" and [int(row[2]) for row in r["table"][1:]] == ids, r["table"]
rows = r["panels"][0]["values"]
for row, numbers in zip(r["table"][1:], rows):
    assert all(abs(float(a) - b) <= .00050001 and len(a.split(".")[1]) == 3 for a, b in zip(row[3:], numbers)), (row, numbers)
assert len(rows) == len(ids) and len(rows[0]) == 16
for i, row in zip(ids, rows):
    half = struct.unpack("<16H", b[at + 2 * D * i:][:32])
    exact = struct.unpack("<16f", struct.pack("<16I", *(h << 16 for h in half)))
    assert max(abs(a - b) for a, b in zip(exact, row)) < 1e-8, (i, row)
texts = [row[0] or "" for row in r["table"][1:]]
assert "".join(texts) == "Thebearswereunbearablytired", texts
before = ["".join(texts[:i + 1]) for i in range(len(texts))]
spelled = [row[1] for row, end in zip(r["table"][1:], before) if len("Thebearswere") < len(end) <= len("Thebearswereunbearably")]
assert f"5 words and {len(ids)} tokens" in r["sentence"] and len(spelled) > 1, r["sentence"]
assert f"“unbearably” is split into {len(spelled)}: {' + '.join(spelled)} (Ġ is a space). " in r["sentence"], (spelled, r["sentence"])

def tensor(name):
    t = json.loads(b[8:8 + n])[name]
    half = struct.unpack(f"<{t['shape'][0] * D}H", b[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
    return lambda i: struct.unpack(f"<{D}f", struct.pack(f"<{D}I", *(h << 16 for h in half[i * D:(i + 1) * D])))
words, places = tensor("transformer.wte.weight"), tensor("transformer.wpe.weight")
norm = lambda row: sum(x * x for x in row) ** .5
own = sum(norm(words(i)) for i in ids) / len(ids)
both = sum(norm([x + y for x, y in zip(words(i), places(t))]) for t, i in enumerate(ids)) / len(ids)
assert f"The mean norm of a row is {own:.2f} in E and {both:.2f} in X." in r["sentence"], (own, both, r["sentence"])
END
runs 0 explain --embedding --ids 5,8,9 -m "$top/tests/golden/albert" --json # E of 61 x 10, and its projection to 24
check python3 - "$out" "$top/tests/golden/albert/model.safetensors" <<'END'
import json, struct, sys
r = json.load(open(sys.argv[1]))
b = open(sys.argv[2], "rb").read()
n = struct.unpack("<Q", b[:8])[0]
head = json.loads(b[8:8 + n])
def tensor(end):
    t = next(v for k, v in head.items() if k.endswith(end))
    assert t["dtype"] == "F16", t
    return struct.unpack(f"<{(t['data_offsets'][1] - t['data_offsets'][0]) // 2}e", b[8 + n + t["data_offsets"][0]:][:t["data_offsets"][1] - t["data_offsets"][0]])
E, P, c = (tensor(end) for end in ("word_embeddings.weight", "embedding_hidden_mapping_in.weight", "embedding_hidden_mapping_in.bias"))
rows, x = (p["values"] for p in r["panels"])
assert (len(rows), len(rows[0]), len(x), len(x[0])) == (3, 10, 3, 16), r["panels"]
for i, row, got in zip((5, 8, 9), rows, x):
    exact = E[10 * i:10 * i + 10]
    assert max(abs(a - b) for a, b in zip(exact, row)) < 1e-6, (exact, row)
    for d in range(16):
        assert abs(got[d] - c[d] - sum(a * w for a, w in zip(exact, P[10 * d:10 * d + 10]))) < 1e-5, (i, d)
assert "embedding matrix E, 61 × 10. A projection P, 10 × 24," in r["sentence"], r["sentence"]
END
for words in 1 30; do # a page of at most 25 lines, whose columns line up
    COLUMNS=80 runs 0 explain --embedding "The bears were unbearably tired$(seq $words | sed 's/.*/ a/' | tr -d '\n')"
    check [ "$(wc -l <"$out")" -le 25 ]
    check python3 - "$out" $words <<'END'
import re, sys
lines = [line.rstrip() for line in open(sys.argv[1], encoding="utf-8").read().split("\n")]
head = next(i for i, line in enumerate(lines) if re.match(r"text +token +id +0 +1 +2 +3$", line))
rows = [line for line in lines[head + 1:] if line]
long = sys.argv[2] == "30"
assert rows[-1].startswith("... ") == long, rows
ends = [[m.end() for m in re.finditer(r"\S+", line)][-6:] for line in [lines[head]] + rows[:-1]]
assert all(row == ends[0] for row in ends) and len(rows) == (15 if long else 13), lines
END
done
runs 0 explain --embedding --json --ids 5,8,9
prints_part 'From these rows the model computes the input of layer 0, X, 3 × 192'
runs 0 explain --embedding --json --ids 5,8,9 -m "$top/tests/golden/llama"
prints_part 'These rows are the input of layer 0, X, 3 × '
runs 2 explain --embedding "$(seq 200)" --truncate
says_part '--embedding: text too long, expected at most 48 tokens, found '

title 'the diagonal: X X^T of the embeddings of the file, its softmax with and without the scale, nothing hidden'
runs 0 tokenize --ids "the light and the lights of God"
ids=$(tr ' ' ',' <"$out")
COLUMNS=80 runs 0 explain --diagonal "the light and the lights of God"
cp "$out" narrow
runs 0 explain --diagonal --json "the light and the lights of God"
check python3 - "$out" narrow <<'END'
import json, sys
lines = open(sys.argv[2], encoding="utf-8").read().splitlines()
for row in json.load(open(sys.argv[1]))["table"]:  # at 80 columns no cell of the table is cut
    assert any(" ".join(line.split()) == " ".join(row) for line in lines), row
END
check python3 - "$out" "$QKV_MODEL/model.safetensors" "$ids" <<'END'
import json, math, struct, sys
r = json.load(open(sys.argv[1]))
b = open(sys.argv[2], "rb").read()
n = struct.unpack("<Q", b[:8])[0]
t = json.loads(b[8:8 + n])["transformer.wte.weight"]
D, at = t["shape"][1], 8 + n + t["data_offsets"][0]
row = lambda i: [struct.unpack("<f", b"\0\0" + b[at + 2 * (i * D + d):][:2])[0] for d in range(D)]
x = [row(int(i)) for i in sys.argv[3].split(",")]
dot = lambda a, b: sum(p * q for p, q in zip(a, b))
score = [[dot(a, b) for b in x] for a in x]
def soft(s, scale):
    e = [[math.exp(scale * (v - max(line))) for v in line] for line in s]
    return [[v / sum(line) for v in line] for line in e]
norm = [[v / math.sqrt(score[i][i] * score[j][j]) for j, v in enumerate(line)] for i, line in enumerate(score)]
want = [score, norm, soft(score, 1), soft(score, D ** -.5), soft(norm, 1), soft(norm, D ** -.5)]
drawn = [p["values"] for p in r["panels"]]
for a, b in zip((want[0], want[2], want[3]), drawn):
    # products in doubles, stored as floats of at most 8; a softmax of floats
    assert max(abs(p - q) for u, v in zip(a, b) for p, q in zip(u, v)) < 4e-6, (a, b)
for w, line in zip(want + [drawn[3]], r["table"][1:]):
    d = [w[i][i] for i in range(len(x))]
    itself = sum(max(w[i]) <= d[i] + 1e-6 * abs(d[i]) for i in range(len(x)))
    assert line[4] == f"{itself} of {len(x)}", (line, itself)
    for v, shown in zip((min(d), sum(d) / len(d), max(d)), line[1:4]):
        assert abs(v - float(shown)) < 6e-4, (line, v)
END

title 'a dense layer: the weights are the softmax of the scores times the factor that the page names'
runs 0 explain --dense --json "In the beginning God created"
mv "$out" dense.json
runs 0 explain --diagonal --json "In the beginning God created"
check python3 - dense.json "$out" <<'END'
import json, math, re, sys
r, x = (json.load(open(f)) for f in sys.argv[1:])
c = float(re.search(r"c = ([0-9.]+)", r["panels"][1]["name"])[1])
score = x["panels"][0]["values"]
fixed, one, back = (p["values"] for p in r["panels"])
self = sum(c * score[i][i] for i in range(len(score))) / len(score)
assert abs(self - 3) < .005 * 3 / c, self  # c has two decimals
for s, w, v in zip(score, one, reversed(back)):
    e = [math.exp(c * (a - max(s))) for a in s]
    assert max(abs(p / sum(e) - q) for p, q in zip(e, w)) < .005 / c * 6, (s, w)  # d w < d(c s) / 2
    assert max(abs(p - q) for p, q in zip(w, reversed(v))) < 1e-6
assert all(abs(sum(w) - 1) < 1e-6 for w in fixed)
END

title 'words: each topic runs on a model and prints its finding'
runs 0 explain --geometry "In the beginning God created the heaven"
prints_part 'Where do queries and keys lie in space?'
runs 0 explain --dense "In the beginning God created"
prints_part 'factor c = '
runs 0 explain --context heaven "the heaven and the earth" "the kingdom of heaven"
# of a long text the word and a few words around it: the chart would cut off the word
long="once upon a time, when ships had sails of light and the sea was as old as the stones under it, long before the first
of our books was written by the people of the coast and carried over the hills, the heaven was an ocean of light"
runs 0 explain --context heaven "$long" "the kingdom of heaven" -o context.svg --json
prints_part 'in “... hills, the [heaven] was an ocean ...” and “the kingdom of [heaven]” the vectors differ most'
[ "$(grep -c '>…[^<]*\[heaven\] was a' context.svg)" -eq 2 ] || failed 'the label of a long text has not its word'
runs 0 explain --lookup "the light" "the light of day" "darkness of night"
prints_part 'all these words'
runs 0 explain --lookup --json "the light" "the light of day" "darkness of night" "the light" "The day"
check python3 - "$out" <<'END'
import json, math, sys
r = json.load(open(sys.argv[1]))
grid, cosine = r["panels"][0]["values"], r["panels"][1]["lines"][0]["y"]
key, full, some, *soft = zip(*grid)
assert key == (0, 0, 1, 0) and full == (.5, 0, .5, 0), (key, full)
assert max(abs(a - b) for a, b in zip(some, (1 / 3, 0, 1 / 3, 1 / 3))) < 1e-6
for scale, w in zip((1, 5, 20, 80), soft):
    e = [math.exp(scale * (c - max(cosine))) for c in cosine]
    assert max(abs(a / sum(e) - b) for a, b in zip(e, w)) < 1e-5, (scale, w)
assert r["table"][-3:] == [["the query as one key", "2"], ["all these words", "0, 2"], ["any of these words", "0, 2, 3"]]
END
runs 0 explain --reads "God said, Let there be light" light God --token there
prints_part 'the strongest heads'

title 'a picture has the format of its file name'
runs 0 explain --mask -o mask.svg
check python3 -c 'import xml.etree.ElementTree as x; assert x.parse("mask.svg").getroot().tag.endswith("svg")'
runs 2 explain --mask -o mask.svg
runs 0 explain --mask -o - --force
check grep -q '^<svg' "$out"

title 'impossible requests are refused with the reason'
runs 2 explain --mask --norm
says_part 'cannot be combined with another topic'
runs 2 explain --mask x
says_part '--mask: expected at most 0 operands, found 1'
runs 2 explain --token zebra "In the beginning"
says "qkv: --token: expected a token of the text or its index from 0 to 4, found 'zebra'"
runs 2 explain --reads "In the beginning" zebra --token the
says "qkv: --reads: expected a token of the text or its index from 0 to 4, found 'zebra'"
runs 2 explain --layer 4 "In the beginning"
says 'qkv: --layer: number out of range, expected 0 to 3, found 4'
runs 2 explain --context bear "I love cats" "I love dogs"
says_part "no word that begins with 'bear' in the text 'I love cats'"
runs 2 explain --reads "In the beginning" the
says_part '--reads requires --token'
runs 2 explain " "
says "qkv: the text is empty, expected words"
runs 2 explain --mask -o mask.txt
says_part "expected a name that ends with .svg, .png or .html"

title 'a topic refuses the options of other topics'
runs 2 explain --scaling --sizes 3
says 'qkv: --sizes cannot be combined with --scaling, expected one of --norm, --shapes, --mask, --independence, --paths'
runs 2 explain --scores --head 3
says_part '--head cannot be combined with --scores, expected one of --steps, --positions, --diagonal, --geometry'
runs 2 explain --positions --seed 1
says_part '--seed cannot be combined with --positions'
runs 2 explain --seed 2 "In the beginning"
says_part '--seed cannot be combined with --steps'

title 'a word that occurs more than once carries its place, and is found by its word'
runs 0 explain --reads "the light and the night" night --token the
prints_part 'Which heads attend from “the₁” to “night”?'
runs 0 explain --json --token the "the light and the night"
check python3 -c 'import json, sys; t = json.load(open(sys.argv[1]))["tokens"]; assert t.count("the") == 2, t' "$out"

title 'positions of a model: the learned table of its file, or its relative biases'
runs 0 explain --positions --json -m "$top/tests/golden/bert" --ids 3,4,5
check python3 - "$out" "$top/tests/golden/bert/model.safetensors" <<'END'
import json, math, struct, sys
panels = json.load(open(sys.argv[1]))["panels"]
b = open(sys.argv[2], "rb").read()
n = struct.unpack("<Q", b[:8])[0]
t = next(v for k, v in json.loads(b[8:8 + n]).items() if k.endswith("embeddings.position_embeddings.weight"))
P, D = t["shape"]
at = 8 + n + t["data_offsets"][0]
x = [struct.unpack(f"<{D}f", b[at + 4 * D * i:][:4 * D]) for i in range(P)]
cosine = lambda a, b: sum(p * q for p, q in zip(a, b)) / math.sqrt(sum(p * p for p in a) * sum(p * p for p in b))
learned = next(p for p in panels if p["name"].startswith("learned by ") and "lines" in p)["lines"][0]
assert len(learned["x"]) == min(P, 49), learned
for far, c in zip(learned["x"], learned["y"]):
    assert abs(c - cosine(x[0], x[int(far)])) < 1e-5, far
END
runs 0 explain --positions --json -m "$top/tests/golden/flan-t5" --ids 3,4,5
check python3 -c '
import json, sys
r = json.load(open(sys.argv[1]))["panels"][-1]
assert r["name"].startswith("relative positions of") and len(r["lines"]) >= 1, r["name"]
y = r["lines"][0]["y"]
assert len(set(y)) > 3 and len(y) == len(r["lines"][0]["x"]), y' "$out"
for place in '0 1' '1 0'; do # T5 shares the table of layer 0 between its layers
    runs 0 explain --positions --json -m "$top/tests/golden/flan-t5" --ids 3,4,5 --layer ${place% *} --head ${place#* }
    check python3 - "$out" "$top/tests/golden/flan-t5" $place <<'END'
import json, struct, sys
out, folder, layer, head = sys.argv[1:]
panel = json.load(open(out))["panels"][-1]
assert panel["name"].endswith(f"layer {layer}"), panel["name"]
assert [l["name"] for l in panel["lines"]] == [f"head {head}"], panel["lines"]
about = json.load(open(folder + "/config.json"))
b = open(folder + "/model.safetensors", "rb").read()
n = struct.unpack("<Q", b[:8])[0]
name = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
t = json.loads(b[8:8 + n])[name]
assert t["dtype"] == "F16"
N, H = t["shape"]
x = struct.unpack(f"<{N * H}e", b[8 + n + t["data_offsets"][0]:][:2 * N * H])
checked = 0
for d, y in zip(panel["lines"][0]["x"], panel["lines"][0]["y"]):
    if abs(d) < N // 4:  # buckets of one distance; the buckets of later keys come second
        assert abs(y - x[int(abs(d) + (N // 2 if d > 0 else 0)) * H + int(head)]) < 1e-6, (d, y)
        checked += 1
assert checked > 4, panel
END
done
runs 2 explain --positions -m "$top/tests/golden/flan-t5" --ids 3,4,5 --layer 99
says_part '--layer: number out of range'
runs 2 explain --positions --head 1
says_part '--layer and --head require a model with relative positions'
runs 2 explain --positions --head 1 -m "$top/tests/golden/bert" --ids 3,4,5
says_part '--layer and --head require a model with relative positions'
runs 0 convert "$top/tests/golden/bert" bert --precision f32 --shard-size 20KB
[ -f bert/model.safetensors.index.json ] || failed 'no shards'
runs 0 explain --positions --json -m "$top/tests/golden/bert" --ids 3,4,5
cp "$out" whole.json
runs 0 explain --positions --json -m bert --ids 3,4,5
check cmp -s "$out" whole.json
runs 0 explain --positions --json
check python3 -c '
import json, math, sys
turn = next(p for p in json.load(open(sys.argv[1]))["panels"] if p["name"].startswith("rotary"))["lines"][0]
for d, c in zip(turn["x"], turn["y"]):
    assert abs(c - sum(math.cos(d / 10000 ** (2 * i / 64)) for i in range(32)) / 32) < 1e-5, d' "$out"
runs 4 explain --positions -m "$top/tests/golden/llama" --ids 3,4,5
says_part 'expected relative biases or a learned table of positions'
finish
