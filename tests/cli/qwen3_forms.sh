# SPDX-License-Identifier: MIT
# qwen3_forms.sh: compares the forms of Qwen3 that embed and rank texts with sentence-transformers and transformers
# (tools/golden_qwen3.py), by the commands of docs/generate.md. A prompt ends with newlines, so Python passes it.
. tests/cli/lib.sh
export golden="$here/../golden/qwen3_forms"

title 'Qwen3-Embedding: vectors with each prompt'
python3 - >"$out" 2>"$err" <<'PY' || failed 'vectors'
import json, os, subprocess
folder = os.environ["golden"] + "/embedding"
want = json.load(open(folder + "/values.json", encoding="utf-8"))
for prompt in ("query", "document"):
    run = [os.environ["QKV_BIN"], "embed", "-m", folder, "--prompt", prompt, "--json", *want["texts"]]
    rows = [json.loads(line) for line in subprocess.run(run, check=True, capture_output=True).stdout.splitlines()]
    for row, vector in zip(rows, want[prompt], strict=True):
        off = max(abs(a - b) for a, b in zip(row["vector"], vector, strict=True))
        assert off < 1e-5, (prompt, row["text"], off)
PY

title 'Qwen3-Reranker: the probability of yes among yes and no, and as a model with one label'
python3 - >"$out" 2>"$err" <<'PY' || failed 'probabilities'
import json, math, os, subprocess
golden, qkv = os.environ["golden"], os.environ["QKV_BIN"]
want = json.load(open(golden + "/reranker/values.json", encoding="utf-8"))
def run(*args): return json.loads(subprocess.run([qkv, *args, "--json"], check=True, capture_output=True).stdout)
for prompt, yes in zip(want["prompts"], want["yes"], strict=True):
    top = run("generate", prompt, "-m", golden + "/reranker", "-n", "1", "--logprobs", "400")["logprobs"][0]["top"]
    score = {token["token"]: token["logprob"] for token in top}
    found = 1 / (1 + math.exp(score["no"] - score["yes"]))
    assert abs(found - yes) < 1e-6, (found, yes)
    label = run("classify", prompt, "-m", golden + "/labels")["labels"][0]
    assert abs(label["probability"] - yes) < 1e-6, (label, yes)
PY
finish
