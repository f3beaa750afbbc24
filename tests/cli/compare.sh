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
runs 0 compare -n 16 -d 32 --seconds 0.001 -k attention,elman
sed -n '/^n tokens/,/^$/p' "$out" >letters.txt
check [ "$(sed -n 1p letters.txt)" = 'n tokens of d numbers' ]
check [ "$(grep -c -e '--causal' -e 'log_k' letters.txt)" = 0 ]
runs 0 compare -n 16 -d 32 -r 8 --seconds 0.001 -k window,linear
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
runs 0 compare -n 16,64 -d 32 --count -k attention,elman --json -o count.svg
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
runs 0 compare -n 1024 -d 64 --seconds 0.001 --json -k attention,window,performer,linformer,nystrom
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
runs 0 compare $small --causal -k attention,window
prints_part 'mean of v'

title 'projections with as many rows as tokens give exact attention'
runs 0 compare -n 64 -d 32 -r 64 --seconds 0.001 --json -k attention,linformer
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

title 'invalid options are refused before any work'
refused() { # MESSAGE ARGS...: the command exits with 2 and MESSAGE
    message=$1
    shift
    runs 2 compare "$@"
    says_part "$message"
    [ ! -s "$out" ] || failed "stdout, expected nothing: $*"
}
refused "--kinds: unknown kind 'atention'; did you mean 'attention'?" -k atention
refused "--n: expected numbers from 1 to 16777216 separated by commas, found '0'" -n 0
refused "--d: expected numbers from 1 to 65536 separated by commas, found 'x'" -d x
refused '--n: expected at most 16 sizes, found 17' -n 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17
refused '--seconds: expected a number above 0' --seconds 0
refused '--memory compares dense with fused attention, and cannot be combined with --kinds' --memory -k linear
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
runs 0 compare -n 64 -d 64 -r 100 -k linear --seconds 0.001
says_part '--keys 100 is limited to n: at most 64 keys at n = 64'
runs 0 compare -n 64 -d 64 -k linear --seconds 0.001
silent
finish
