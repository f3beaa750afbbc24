# SPDX-License-Identifier: MIT
"""golden_net.py: writes results of torch's autograd and transformers' models in training, small enough to commit.

    golden_net.py make OUT      small random GPT-2, Llama, BERT, Marian: weights as save_pretrained writes them, a
    batch, its loss, every gradient, and the losses of 20 steps of SGD
    golden_net.py check DIR     folders that qkv saved (tests/model/params/make_nets.c): transformers opens each and
    computes the same log-probabilities, within 1e-4

The reference computes in f64, sequence by sequence: no padding, no mask but the causal one.
Needs torch, transformers 5, safetensors, numpy; the tests that read the result need none.
"""
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np
import torch
from safetensors.numpy import load_file, save_file

V, STEPS = 40, 20


def shake(model, seed):
    """Sets weights large enough that attention is sharp and no bias is 0; fixed tables do not change."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            if "embed_positions" in name: continue
            norm = "norm" in name.lower() or ".ln_" in name
            noise = torch.randn(p.shape, generator=g)
            p.copy_(1 + 0.2 * noise if norm and name.endswith("weight") else 0.25 * noise)
    return model.eval()


def cut(offsets, x):
    return [torch.tensor(x[b:e].astype(np.int64))[None] for b, e in zip(offsets, offsets[1:])]


def pooled(model, ids, types):
    """Returns the mean of the last hidden state, scaled to length 1."""
    rows = [model(input_ids=i, token_type_ids=t).last_hidden_state[0].mean(0) for i, t in zip(ids, types)]
    return torch.nn.functional.normalize(torch.stack(rows), dim=1)


def contrastive(v, temperature=.05):
    scores = v[0::2] @ v[1::2].T / temperature
    each = torch.arange(len(scores))
    loss = torch.nn.functional.cross_entropy
    return (loss(scores, each, reduction="sum") + loss(scores.T, each, reduction="sum")) / 2


def steps(model, loss, rows, rate):
    """Returns the mean loss before each step and after the last."""
    losses, live = [], [p for p in model.parameters() if p.requires_grad]
    for step in range(STEPS + 1):
        for p in live: p.grad = None
        mean = loss() / rows
        losses.append(mean.item())
        mean.backward()
        if step == STEPS: break
        with torch.no_grad():
            for p in live:
                if p.grad is not None: p -= rate * p.grad
    return np.array(losses, np.float64)


def keep(out, name, model, batch, loss, rows, rate, more=None):
    folder = os.path.join(out, name)
    model.save_pretrained(folder)
    for extra in ("generation_config.json",):
        if os.path.exists(os.path.join(folder, extra)): os.remove(os.path.join(folder, extra))
    model.double()
    kept = dict(batch)
    for p in model.parameters(): p.grad = None
    total = loss()
    (total / rows).backward()
    kept["loss"] = np.array([total.item()], np.float64)
    for k, p in model.named_parameters():
        if p.grad is not None: kept["grad." + k] = p.grad.numpy().astype(np.float32)
    start = {k: v.clone() for k, v in model.state_dict().items()}
    kept["steps"] = steps(model, loss, rows, rate)
    for what, (function, count) in (more or {}).items():
        model.load_state_dict(start)
        kept[what + ".loss"] = np.array([function().item()], np.float64)
        kept[what + ".steps"] = steps(model, function, count, rate)
    save_file({k: np.ascontiguousarray(v) for k, v in kept.items()}, os.path.join(folder, "training.safetensors"))
    print(f"{name}: loss {kept['loss'][0] / rows:.6f}, after {STEPS} steps {kept['steps'][-1]:.6f}")


def keep_run(out, name, model, offsets, ids):
    """Returns what golden.py stores for a small model's run: hidden states and attention of every layer."""
    S, hidden, weights = int(np.diff(offsets).max()), [], []
    for b, e in zip(offsets, offsets[1:]):
        with torch.no_grad():
            seen = model(input_ids=torch.tensor(ids[b:e].astype(np.int64))[None], output_hidden_states=True,
                         output_attentions=True)
        w = np.stack([a[0].float().numpy() for a in seen.attentions])
        hidden.append(np.stack([h[0].float().numpy() for h in seen.hidden_states]))
        weights.append(np.pad(w, ((0, 0), (0, 0), (0, 0), (0, S - int(e - b)))))
    save_file({"offsets": offsets, "ids": ids, "types": np.zeros_like(ids), "hidden": np.concatenate(hidden, 1),
               "attention": np.concatenate(weights, 2)}, os.path.join(out, name, "golden.safetensors"))


def sequences(seed, lengths, first=None):
    r = np.random.default_rng(seed)
    offsets = np.cumsum((0,) + lengths).astype(np.int64)
    ids = r.integers(4, V, offsets[-1]).astype(np.int32)
    if first is not None: ids[offsets[:-1]] = first
    return r, offsets, ids


def token_loss(logits, targets):
    return torch.nn.functional.cross_entropy(logits, targets, reduction="sum", ignore_index=-1)


def make_decoders(out):
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
    r, offsets, ids = sequences(1, (7, 1, 13))
    targets = r.integers(0, V, len(ids)).astype(np.int32)
    targets[[3, 9]] = -1
    x, y = cut(offsets, ids), cut(offsets, targets)
    batch = {"offsets": offsets, "ids": ids, "targets": targets}
    models = {
        "net-gpt2": GPT2LMHeadModel(GPT2Config(vocab_size=V, n_positions=16, n_embd=24, n_layer=2, n_head=3, n_inner=40,
                                               bos_token_id=1, eos_token_id=2)),
        "net-llama": LlamaForCausalLM(LlamaConfig(vocab_size=V, hidden_size=24, intermediate_size=40,
                                                  num_hidden_layers=2, num_attention_heads=4,
                                                  num_key_value_heads=2, max_position_embeddings=16)),
    }
    for n, (name, model) in enumerate(models.items()):
        model.config._attn_implementation = "eager"
        shake(model, n)
        loss = lambda: sum(token_loss(model(input_ids=i).logits[0], t[0]) for i, t in zip(x, y))
        start = {k: v.double() for k, v in model.state_dict().items()}
        keep(out, name, model, batch, loss, int((targets >= 0).sum()), .1)
        model.load_state_dict(start)
        keep_run(out, name, model, offsets, ids)


def make_encoders(out):
    from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification
    r, offsets, ids = sequences(2, (7, 3, 13, 5))
    kinds = (np.arange(len(ids)) % 3 == 1).astype(np.int32)
    targets = np.where(r.random(len(ids)) < .4, r.integers(0, V, len(ids)), -1).astype(np.int32)
    x, t, y = cut(offsets, ids), cut(offsets, kinds), cut(offsets, targets)
    sizes = dict(vocab_size=V, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3,
                 max_position_embeddings=16, type_vocab_size=2)
    model = shake(BertForMaskedLM(BertConfig(**sizes)), 5)
    model.config._attn_implementation = "eager"
    loss = lambda: sum(token_loss(model(input_ids=i, token_type_ids=k).logits[0], w[0]) for i, k, w in zip(x, t, y))
    pairs = lambda: contrastive(pooled(model.bert, x, t))
    batch = {"offsets": offsets, "ids": ids, "types": kinds, "targets": targets}
    keep(out, "net-bert", model, batch, loss, int((targets >= 0).sum()), .1, {"pairs": (pairs, 2)})
    labels = np.array([2, 0, 1, 2], np.int32)
    sizes["num_hidden_layers"] = 1
    other = shake(BertForSequenceClassification(BertConfig(num_labels=3, **sizes)), 6)
    other.config._attn_implementation = "eager"
    classes = lambda: sum(token_loss(other(input_ids=i, token_type_ids=k).logits, torch.tensor([int(w)]))
                          for i, k, w in zip(x, t, labels))
    keep(out, "net-labels", other, dict(batch, targets=labels), classes, 4, .1)


def make_pair(out):
    from transformers import MarianConfig, MarianMTModel
    _, source_offsets, source = sequences(3, (5, 12, 2))
    r, offsets, ids = sequences(4, (6, 4, 9), first=1)
    targets = r.integers(0, V, len(ids)).astype(np.int32)
    targets[4] = -1
    model = MarianMTModel(MarianConfig(
        vocab_size=V, d_model=18, encoder_layers=2, decoder_layers=1, encoder_attention_heads=3,
        decoder_attention_heads=3, encoder_ffn_dim=30, decoder_ffn_dim=30, activation_function="relu",
        scale_embedding=True, max_position_embeddings=16, pad_token_id=0, eos_token_id=2, bos_token_id=1,
        decoder_start_token_id=1, forced_eos_token_id=None))
    model.config._attn_implementation = "eager"
    shake(model, 7)
    with torch.no_grad():
        model.final_logits_bias.copy_(torch.randn(1, V, generator=torch.Generator().manual_seed(9)))
    s, x, y = cut(source_offsets, source), cut(offsets, ids), cut(offsets, targets)
    loss = lambda: sum(token_loss(model(input_ids=a, decoder_input_ids=b).logits[0], t[0])
                       for a, b, t in zip(s, x, y))
    batch = {"offsets": offsets, "ids": ids, "targets": targets, "source.offsets": source_offsets,
             "source.ids": source}
    keep(out, "net-marian", model, batch, loss, int((targets >= 0).sum()), .1)


def check(folder):
    """For every folder below: opens the model by its "architectures" and compares with the folder's
    logits.safetensors."""
    import json
    import transformers
    worst = 0.
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        with open(os.path.join(path, "config.json")) as f: config = json.load(f)
        kind = getattr(transformers, config["architectures"][0])
        model, info = kind.from_pretrained(path, output_loading_info=True)
        lost = [k for k in info["missing_keys"] if "embed_positions" not in k] + list(info["unexpected_keys"])
        assert not lost and not info["mismatched_keys"], (name, info)
        seen = load_file(os.path.join(path, "logits.safetensors"))
        ids = torch.tensor(seen["ids"].astype(np.int64))[None]
        more = {}
        if "source" in seen:
            more = {"decoder_input_ids": ids}
            ids = torch.tensor(seen["source"].astype(np.int64))[None]
        with torch.no_grad(): logits = model.eval()(input_ids=ids, **more).logits[0].float()
        ours = torch.tensor(seen["logits"])
        if logits.dim() == 1: logits = logits[None]
        off = (torch.log_softmax(logits, -1) - torch.log_softmax(ours, -1)).abs().max().item()
        print(f"{name}: {config['architectures'][0]}, {tuple(ours.shape)} off by {off:.2e}")
        worst = max(worst, off)
    assert worst <= 1e-4, worst


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("make", "check"): sys.exit(__doc__)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if sys.argv[1] == "check":
        check(sys.argv[2])
    else:
        make_decoders(sys.argv[2])
        make_encoders(sys.argv[2])
        make_pair(sys.argv[2])
