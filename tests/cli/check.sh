# SPDX-License-Identifier: MIT
# check.sh: tests qkv check: a model equals its stored reference, or the first layer that differs is reported.
. tests/cli/lib.sh
golden=$here/../golden

title "a model equal to the reference's is equal in every layer"
for name in bert distilbert net-gpt2 net-llama llama2c-v0 llama2c-v2; do
    runs 0 check "$golden/$name"
    prints_part 'layer 1            hidden'
    prints_part 'equal within the tolerance: '
    silent
done
for name in bart marian; do # a table of token embeddings for each stack, and a shared one that is not used
    runs 0 check "$golden/untied/$name"
    prints_part 'equal within the tolerance: 8 comparisons'
done
for file in "$golden"/*/golden.safetensors; do # also models of labels, of texts and of tokens
    runs 0 check "${file%/*}"
    prints_part 'equal within the tolerance: '
done
runs 0 check "$golden/bart-labels"
prints_part 'end                scores     error '
runs 0 check "$golden/bert-token-labels"
prints_part 'end                token_scores error '
runs 0 check --json "$golden/bert"
python3 - "$out" <<'PY' || failed 'the JSON'
import json, sys
d = json.load(open(sys.argv[1]))
assert d["equal"] is True and all(c["equal"] and c["error"] <= c["tolerance"] for c in d["compared"])
assert [(c["layer"], c["what"]) for c in d["compared"]][:5] == [("embeddings", "hidden"), (0, "attention"),
    (0, "hidden"), (1, "attention"), (1, "hidden")], d
PY

title 'a changed weight in layer 1 is reported as layer 1 and its first matrix'
change() { # FOLDER TENSOR: adds 1 to its first number
    rm -rf changed
    cp -r "$golden/$1" changed
    python3 - changed/model.safetensors "$2" <<'PY'
import json, struct, sys
path, name = sys.argv[1:]
data = bytearray(open(path, "rb").read())
n = struct.unpack("<Q", data[:8])[0]
at = 8 + n + json.loads(data[8:8 + n])[name]["data_offsets"][0]
data[at:at + 4] = struct.pack("<f", struct.unpack("<f", data[at:at + 4])[0] + 1)
open(path, "wb").write(data)
PY
}
change bert encoder.layer.1.attention.self.key.weight
runs 1 check changed
says_part 'qkv: changed: layer 1 is the first that differs: attention, row '
prints_part 'layer 0            hidden     error '
[ "$(grep -c differs "$out")" -eq 2 ] || failed 'differing lines'
change bert encoder.layer.1.output.dense.bias
runs 1 check changed
says_part 'qkv: changed: layer 1 is the first that differs: hidden, row '
runs 1 check --json changed
says_part '"status":"internal"'
prints_part '"equal":false}]'
change bert embeddings.word_embeddings.weight # the row of id 0, which no text contains
runs 0 check changed
change net-llama model.layers.0.mlp.down_proj.weight
runs 1 check changed
says_part 'qkv: changed: layer 0 is the first that differs: hidden'

title '--tolerance sets the tolerances, which coarser precisions need'
runs 2 check "$golden/bert" --precision bf16
says 'qkv: --precision bf16 requires --tolerance, since the reference has a higher precision'
runs 0 check "$golden/bert" --precision bf16 --tolerance 0.5
runs 2 check "$golden/bert" --precision f32-fast
says_part '--precision f32-fast requires --tolerance'
"$QKV_BIN" check --help | tr -s ' \n' ' ' >"$out"
prints_part 'required unless --precision is f32 or f32-strict)'
runs 1 check "$golden/bert" --tolerance 1e-9
runs 2 check "$golden/bert" --tolerance -1

title 'a file that is not a reference is refused'
runs 6 check "$golden/net-labels"
says_part 'golden.safetensors: cannot open'
runs 3 check "$golden/bert" -r "$golden/distilbert/golden.safetensors"
says_part 'tensor "hidden" is invalid, expected F32 of 3 x 21 x 35, found something else'
runs 3 check "$golden/bert" -r "$golden/bert/model.safetensors"
says_part 'tensor "offsets" is invalid, expected I64 offsets [texts + 1] that begin with 0, found something else'
python3 - <<'PY'
import json, struct
def write(path, **t):
    head, data = {}, b""
    for name, (dtype, shape, raw) in t.items():
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    head = json.dumps(head).encode()
    open(path, "wb").write(struct.pack("<Q", len(head)) + head + data)
I = lambda *x: struct.pack("<%dq" % len(x), *x)
i = lambda *x: struct.pack("<%di" % len(x), *x)
write("far.safetensors", offsets=("I64", [2], I(0, 9)), ids=("I32", [2], i(3, 4)))
write("fall.safetensors", offsets=("I64", [3], I(0, 5, 2)), ids=("I32", [2], i(3, 4)))
write("none.safetensors", offsets=("I64", [2], I(0, 2)), ids=("I32", [2], i(3, 4)))
write("id.safetensors", offsets=("I64", [2], I(0, 2)), ids=("I32", [2], i(3, 4000)))
PY
runs 3 check "$golden/bert" -r far.safetensors
runs 3 check "$golden/bert" -r fall.safetensors
runs 3 check "$golden/bert" -r none.safetensors
says 'qkv: none.safetensors: reference has no tensor to compare, expected hidden, attention, logits, scores or token_scores'
runs 2 check "$golden/bert" -r id.safetensors

finish
