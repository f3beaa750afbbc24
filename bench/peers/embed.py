# SPDX-License-Identifier: MIT
"""embed.py f32|bf16: measures the embedding of 1024 sentences by all-MiniLM-L6-v2, all at once and one at a time.

qkv is timed from text to vector, with its tokenizer, as is kjarni; the other programs get token ids, sorted by length in
batches of 32, as in sentence-transformers: their tokenizer is not counted.
"""
import os
import sys

import numpy as np
import torch
from tokenizers import Tokenizer

import qkv_ctypes as qkv
from common import MODEL, QUICK, THREADS, WORK, note, plain, row, sentences, turns

torch.set_num_threads(THREADS)


def pooled(hidden, mask):
    """Returns the mean over the tokens, scaled to length 1."""
    m = mask[..., None].astype(np.float32)
    e = (hidden * m).sum(1) / m.sum(1)
    return e / np.linalg.norm(e, axis=1, keepdims=True)


def batches(ids, size=32):
    """Returns (indices, ids, mask) of batches, longest texts first, to minimise padding."""
    order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
    for i in range(0, len(order), size):
        place = order[i:i + size]
        x = np.zeros((len(place), max(len(ids[j]) for j in place)), np.int64)
        m = np.zeros_like(x)
        for r, j in enumerate(place):
            x[r, :len(ids[j])] = ids[j]
            m[r, :len(ids[j])] = 1
        yield place, x, m


def export(path):
    """Exports the model as ONNX, once."""
    from transformers import AutoModel
    model = AutoModel.from_pretrained(MODEL, attn_implementation="eager").eval()

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids, mask):
            return self.model(input_ids=ids, attention_mask=mask,
                              token_type_ids=torch.zeros_like(ids)).last_hidden_state
    x = torch.ones(2, 8, dtype=torch.long)
    axes = {0: "batch", 1: "tokens"}
    torch.onnx.export(Hidden(), (x, x), path, input_names=["ids", "mask"], output_names=["hidden"],
                      dynamic_axes={"ids": axes, "mask": axes, "hidden": axes}, opset_version=18,
                      dynamo=False)


def with_torch(dtype):
    from transformers import AutoModel
    model = AutoModel.from_pretrained(MODEL).to(dtype).eval()

    def run(x, m):
        return pooled(model(torch.from_numpy(x), attention_mask=torch.from_numpy(m))
                      .last_hidden_state.float().numpy(), m)
    return run


def with_zentorch():
    """Returns the model compiled by AMD's extension of PyTorch; the first call compiles for a minute or two."""
    import zentorch  # registers the backend
    from transformers import AutoModel
    model = torch.compile(AutoModel.from_pretrained(MODEL).eval(), backend="zentorch", dynamic=True)
    return lambda x, m: pooled(model(torch.from_numpy(x), attention_mask=torch.from_numpy(m)).last_hidden_state.numpy(), m)


def with_onnxruntime(path):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda x, m: pooled(session.run(None, {"ids": x, "mask": m})[0], m)


def optimised(path):
    """Applies ONNX Runtime's fusions for BERT, once."""
    to = path.replace(".onnx", ".optimised.onnx")
    if not os.path.exists(to):
        import onnxruntime as ort
        from onnxruntime.transformers import optimizer
        ort.set_default_logger_severity(3)
        optimizer.optimize_model(path, model_type="bert", num_heads=12, hidden_size=384,
                                 opt_level=99).save_model_to_file(to)
    return to


def with_openvino(path, precision):
    import openvino as ov
    model = ov.Core().compile_model(path, "CPU", {
        "INFERENCE_NUM_THREADS": THREADS, "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": precision})
    return lambda x, m: pooled(np.asarray(model([x, m])[0], dtype=np.float32), m)


def with_ctranslate2():
    import ctranslate2
    folder = os.path.join(WORK, "minilm-ctranslate2")
    if not os.path.exists(folder):
        ctranslate2.converters.TransformersConverter(MODEL).convert(folder)
    encoder = ctranslate2.Encoder(folder, device="cpu", intra_threads=THREADS, compute_type="float32")

    def run(x, m):
        ids = [row[:n].tolist() for row, n in zip(x, m.sum(1))]
        return pooled(np.array(encoder.forward_batch(ids).last_hidden_state), m)
    return run


def with_kjarni():
    """Returns the program that knows models by name, with the files where its downloads would be."""
    os.environ["RAYON_NUM_THREADS"] = str(THREADS)
    import kjarni
    cache = os.path.join(WORK, "kjarni")
    folder = os.path.join(cache, "sentence-transformers_all-MiniLM-L6-v2")
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(MODEL):
        if not os.path.exists(os.path.join(folder, name)):
            os.symlink(os.path.abspath(os.path.join(MODEL, name)), os.path.join(folder, name))
    embedder = kjarni.Embedder("minilm-l6-v2", cache_dir=cache, quiet=True)
    return lambda texts: np.array(embedder.encode_batch(texts), np.float32)


def peers(precision):
    """Returns {name: run(ids, mask) -> vectors} of the installed programs; kjarni's is run(texts)."""
    path = os.path.join(WORK, "minilm.onnx")
    try:
        if not os.path.exists(path):
            export(path)
    except Exception as e:
        note(f"  no ONNX model: {str(e).splitlines()[0][:90]}")
    if precision == "f32":
        makers = {"PyTorch f32": lambda: with_torch(torch.float32),
                  "ONNX Runtime f32": lambda: with_onnxruntime(path),
                  "ONNX Runtime f32 optimised": lambda: with_onnxruntime(optimised(path)),
                  "OpenVINO f32": lambda: with_openvino(path, "f32"),
                  "CTranslate2 f32": with_ctranslate2,
                  "kjarni": with_kjarni,
                  "zentorch f32": with_zentorch}
    else:  # ONNX Runtime has no bf16 for this CPU
        makers = {"OpenVINO bf16": lambda: with_openvino(path, "bf16"),
                  "PyTorch bf16": lambda: with_torch(torch.bfloat16),
                  "ONNX Runtime f32": lambda: with_onnxruntime(path)}
    found = {}
    for name, make in makers.items():
        try:
            found[name] = make()
        except Exception as e:
            note(f"  {name} is not measured: {str(e).splitlines()[0][:90]}")
    return found


def cosines(a, b):
    """Returns the smallest cosine between a row of a and the same row of b."""
    return float(((a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).min())


class Mine:
    """Measures qkv in one precision on all texts at once, and on a few of them one by one."""

    def __init__(self, precision, texts, few):
        self.embedder = qkv.Embedder(MODEL, precision)
        self.given = self.embedder.texts(texts)
        self.ones = [self.embedder.texts([texts[i]]) for i in few]
        self.vectors = np.frombuffer(self.embedder.run(self.given), np.float32).reshape(len(texts), -1).copy()

    def all(self):
        self.embedder.run(self.given)

    def single(self):
        for one in self.ones:
            self.embedder.run(one)


# The smallest accepted cosine to PyTorch's f32 vectors.
SAME = {"f32": 0.9999, "bf16": 0.99}
# The largest 1 - cosine that counts as the same vectors.
AWAY = {"f32": 1e-6, "bf16": 1e-4}


def main():
    torch.set_grad_enabled(False)
    qkv.threads(THREADS)
    precision = sys.argv[1]
    texts = sentences(96 if QUICK else 1024)
    tokenizer = Tokenizer.from_file(os.path.join(MODEL, "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    ids = [e.ids for e in tokenizer.encode_batch(texts)]
    tokens = sum(map(len, ids))
    ready = list(batches(ids))
    few = range(0, len(texts), len(texts) // (16 if QUICK else 64))
    ours = {}
    for p in ("f32",) if precision == "f32" else ("bf16", "int8"):
        try:
            ours[p] = Mine(p, texts, few)
        except RuntimeError as e:
            note(f"  qkv {p} is not measured: {e}")
            continue
        if ours[p].embedder.tokens != tokens:
            raise SystemExit(f"qkv counts {ours[p].embedder.tokens} tokens, the tokenizers package {tokens}")
    exact = np.empty((len(texts), 384), np.float32)
    f32 = with_torch(torch.float32)
    for place, x, m in ready:
        exact[place] = f32(x, m)
    alone = [(np.array([ids[i]]), np.ones((1, len(ids[i])), np.int64)) for i in few]
    calls = {f"qkv {p}": mine.all for p, mine in ours.items()}
    single = {f"qkv {p}": mine.single for p, mine in ours.items()}
    worst = {f"qkv {p}": cosines(mine.vectors, exact) for p, mine in ours.items()}
    for name, run in peers(precision).items():
        theirs = np.empty_like(exact)
        of_texts = name == "kjarni"
        for place, x, m in ready:
            theirs[place] = run([texts[i] for i in place]) if of_texts else run(x, m)
        worst[name] = cosines(theirs, exact)
        if worst[name] < SAME[precision]:
            note(f"  {name} computes something else (cosine {worst[name]:.5f}): left out")
            continue
        if of_texts:
            calls[name] = lambda run=run: run(texts)
            single[name] = lambda run=run: [run([texts[i]]) for i in few]
        else:
            calls[name] = lambda run=run: [run(x, m) for _, x, m in ready]
            single[name] = lambda run=run: [run(x, m) for x, m in alone]
    rounds, first = 3 if QUICK else 5, next(iter(ours))
    kernel = qkv.Linear(1, 384, 384, first)
    arithmetic = kernel.arithmetic
    # tokens per second if all products of the model ran at the peak: 6 layers of width 384 and 1536
    most = lambda lengths: qkv.peak(arithmetic) / (12 * (4 * 384 * 384 + 2 * 384 * 1536) +
                                                   24 * 384 * sum(n * n for n in lengths) / sum(lengths))
    some = [len(ids[i]) for i in few]
    together = turns(calls, rounds, limit=100, warm=False, probe=lambda: most(list(map(len, ids))))
    apart = turns(single, rounds * 3, limit=40, probe=lambda: most(some) * len(some) / sum(some))
    for p in ours:
        mine = lambda found: {"qkv" if who == f"qkv {p}" else who: x for who, x in found.items()
                              if who == f"qkv {p}" or not who.startswith("qkv")}
        peak = arithmetic if p == first else None
        row(f"embed, MiniLM {p}", f"{len(texts)} sentences, {tokens} tokens", "tokens/s", tokens,
            mine(together), cosine=mine(worst), peak=peak, isa=kernel.isa, core=together.core)
        row(f"embed, MiniLM {p}", f"one sentence at a time ({len(alone)})", "sentences/s", len(alone),
            mine(apart), peak=peak, isa=kernel.isa, core=apart.core)
        off = {who: 1 - x for who, x in mine(worst).items() if who != "PyTorch f32"}
        if p in AWAY:
            off["limit"] = AWAY[p]
        plain(f"embed, MiniLM {p}", "1 - smallest cosine to PyTorch f32", "", off,
              limit="limit")


if __name__ == "__main__":
    main()
