#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""golden_sampling.py: writes tests/golden/sampling.json: results of transformers' logits processors.

Each case: settings, prompt, output so far, logits, and the logits after the processors, in the order of generate();
null: -inf.  presence and frequency, which transformers lacks, follow their formula.
"""
import json
import math
import os

import torch
from transformers.generation import logits_process as lp

V = 40
CASES = [
    ("temperature", dict(temperature=0.7)),
    ("top_k", dict(temperature=1, top_k=5)),
    ("top_k_more_than_there_are", dict(temperature=1, top_k=1000)),
    ("top_p", dict(temperature=1, top_p=0.6)),
    ("top_p_small", dict(temperature=1, top_p=0.01)),
    ("top_p_one", dict(temperature=1, top_p=1.0)),
    ("min_p", dict(temperature=1, min_p=0.2)),
    ("repetition", dict(temperature=1, repetition=1.3)),
    ("repetition_below_one", dict(temperature=1, repetition=0.5)),
    ("presence_and_frequency", dict(temperature=1, presence=0.7, frequency=0.4)),
    ("no_repeat_1", dict(temperature=1, no_repeat_ngram=1)),
    ("no_repeat_2", dict(temperature=1, no_repeat_ngram=2)),
    ("no_repeat_3", dict(temperature=1, no_repeat_ngram=3)),
    ("bias", dict(temperature=1, bias=[[3, 2.5], [7, -4.0], [3, 1.0]])),
    ("all", dict(temperature=1.7, top_k=20, top_p=0.8, min_p=0.05, repetition=1.2, presence=0.3,
                 frequency=0.2, no_repeat_ngram=2, bias=[[1, -2.0], [5, 3.0]])),
]


def processed(s, prompt, output, logits):
    ids = torch.tensor([prompt + output])
    x = torch.tensor([logits])
    for token, value in s.get("bias", []):  # one processor per entry, since the processor's dict has each key once
        x = lp.SequenceBiasLogitsProcessor({(token,): value})(ids, x)
    if "repetition" in s:
        x = lp.RepetitionPenaltyLogitsProcessor(s["repetition"])(ids, x)
    for token in set(output):
        x[0, token] -= s.get("presence", 0) + s.get("frequency", 0) * output.count(token)
    if "no_repeat_ngram" in s:
        x = lp.NoRepeatNGramLogitsProcessor(s["no_repeat_ngram"])(ids, x)
    if s["temperature"] != 1:
        x = lp.TemperatureLogitsWarper(float(s["temperature"]))(ids, x)
    if "top_k" in s:
        x = lp.TopKLogitsWarper(s["top_k"])(ids, x)
    if s.get("top_p", 1) < 1:
        x = lp.TopPLogitsWarper(s["top_p"])(ids, x)
    if "min_p" in s:
        x = lp.MinPLogitsWarper(s["min_p"])(ids, x)
    return x[0].tolist()


def main():
    torch.manual_seed(6)
    cases = []
    for name, s in CASES:
        logits = (torch.randn(V) * 2).tolist()
        prompt = torch.randint(0, 8, (9,)).tolist()
        output = torch.randint(0, 8, (12,)).tolist()
        want = [None if math.isinf(x) else round(x, 6) for x in processed(s, prompt, output, logits)]
        cases.append(dict(name=name, settings=s, prompt=prompt, output=output,
                          logits=[round(x, 7) for x in logits], want=want))
    path = os.path.join(os.path.dirname(__file__), "..", "tests", "golden", "sampling.json")
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


main()
