# SPDX-License-Identifier: MIT
"""process.py: measures whole processes and files: cold start, the HTML view, the tokenizer."""
import json
import os
import random
import subprocess
import sys
import time

from common import MODEL, QUICK, THREADS, WORK, note, plain, row, sentences, turns

QKV = os.environ["QKV_COMMAND"]

ORT_HELLO = """
import sys, numpy as np, onnxruntime as ort
from tokenizers import Tokenizer
t = Tokenizer.from_file(sys.argv[1] + "/tokenizer.json"); t.no_padding()
x = np.array([t.encode("hello").ids])
s = ort.InferenceSession(sys.argv[2], providers=["CPUExecutionProvider"])
print(s.run(None, {"ids": x, "mask": np.ones_like(x)})[0].mean(1)[0, :3])
"""
SENTENCE_HELLO = """
import sys
from sentence_transformers import SentenceTransformer
print(SentenceTransformer(sys.argv[1]).encode("hello")[:3])
"""
TWICE = "twice qkv embed of the text"


def process(command, **environment):
    """Runs a command; returns (seconds, peak MB)."""
    begin = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             env={**os.environ, **environment})
    message = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise RuntimeError(f"{command[0]}: {message.decode()[-200:]}")
    return time.perf_counter() - begin, usage.ru_maxrss / 1024


def cold_start():
    """Measures a cold start to the vector of "hello", with the files in the page cache."""
    onnx = os.path.join(WORK, "minilm.onnx")
    who = {"qkv": [QKV, "embed", "-m", MODEL, "hello"]}
    if os.path.exists(onnx):
        who["ONNX Runtime + tokenizers"] = [sys.executable, "-c", ORT_HELLO, MODEL, onnx]
    if not QUICK:
        who["sentence-transformers"] = [sys.executable, "-c", SENTENCE_HELLO, MODEL]
    seconds, memory = {}, {}
    for name, command in list(who.items()):
        try:
            process(command)
        except RuntimeError as e:
            note(f"  {name} is not measured: {e}")
            del who[name]
    for _ in range(3 if QUICK else 7):
        for name, command in who.items():
            s, mb = process(command)
            seconds.setdefault(name, []).append(s)
            memory[name] = min(memory.get(name, mb), mb)
    row("cold start", 'embed "hello", whole process', "ms", 1, seconds)
    plain("cold start", 'embed "hello", peak memory', "MiB", memory)
    static = os.path.join(os.path.dirname(QKV), "static/qkv")
    if not os.path.exists(static):
        return note("  the static command is not measured: this build has none")
    alone = [process([static, "embed", "-m", MODEL, "hello"])[0] for _ in range(3 if QUICK else 15)]
    row("cold start", 'embed "hello", static command', "ms", 1, {"qkv": alone, "limit": [0.1]},
        limit="limit")


def view():
    """Measures the head view of 512 tokens as one HTML file: qkv as a whole process, BertViz with its model loaded."""
    text = " ".join(sentences(60))
    page = os.path.join(WORK, "view.html")
    seconds, size, given = {"qkv": [], TWICE: []}, {}, ["-m", MODEL, "--max-length", "512", text]
    for _ in range(3 if QUICK else 7):
        seconds["qkv"].append(process([QKV, "view", "--force", "-o", page, *given])[0])
        seconds[TWICE].append(2 * process([QKV, "embed", *given])[0])
    size["qkv"] = os.path.getsize(page) / 1e6
    if not QUICK:
        try:
            import torch
            from bertviz import head_view
            from transformers import AutoModel, AutoTokenizer
            torch.set_num_threads(THREADS)
            tokenizer = AutoTokenizer.from_pretrained(MODEL)
            model = AutoModel.from_pretrained(MODEL, attn_implementation="eager").eval()
            begin = time.perf_counter()
            x = tokenizer(text, return_tensors="pt", truncation=True, max_length=512)
            with torch.no_grad():
                attention = model(**x, output_attentions=True).attentions
            html = head_view(attention, tokenizer.convert_ids_to_tokens(x.input_ids[0]),
                             html_action="return")
            seconds["BertViz"] = [time.perf_counter() - begin]
            size["BertViz"] = len(html.data) / 1e6
        except ImportError as e:
            note(f"  BertViz is not measured: {e}")
    row("view, 512 tokens, 72 heads", "text to HTML file", "ms", 1, seconds, limit=TWICE)
    plain("view, 512 tokens, 72 heads", "size of the file", "MB", size)


def tokenizer_row(name, path, text, lines):
    """Measures one tokenizer.json on one thread: lines to ids and offsets; qkv is called per line, the other program gets all
    lines."""
    import tokenizers
    import qkv_ctypes as qkv
    raw = [line.encode() for line in lines]
    ours, theirs = qkv.Tokenizer(path), tokenizers.Tokenizer.from_file(path)
    theirs.no_truncation()
    theirs.no_padding()
    a, b = sum(map(ours.count, raw)), sum(len(e.ids) for e in theirs.encode_batch(lines))
    if a != b:
        raise SystemExit(f"{name}: qkv makes {a} tokens, tokenizers {b}")
    row("tokenizer, " + name, text, "MB/s", sum(map(len, raw)) / 1e6,
        turns({"qkv": lambda: sum(map(ours.count, raw)), "tokenizers": lambda: theirs.encode_batch(lines),
               "tokenizers, without offsets": lambda: theirs.encode_batch_fast(lines)}, 3 if QUICK else 7))


def tokenizer():
    """Measures tokenizers on English lines, then on lines of many languages, documentation and sources."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    text = " ".join(sentences(100000))
    english = [text[i:i + 400] for i in range(0, len(text), 400)]
    minilm = os.path.join(MODEL, "tokenizer.json")
    tokenizer_row("WordPiece", minilm, "lines of 400 characters", english)
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
    import tokenizer_parity as parity
    try:
        sample, mixed = ([line for part in parity.chunks(n, random.Random(seed), {}) for line in part if line]
                         for n, seed in ((12000, 2), (20000, 3)))
    except SystemExit as e:
        return note(f"  other tokenizers are not measured: {e}")
    tokenizer_row("WordPiece", minilm, "lines of many languages and sources", mixed)
    wanted = ("BPE gpt2", "BPE cl100k", "BPE qwen2", "BPE o200k", "BPE deepseek v3", "BPE by PCRE2", "BPE bytes fallback", "Unigram")
    for name, whole, _ in parity.tokenizers(sample):
        if name not in wanted:
            continue
        path = os.path.join(WORK, "tokenizer.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(whole, f)
        for what, lines in (("lines of 400 characters", english), ("lines of many languages and sources", mixed)):
            if not QUICK or lines is mixed:
                tokenizer_row(name, path, what, lines)


if __name__ == "__main__":
    {"cold": cold_start, "view": view, "tokenizer": tokenizer}[sys.argv[1]]()
