#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""golden_generate.py: writes tests/golden/generate.json: results of transformers' generate() for models/verse,
models/dates and small random models (tests/golden): greedy, penalties, and beam searches with their scores.  `file`:
the settings of generation_config.json.
"""
import json
import os

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

ROOT = os.path.join(os.path.dirname(__file__), "..")
VERSE = ["In the beginning", "And the king said unto him,", "Blessed"]
DATES = ["the third of May 1987", "12 Jan 2031", "Sunday, 4 July 1776"]
CASES = [
    ("verse", VERSE[:2], dict(max_tokens=64)),
    ("verse", VERSE, dict(max_tokens=40, repetition=1.3, no_repeat_ngram=3)),
    ("verse", VERSE, dict(max_tokens=24, beams=4, n_best=4)),
    ("verse", VERSE[:2], dict(max_tokens=24, beams=3, n_best=2, early="full")),
    ("verse", VERSE[:2], dict(max_tokens=24, beams=3, n_best=3, early="never", length_penalty=0.0)),
    ("verse", VERSE[:2], dict(max_tokens=24, beams=3, n_best=1, early="never", length_penalty=2.0)),
    ("verse", VERSE[:2], dict(max_tokens=24, beams=4, n_best=2, repetition=1.2, no_repeat_ngram=2,
                              min_tokens=20)),
    ("dates", DATES, dict(max_tokens=30, beams=1)),
    ("dates", DATES, dict(max_tokens=30, beams=4, n_best=4)),
    ("dates", DATES, dict(max_tokens=30, beams=5, n_best=2, early="full", length_penalty=0.5)),
    ("dates", DATES, dict(max_tokens=6, beams=3, n_best=3)),
]
LETTERS = ["a b c d e", "qkv"]
ENDS = dict(eos_token_id=[2, 9], bad_words_ids=[[7], [8, 9]], forced_eos_token_id=2)
SPARED = [[i, k] for i in (16, 34, 60, 65, 9, 55, 41, 67) for k in (60, 34, 65, 16, 9, 53, 41, 49)]
FILE = dict(max_length=14, min_length=11, no_repeat_ngram_size=2, repetition_penalty=1.3,
            bad_words_ids=[[7], [8, 9]] + SPARED)
FAMILIES = [
    ("bart", dict(max_tokens=16, beams=3, n_best=3), None),
    ("bart", dict(max_tokens=12, beams=3, n_best=2), dict(ENDS, forced_bos_token_id=0)),
    # everything from the file: lengths, penalties, sequences that must not occur, a forced end of greedy outputs
    ("bart", dict(), dict(ENDS | FILE, forced_bos_token_id=0, num_beams=3, length_penalty=2.0,
                         early_stopping=True)),
    ("bart", dict(n_best=2), dict(FILE, num_beams=4, length_penalty=0.0, early_stopping="never", max_new_tokens=9,
                                  min_new_tokens=6, forced_bos_token_id=5)),
    ("bart", dict(beams=1), dict(ENDS, max_length=9)),
    ("marian-two-tables", dict(beams=1, max_tokens=7), dict(eos_token_id=0, forced_eos_token_id=0)),
    ("qwen3", dict(), dict(FILE, max_length=30, bad_words_ids=SPARED)),
    ("llama3", dict(beams=2), dict(FILE, max_new_tokens=15, bad_words_ids=SPARED)),
    ("t5", dict(max_tokens=16, beams=3, n_best=3), None),
    ("t5", dict(max_tokens=30, beams=1), None),
    ("marian-two-tables", dict(max_tokens=16, beams=3, n_best=2), None),
    ("gemma2", dict(max_tokens=40, beams=3, n_best=2), None),
    ("mistral", dict(max_tokens=40, beams=3, n_best=2), dict(eos_token_id=[2, 20, 30])),
    ("qwen3", dict(max_tokens=20, repetition=1.4, no_repeat_ngram=2), None),
    ("llama3", dict(max_tokens=20, beams=4, n_best=4, early="full", length_penalty=0.7), None),
]


def main():
    models = {}
    for name in sorted({name for name, _, _ in CASES} | {name for name, _, _ in FAMILIES}):
        path = os.path.join(ROOT, "models", name)
        tokens = os.path.join(path, "tokenizer.json")
        if not os.path.isdir(path):
            path = os.path.join(ROOT, "tests", "golden", name)
            tokens = os.path.join(ROOT, "tests", "golden", "text", "letters.json")
        with open(os.path.join(path, "config.json")) as f:
            two = json.load(f).get("is_encoder_decoder")
        kind = AutoModelForSeq2SeqLM if two else AutoModelForCausalLM
        model = kind.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
        models[name] = model, Tokenizer.from_file(tokens), two
    cases = []
    both = [(name, prompts, s, None) for name, prompts, s in CASES]
    both += [(name, LETTERS, s, file) for name, s, file in FAMILIES]
    for name, prompts, s, file in both:
        model, tokenizer, two = models[name]
        for prompt in prompts:
            ids = torch.tensor([tokenizer.encode(prompt).ids])
            with torch.no_grad():
                given = dict(
                    max_new_tokens=s.get("max_tokens"), min_new_tokens=s.get("min_tokens"),
                    num_beams=s.get("beams"), num_return_sequences=s.get("n_best"),
                    early_stopping={"full": True, "never": "never"}.get(s.get("early")),
                    length_penalty=s.get("length_penalty"), repetition_penalty=s.get("repetition"),
                    no_repeat_ngram_size=s.get("no_repeat_ngram"))
                settings = (file or {}) | {k: v for k, v in given.items() if v is not None}
                out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, pad_token_id=0,
                                     return_dict_in_generate=True, output_scores=True, **settings)
            scores = getattr(out, "sequences_scores", None)
            outputs = []
            ends = (file or {}).get("eos_token_id", model.generation_config.eos_token_id)
            ends = ends if isinstance(ends, list) else [ends]
            for i, row in enumerate(out.sequences.tolist()):
                row = row[1 if two else ids.shape[1]:]
                stop = [k for k, t in enumerate(row) if t in ends]
                row = row[:stop[0]] if stop else row
                if two and not stop:  # the output ended without an end token: padding follows
                    row = [t for t in row if t != 0]
                outputs.append(dict(ids=row, score=None if scores is None else round(scores[i].item(), 6)))
            cases.append(dict(model=name, prompt=prompt, settings=s, file=file, outputs=outputs))
    with open(os.path.join(ROOT, "tests", "golden", "generate.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


main()
