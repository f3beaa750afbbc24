# SPDX-License-Identifier: MIT
# compare.sh: tests the output, charts and refusals of qkv compare.  No test asserts a speed.
. tests/cli/lib.sh
small='-n 16,64 -d 32 --seconds 0.001'

title 'every layer has its formulas, its figures at every size, and an error if it is approximate'
runs 0 compare $small
silent
for part in 'One layer: formulas' 'n^2 d' 'k n d^2' 'n / k' 'Time, d = 32' \
    'Memory in addition to inputs and outputs, d = 32' 'From which n a kind is faster or slower than exact attention' 'Error relative to exact attention'; do
    prints_part "$part"
done
check test "$(wc -L <"$out")" -le 110

title 'only letters of formulas that are shown are explained'
runs 0 compare -n 16 -d 32 --seconds 0.001 --kinds attention,elman
sed -n '/^n tokens/,/^$/p' "$out" >letters.txt
check [ "$(sed -n 1p letters.txt)" = 'n tokens of d numbers' ]
check [ "$(grep -c -e '--causal' -e 'log_k' letters.txt)" = 0 ]
runs 0 compare -n 16 -d 32 -r 8 --seconds 0.001 --kinds window,linear
prints_part 'n tokens of d numbers; r = 8 keys per query; heads of e = 64 numbers'
prints_part 'a layer moves r/2 tokens,'
check [ "$(grep -c 'log_k' "$out")" = 0 ]

title 'as JSON: operations, steps and paths follow the formulas'
runs 0 compare $small --json -r 8
python3 - "$out" <<'PY' || failed 'the JSON of compare'
import json, sys
d = json.load(open(sys.argv[1]))
names = [k["kind"] for k in d["kinds"]]
assert names == ["attention", "multi-head", "convolution", "elman", "gru", "window", "block-sparse", "linear",
                 "performer", "linformer", "nystrom"], names
assert len(d["results"]) == 2 * len(names) and len(d["crossings"]) == 3 * (len(names) - 1)
at = {(r["kind"], r["n"]): r for r in d["results"]}
for n in (16, 64):
    assert at["attention", n]["operations"] == 4 * n * n * 32
    assert at["multi-head", n]["operations"] == 4 * n * n * 32 + 8 * n * 32 * 32
    assert at["convolution", n]["operations"] == 2 * 3 * n * 32 * 32
    assert at["elman", n]["operations"] == 4 * n * 32 * 32 and at["elman", n]["steps"] == n
    assert at["gru", n]["operations"] == 12 * n * 32 * 32 and at["gru", n]["path"] == n
    assert at["window", n]["path"] == -(-(n - 1) // 4)
    assert at["linear", n]["path"] == 1 and at["block-sparse", n]["path"] == 2
    assert at["convolution", n]["path"] == n - 1  # a layer of width 3 moves one token to each side
for r in d["results"]:
    assert 0 < r["seconds"]["best"] <= r["seconds"]["median"] and r["memory"] >= 0 and r["rounds"] >= 1, r
for c in d["crossings"]:  # one d, so no crossing along d; along n between sizes where the sign changes
    t = [at[c["kind"], n]["seconds"]["best"] / at["attention", n]["seconds"]["best"] for n in (16, 64)]
    if c["along"] == "n":
        assert (c["at"] is not None) == ((t[0] < 1) != (t[1] < 1)) and c["faster_then"] == (t[1] < 1), (c, t)
        assert c["at"] is None or 16 <= c["at"] <= 64, c
    else:
        assert c["at"] is None and c["last"] == 32, c
assert [c["name"] for c in d["inputs"]["cases"]] == ["random", "local", "smooth", "small"]
for case in d["inputs"]["cases"]:
    errors = {e["kind"]: e for e in case["errors"]}
    assert set(errors) == set(names[5:]), errors
    for e in errors.values():
        assert 0 < e["mean"] <= e["worst"] and e["heads"] == 1, e
    assert 0 < case["mean_of_values"]["mean"] < 2, case
PY

title 'counted: operations, steps and paths, nothing measured, in every format'
runs 0 compare $small --count
check [ "$(grep -c -e Measured -e 'Time' -e faster "$out")" = 0 ]
prints_part 'One layer: formulas'
prints_part 'Error relative to exact attention'
runs 0 compare -n 16,64 -d 32 --count --kinds attention,elman --json -o count.svg
check python3 - "$out" count.svg <<'PY'
import json, re, sys
d = json.load(open(sys.argv[1]))
assert [(r["kind"], r["n"], r["operations"]) for r in d["results"]] == [
    ("attention", 16, 32768), ("attention", 64, 524288), ("elman", 16, 65536), ("elman", 64, 262144)], d["results"]
assert not any("seconds" in r or "memory" in r for r in d["results"]) and "crossings" not in d
text = " ".join(re.findall(">([^<>]+)<", open(sys.argv[2], encoding="utf-8").read()))
assert "exact attention takes 0.524 million operations" in " ".join(text.split()) and "n = d" in text, text
PY
runs 2 compare --memory --count
says_part '--memory compares dense with fused attention, and cannot be combined with --count'

title 'each approximation is good on inputs with its structure, and better there than the mean of the values'
runs 0 compare -n 1024 -d 64 --seconds 0.001 --json --kinds attention,window,performer,linformer,nystrom
python3 - "$out" <<'PY' || failed 'errors by structure'
import json, sys
cases = {c["name"]: c for c in json.load(open(sys.argv[1]))["inputs"]["cases"]}
for case, kinds in (("local", ["window"]), ("smooth", ["linformer", "nystrom"]), ("small", ["performer"])):
    c = cases[case]
    for e in c["errors"]:
        if e["kind"] in kinds:
            assert e["mean"] < .6 * c["mean_of_values"]["mean"] and e["mean"] < .6, (case, e, c["mean_of_values"])
assert all(e["mean"] > .5 for e in cases["random"]["errors"]), cases["random"]
PY
runs 0 compare $small --causal --kinds attention,window
prints_part 'mean of v'

title 'projections with as many rows as tokens give exact attention'
runs 0 compare -n 64 -d 32 -r 64 --seconds 0.001 --json --kinds attention,linformer
python3 - "$out" <<'PY' || failed 'exact with all rows'
import json, sys
for e in json.load(open(sys.argv[1]))["inputs"]["cases"][0]["errors"]:
    assert e["mean"] < 1e-5, e
PY

title 'causal: layers without a causal form are omitted'
runs 0 compare $small --causal --json
python3 - "$out" <<'PY' || failed 'causal'
import json, sys
d = json.load(open(sys.argv[1]))
kinds = {r["kind"] for r in d["results"]}
assert "window" in kinds and "linear" in kinds and not kinds & {"linformer", "nystrom"}, kinds
PY

title 'dense scores grow with n x n, the fused operator does not'
runs 0 compare --memory -n 512,1024,2048 --seconds 0.001 --json
python3 - "$out" <<'PY' || failed 'memory'
import json, sys
d = json.load(open(sys.argv[1]))
for r in d["results"]:
    assert r["dense"]["memory"] > 4 * r["n"] ** 2 * 0.9, r
assert d["results"][2]["fused"]["memory"] < d["results"][2]["dense"]["memory"] / 2, d
PY
runs 0 compare --memory -n 64,128 --seconds 0.001
prints_part 'fused grows'

title 'a chart of the comparison'
runs 0 compare $small -o chart.svg
check grep -q '<svg' chart.svg
check grep -q 'attention' chart.svg
runs 0 compare --memory -n 64,128 --seconds 0.001 -o memory.svg
check grep -q 'dense' memory.svg
runs 2 compare $small -o chart.svg
says_part 'chart.svg'

title 'counted layers have no arrays, so that their size has no limit of memory'
runs 0 compare --count -n 4,16777216 -d 64 --kinds attention,multi-head,convolution,elman,linear,linformer --json
check python3 - "$out" <<'PY'
import json, sys
at = {(r["kind"], r["n"]): r["operations"] for r in json.load(open(sys.argv[1]))["results"]}
n = 1 << 24
for kind, want in (("attention", 4 * n * n * 64), ("elman", 4 * n * 64 * 64), ("multi-head", 4 * n * n * 64 + 8 * n * 64 * 64)):
    assert abs(at[kind, n] / want - 1) < 1e-8, (kind, at)  # nine digits are printed
assert at["linear", n] > 0 and at["linformer", n] > 0, at
PY

# ---- arrays of the caller
python random q.npy f4 2x40x4x8 1
python random k.npy f4 2x40x2x8 2
python random v.npy f4 2x40x2x6 3

title 'on arrays: cost and error of each approximation, relative to exact attention, with both baselines'
runs 0 compare -q q.npy -k k.npy -v v.npy --seconds 0.001
silent
prints_part 'q (2, 40, 4, 8), k (2, 40, 2, 8), v (2, 40, 2, 6); approximations may use r = 10 keys per query'
for part in 'kind           operations      time    memory    error    worst' 'output 0 ' 'mean of v ' 'attention ' 'window ' \
    'block-sparse ' 'linear ' 'performer ' 'linformer ' 'nystrom ' 'the mean and the largest of 8 heads'; do
    prints_part "$part"
done
check test "$(wc -L <"$out")" -le 110

title 'as JSON, with errors that the formulas give'
runs 0 compare -q q.npy -k k.npy -v v.npy --seconds 0.001 -r 8 --json
check python3 -S -E - "$out" "$here" <<'PY'
import json, math, sys
sys.path.insert(0, sys.argv[2])
import arrays
d = json.load(open(sys.argv[1]))
assert (d["compare"], d["q"], d["k"], d["v"]) == ("arrays", [2, 40, 4, 8], [2, 40, 2, 8], [2, 40, 2, 6]), d
assert (d["keys"], d["heads"], d["causal"]) == (8, 8, False), d
assert [r["kind"] for r in d["results"]] == ["attention", "window", "block-sparse", "linear", "performer", "linformer",
                                             "nystrom"], d["results"]
for r in d["results"]:
    assert r["rounds"] >= 1 and r["seconds"]["best"] > 0 and r["operations"] > 0 and r["memory"] >= 0, r
T, H, G, E, F = 40, 4, 2, 8, 6
assert d["results"][0]["operations"] == 2 * 2 * T * T * H * (E + F), d["results"][0]
def mix(weights, values):
    total = sum(weights)
    return [sum(w * row[f] for w, row in zip(weights, values)) / total for f in range(F)]
def attend(q, keys, values, window=None):
    out = []
    for t in range(T):
        w = [0 if window and not t - window[0] <= s <= t + window[1] else
             math.exp(sum(a * b for a, b in zip(q[t], key)) / math.sqrt(E)) for s, key in enumerate(keys)]
        out.append(mix(w, values))
    return out
def elu(row):
    return [x + 1 if x > 0 else math.exp(x) for x in row]
def linear(q, keys, values):
    return [mix([sum(a * b for a, b in zip(elu(x), elu(key))) for key in keys], values) for x in q]
def segments(rows):  # Linformer: means of 8 segments of 5 tokens
    return [[sum(c) / 5 for c in zip(*rows[i:i + 5])] for i in range(0, T, 5)]
q, k, v = (arrays.as_bhte(f"{name}.npy", "bthe")[0] for name in "qkv")
found = {"mean": [], "window": [], "linear": [], "linformer": []}
for b in range(2):
    for h in range(H):
        x, keys, values = q[b][h], k[b][h // 2], v[b][h // 2]
        exact = attend(x, keys, values)
        outs = {"mean": [mix([1] * T, values)] * T, "window": attend(x, keys, values, (4, 3)), "linear": linear(x, keys, values),
                "linformer": attend(x, segments(keys), segments(values))}
        size = math.sqrt(sum(e * e for row in exact for e in row))
        for kind, out in outs.items():
            off = sum((a - e) ** 2 for line, row in zip(out, exact) for a, e in zip(line, row))
            found[kind].append(math.sqrt(off) / size)
got = {e["kind"]: e for e in d["errors"]} | {"mean": d["mean_of_values"]}
assert set(got) == {"mean", "window", "block-sparse", "linear", "performer", "linformer", "nystrom"}, got
for kind, errors in found.items():
    assert abs(got[kind]["mean"] - sum(errors) / 8) < 1e-4 and abs(got[kind]["worst"] - max(errors)) < 1e-4, (kind, errors, got)
for e in d["errors"]:
    assert e["heads"] == 8 and 0 < e["mean"] <= e["worst"], e
PY

title 'on arrays, --keys is limited to their keys, --count measures nothing, and a chart shows both'
runs 0 compare -q q.npy -k k.npy -v v.npy --kinds window -r 80 --count --json -o arrays.svg
says_part '--keys 80 is limited to the 40 keys of the arrays'
check python3 - "$out" arrays.svg <<'PY'
import json, re, sys
d = json.load(open(sys.argv[1]))
assert [r["kind"] for r in d["results"]] == ["window"] and "seconds" not in d["results"][0] and "cpu" not in d, d
text = " ".join(" ".join(re.findall(">([^<>]+)<", open(sys.argv[2], encoding="utf-8").read())).split())
assert "Error on your q, k and v" in text and "With 40 keys per query, window has the smallest error of 1 approximation" in text, text
PY
runs 0 compare -q q.npy -k k.npy -v v.npy --seconds 0.001 -o times.svg
check grep -q 'times the time of exact' times.svg

title 'on arrays, causal or with another number of keys: what has no such form is omitted'
runs 0 compare -q q.npy -k k.npy -v v.npy --count --causal --json
check python3 - "$out" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
assert [e["kind"] for e in d["errors"]] == ["window", "block-sparse", "linear", "performer"] and d["causal"], d
PY
python random k2.npy f4 12x8 4
python random v2.npy f4 12x6 5
python random q2.npy f4 7x8 6
runs 0 compare -q q2.npy -k k2.npy -v v2.npy --count --json
check python3 - "$out" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
assert [e["kind"] for e in d["errors"]] == ["window", "linear", "performer", "linformer", "nystrom"], d
assert d["results"][0]["operations"] == 2 * 7 * 12 * (8 + 6) and d["keys"] == 3, d
PY
runs 0 compare -q q2.npy -k k2.npy -v v2.npy --count --causal
prints_part 'causal; approximations'
runs 0 compare -q '[1 0; 0 1]' -k '[1 0; 0 1]' -v '[1 2; 3 4]' --count --kinds linear
prints_part 'q (2, 2), k (2, 2), v (2, 2)'

title 'arrays that do not agree, are empty, not finite or not there are refused'
unusable() { # CODE MESSAGE ARGS...: the command exits with CODE and MESSAGE, and prints nothing
    code_of=$1 message=$2
    shift 2
    runs "$code_of" compare "$@"
    says_part "$message"
    [ ! -s "$out" ] || failed "stdout, expected nothing: $*"
}
unusable 2 'k2.npy: k does not fit q (2, 40, 4, 8): expected the same number of axes, found (12, 8)' -q q.npy -k k2.npy -v v2.npy
unusable 2 'v2.npy: v does not fit k (7, 8): expected the same number of tokens, found (12, 6)' -q q2.npy -k q2.npy -v v2.npy
unusable 2 'v2.npy: k does not fit q (7, 8): expected the same head width, found (12, 6)' -q q2.npy -k v2.npy -v v2.npy
unusable 2 '-v FILE is missing, expected -q, -k and -v' -q q.npy -k k.npy
unusable 2 '-q FILE is missing, expected -q, -k and -v (and --kinds LIST for kinds of layers)' -k attention,elman
unusable 6 'missing.npy' -q missing.npy -k k.npy -v v.npy
python values nan.npy f4 2x2 1,2,nan,4
python values inf.npy f4 2x2 1,inf,3,4
python values far.npy f4 2x2 3e38,3e38,-3e38,3e38
python values pair.npy f4 2x2 1,2,3,4
python random none.npy f4 0x2 1
unusable 3 'nan.npy: element 2 of v: expected a finite number, found NaN' -q pair.npy -k pair.npy -v nan.npy
unusable 3 'inf.npy: element 1 of k: expected a finite number, found infinity' -q pair.npy -k inf.npy -v pair.npy
unusable 3 'far.npy: exact attention overflows' -q far.npy -k far.npy -v pair.npy
unusable 2 'none.npy: q: expected at least one number, found (0, 2)' -q none.npy -k pair.npy -v pair.npy
sed 's/<f4/<c8/' pair.npy >complex.npy
unusable 4 'complex.npy' -q complex.npy -k pair.npy -v pair.npy
head -c 100 pair.npy >cut.npy
unusable 3 'cut.npy' -q cut.npy -k pair.npy -v pair.npy
unusable 2 "--kinds: 'elman' has weights, expected with -q attention or its approximations" \
    -q pair.npy -k pair.npy -v pair.npy --kinds window,elman
unusable 2 '-q cannot be combined with -n' -q pair.npy -k pair.npy -v pair.npy -n 8
unusable 2 '-q cannot be combined with -d' -q pair.npy -k pair.npy -v pair.npy -d 8
unusable 2 '-q cannot be combined with --memory' -q pair.npy -k pair.npy -v pair.npy --memory
unusable 2 '-q cannot be combined with text' -q pair.npy -k pair.npy -v pair.npy 'a text'
unusable 2 'pair.npy' -q pair.npy -k pair.npy -v pair.npy -o pair.npy

title 'invalid options are refused before any work'
refused() { # MESSAGE ARGS...: the command exits with 2 and MESSAGE
    message=$1
    shift
    runs 2 compare "$@"
    says_part "$message"
    [ ! -s "$out" ] || failed "stdout, expected nothing: $*"
}
refused "--kinds: unknown kind 'atention'; did you mean 'attention'?" --kinds atention
refused "--n: expected numbers from 1 to 16777216 separated by commas, found '0'" -n 0
refused "--d: expected numbers from 1 to 65536 separated by commas, found 'x'" -d x
refused '--n: expected at most 16 sizes, found 17' -n 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17
refused '--seconds: expected a number above 0' --seconds 0
refused '--memory compares dense with fused attention, and cannot be combined with --kinds' --memory --kinds linear
refused '--d: expected a single width with --memory, found 2' --memory -d 32,64
refused '--width' --width 1
runs 5 compare -n 16777216 -d 65536
says_part '16777216 tokens of width 65536 require up to '

need_model
title 'errors on the q, k and v of a model'
runs 0 compare -n 16 -d 32 --seconds 0.001 --json 'The animal did not cross the street because it was too tired.'
python3 - "$out" <<'PY' || failed 'errors of a model'
import json, sys
m = json.load(open(sys.argv[1]))["model"]
assert m["layers"] == 6 and m["heads"] == 12 and m["tokens"] == 15, m
for e in m["errors"]:
    assert e["heads"] == 72 and 0 < e["mean"] <= e["worst"], e
PY

title 'a number of keys above n is reported as limited'
runs 0 compare -n 64 -d 64 -r 100 --kinds linear --seconds 0.001
says_part '--keys 100 is limited to n: at most 64 keys at n = 64'
runs 0 compare -n 64 -d 64 --kinds linear --seconds 0.001
silent
finish
