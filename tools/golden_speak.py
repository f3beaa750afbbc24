#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""golden_speak.py: tests/golden/speak.json: what transformers' generate() makes of models/verse and
models/dates: greedy, penalties, and searches of beams with their scores."""
import json
import os

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from tokenizers import Tokenizer
from transformers import GPT2LMHeadModel, MarianMTModel

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


def main():
    models = {}
    for name, kind in (("verse", GPT2LMHeadModel), ("dates", MarianMTModel)):
        path = os.path.join(ROOT, "models", name)
        model = kind.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
        models[name] = model, Tokenizer.from_file(os.path.join(path, "tokenizer.json"))
    cases = []
    for name, prompts, s in CASES:
        model, tokenizer = models[name]
        for prompt in prompts:
            ids = torch.tensor([tokenizer.encode(prompt).ids])
            with torch.no_grad():
                out = model.generate(
                    ids, attention_mask=torch.ones_like(ids), do_sample=False,
                    max_new_tokens=s["max_tokens"], min_new_tokens=s.get("min_tokens"),
                    num_beams=s.get("beams", 1), num_return_sequences=s.get("n_best", 1),
                    early_stopping={"full": True, "never": "never"}.get(s.get("early"), False),
                    length_penalty=s.get("length_penalty", 1.0),
                    repetition_penalty=s.get("repetition"),
                    no_repeat_ngram_size=s.get("no_repeat_ngram"),
                    pad_token_id=0, return_dict_in_generate=True, output_scores=True)
            scores = getattr(out, "sequences_scores", None)
            outputs = []
            for i, row in enumerate(out.sequences.tolist()):
                row = row[ids.shape[1]:] if name == "verse" else row[1:]
                end = model.generation_config.eos_token_id
                row = row[:row.index(end)] if end in row else row
                if name == "dates":
                    row = [t for t in row if t != 0]
                outputs.append(dict(ids=row, score=None if scores is None else round(scores[i].item(), 6)))
            cases.append(dict(model=name, prompt=prompt, settings=s, outputs=outputs))
    with open(os.path.join(ROOT, "tests", "golden", "speak.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


main()
