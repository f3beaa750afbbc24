#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""train_twin.py RUN [--steps N] [--weights DIR] [--out FILE]: repeats a run of qkv train in PyTorch.

It uses the same batches, initial weights, schedule, clipping and AdamW; the model is transformers' class for the
folder.  It compares the losses with RUN/log.jsonl step by step, and with --valid the validation loss and bits per
byte over the whole validation split.

The initial weights of a run are obtained by a run of one step with a negligible rate:
    qkv train TEXT... --out zero (the same options) --steps 1 --warmup 0 --rate 1e-30
and then --weights zero/model.  Runs with dropout cannot be compared step by step: use --dropout 0.

Needs torch, transformers, numpy; it does not use libqkv and reads data/ of the run by docs/formats.md.
"""
import argparse
import json
import math
import os
import sys
import time

import numpy as np
import torch

MASK = 2**64 - 1


# ---- batches, as src/task/data/data_draw.c draws them -------------------------------------------------
def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def shuffle(i, n, key):
    """Returns element i of the permutation of 0 .. n - 1 under a key."""
    half = 1
    while half < 31 and (n - 1) >> (2 * half):
        half += 1
    ones, x = (1 << half) - 1, i
    while True:
        left, right = x >> half, x & ones
        for r in range(8):
            left, right = right, left ^ (mix(key ^ mix(r << 32 | right)) & ones)
        x = left << half | right
        if x < n:
            return x


class Split:
    """A split of a dataset."""

    def __init__(self, folder, name, index):
        read = lambda what, kind: np.fromfile(f"{folder}/{name}.{what}", kind)
        self.objective = index["objective"]
        self.tokens, self.offsets = read("tokens", "<i4"), read("offsets", "<i8")
        self.bytes = read("bytes", "<i8") if self.objective == "causal" else None
        self.n = index[name]["sequences"]

    def run(self, i):
        return self.tokens[self.offsets[i]:self.offsets[i + 1]]

    def example(self, e, bos, eos):
        """Returns (source or None, input, targets) of an example."""
        if self.objective == "causal":
            t = self.run(e)
            return None, t[:-1], t[1:]
        source, t = self.run(2 * e), self.run(2 * e + 1)
        return source, np.concatenate([[bos], t]), np.concatenate([t, [eos]])

    def rows(self, e):
        parts = 2 if self.objective == "seq2seq" else 1
        n = int(self.offsets[parts * (e + 1)] - self.offsets[parts * e])
        return n - 1 if parts == 1 else n + 1

    def batch(self, position, o, shuffled):
        """Returns (indices of the examples of a batch, position after them)."""
        taken, rows = [], 0
        while shuffled or position < self.n:
            e = position
            if shuffled:
                key = mix(o["seed"] ^ mix(position // self.n))
                e = shuffle(position % self.n, self.n, key)
            more = self.rows(e)
            if taken and (rows + more > o["batch_tokens"] or
                          (o.get("batch_sequences") and len(taken) == o["batch_sequences"])):
                break
            taken.append(e)
            rows += more
            position += 1
        return taken, position


def pad(rows, value):
    out = np.full((len(rows), max(map(len, rows))), value, np.int64)
    for i, row in enumerate(rows):
        out[i, :len(row)] = row
    return torch.from_numpy(out)


# ---- the model -----------------------------------------------------------------------------------
def losses(model, split, examples, bos, eos, smoothing=0.0):
    """Returns (sum of the loss over the targets, number of targets)."""
    parts = [split.example(e, bos, eos) for e in examples]
    ids, targets = pad([p[1] for p in parts], 0), pad([p[2] for p in parts], -100)
    seen = (targets != -100).long()
    if split.objective == "seq2seq":
        source = pad([p[0] for p in parts], 0)
        there = pad([np.ones(len(p[0]), np.int64) for p in parts], 0)
        logits = model(input_ids=source, attention_mask=there, decoder_input_ids=ids,
                       decoder_attention_mask=seen).logits
    else:
        logits = model(input_ids=ids, attention_mask=seen).logits
    flat = (logits if logits.dtype == torch.float64 else logits.float()).reshape(-1, logits.shape[-1])
    loss = torch.nn.functional.cross_entropy(flat, targets.reshape(-1), ignore_index=-100, reduction="sum",
                                             label_smoothing=smoothing)
    return loss, int(seen.sum())


def load(folder, dropout):
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM
    config = AutoConfig.from_pretrained(folder)
    for key in ("resid_pdrop", "embd_pdrop", "attn_pdrop", "dropout", "attention_dropout", "activation_dropout"):
        if hasattr(config, key):  # a parameter that the file lacks is not 0
            setattr(config, key, dropout if key != "activation_dropout" else 0.0)
    kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    return kind.from_pretrained(folder, config=config, dtype=torch.float32), config


def groups(model, decay):
    """Returns the parameter groups: weight decay for matrices, none for norms and biases."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    return [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": decay},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]


def rate(o, n):
    """Returns the learning rate of step n from 0, as src/task/train/optim.c."""
    peak, warmup, steps, last = o["rate"], o["warmup"], o["steps"], o["last"]
    if n < warmup:
        return peak * (n + 1) / warmup
    left = steps - warmup
    x = (n - warmup) / left if left > 0 and n - warmup < left else 1.0
    low = peak * last
    if o["schedule"] == "cosine":
        return low + (peak - low) * .5 * (1 + math.cos(math.pi * x))
    if o["schedule"] == "linear":
        return low + (peak - low) * (1 - x)
    if o["schedule"] == "inverse-sqrt":
        return peak * math.sqrt(max(warmup, 1) / (n + 1))
    return peak


def validate(model, split, o, bos, eos):
    """Returns (loss per target, bits per byte or None)."""
    model.eval()
    total = count = position = 0
    with torch.no_grad():
        while position < split.n:
            examples, position = split.batch(position, o, False)
            loss, n = losses(model, split, examples, bos, eos)
            total += float(loss)
            count += n
    model.train()
    bits = total / math.log(2) / float(split.bytes[-1]) if split.bytes is not None else None
    return total / count, bits


# ---- the run -------------------------------------------------------------------------------------
def options(run):
    """Returns the resolved options of a run."""
    with open(f"{run}/run.json") as f:
        o = json.load(f)
    o = {**o, **o.get("options", {})}
    real = lambda key, usual: usual if not o.get(key) else 0.0 if o[key] < 0 else o[key]
    return {**o, "warmup": max(0, o.get("warmup") or 0), "last": real("last", 0.0),
            "decay": real("decay", 0.0), "clip": real("clip", 0.0), "smoothing": real("smoothing", 0.0),
            "dropout": real("dropout", 0.0), "accumulate": o.get("accumulate") or 1, "seed": o.get("seed") or 0}


def logged(run):
    """Returns ({step: loss}, {step: validation loss})."""
    losses, valid = {}, {}
    with open(f"{run}/log.jsonl") as f:
        for line in f:
            x = json.loads(line)
            if "loss" in x:
                losses[x["step"]] = x["loss"]
            if "valid_loss" in x:
                valid[x["step"]] = x
    return losses, valid


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("run")
    a.add_argument("--steps", type=int, help="so many of the run's (default: all)")
    a.add_argument("--weights", help="model folder to begin with (default: RUN/first)")
    a.add_argument("--autocast", action="store_true", help="bf16 products, as torch.autocast has them")
    a.add_argument("--valid", action="store_true", help="validate at the end")
    a.add_argument("--double", action="store_true", help="weights, products and AdamW in double")
    a.add_argument("--nudge", action="store_true", help="one weight a unit in its last place off: how far "
                   "PyTorch comes to be from itself")
    a.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    a.add_argument("--out", help="write steps and losses here, a JSON object a line")
    a = a.parse_args()
    torch.set_num_threads(a.threads)
    o = options(a.run)
    with open(f"{a.run}/data/index.json") as f:
        index = json.load(f)
    train, valid = (Split(f"{a.run}/data", name, index) for name in ("train", "valid"))
    if index["objective"] not in ("causal", "seq2seq"):
        sys.exit(f"no twin of objective {index['objective']}")
    model, config = load(a.weights or f"{a.run}/first", o["dropout"])
    if a.double:
        model.double()
    if a.nudge:
        with torch.no_grad():
            weight = next(p for p in model.parameters() if p.requires_grad and p.dim() > 1)
            weight.view(-1)[-1] = torch.nextafter(weight.view(-1)[-1], torch.tensor(math.inf, dtype=weight.dtype))
    bos = getattr(config, "decoder_start_token_id", None)
    bos = bos if bos is not None else 0
    eos = config.eos_token_id if config.eos_token_id is not None else 0
    optimizer = torch.optim.AdamW(groups(model, o["decay"]), lr=o["rate"], betas=(o["beta1"], o["beta2"]),
                                  eps=o["eps"])
    theirs, theirs_valid = logged(a.run)
    steps = min(a.steps or o["steps"], o["steps"])
    out = open(a.out, "w") if a.out else None
    model.train()
    position, worst, targets, begin = 0, (0.0, 0), 0, time.perf_counter()
    for step in range(steps):
        total, count = 0.0, 0
        optimizer.zero_grad(set_to_none=True)
        for _ in range(o["accumulate"]):
            examples, position = train.batch(position, o, True)
            with torch.autocast("cpu", torch.bfloat16, enabled=a.autocast):
                loss, n = losses(model, train, examples, bos, eos, o["smoothing"])
            loss.backward()
            total += float(loss.detach())
            count += n
        for p in model.parameters():
            if p.grad is not None:
                p.grad /= count
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), o["clip"] if o["clip"] > 0 else math.inf)
        for group in optimizer.param_groups:
            group["lr"] = rate(o, step)
        optimizer.step()
        targets += count
        mean = total / count
        line = {"step": step + 1, "loss": mean, "norm": float(norm), "rate": rate(o, step)}
        if step + 1 in theirs:
            line["qkv"] = theirs[step + 1]
            apart = abs(mean - theirs[step + 1]) / abs(mean)
            worst = max(worst, (apart, step + 1))
        if out:
            out.write(json.dumps(line) + "\n")
            out.flush()
        if (step + 1) % max(1, steps // 20) == 0 or step < 3:
            print(f"step {step + 1:6}  torch {mean:.6f}  qkv {theirs.get(step + 1, math.nan):.6f}", flush=True)
    seconds = time.perf_counter() - begin
    result = {"steps": steps, "worst_apart": worst[0], "at_step": worst[1],
              "targets_second": targets / seconds, "seconds": seconds}
    if a.valid:
        result["valid_loss"], result["bits_per_byte"] = validate(model, valid, o, bos, eos)
        if steps in theirs_valid:
            result["qkv"] = {k: theirs_valid[steps].get(k) for k in ("valid_loss", "bits_per_byte")}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
