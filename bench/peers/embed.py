# SPDX-License-Identifier: MIT
"""1024 sentences to vectors by all-MiniLM-L6-v2 in f32, and one sentence at a time.

qkv is timed from text to vector, its tokenizer included; the rivals get token ids, sorted by length in
batches of 32, as sentence-transformers would hand them over: their tokenizer is not counted.
"""
import os

import numpy as np
import torch
from tokenizers import Tokenizer

import qkv_ctypes as qkv
from common import MODEL, QUICK, THREADS, WORK, note, row, sentences, turns

torch.set_num_threads(THREADS)
torch.set_grad_enabled(False)


def pooled(hidden, mask):
    """Mean over the tokens, length 1."""
    m = mask[..., None].astype(np.float32)
    e = (hidden * m).sum(1) / m.sum(1)
    return e / np.linalg.norm(e, axis=1, keepdims=True)


def batches(ids, size=32):
    """(places, ids, mask): longest first, so that little is padded."""
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
    """The model as ONNX, made once."""
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


def with_torch():
    from transformers import AutoModel
    model = AutoModel.from_pretrained(MODEL).eval()

    def run(x, m):
        return pooled(model(torch.from_numpy(x), attention_mask=torch.from_numpy(m))
                      .last_hidden_state.numpy(), m)
    return run


def with_onnxruntime(path):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda x, m: pooled(session.run(None, {"ids": x, "mask": m})[0], m)


def optimised(path):
    """ONNX Runtime's own fusions for BERT, made once."""
    to = path.replace(".onnx", ".optimised.onnx")
    if not os.path.exists(to):
        import onnxruntime as ort
        from onnxruntime.transformers import optimizer
        ort.set_default_logger_severity(3)
        optimizer.optimize_model(path, model_type="bert", num_heads=12, hidden_size=384,
                                 opt_level=99).save_model_to_file(to)
    return to


def with_openvino(path):
    import openvino as ov
    model = ov.Core().compile_model(path, "CPU", {
        "INFERENCE_NUM_THREADS": THREADS, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"})
    return lambda x, m: pooled(np.asarray(model([x, m])[0], dtype=np.float32), m)


def rivals():
    """{name: run(ids, mask) -> vectors} of what is installed."""
    path = os.path.join(WORK, "minilm.onnx")
    try:
        if not os.path.exists(path):
            export(path)
    except Exception as e:
        note(f"  no ONNX model: {str(e).splitlines()[0][:90]}")
    makers = {"PyTorch": with_torch, "ONNX Runtime": lambda: with_onnxruntime(path),
              "ONNX Runtime optimised": lambda: with_onnxruntime(optimised(path)),
              "OpenVINO": lambda: with_openvino(path)}
    found = {}
    for name, make in makers.items():
        try:
            found[name] = make()
        except Exception as e:
            note(f"  {name} is not measured: {str(e).splitlines()[0][:90]}")
    return found


def main():
    qkv.threads(THREADS)
    texts = sentences(256 if QUICK else 1024)
    tokenizer = Tokenizer.from_file(os.path.join(MODEL, "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    ids = [e.ids for e in tokenizer.encode_batch(texts)]
    tokens = sum(map(len, ids))
    ready = list(batches(ids))
    embedder = qkv.Embedder(MODEL)
    given = embedder.texts(texts)
    ours = np.frombuffer(embedder.run(given), np.float32).reshape(len(texts), -1).copy()
    if embedder.tokens != tokens:
        raise SystemExit(f"qkv counts {embedder.tokens} tokens, the tokenizers package {tokens}")
    calls, single = {"qkv": lambda: embedder.run(given)}, {}
    few = range(0, len(texts), len(texts) // (16 if QUICK else 64))
    ones = [embedder.texts([texts[i]]) for i in few]
    single["qkv"] = lambda: [embedder.run(one) for one in ones]
    alone = [(np.array([ids[i]]), np.ones((1, len(ids[i])), np.int64)) for i in few]
    worst = {}
    for name, run in rivals().items():
        theirs = np.empty_like(ours)
        for place, x, m in ready:
            theirs[place] = run(x, m)
        worst[name] = float((theirs * ours).sum(1).min())
        if worst[name] < 0.9999:
            raise SystemExit(f"qkv and {name} disagree: cosine {worst[name]}")
        calls[name] = lambda run=run: [run(x, m) for _, x, m in ready]
        single[name] = lambda run=run: [run(x, m) for x, m in alone]
    rounds = 3 if QUICK else 5
    row("embed, MiniLM f32", f"{len(texts)} sentences, {tokens} tokens", "tokens/s", tokens,
        turns(calls, rounds), cosine=worst)
    row("embed, MiniLM f32", f"one sentence at a time ({len(ones)})", "sentences/s", len(ones),
        turns(single, rounds * 3))


main()
