# SPDX-License-Identifier: MIT
"""goals.py: what the figures are to reach: a share of the limit of the machine, or a ratio to another program.

The limit of a figure is the peak of the arithmetic that ran, a plain read of as many bytes, or the row that its
comparison names as its limit.
"""
import fnmatch

# (section, row, instruction set, goal): patterns of fnmatch; a figure has the first goal of each kind that matches.
# A number is a share of the limit; (PROGRAM, NUMBER) a ratio to this program.
GOALS = [
    # AMX, against the peak of tiles: what a model of the core without caches computed before the first machine
    ("attention forward, bf16", "*N2048* full", "amx", .34),
    ("attention forward, bf16", "*N2048* causal", "amx", .30),
    ("attention forward, bf16", "*N128* full", "amx", .29),
    ("attention forward, bf16", "*N128* causal", "amx", .20),
    ("linear, bf16", "1024x384* + GELU", "amx", .33),
    ("linear, bf16", "1024x384*", "amx", .76),
    ("attention forward, *", "*N2048* full", "avx512*", .88),
    ("attention forward, *", "*N2048* causal", "avx512*", .84),
    ("attention forward, *", "*N2048* full", "*", .85),
    ("attention forward, *", "*N2048* causal", "*", .81),
    ("attention forward, *", "*N128* full", "*", .78),
    ("attention forward, *", "*N128* causal", "*", .65),
    ("attention forward, packed, *", "*", "*", .55),
    ("attention backward, f32", "*N2048* full", "*", .90),
    ("attention backward, f32", "*N2048* causal", "*", .86),
    ("attention backward, f32", "*N128* full", "*", .78),
    ("attention backward, f32", "*N128* causal", "*", .65),
    ("linear, f32", "1024x*", "*", .93),
    ("linear, f32", "1024x*", "*", ("PyTorch f32", 1)),
    ("linear, f32", "1024x*", "*", ("OpenBLAS, by numpy", 1)),
    ("linear, bf16", "1024x* + GELU", "*", .86),
    ("linear, bf16", "1024x*", "*", .90),
    ("linear, bf16", "37x*", "*", .88),
    ("linear, few rows, *", "R1, *", "*", .80),
    ("decode, bf16", "*T1", "*", .85),
    ("decode, bf16", "*T4", "*", .80),
    ("decode, int8", "*", "*", .75),
    ("decoding, *, bf16", "weights* read, *", "*", .88),
    ("decoding, *, int8", "weights* read, *", "*", .85),
    ("decoding, *", "a token after *", "*", ("llama.cpp*", 1)),
    ("prompts, *, bf16", "*", "*", .85),
    ("training, *", "a step, *", "*", .85),
    ("training, *", "whole process *", "*", ("PyTorch*", 1 / .75)),
    ("embed, MiniLM f32", "* tokens", "*", .87),
    ("embed, MiniLM f32", "one sentence *", "*", .82),
    ("embed, MiniLM f32", "*sentence*", "*", ("ONNX Runtime f32", 1.25)),
    ("embed, *", "1 - smallest cosine *", "*", 1),
    ("two threads and two processes", "*", "*", .96),
    ("very long, *", "*", "*", 1),
    ("view, *", "text to HTML file", "*", 1),
    ("llama2.c's checkpoints, *", "*", "*", ("llama2.c", 1)),
    ("tokenizer, *", "*", "*", ("tokenizers", 2)),
    ("Python, encode, *", "*", "*", ("sentence-transformers", 1.5)),
    ("Python, encode, *", "*", "*", ("ONNX Runtime*", 1)),
    ("Python, process to first vector", "*", "*", 1),
    ("Python, PyTorch in one process with qkv", "*", "*", .97),
    ("Python, attention *", "*", "*", .97),
    ("Python, observe, *", "*", "*", 1 / 2.2),
    ("cold start", "*static command", "*", 1),
    ("search, *", "*one question", "*", .8),
    ("server, *", "*a request", "*", .9),
    ("server, *", "*a request", "*", ("sentence-transformers", 2)),
    ("server, *", "*a request", "*", ("ONNX Runtime *", 2)),
    ("server, *", "*a request", "*", ("fastembed", 2)),
    ("server, *", "*a request", "*", ("infinity", 2)),
]

# (CPU, section, row, heading of docs/limits.md): where the account of a missed goal is; the first row that matches.
ACCOUNTS = [
    ("sapphire-rapids", "attention forward, bf16", "*", "Attention in bf16 with AMX"),
    ("sapphire-rapids", "attention forward, packed, bf16", "*", "Attention in bf16 with AMX"),
    ("sapphire-rapids", "attention forward, *", "*", "Attention in f32 with AMX"),
    ("sapphire-rapids", "decode, *", "*", "Decoding with AMX"),
    ("sapphire-rapids", "decoding, *", "*", "Decoding with AMX"),
    ("sapphire-rapids", "linear, f32*", "*", "Linear layers in f32 with AMX"),
    ("sapphire-rapids", "linear, *", "*", "Linear layers in bf16 and int8 with AMX"),
    ("zen3", "attention forward, *", "*", "Attention with AVX2"),
    ("zen3", "decode, *", "*", "Decoding with AVX2"),
    ("zen3", "linear, few rows, *", "*", "A few rows"),
    ("zen3", "linear, *", "*", "Linear layers with AVX2"),
    ("zen4", "attention forward, *", "*N128*", "Short sequences"),
    ("zen4", "attention forward, packed, *", "*", "Short sequences"),
    ("zen4", "attention forward, *", "*", "Attention with AVX-512"),
    ("zen4", "decode, *", "*", "Decoding with AVX-512"),
    ("zen4", "linear, few rows, *", "*", "A few rows"),
    ("zen4", "linear, *", "*", "Linear layers with AVX-512"),
    ("*", "attention backward, *", "*", "Gradients of attention"),
    ("*", "embed, *", "*", "Sentence embeddings"),
    ("*", "decoding, *", "*", "Whole decoders"),
    ("*", "llama2.c's checkpoints, *", "*", "Whole decoders"),
    ("*", "prompts, *", "*", "Prompts"),
    ("*", "training, *", "*", "Training"),
    ("*", "two threads and two processes", "*", "Two threads"),
    ("*", "search, *", "*", "Search"),
    ("*", "view, *", "*", "A page of 512 tokens"),
    ("*", "tokenizer, *", "*", "Unknown regular expressions"),
    ("*", "Python, PyTorch in one process with qkv", "*", "PyTorch in one process"),
]

# The rows of the first table of docs/performance.md: (title, part, section, row, programs[, row of the programs]).
# programs: patterns of fnmatch, of which the fastest program counts.
TOP = [
    ("attention, f32, 2,048 tokens, 8 heads of 64", "attention-f32", "attention forward, f32", "*N2048 E64 full",
     ("PyTorch f32", "ONNX Runtime f32")),
    ("the same, bf16, causal", "attention-bf16", "attention forward, bf16", "*N2048 E64 causal", ("PyTorch bf16",)),
    ("gradients of attention, f32, 2,048 tokens", "attention-backward", "attention backward, f32", "*N2048 E64 full",
     ("PyTorch f32",)),
    ("linear, f32, 1024x1536x384", "linear", "linear, f32", "1024x1536x384", ("PyTorch f32", "OpenBLAS, by numpy")),
    ("decoding, attention to 16,384 keys, bf16", "decode", "decode, bf16", "*T1", ("PyTorch*",)),
    ("MiniLM embeddings, f32", "embed-f32", "embed, MiniLM f32", "* tokens", ("ONNX Runtime f32*", "OpenVINO f32", "CTranslate2 f32", "PyTorch f32")),
    ("first vector of a whole process", "cold", "cold start", "*whole process", ("ONNX Runtime + tokenizers", "sentence-transformers")),
    ("decoding GPT-2 124M, bf16", "decoders-gpt2", "decoding, GPT-2 124M, bf16", "weights* read, *", ("llama.cpp BF16", "PyTorch bf16"),
     "a token after *"),
    ("training a GPT of 6 x 384, f32", "train-baby", "training, baby*", "a step, f32", ("PyTorch*f32",)),
    ("view of 512 tokens, 72 heads", "view", "view, *", "text to HTML file", ("BertViz",)),
]


def of(record):
    """Returns the goals of a record, each a share or (program, ratio)."""
    found = {}
    for section, row, isa, goal in GOALS:
        if all(fnmatch.fnmatchcase(x or "", y) for x, y in
               ((record["section"], section), (record["row"], row), (record.get("isa"), isa))):
            found.setdefault(goal[0] if isinstance(goal, tuple) else "share", goal)
    return list(found.values())


def account(cpu, record):
    """Returns the heading of docs/limits.md under which a missed goal of a CPU has its account, or None."""
    for key, section, row, heading in ACCOUNTS:
        if all(fnmatch.fnmatchcase(x, y) for x, y in ((cpu, key), (record["section"], section), (record["row"], row))):
            return heading
    return None
