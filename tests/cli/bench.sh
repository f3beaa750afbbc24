# SPDX-License-Identifier: MIT
# bench.sh: tests the output and the refusals of qkv bench.  No test asserts a speed.
. tests/cli/lib.sh
short='--seconds 0.01'

# fields TOPIC RATE COUNT: checks that the JSON in $out has COUNT results with ascending times and a rate.
fields() {
    python3 - "$out" "$@" <<'PY' || failed "the JSON of bench $1"
import json, math, sys
d = json.load(open(sys.argv[1]))
assert d["bench"] == sys.argv[2] and d["threads"] >= 1 and d["isa"], d
assert len(d["results"]) == int(sys.argv[4]), d
for r in d["results"]:
    t = r["seconds"]
    assert 0 < t["best"] <= t["median"] and t["spread"] >= 0 and r["rounds"] >= 1, r
    assert math.isclose(r[sys.argv[3]], r["flops" if sys.argv[3] == "gflops" else "bytes" if sys.argv[3] == "gbytes"
                                          else "tokens"] / t["median"] / (1 if sys.argv[3] == "tokens_second" else 1e9),
                        rel_tol=1e-4), r
    assert r["isa"] and r["arithmetic"] and r["bytes"] > 0 and r["peak"]["g"] > 0, r
    assert 0 <= r["error"] < 1, r
PY
}

title 'attention: one row per shape with its size, and lines that explain the columns'
runs 0 bench attention $short -s 'B1,H2,N70,E16,causal;B5,H1,N3-9,E8 T3,S40,H4,G2,F24,window7'
silent
prints_part 'f32 attention, '
for part in 'shape ' 'B1,H2,N70,E16,causal ' 'B5,H1,N3-9,E8 ' 'ran     ' 'peak    ' 'spread  ' 'error   '; do
    prints_part "$part"
done
# a name as long as its column is on its own line
prints_part 'T3,S40,H4,G2,F24,window7'
check test "$(wc -L <"$out")" -le 80

title 'attention as JSON, in every precision of this machine; the error fits the precision'
for precision in f32 f32-strict f32-fast bf16 f16 int8; do
    runs 0 bench attention $short --json --precision $precision -s 'H2,N70,E16,causal B3,N4-6'
    fields attention gflops 2
done

title 'gradients as JSON: 10 E operations per attended pair, and 4 E more with forward'
for precision in f32 bf16 f16; do
    runs 0 bench attention-backward $short --json --precision $precision -s 'H2,N70,E16 H2,N70,E16,forward;B3,N4-6,causal'
    fields attention-backward gflops 3
done
python3 - "$out" <<'PY' || failed 'operations of gradients'
import json, sys
alone, both = json.load(open(sys.argv[1]))["results"][:2]
assert alone["flops"] == 10 * 16 * 2 * 70 * 70 and both["flops"] == 14 * 16 * 2 * 70 * 70, (alone, both)
PY

title 'search as JSON: vectors of each type, with the error of their rounding'
for precision in f32 bf16 int8; do
    runs 0 bench search $short --json --precision $precision -s 'N3000,E40 B3,N100,E7'
    fields search gbytes 2
done
runs 4 bench search $short --precision f16
says_part 'vectors are stored as f32, bf16 or int8'

title 'operations follow the formula: 4 E per attended pair'
runs 0 bench attention $short --json -s 'N64,H2,E16;N64,H2,E16,causal;N64,H2,E16,window5;T1,S64,H2,E16,causal'
python3 - "$out" <<'PY' || failed 'operations'
import json, sys
n, pairs = 64, [64 * 64, 64 * 65 // 2, 64 * 5 - 10, 64]
for r, want in zip(json.load(open(sys.argv[1]))["results"], pairs):
    assert r["flops"] == 4 * 16 * 2 * want, (r["shape"], r["flops"], want)
PY

title 'linear, with an activation'
runs 0 bench linear $short --json -s '3x20x33 R5,K8,N2 2x3x4,gelu'
fields linear gflops 3
runs 0 bench linear $short --json --precision int8 -s '3x20x33,gelu'
fields linear gflops 1

title 'decode: the bytes of the cache, compared with a plain read of as many'
runs 0 bench decode $short --json -s 'H4,G2,S300,E16 B2,H2,S40,E8,F24,T3'
fields decode gbytes 2
python3 - "$out" <<'PY' || failed 'bytes of the cache'
import json, sys
a, b = json.load(open(sys.argv[1]))["results"]
assert a["bytes"] == 4 * 300 * 2 * 32 and b["bytes"] == 4 * 2 * 40 * 2 * 32, (a, b)
assert a["peak"]["of"] == "read"
PY
runs 0 bench decode $short -s 'H4,G2,S300,E16'
prints_part 'GB/s, the rate of plainly reading as many bytes'

title 'memory: each shape in its own process, whose growth does not follow T x S'
runs 0 bench memory $short --json --threads 1 -s 'N64,causal N4096,window64 T4,S4096,causal'
python3 - "$out" <<'PY' || failed 'the JSON of memory'
import json, sys
d = json.load(open(sys.argv[1]))
n = [(r["n"], r["queries"]) for r in d["results"]]
assert n == [(64, 64), (4096, 4096), (4096, 4)], n
for r in d["results"]:
    assert r["scores"] == 4 * r["n"] * r["queries"] and r["arrays"] == 4 * 2 * 64 * (r["n"] + r["queries"]), r
    assert 0 < r["scratch_thread"] <= r["scratch"] < 1 << 22 and r["seconds"] > 0, r
PY
runs 0 bench memory $short -s N64
prints_part 'grown    bytes by which scratch, threads and run raised'

title 'probe: the cost relative to forward; streamed, a file of every head in little memory'
runs 0 bench probe $short --json -s 'H2,N64,E16 H2,N70,E16,causal' --probe top=4,entropy
python3 - "$out" <<'PY' || failed 'the JSON of probe'
import json, sys
d = json.load(open(sys.argv[1]))
assert d["bench"] == "probe" and [r["found"] for r in d["results"]] == [2 * n * (4 * 2 + 1) * 4 for n in (64, 70)], d
assert all(r["forward"] > 0 and r["probes"] > 0 and r["cost"] > 0 and 0 < r["scratch"] < 1 << 22 for r in d["results"]), d
PY
runs 0 bench probe $short -s H1,N64
prints_part 'cost     this time divided by the time of forward'
runs 0 bench probe --json -s 'L2,H3,N600,E16,stream' --probe top=4,tiles=8 -o streamed.safetensors
python3 - "$out" <<'PY' || failed 'the file of probe'
import json, os, struct, sys
r = json.load(open(sys.argv[1]))["results"][0]
b = open('streamed.safetensors', 'rb').read()
n = struct.unpack('<Q', b[:8])[0]
head = json.loads(b[8:8 + n])
assert len(head) == 2 * 3 * 4 and head['layers.1.heads.2.tile_max']['shape'] == [1, 8, 8], head.keys()
assert r["file"] == len(b) - 8 - n == 2 * 3 * (600 * 8 + 128) * 4 and 0 < r["resident"] < 1 << 28, r
keys = struct.unpack('<2400i', b[8 + n:][slice(*head['layers.0.heads.1.top_key']['data_offsets'])])
assert all(0 <= k < 600 for k in keys)
PY
title 'an instruction set is selected by name, and the result names it'
runs 0 bench attention $short --json --isa scalar -s N20
python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); assert d["isa"] == d["results"][0]["isa"] == "scalar"' \
    "$out" || failed 'isa'

title 'one round has no spread'
runs 0 bench attention --seconds 0.000001 -s N64
check grep -q '^N64 .*  -  ' "$out"

title 'a closed pipe ends the command at the next row'
(
    sleep 0.5 # until the reader has closed the pipe
    "$QKV_BIN" bench attention $short -s 'N8;N9' 2>"$err"
    echo $? >code
) | true
check test "$(cat code)" = 6
silent

title 'invalid options are refused with their position, before any output'
refused() { # CODE MESSAGE ARGS...: the command exits with CODE and MESSAGE
    want=$1 message=$2
    shift 2
    runs "$want" bench "$@"
    says_part "$message"
    [ ! -s "$out" ] || failed "stdout, expected nothing: $*"
}
refused 2 'the word stream, which must be in all shapes or in none' probe -s 'L2,N64'
refused 2 'requires a single shape, with the word stream' probe -s N64 -o none.safetensors
refused 2 "found 'sharp'" probe -s N64 --probe sharp

refused 2 "too few operands, expected 'qkv bench TOPIC"
refused 2 "qkv: unknown topic 'attension' of qkv bench; did you mean 'attention'?" attension
refused 2 "qkv: unknown topic 'x' of qkv bench, expected one of attention, attention-backward, linear, encoder, decode, memory" x
refused 2 "unknown or repeated size 'X3', expected each of B T S N H G E F at most once" attention -s X3
refused 2 "unknown or repeated size 'forward'" attention -s N4,forward
refused 4 "integers have no gradient" attention-backward --precision int8 -s N4
refused 2 "unknown or repeated size 'N3'" attention -s N4,B1,N3
refused 2 "unknown or repeated size 'N0'" attention -s N0
refused 2 "unknown or repeated size 'N9-3'" attention -s B2,N9-3
refused 2 "unknown or repeated size 'N99999999999999999999'" attention -s N99999999999999999999
refused 2 "unknown or repeated size ''" attention -s N4,,B2
refused 2 "(N20-54: lengths from 20 to 54), or the word causal, or the word window with a number, such as window64, found 'N4,window'" \
    attention -s N4,window
refused 2 'or three sizes such as 1024x384x1536' linear -s 3x4
refused 2 'N cannot be combined with T or S' attention -s N4,T2
refused 2 'expected N, or T and S' attention -s H4
refused 2 "unknown or repeated size 'causal'" linear -s 3x4x5,causal
refused 2 "unknown or repeated size '3x4'" linear -s 3x4
refused 2 'N is missing' linear -s R3,K4
refused 2 'S is missing' decode -s H4
refused 2 'expected T of at most 3, found 4' decode -s S3,T4
refused 2 'no shape is given, expected one or more' memory -s ' ; '
refused 2 'a multiple of the 2 key heads' attention -s H3,G2,N8
refused 2 '--seconds: expected a number above 0' attention --seconds 0
refused 2 '--isa: unknown instruction set' attention --isa avx9
refused 2 '--precision: unknown value' attention --precision f33
refused 5 'the arrays require' attention -s N2000000000,H1,E64
refused 5 'too many numbers for an array' linear -s 1099511627776x1099511627776x4
refused 2 'did you mean' attention --shap N4
refused 6 'no-such-folder' encoder --model no-such-folder

title 'both shapes are checked before the first runs'
refused 2 'a multiple of' attention -s 'N8;H3,G2,N8'
refused 2 'expected T of at most 3, found 4' decode -s 'S8;S3,T4'

title 'machines: the prediction in the documentation is that of the command'
sed -n '/^<!-- predict -->/,/^<!-- end -->/p' "$here/../../docs/machines.md" | grep -v -e '^<!--' -e '^```' >page.txt
runs 0 bench machines --predict 12000 --threads 64 --precision bf16 --isa scalar \
    -s 'N131072,H32,E128;N131072,H32,E128,causal;N1048576,H32,E128,causal;N1048576,H32,G8,E128,causal'
check cmp page.txt "$out"
runs 0 bench machines --predict 100 --json -s 'N8192,H2,E16'
python3 - "$out" <<'PY' || failed 'efficiencies'
import json, sys
rows = json.load(open(sys.argv[1]))["results"]
assert len(rows) == 18 and all(0 < r[p] <= 1 for r in rows for p in ("forward", "backward")), rows
for slow, fast in zip(rows, rows[1:]):  # a faster link is never worse
    assert slow["ranks"] != fast["ranks"] or slow["forward"] <= fast["forward"], (slow, fast)
PY
title 'machines: a rate that is no rate is refused by its value'
for rate in -5 0; do
    runs 2 bench machines --predict "$rate"
    says "qkv: --predict: expected a number above 0, found $rate"
    prints ''
done
runs 2 bench attention --predict 5
says 'qkv: --predict: expected bench machines, found attention'
title 'machines: the prediction is that of the formulas of docs/machines.md'
runs 0 bench machines --predict 100 --threads 2 --isa scalar --json -s 'N8192,H2,E16;N8192,H2,E16,causal;B2,N8192,H4,G2,E16,causal'
python3 - "$out" <<'PY' || failed 'the time of the model'
import json, math, re, sys
r, u, v, p, a, threads = 100e9, 200e9, 20e9, .06, 20e-6, 2
rows = json.load(open(sys.argv[1]))["results"]
assert len(rows) == 54, rows
for x in rows:
    if x["ranks"] > 16: continue  # their rows are not of equal work
    size = dict(B=1, N=0, H=0, G=0, E=0) | {k: int(n) for k, n in re.findall(r"\b([BNHGE])(\d+)", x["shape"])}
    B, N, H, E, G, P = size["B"], size["N"], size["H"], size["E"], size["G"] or size["H"], x["ranks"]
    causal, b = "causal" in x["shape"], x["gbit"] * 1e9 / 8
    D = X = B * N * G * 2 * E * 4  # keys and values, and the sums of dk and dv: both are floats here
    pairs = B * H * (N * (N + 1) / 2 if causal else N * N)
    c = (P - 1) * a + D * (P - 1) / (P * b)
    one, many = 4 * E * pairs / r, c + 4 * E * pairs / (P * r)
    assert abs(one / (P * many * x["forward"]) - 1) < .003, (x, one, many)
    o = 2 if causal else 1
    m = math.ceil(x["units"] / (2 * threads))
    steps = m + o * P - 1
    s = min(o, P - 1)
    K, K1 = x["units"] / (B * G), 16 / (B * G)
    d = 2 * (K - K1) * 4 * B * N * H * E / (P * u)
    W = 10 * E * pairs
    step = W / (P * r * m) / (1 - p / threads) + s * (X / (m * b) + a) + 2 * (3 if causal else 1) * X / (m * v)
    many = 2 * c + steps * step + d
    assert x["steps"] == steps and abs(W / r / (P * many * x["backward"]) - 1) < .003, (x, W / r / (P * many))
PY
refused 2 'expected mpirun -n 2 qkv bench machines' machines

[ -f "$model/model.safetensors" ] || { echo "$model is not there: the cases on it were left out"; finish; }
title 'encoder: tokens per second, and the error of the vectors against f32-strict'
runs 0 bench encoder $short --json --model "$model" -s 'B3,N5-9'
fields encoder tokens_second 1
runs 0 bench encoder $short --json --model "$model" -s N4 --precision f16
cp "$out" encoder.json
runs 0 bench linear $short --json -s 1x2x3 --precision f16
python3 - "$out" encoder.json <<'PY' || failed 'the instruction set is that of the products'
import json, sys
a, b = [json.load(open(f))["results"][0] for f in sys.argv[1:]]
assert (a["isa"], a["arithmetic"]) == (b["isa"], b["arithmetic"]), (a, b)
PY
runs 0 bench encoder $short --model "$model" -s 'B2,N4'
prints_part 'tokens/s'
refused 2 'expected at most 512 tokens' encoder --model "$model" -s N513

finish
