# SPDX-License-Identifier: MIT
# info.sh: tests the descriptions of files, models and this machine.
. tests/cli/lib.sh

title 'a .npy file: its shape, dtype and bytes'
python random x.npy f4 5x10 1
python random d.npy f8 3 1
runs 0 info x.npy
silent
prints 'x.npy
1 tensor, 50 numbers, 200 bytes (F32 x 1)

(array)  F32   (5, 10)'
runs 0 info --json x.npy
prints '{"file":"x.npy","tensors":[{"name":"","dtype":"F32","shape":[5,10],"bytes":200}],"parameters":50}'

title 'a .safetensors file: its tensors by name'
python safetensors two.safetensors b=x.npy a.b=d.npy
runs 0 info two.safetensors
prints 'two.safetensors
2 tensors, 53 numbers, 224 bytes (F32 x 1, F64 x 1)

a.b  F64   (3,)
b    F32   (5, 10)'
"$QKV_BIN" info --json - <two.safetensors >"$out" 2>"$err" || failed 'from stdin'
prints '{"file":"-","tensors":[{"name":"a.b","dtype":"F64","shape":[3],"bytes":24},{"name":"b","dtype":"F32","shape":[5,10],"bytes":200}],"parameters":53}'

title 'a folder with weights alone is a file of tensors'
mkdir weights
cp two.safetensors weights/model.safetensors
runs 0 info --json weights
prints_part '"parameters":53'

title 'this machine: kernels, threads, and why there is no model'
HOME=$temp XDG_DATA_HOME=$temp runs 0 info
prints_part 'kernels    '
prints_part 'precisions f32'
HOME=$temp XDG_DATA_HOME=$temp runs 0 info --json
python3 - "$out" <<'PY' || failed 'the JSON of this machine'
import json, sys
d = json.load(open(sys.argv[1]))
# Tiles run if the CPU has them and the operating system allows them.
assert d["amx"] in ("in use", "present, but not in use", "not present") or "the operating system refuses it" in d["amx"], d["amx"]
assert ("amx" in d["isas"]) == (d["amx"] in ("in use", "present, but not in use")), d
assert d["isa"] in d["isas"] and d["isas"][0] == "scalar" and d["threads"] >= 1
names = [p["name"] for p in d["precisions"]]
assert names == "f32 f32-strict f32-fast bf16 f16 int8".split(), names
assert all(p["linear"] and p["attention"] for p in d["precisions"]), d["precisions"]
assert d["precisions"][1]["linear"] == d["precisions"][1]["attention"] == "float"
assert d["plan"]["tiles"] > d["plan"]["skipped"] > 0
PY

if [ -z "${QKV_SLOW:-}" ] && [ -f "${QKV_SKEWED:-}" ]; then
    title 'a CPU whose tiles the system refuses is reported'
    LD_PRELOAD=$QKV_SKEWED QKV_SKEW=amx runs 0 info
    prints_part 'AMX        present, but the operating system refuses it (Permission denied)'
    LD_PRELOAD=$QKV_SKEWED QKV_SKEW=amx runs 0 info --json
    prints_part '"amx":"present, but the operating system refuses it (Permission denied)"'
fi

title 'malformed, missing or unsupported files give their exit code and position'
runs 6 info missing
says 'qkv: missing: cannot open: No such file or directory'
printf '\377\377\377\377\377\377\377\377{}' >long.safetensors
runs 3 info long.safetensors
says_part 'qkv: long.safetensors: at byte 0: '
runs 3 info --json long.safetensors
says_part '"status":"format","code":3,"file":"long.safetensors","offset":0,"text":"'
printf 'GGUF....' >model.gguf
runs 4 info model.gguf
mkfifo pipe
runs 6 info pipe
says_part 'qkv: pipe: is a FIFO'
mkdir empty
runs 6 info empty
runs 2 info x.npy --model empty
says 'qkv: an operand cannot be combined with --model'

title 'an array in Fortran order is described without a copy of it'
if [ -z "${QKV_SLOW:-}" ]; then # a sanitizer needs more address space
    python3 - <<'PY'
import struct
n = 1 << 15
head = repr({"descr": "<f4", "fortran_order": True, "shape": (n, n)}).ljust(117) + "\n"
with open("turned.npy", "wb") as f:
    f.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode())
    f.truncate(10 + len(head) + 4 * n * n)
PY
    (ulimit -v $((6 << 20)) && runs 0 info turned.npy && exit $failures) || failed 'it takes memory for the array'
    prints_part '1,073,741,824 numbers'
fi

title 'control characters in names are printed as bytes'
python3 - <<'PY'
import json, struct
head = json.dumps({"a\x1b[2Jb": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
head += b" " * (-len(head) % 8)
open("evil.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + b"\0" * 4)
PY
runs 0 info evil.safetensors
prints_part 'a\x1b[2Jb'

title 'a tokenizer of any format, as a file or alone in a folder'
formats=$here/../golden/text/formats
for name in spm.model spiece.model; do
    mkdir pieces && cp "$formats/unigram.model" pieces/$name
    for what in pieces pieces/$name; do
        runs 0 info $what
        prints_part 'Unigram tokenizer, '
    done
    rm -r pieces
done
runs 0 info "$formats/unigram.model"
prints_part 'Unigram tokenizer, '
for folder in bert gpt2 llama2c marian; do
    runs 0 info "$formats/$folder"
    silent
    prints_part ' tokenizer, '
done
cp -r "$here/../golden/llama2c-v0" llama2c && cp "$formats/llama2c/tokenizer.bin" llama2c
runs 0 info llama2c # a checkpoint next to its tokenizer
prints_part 'layers '
mkdir nothing
runs 6 info nothing

[ -f "$model/model.safetensors" ] || { echo "$model is not there: the cases on it were left out"; finish; }
title 'a model: family, sizes, work, tokenizer'
runs 0 info --json "$model"
python3 - "$out" <<'PY' || failed 'the JSON of the model'
import json, sys
d = json.load(open(sys.argv[1]))
want = dict(family="bert", layers=6, heads=12, kv_heads=12, width=384, head_width=32, inner=1536, vocab=30522,
            positions=512, types=2, causal=False, parameters=22713216, tokenizer="WordPiece", embedding_width=384,
            max_length=256, flops_token=2 * 6 * (4 * 384 * 384 + 2 * 384 * 1536))
for key, value in want.items():
    assert d[key] == value, (key, d[key], value)
PY
runs 0 info "$model"
prints_part 'family      bert'
prints_part 'tokenizer   WordPiece, 30,522 tokens'
runs 0 info "$model/tokenizer.json"
prints_part 'WordPiece tokenizer, 30522 tokens'
mkdir words && cp "$model/tokenizer.json" words/ && cp "$model/tokenizer.json" other.json
for what in words other.json; do # a folder with only this file; a file with another name
    runs 0 info $what
    prints_part 'WordPiece tokenizer, 30522 tokens'
done

title 'the default model and the reason of the choice'
QKV_MODEL=$model runs 0 info --json
prints_part "\"model\":\"$model\",\"why\":\"from the variable QKV_MODEL\""
mkdir models
ln -s "$model" models/all-MiniLM-L6-v2
runs 0 info --json
prints_part '"model":"models/all-MiniLM-L6-v2"'

title 'diagrams of every family: the parts and the sizes of config.json'
top=$(dirname "$(dirname "$here")")
python3 - "$QKV_BIN" "$top" <<'PY' || failed 'a diagram lacks a part'
import glob, json, os, subprocess, sys, xml.etree.ElementTree as xml
qkv, top = sys.argv[1:]
folders = 0
every = 3 if os.environ.get("QKV_SLOW") else 1  # under a sanitizer the processes take longer than their work
for config in sorted(glob.glob(top + "/tests/golden/*/config.json"))[::every]:
    folder = config[:-len("/config.json")]
    if folder.endswith("gru-attention"):
        continue
    said = subprocess.run([qkv, "info", folder, "--json"], capture_output=True, text=True)
    assert not said.returncode, (folder, said.stderr)
    d, folders = json.loads(said.stdout), folders + 1
    cross = "decoder_layers" in d
    want = {"bare": ["Multiply: x · x", "Multiply: scores · x", "%d numbers each" % d["width"], "Softmax"],
            "scaled": ["Multiply: q · k", "Scale", "Mask", "Softmax", "%d numbers per head" % d["head_width"]],
            "heads": ["Linear W_Q", "Linear W_K", "Linear W_V", "Linear W_O", "Concatenate",
                      "%d → %d × %d" % (d["width"], d["heads"], d["head_width"])],
            "layer": ["self-attention", "norm"] + ["Multi-head cross-attention"] * cross,
            "model": ["self-attention", "Feed-forward", "× %d" % d["layers"],
                      "%d → %d → %d" % (d["width"], d["inner"], d["width"])] + ["Multi-head cross-attention"] * cross}
    for name, parts in want.items():
        subprocess.run([qkv, "info", folder, "--diagram", name, "-o", "d.svg", "--force"], check=True,
                       stdout=subprocess.DEVNULL)
        texts = [(e.text or "").lower() for e in xml.parse("d.svg").iter() if e.tag.endswith("}text")]
        for part in parts:
            assert any(part.lower() in t for t in texts), (folder, name, part, texts)
assert folders > 40 / every, folders

def texts(folder, name):
    subprocess.run([qkv, "info", top + "/tests/golden/" + folder, "--diagram", name, "-o", "d.svg", "--force"],
                   check=True, stdout=subprocess.DEVNULL)
    parts = list(xml.parse("d.svg").iter())
    return [e.text or "" for e in parts if e.tag.endswith("}text")] + ["+" for e in parts if e.tag.endswith("}circle")]

# A layer has a norm before attention and one after the sum, which a circle marks. The only feed-forward
# network of "once" has the same norms and a sum, that of "bare" has neither.
norms = {}
for place in ("once", "bare"):
    with open(top + "/tests/golden/encoder-bare/config.json") as f:
        config = json.load(f)
    config["feed_forward"] = place
    os.makedirs(place, exist_ok=True)
    with open(place + "/config.json", "w") as f:
        json.dump(config, f)
    got = texts(os.path.relpath(place, top + "/tests/golden"), "model")
    norms[place] = sum(t == "layer norm" for t in got), got.count("+")
assert norms == {"once": (4, 2), "bare": (2, 1)}, norms
# each stack of marian-two-tables has a vocabulary of its own
got = texts("marian-two-tables", "model")
assert any(t.startswith("77 tokens") for t in got) and any(t.startswith("71 tokens") for t in got), got
assert any(t.endswith("→ 71") for t in got) and not any(t.endswith("→ 77") for t in got), got
assert "in all layers but layer 0" in texts("modernbert", "layer")
assert any("tanh(logit" in t for t in texts("gemma2", "model"))
assert not any("tanh(logit" in t for t in texts("llama", "model"))
assert any("one norm of all q" in t for t in texts("olmo2", "heads"))
assert any("with a norm of q and k" in t for t in texts("qwen3", "heads"))
PY
mkdir vectors
printf '{"model_type":"qkv-words","vocab_size":100,"hidden_size":5}' >vectors/config.json
runs 4 info vectors --diagram model -o vectors.svg
says 'qkv: vectors: only a Transformer has this structure; the model is qkv-words'
runs 2 info x.npy --diagram model -o file.svg
says 'qkv: x.npy: --diagram: expected a model folder, found a file'
runs 0 info "$top/models/dates" --diagram layer -o layer.svg
prints 'layer.svg'
runs 0 info "$top/models/dates" --diagram layer -o -
silent
check cmp layer.svg "$out"
runs 2 info "$top/models/dates" --diagram layer --json -o json.svg
says_part '--diagram cannot be combined with --json'
runs 2 info "$top/models/dates" --theme dark
says 'qkv: --theme requires --diagram'
runs 0 info "$top/models/dates" --diagram model -o dates.png
runs 2 info "$top/models/dates" --diagram model
says_part '-o FILE.svg'
runs 2 info "$top/models/dates" --diagram model -o dates.txt
says_part 'ends with .svg'
runs 2 info "$top/models/dates" -o x.svg
says_part 'requires --diagram'

finish
