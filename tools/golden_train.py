# SPDX-License-Identifier: MIT
"""golden_train.py: writes 20 steps of training in PyTorch for every family, for tests/model/test_train_steps.c.

    golden_train.py GOLDEN [NAME...]    all folders of the table below, or the named ones; GOLDEN: tests/golden

For each model folder GOLDEN/NAME writes GOLDEN/train/NAME.json:

    objective     causal, masked, seq2seq or classify
    optimizer     rate, beta1, beta2, eps of AdamW without weight decay, the same for every step
    batches [20]  offsets, ids, types, targets (one per row, -1: none; classify: one per sequence);
                  seq2seq also source_offsets, source_ids
    losses [21]   mean loss of batch i before step i in f64; [20]: of batch 0 after all steps
    float_losses  the same in f32

The initial weights are those in the folder, the model is transformers' class.  Sequences run one by one: no padding,
and no mask but the causal one.  Dropout is 0.  A family is stored only if f32 and f64 agree to 3e-6 relative, so that
the bound of the test, 1e-5, separates a wrong gradient from rounding.  Needs torch and transformers like
golden_families.py.
"""
import copy
import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np
import torch
from golden_families import doubles
from golden_net import cut, token_loss
from transformers.utils import logging

logging.disable_progress_bar()

STEPS, SEQUENCES, AGREE = 20, 3, 3e-6
ADAMW = {"rate": 1e-3, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8}
RATES = {"t5": 1e-4, "mt5": 1e-4}  # unscaled scores: at 3e-4 the rounding error of the scalar kernels exceeds the bound

# folder of tests/golden: objective, class of transformers
FOLDERS = {
    "bert-tokens": ("masked", "BertForMaskedLM"),
    "bert-untied": ("masked", "BertForMaskedLM"),
    "bert-labels": ("classify", "BertForSequenceClassification"),
    "roberta-tokens": ("masked", "RobertaForMaskedLM"),
    "roberta-labels": ("classify", "RobertaForSequenceClassification"),
    "xlm-roberta-tokens": ("masked", "XLMRobertaForMaskedLM"),
    "electra": ("masked", "ElectraForMaskedLM"),
    "electra-labels": ("classify", "ElectraForSequenceClassification"),
    "electra-small": ("masked", "ElectraForMaskedLM"),
    "albert": ("masked", "AlbertForMaskedLM"),
    "albert-groups": ("masked", "AlbertForMaskedLM"),
    "albert-labels": ("classify", "AlbertForSequenceClassification"),
    "camembert": ("masked", "CamembertForMaskedLM"),
    "distilbert-tokens": ("masked", "DistilBertForMaskedLM"),
    "distilbert-labels": ("classify", "DistilBertForSequenceClassification"),
    "mpnet": ("masked", "MPNetForMaskedLM"),
    "mpnet-labels": ("classify", "MPNetForSequenceClassification"),
    "modernbert": ("masked", "ModernBertForMaskedLM"),
    "modernbert-labels": ("classify", "ModernBertForSequenceClassification"),
    "nomic_bert": ("masked", "NomicBertForMaskedLM"),
    "eurobert": ("masked", "EuroBertForMaskedLM"),
    "eurobert-labels": ("classify", "EuroBertForSequenceClassification"),
    "gpt2": ("causal", "GPT2LMHeadModel"),
    "llama": ("causal", "LlamaForCausalLM"),
    "llama-bias": ("causal", "LlamaForCausalLM"),
    "llama3": ("causal", "LlamaForCausalLM"),
    "llama-yarn": ("causal", "LlamaForCausalLM"),
    "mistral": ("causal", "MistralForCausalLM"),
    "ministral": ("causal", "MinistralForCausalLM"),
    "ministral3": ("causal", "Ministral3ForCausalLM"),
    "qwen2": ("causal", "Qwen2ForCausalLM"),
    "qwen3": ("causal", "Qwen3ForCausalLM"),
    "phi3": ("causal", "Phi3ForCausalLM"),
    "phi3-short": ("causal", "Phi3ForCausalLM"),
    "smollm3": ("causal", "SmolLM3ForCausalLM"),
    "olmo2": ("causal", "Olmo2ForCausalLM"),
    "gemma": ("causal", "GemmaForCausalLM"),
    "gemma2": ("causal", "Gemma2ForCausalLM"),
    "gemma3_text": ("causal", "Gemma3ForCausalLM"),
    "granite": ("causal", "GraniteForCausalLM"),
    "opt": ("causal", "OPTForCausalLM"),
    "bart-decoder": ("causal", "BartForCausalLM"),
    "mbart-decoder": ("causal", "MBartForCausalLM"),
    "marian-decoder": ("causal", "MarianForCausalLM"),
    "marian": ("seq2seq", "MarianMTModel"),
    "marian-two-tables": ("seq2seq", "MarianMTModel"),
    "bart": ("seq2seq", "BartForConditionalGeneration"),
    "mbart": ("seq2seq", "MBartForConditionalGeneration"),
    "t5": ("seq2seq", "T5ForConditionalGeneration"),
    "mt5": ("seq2seq", "MT5ForConditionalGeneration"),
    "flan-t5": ("seq2seq", "T5ForConditionalGeneration"),
}


def draw_batch(r, objective, config):
    """Draws SEQUENCES sequences of 2 to 13 tokens; ids below 5 are special in some family and not drawn."""
    vocab = min(config.vocab_size, getattr(config, "decoder_vocab_size", None) or config.vocab_size) - 1
    lengths = r.integers(2, 14, SEQUENCES)
    offsets = np.cumsum(np.concatenate(([0], lengths)))
    ids = r.integers(5, vocab, offsets[-1])
    first, last = offsets[:-1], offsets[1:] - 1
    batch = {"offsets": offsets, "ids": ids}
    if objective == "classify":
        batch["targets"] = r.integers(0, config.num_labels, SEQUENCES)
    elif objective == "masked":
        asked = r.random(len(ids)) < 0.3
        asked[first] = True
        batch["targets"] = np.where(asked, ids, -1)
        batch["ids"] = np.where(asked, 4, ids)  # 4 is the mask token
    elif objective == "causal":
        batch["targets"] = np.append(ids[1:], -1)
        batch["targets"][last] = -1
    else:
        batch["targets"] = ids
        batch["ids"] = np.append(0, ids[:-1])
        batch["ids"][first] = config.decoder_start_token_id
        lengths = r.integers(1, 14, SEQUENCES)
        batch["source_offsets"] = np.cumsum(np.concatenate(([0], lengths)))
        batch["source_ids"] = r.integers(5, vocab, batch["source_offsets"][-1])
    if objective in ("masked", "classify") and getattr(config, "type_vocab_size", 0) > 1 \
            and config.model_type == "bert":
        batch["types"] = np.arange(len(ids)) % 3 == 1
    return {k: v.astype(np.int64) for k, v in batch.items()}


def mean_loss(model, objective, batch):
    offsets, targets = batch["offsets"], batch["targets"]
    ids = cut(offsets, batch["ids"])
    wanted = [torch.tensor([t]) for t in targets] if objective == "classify" else [t[0] for t in cut(offsets, targets)]
    more = [{} for _ in ids]
    if "types" in batch: more = [{"token_type_ids": t} for t in cut(offsets, batch["types"])]
    if objective == "seq2seq":
        more = [{"decoder_input_ids": i} for i in ids]
        ids = cut(batch["source_offsets"], batch["source_ids"])
    total = 0
    for i, w, m in zip(ids, wanted, more):
        logits = model(input_ids=i, **m).logits
        total = total + token_loss(logits if objective == "classify" else logits[0], w)
    return total / int((targets >= 0).sum())


def train(model, objective, batches, rate):
    """Returns the losses of the steps and, last, of the first batch after them."""
    live = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(live, lr=rate, betas=(ADAMW["beta1"], ADAMW["beta2"]), eps=ADAMW["eps"],
                                  weight_decay=0)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = mean_loss(model, objective, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad(): losses.append(mean_loss(model, objective, batches[0]).item())
    return losses


def open_float(folder, kind):
    """Opens the folder's model in f32, which represents every number of the file."""
    import transformers
    model, info = getattr(transformers, kind).from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    lost = [k for k in info["missing_keys"] if "embed_positions" not in k] + list(info["unexpected_keys"])
    if lost or info["mismatched_keys"]: raise SystemExit(f"{folder}: {info}")
    for module in model.modules():  # qkv trains every row of a table; padding_idx would exclude one
        if isinstance(module, torch.nn.Embedding): module.padding_idx = None
    return model.eval()


def in_double(model):
    """Returns the same model in f64, with its fixed tables (rotations) computed in f64 too."""
    double, fresh = copy.deepcopy(model).double(), type(model)(model.config)
    kept = model.state_dict()
    for name, table in fresh.named_buffers():
        if name not in kept: double.get_buffer(name).copy_(table)
    return double


def keep(golden, name):
    objective, kind = FOLDERS[name]
    rate = RATES.get(name, ADAMW["rate"])
    model = open_float(os.path.join(golden, name), kind)
    r = np.random.default_rng(3)
    batches = [draw_batch(r, objective, model.config) for _ in range(STEPS)]
    with doubles(): exact = train(in_double(model), objective, batches, rate)
    rough = train(model, objective, batches, rate)
    worst = max(abs(a - b) / a for a, b in zip(exact, rough))
    print(f"{name}: loss {exact[0]:.6f}, after {STEPS} steps {exact[-1]:.6f}; f32 is {worst:.1e} off", flush=True)
    if worst > AGREE: return False
    kept = {"objective": objective, "optimizer": ADAMW | {"rate": rate},
            "batches": [{k: v.tolist() for k, v in b.items()} for b in batches],
            "losses": exact, "float_losses": [float(f"{x:.9g}") for x in rough]}
    lines = ",\n".join(" " + json.dumps(k) + ": " + (
        "[\n  " + ",\n  ".join(map(json.dumps, v)) + "]" if k == "batches" else json.dumps(v)) for k, v in kept.items())
    os.makedirs(os.path.join(golden, "train"), exist_ok=True)
    with open(os.path.join(golden, "train", name + ".json"), "w") as f: f.write("{\n" + lines + "\n}\n")
    return True


if __name__ == "__main__":
    if len(sys.argv) < 2: sys.exit(__doc__)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    bad = [n for n in sys.argv[2:] or FOLDERS if not keep(sys.argv[1], n)]
    if bad: sys.exit(f"not written, f32 is more than {AGREE:g} off: {' '.join(bad)}")
