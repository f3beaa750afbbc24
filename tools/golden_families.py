# SPDX-License-Identifier: MIT
"""golden_families.py: writes small random models of every family as transformers saves them, with their results.

    golden_families.py OUT [NAME...]    all, or the named ones, each a folder of OUT

A folder contains config.json and model.safetensors as save_pretrained writes them (in 16 bits, so that they are
small: the reference computes with the stored numbers) and golden.safetensors:

    offsets, ids, types           the texts, packed
    hidden [L + 1][R][D]          after the embeddings, after each layer; the last one after the final norm
    attention [L][H][R][S]        S: tokens of the longest text
    logits [R][V]                 of an output head for tokens
    scores [texts][labels]        of an output head for labels of texts
    token_scores [R][labels]      of an output head for labels of tokens
    greedy [texts][64]            the greedy continuation
    source.*                      offsets, ids, hidden, attention of an encoder-decoder's encoder
    cross [L][H][R][source S]     its cross-attention

The reference computes in f64 throughout, also where transformers normally uses f32 (softmax, rotations, norms).  The
stored results come from one text at a time; the batch of all texts, padded on the right and on the left, and
generation with a cache must give the same within 1e-9, or no file is written.
Every greedy choice must win by 1e-3, so that f32 cannot choose another token.
"""
import contextlib
import json
import os
import shutil
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np
import torch
from safetensors.numpy import save_file
from transformers.utils import logging

logging.set_verbosity_error()
LENGTHS, SOURCES, GREEDY, GAP = (7, 1, 13), (5, 11, 1), 64, 1e-3


@contextlib.contextmanager
def doubles():
    """Makes float32 mean float64."""
    kept = torch.float32, torch.float, torch.Tensor.float, torch.get_default_dtype()
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = lambda self: self.double()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = kept[:3]
        torch.set_default_dtype(kept[3])


def shake(model, seed, dtype, size, gemma):
    """Sets random weights that the file can represent: norm weights other than 1, biases other than 0, sharp
    attention."""
    g = torch.Generator().manual_seed(seed)
    state = dict(model.named_parameters()) | {
        k: v for k, v in model.named_buffers() if k == "final_logits_bias"}
    with torch.no_grad():
        for name, p in sorted(state.items()):
            noise = torch.randn(p.shape, generator=g, dtype=torch.float64)
            if name.endswith("embed_positions.weight") and not p.requires_grad: continue
            if p.dim() == 1 and name.endswith("weight"):
                noise = (0 if gemma else 1) + 0.25 * noise
            else:
                noise = size * noise
            p.copy_(noise.to(dtype).to(p.dtype))
    return model.eval()


def seen(out, hidden, attention, last):
    """Returns hidden [L + 1][T][D] with its last layer normalised, and attention [L][H][T][S] of text 0."""
    h = [x[0] for x in getattr(out, hidden)]
    h[-1] = last[0]
    return torch.stack(h).numpy(), torch.stack([a[0] for a in getattr(out, attention)]).numpy()


def body(model):
    return getattr(model, model.base_model_prefix, model)


class Reference:
    """Runs one text, or all padded, through a model; encoder-decoders also read a source."""

    def __init__(self, model, pad):
        self.model, self.pad = model, pad
        self.twofold = model.config.is_encoder_decoder
        self.causal = model.can_generate()

    def call(self, **inputs):
        with torch.no_grad():
            return self.model(**inputs, output_hidden_states=True, output_attentions=True, return_dict=True)

    def last(self, out, **inputs):
        """Returns the last hidden state of the base model, which models with an output head do not return."""
        with torch.no_grad():
            if not self.twofold: return body(self.model)(**inputs, return_dict=True)[0]
            return self.model.get_decoder()(input_ids=inputs["decoder_input_ids"],
                                            encoder_hidden_states=out.encoder_last_hidden_state, use_cache=False)[0]

    def one(self, ids, types=None, source=None):
        x = {"input_ids": torch.tensor(ids)[None]}
        if types is not None: x["token_type_ids"] = torch.tensor(types)[None]
        if source is not None:
            x = {"input_ids": torch.tensor(source)[None], "decoder_input_ids": x["input_ids"]}
        return x, self.call(**x)

    def batch(self, texts, left, types=None, sources=None):
        """Returns the result of the padded batch and where each text begins."""
        def pack(rows, left):
            n = max(map(len, rows))
            ids = torch.full((len(rows), n), self.pad)
            mask = torch.zeros_like(ids)
            for i, r in enumerate(rows):
                at = n - len(r) if left else 0
                ids[i, at:at + len(r)] = torch.tensor(r)
                mask[i, at:at + len(r)] = 1
            return ids, mask
        ids, mask = pack(texts, left)
        if sources is not None:
            s, m = pack(sources, False)
            return self.call(input_ids=s, attention_mask=m, decoder_input_ids=ids, decoder_attention_mask=mask)
        x = {"input_ids": ids, "attention_mask": mask}
        if types is not None: x["token_type_ids"] = pack(types, left)[0].clamp(max=1)
        if left and self.causal: x["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
        return self.call(**x)

    def greedy(self, text, source):
        """Generates greedily without a cache; every choice must be clear."""
        made = []
        while len(made) < GREEDY:
            _, out = self.one(text + made, source=source)
            top = out.logits[0, -1].topk(2)
            if float(top.values[0] - top.values[1]) < GAP: return None
            made.append(int(top.indices[0]))
        return made

    def generate(self, texts, sources):
        """Generates for the texts at once with a cache: decoders padded on the left, sources on the right."""
        def pad(rows, left):
            n = max(map(len, rows))
            return torch.tensor([[self.pad] * (n - len(r)) + r if left else r + [self.pad] * (n - len(r))
                                 for r in rows])
        def mask(rows, left):
            n = max(map(len, rows))
            return torch.tensor([[0] * (n - len(r)) + [1] * len(r) if left else [1] * len(r) + [0] * (n - len(r))
                                 for r in rows])
        from transformers import GenerationConfig
        config = GenerationConfig(max_new_tokens=GREEDY, do_sample=False, pad_token_id=self.pad, eos_token_id=None,
                                  decoder_start_token_id=getattr(self.model.config, "decoder_start_token_id", None))
        self.model.generation_config = config
        if sources is None:
            out = self.model.generate(pad(texts, True), attention_mask=mask(texts, True), generation_config=config)
            return out[:, -GREEDY:].tolist()
        out = self.model.generate(pad(sources, False), attention_mask=mask(sources, False), generation_config=config)
        return out[:, -GREEDY:].tolist()


def near(a, b, what):
    worst = float(np.abs(np.asarray(a) - np.asarray(b)).max()) if np.size(a) else 0
    if worst > 1e-9: raise SystemExit(f"{what}: the padded batch is {worst:g} off")


def compare_padded(name, ref, kept, texts, types, sources, lefts):
    for left in lefts:
        out = ref.batch(texts, left, types, sources)
        for i, text in enumerate(texts):
            n, all_n = len(text), max(map(len, texts))
            rows = slice(all_n - n, all_n) if left else slice(0, n)
            one = kept[i]
            where = f"{name}, text {i}, {'left' if left else 'right'}"
            if "scores" in one:
                near(out.logits[i], one["scores"], where)
            for key in {"logits", "token_scores"} & set(one):
                near(out.logits[i, rows], one[key], where)
            for l, a in enumerate(out.decoder_attentions if sources is not None else out.attentions):
                near(a[i][:, rows, rows], one["attention"][l], where)
            if sources is not None:
                for l, a in enumerate(out.cross_attentions):
                    near(a[i][:, rows, :len(sources[i])], one["cross"][l], where)


def run(name, model, vocab, types, pad, lefts, with_body):
    ref = Reference(model, pad)
    r = np.random.default_rng(7)
    start = getattr(model.config, "decoder_start_token_id", None)
    draw = lambda n: r.integers(3, vocab, n).tolist()
    texts = [draw(n) for n in LENGTHS]
    sources = [draw(n) for n in SOURCES] if ref.twofold else None
    if ref.twofold: texts = [[start] + t[1:] for t in texts]
    if hasattr(model, "classification_head"): # the decoder reads the source, shifted, which ends in its end token
        sources = [draw(n - 1) + [model.config.eos_token_id] for n in LENGTHS]
        texts = [[start] + s[:-1] for s in sources]
    # a decoder's head for labels reads the last token that is no padding
    if hasattr(model, "score"): texts[0][-2:] = [pad, pad]
    kinds = [[int(i % 3 == 1) for i in range(len(t))] for t in texts] if types > 1 else None
    kept, greedy = [], []
    for i, text in enumerate(texts):
        x, out = ref.one(text, kinds and kinds[i], sources and sources[i])
        one = {}
        if ref.twofold:
            last = ref.last(out, **x)
            one["hidden"], one["attention"] = seen(out, "decoder_hidden_states", "decoder_attentions", last)
            one["source.hidden"], one["source.attention"] = seen(
                out, "encoder_hidden_states", "encoder_attentions", out.encoder_last_hidden_state)
            one["cross"] = torch.stack([a[0] for a in out.cross_attentions]).numpy()
        else:
            one["hidden"], one["attention"] = seen(out, "hidden_states", "attentions", ref.last(out, **x))
        if hasattr(out, "logits"):
            key = "logits" if out.logits.dim() == 3 else "scores"
            if "ForTokenClassification" in type(model).__name__: key = "token_scores"
            one[key] = out.logits[0].numpy()
        kept.append(one)
        if ref.causal:
            # an encoder-decoder continues from its start token alone, as in generate
            made = ref.greedy([start] if ref.twofold else text, sources and sources[i])
            if made is None: return None
            greedy.append(made)
    compare_padded(name, ref, kept, texts, kinds, sources, lefts)
    together = [range(len(texts))] if True in lefts or sources else [[i] for i in range(len(texts))]
    made = [row for some in together for row in ref.generate([texts[i] for i in some], sources)] if ref.causal else []
    if made != greedy:
        raise SystemExit(f"{name}: generation with a cache gives other tokens")
    packed = lambda rows: {"offsets": np.cumsum([0] + [len(t) for t in rows]).astype(np.int64),
                           "ids": np.array(sum(rows, []), np.int32)}
    wide = lambda key, n: np.concatenate(
        [np.pad(k[key], ((0, 0), (0, 0), (0, 0), (0, n - k[key].shape[3]))) for k in kept], 2)
    result = packed(texts) | {"types": np.array(sum(kinds, []) if kinds else [0] * sum(map(len, texts)), np.int32)}
    if with_body:
        result["hidden"] = np.concatenate([k["hidden"] for k in kept], 1)
        result["attention"] = wide("attention", max(LENGTHS))
    if ref.twofold:
        result |= {"source." + k: v for k, v in packed(sources).items()}
        result["source.hidden"] = np.concatenate([k["source.hidden"] for k in kept], 1)
        result["source.attention"] = wide("source.attention", max(map(len, sources)))
        result["cross"] = wide("cross", max(map(len, sources)))
    for key in {"logits", "token_scores"} & set(kept[0]): result[key] = np.concatenate([k[key] for k in kept])
    if "scores" in kept[0]: result["scores"] = np.stack([k["scores"] for k in kept])
    if greedy:
        result["greedy"] = np.array(greedy, np.int32)
        print(f"{name}: {len(set(sum(greedy, [])))} different tokens", end=", ")
    return {k: v.astype(np.float32) if v.dtype == np.float64 else v for k, v in result.items()}


def family(out, name, cls, config, *, dtype=torch.float16, size=0.35, types=0, lefts=(False, True), body=True,
           old=None, change=None, seeds=range(1, 60)):
    """old: members of config.json as earlier versions write them (None: the member is removed)."""
    folder = os.path.join(out, name)
    pad = config.pad_token_id if config.pad_token_id is not None else 0
    vocab = getattr(config, "decoder_vocab_size", None) or config.vocab_size
    vocab = min(vocab, config.vocab_size)
    for seed in seeds:
        with doubles():
            config._attn_implementation = "eager"
            model = cls(config)
            if change: change(model)
            model = shake(model, seed, dtype, size, "gemma" in config.model_type)
            result = run(name, model.double(), vocab, types, pad, lefts, body)
        if result is not None: break
    else:
        raise SystemExit(f"{name}: no seed whose greedy choices are all clear")
    shutil.rmtree(folder, ignore_errors=True)
    model.to(dtype).save_pretrained(folder)
    for extra in os.listdir(folder):
        if extra not in ("config.json", "model.safetensors"): os.remove(os.path.join(folder, extra))
    path = os.path.join(folder, "config.json")
    with open(path) as f: c = json.load(f)
    for key in ("transformers_version", "_attn_implementation"): c.pop(key, None)
    for key, value in (old or {}).items():
        if value is None: c.pop(key, None)
        else: c[key] = value
    with open(path, "w") as f: f.write(json.dumps(c, indent=1) + "\n")
    save_file({k: np.ascontiguousarray(v) for k, v in result.items()}, os.path.join(folder, "golden.safetensors"))
    print(f"{name}: seed {seed}, {sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))} bytes")


# ---- decoders ----------------------------------------------------------------------------------------

def as_llama(**more):
    return dict(vocab_size=97, hidden_size=32, intermediate_size=36, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, max_position_embeddings=96, rms_norm_eps=1e-5, pad_token_id=0,
                bos_token_id=1, eos_token_id=2) | more


def rope(kind, **more):
    return {"rope_type": kind, "rope_theta": 10000.0} | more


def decoders():
    import transformers as t
    llama = lambda **more: t.LlamaConfig(**as_llama(**more))
    low_high = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=48)
    yield "gpt2", t.GPT2LMHeadModel, t.GPT2Config(
        vocab_size=97, n_embd=24, n_head=3, n_layer=2, n_positions=80, n_inner=None, bos_token_id=1, eos_token_id=2,
        pad_token_id=0), {}
    yield "llama", t.LlamaForCausalLM, llama(
        vocab_size=61, hidden_size=24, intermediate_size=28, num_hidden_layers=3, head_dim=10), {"dtype": torch.float32}
    yield "llama-bias", t.LlamaForCausalLM, llama(attention_bias=True, mlp_bias=True, tie_word_embeddings=True), {}
    yield "llama-linear", t.LlamaForCausalLM, llama(rope_parameters=rope("linear", factor=2.5)), {
        "old": {"rope_parameters": None, "rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 2.5}}}
    yield "llama3", t.LlamaForCausalLM, llama(head_dim=16, rope_parameters=rope("llama3", **low_high)), {
        "old": {"rope_parameters": None, "rope_theta": 10000.0,
                "rope_scaling": {"rope_type": "llama3"} | low_high}}
    yield "llama-yarn", t.LlamaForCausalLM, llama(
        head_dim=16, rope_parameters=rope("yarn", factor=8.0, original_max_position_embeddings=12)), {"size": 0.25}
    # fewer original positions than 2 pi: the transition ends before its first pair, or begins and ends at it
    small = dict(vocab_size=41, hidden_size=16, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2,
                 num_key_value_heads=1, max_position_embeddings=80)
    yield "llama-yarn-short", t.LlamaForCausalLM, llama(
        **small, rope_parameters=rope("yarn", factor=8.0, rope_theta=10.0, original_max_position_embeddings=3)), {}
    yield "llama-yarn-point", t.LlamaForCausalLM, llama(
        **small, rope_parameters=rope("yarn", factor=8.0, original_max_position_embeddings=6)), {}
    yield "llama-partial", t.LlamaForCausalLM, llama(
        **small, rope_parameters=rope("default", partial_rotary_factor=0.5)), {}
    yield "mistral", t.MistralForCausalLM, t.MistralConfig(**as_llama(num_key_value_heads=1, sliding_window=5)), {
        "dtype": torch.bfloat16}
    yield "ministral", t.MinistralForCausalLM, t.MinistralConfig(**as_llama(
        num_hidden_layers=3, sliding_window=5, head_dim=10,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"])), {}
    yield "ministral3", t.Ministral3ForCausalLM, t.Ministral3Config(**as_llama(head_dim=16, rope_parameters=rope(
        "yarn", factor=2.0, original_max_position_embeddings=90, beta_fast=4.0, beta_slow=1.0, mscale=1.0,
        mscale_all_dim=1.0, llama_4_scaling_beta=0.1), max_position_embeddings=180)), {"size": 0.25}
    yield "ministral3-window", t.Ministral3ForCausalLM, t.Ministral3Config(**as_llama(
        head_dim=8, hidden_size=16, intermediate_size=20, vocab_size=61, sliding_window=5, rope_parameters=rope(
            "yarn", factor=2.0, original_max_position_embeddings=90, llama_4_scaling_beta=0.1),
        max_position_embeddings=180)), {"size": 0.25}
    yield "qwen2", t.Qwen2ForCausalLM, t.Qwen2Config(**as_llama(
        num_hidden_layers=3, use_sliding_window=True, sliding_window=4, max_window_layers=2,
        tie_word_embeddings=True)), {}
    yield "qwen3", t.Qwen3ForCausalLM, t.Qwen3Config(**as_llama(head_dim=12)), {}
    yield "phi3", t.Phi3ForCausalLM, t.Phi3Config(**as_llama(sliding_window=6, rope_parameters=rope(
        "default", partial_rotary_factor=0.5))), {}
    longrope = lambda original, **more: t.Phi3Config(**as_llama(
        **more, original_max_position_embeddings=original, rope_parameters=rope(
            "longrope", partial_rotary_factor=0.75, short_factor=[1.0, 1.3, 2.5], long_factor=[2.0, 5.0, 20.0])))
    yield "phi3-short", t.Phi3ForCausalLM, longrope(90), {}
    yield "phi3-long", t.Phi3ForTokenClassification, longrope(6, **labels("bad", "good")), {
        "size": 0.25}
    yield "smollm3", t.SmolLM3ForCausalLM, t.SmolLM3Config(**as_llama(
        num_hidden_layers=3, no_rope_layer_interval=2, use_sliding_window=True, sliding_window=5)), {}
    yield "olmo2", t.Olmo2ForCausalLM, t.Olmo2Config(**as_llama()), {}
    yield "gemma", t.GemmaForCausalLM, t.GemmaConfig(**as_llama(head_dim=12)), {}
    yield "gemma3_text", t.Gemma3ForCausalLM, t.Gemma3TextConfig(**as_llama(
        num_hidden_layers=3, head_dim=12, intermediate_size=24, query_pre_attn_scalar=20, sliding_window=5,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"], final_logit_softcapping=5.0,
        rope_parameters={"full_attention": rope("linear", factor=4.0) | {"rope_theta": 1e6},
                         "sliding_attention": rope("default")})), {}
    yield "gemma2", t.Gemma2ForCausalLM, t.Gemma2Config(**as_llama(
        num_hidden_layers=3, head_dim=12, intermediate_size=24, query_pre_attn_scalar=20, sliding_window=5,
        attn_logit_softcapping=3.0, final_logit_softcapping=5.0)), {}
    yield "granite", t.GraniteForCausalLM, t.GraniteConfig(**as_llama(
        embedding_multiplier=3.0, attention_multiplier=0.5, residual_multiplier=0.625, logits_scaling=1.5)), {}
    yield "opt", t.OPTForCausalLM, t.OPTConfig(
        vocab_size=97, hidden_size=32, ffn_dim=40, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=80, word_embed_proj_dim=32), {}
    head = {"body": False}
    two, one = labels("bad", "good"), labels("reward")
    tiny = dict(vocab_size=41, hidden_size=16, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2,
                num_key_value_heads=1, max_position_embeddings=40)
    for name, cls, more in (("llama", "Llama", one), ("mistral", "Mistral", two), ("ministral", "Ministral", two),
                            ("qwen2", "Qwen2", one | {"tie_word_embeddings": True}), ("qwen3", "Qwen3", two),
                            ("gemma", "Gemma", two), ("gemma2", "Gemma2", two), ("gemma3_text", "Gemma3Text", two),
                            ("phi3", "Phi3", two), ("smollm3", "SmolLM3", two), ("olmo2", "Olmo2", two)):
        if "Gemma" in cls or name in ("ministral", "qwen3"): more = more | {"head_dim": 8}
        yield name + "-labels", getattr(t, cls + "ForSequenceClassification"), getattr(t, cls + "Config")(
            **as_llama(**tiny, **more)), head
    for name, cls, more in (("llama", "Llama", {}), ("ministral", "Ministral", {"head_dim": 8}),
                            ("qwen2", "Qwen2", {}), ("qwen3", "Qwen3", {"head_dim": 8}),
                            ("smollm3", "SmolLM3", {})):
        yield name + "-questions", getattr(t, cls + "ForQuestionAnswering"), getattr(t, cls + "Config")(
            **as_llama(**tiny, **more)), {}
    yield "opt-labels", t.OPTForSequenceClassification, t.OPTConfig(
        vocab_size=41, hidden_size=16, ffn_dim=20, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=40, word_embed_proj_dim=16, **two), head
    gpt2 = dict(vocab_size=41, n_embd=16, n_head=2, n_layer=1, n_positions=40, bos_token_id=1, eos_token_id=2,
                pad_token_id=0)
    right = {"lefts": (False,)}
    yield "gpt2-labels", t.GPT2ForSequenceClassification, t.GPT2Config(**gpt2, **two), head | right
    yield "gpt2-token-labels", t.GPT2ForTokenClassification, t.GPT2Config(**gpt2, **two), head | right
    yield "llama-token-labels", t.LlamaForTokenClassification, llama(**tiny, **two), head


# ---- encoders ----------------------------------------------------------------------------------------

def as_bert(**more):
    return dict(vocab_size=61, hidden_size=24, intermediate_size=36, num_hidden_layers=1, num_attention_heads=3,
                max_position_embeddings=18, layer_norm_eps=1e-5) | more


def labels(*names):
    return dict(num_labels=len(names), id2label=dict(enumerate(names)), label2id={n: i for i, n in enumerate(names)})


def as_modern(**more):
    return dict(vocab_size=61, hidden_size=24, intermediate_size=20, num_hidden_layers=4, num_attention_heads=3,
                max_position_embeddings=40, local_attention=6, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                cls_token_id=1, sep_token_id=2) | more


def encoders():
    import transformers as t
    right = {"lefts": (False,)}  # positions are counted from the left edge in this family
    head = {"body": False}
    three = labels("bad", "so so", "good")
    distil = dict(vocab_size=61, dim=24, hidden_dim=36, n_heads=3, n_layers=1, max_position_embeddings=18)
    yield "mpnet", t.MPNetForMaskedLM, t.MPNetConfig(**as_bert(
        num_hidden_layers=3, num_attention_heads=4, relative_attention_num_buckets=32)), {}
    yield "modernbert", t.ModernBertForMaskedLM, t.ModernBertConfig(**as_modern()), {}
    yield "nomic_bert", t.NomicBertForMaskedLM, t.NomicBertConfig(**as_bert(
        num_hidden_layers=2, num_attention_heads=3, vocab_size=61)), {"types": 2}
    yield "nomic_bert-labels", t.NomicBertForSequenceClassification, t.NomicBertConfig(**as_bert(**three)), \
        right | head | {"types": 2, "old": {
            "hidden_size": None, "intermediate_size": None, "num_hidden_layers": None, "num_attention_heads": None,
            "max_position_embeddings": None, "layer_norm_eps": None, "rope_parameters": None, "hidden_act": None,
            "head_dim": None, "n_embd": 24, "n_inner": 36, "n_layer": 1, "n_head": 3, "n_positions": 18,
            "layer_norm_epsilon": 1e-5, "rotary_emb_base": 1000, "activation_function": "swiglu"}}
    euro = dict(max_position_embeddings=40, mask_token_id=3)
    yield "eurobert", t.EuroBertForMaskedLM, t.EuroBertConfig(**as_llama(**euro)), {}
    yield "eurobert-labels", t.EuroBertForSequenceClassification, t.EuroBertConfig(**as_llama(**euro, **three)), head
    yield "gemma3_text-encoder", t.Gemma3TextModel, t.Gemma3TextConfig(**as_llama(
        num_hidden_layers=3, head_dim=12, intermediate_size=24, query_pre_attn_scalar=20, sliding_window=6,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        use_bidirectional_attention=True)), {}
    # decoders whose tokens attend to later ones, too
    yield "qwen2-encoder", t.Qwen2Model, t.Qwen2Config(**as_llama(
        num_hidden_layers=3, use_sliding_window=True, sliding_window=4, max_window_layers=2, is_causal=False)), {}
    yield "llama-encoder", t.LlamaForSequenceClassification, t.LlamaConfig(**as_llama(
        vocab_size=41, hidden_size=16, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=40, is_causal=False, **three)), {}
    yield "electra", t.ElectraForMaskedLM, t.ElectraConfig(**as_bert(embedding_size=24)), right | head | {"types": 2}
    yield "electra-labels", t.ElectraForSequenceClassification, t.ElectraConfig(**as_bert(
        embedding_size=24, **three)), right | head | {"types": 2}
    yield "electra-small", t.ElectraForMaskedLM, t.ElectraConfig(**as_bert(embedding_size=10)), right | {"types": 2}
    # layers that share weights, and embeddings that are narrower or wider than the layers
    albert = lambda **more: t.AlbertConfig(**as_bert(**(dict(
        embedding_size=10, num_hidden_layers=3, bos_token_id=1, eos_token_id=2) | more)))
    yield "albert", t.AlbertForMaskedLM, albert(), right | {"types": 2}
    yield "albert-groups", t.AlbertForMaskedLM, albert(num_hidden_groups=2, inner_group_num=2), \
        right | {"types": 2}
    yield "albert-labels", t.AlbertForSequenceClassification, albert(**three), right | head | {"types": 2}
    yield "camembert", t.CamembertForMaskedLM, t.CamembertConfig(**as_bert(type_vocab_size=1)), head
    yield "bert-tokens", t.BertForMaskedLM, t.BertConfig(**as_bert()), right | head | {"types": 2}
    yield "roberta-tokens", t.RobertaForMaskedLM, t.RobertaConfig(**as_bert(type_vocab_size=1)), head
    yield "xlm-roberta-tokens", t.XLMRobertaForMaskedLM, t.XLMRobertaConfig(**as_bert(type_vocab_size=1)), head
    # a projection of its own also has a bias of its own, besides the bias of tied models
    own = {"tie_word_embeddings": False}
    yield "bert-untied", t.BertForMaskedLM, t.BertConfig(**as_bert(**own)), right | head | {"types": 2}
    yield "roberta-untied", t.RobertaForMaskedLM, t.RobertaConfig(**as_bert(type_vocab_size=1, **own)), head
    yield "mpnet-untied", t.MPNetForMaskedLM, t.MPNetConfig(**as_bert(**own)), head
    yield "distilbert-tokens", t.DistilBertForMaskedLM, t.DistilBertConfig(**distil), right | head
    yield "bert-labels", t.BertForSequenceClassification, t.BertConfig(**as_bert(**three)), right | head | {"types": 2}
    yield "roberta-labels", t.RobertaForSequenceClassification, t.RobertaConfig(
        **as_bert(type_vocab_size=1, **labels("contradiction", "neutral", "entailment", "other"))), \
        {"lefts": (False,)} | head
    yield "xlm-roberta-labels", t.XLMRobertaForSequenceClassification, t.XLMRobertaConfig(
        **as_bert(type_vocab_size=1, **labels("LABEL_0"))), {"lefts": (False,)} | head
    yield "distilbert-labels", t.DistilBertForSequenceClassification, t.DistilBertConfig(
        **distil, **labels("NEGATIVE", "POSITIVE")), right | head
    yield "mpnet-labels", t.MPNetForSequenceClassification, t.MPNetConfig(**as_bert(**three)), right | head
    yield "modernbert-labels", t.ModernBertForSequenceClassification, t.ModernBertConfig(**as_modern(
        norm_bias=True, attention_bias=True, mlp_bias=True, classifier_bias=True, classifier_pooling="mean",
        **three)), {"old": {"layer_types": None, "rope_parameters": None, "global_attn_every_n_layers": 3,
                            "global_rope_theta": 160000.0, "local_rope_theta": 10000.0}}
    # labels of tokens
    five = labels("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
    yield "bert-token-labels", t.BertForTokenClassification, t.BertConfig(**as_bert(**five)), \
        right | head | {"types": 2}
    yield "electra-token-labels", t.ElectraForTokenClassification, t.ElectraConfig(**as_bert(
        embedding_size=10, **five)), right | head | {"types": 2}
    yield "albert-token-labels", t.AlbertForTokenClassification, albert(
        embedding_size=36, **five), right | head | {"types": 2}
    yield "distilbert-token-labels", t.DistilBertForTokenClassification, t.DistilBertConfig(**distil, **five), \
        right | head
    for name in ("Roberta", "XLMRoberta", "Camembert"):
        yield name.lower().replace("xlm", "xlm-") + "-token-labels", getattr(t, name + "ForTokenClassification"), \
            getattr(t, name + "Config")(**as_bert(type_vocab_size=1, **five)), right | head
    yield "mpnet-token-labels", t.MPNetForTokenClassification, t.MPNetConfig(**as_bert(**five)), right | head
    yield "modernbert-token-labels", t.ModernBertForTokenClassification, t.ModernBertConfig(**as_modern(**five)), head
    yield "nomic_bert-token-labels", t.NomicBertForTokenClassification, t.NomicBertConfig(**as_bert(**five)), \
        right | head | {"types": 2}
    yield "eurobert-token-labels", t.EuroBertForTokenClassification, t.EuroBertConfig(**as_llama(
        tie_word_embeddings=True, **euro, **five)), head


# ---- encoder-decoders --------------------------------------------------------------------------------

def as_bart(**more):
    return dict(vocab_size=71, d_model=24, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=32, decoder_ffn_dim=32,
                encoder_attention_heads=3, decoder_attention_heads=3, max_position_embeddings=80, pad_token_id=1,
                bos_token_id=0, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=None) | more


def unscale(model):
    model.config.scale_decoder_outputs = False


def untie(model):
    unscale(model)
    model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.lm_head.weight))


def encoder_decoders():
    import transformers as t
    right = {"lefts": (False,)}
    as_t5 = dict(vocab_size=71, d_model=24, d_kv=10, d_ff=32, num_layers=2, num_heads=3, pad_token_id=0,
                 eos_token_id=1, decoder_start_token_id=0)
    marian = dict(pad_token_id=70, decoder_start_token_id=70, eos_token_id=0, bos_token_id=None)
    yield "marian", t.MarianMTModel, t.MarianConfig(**as_bart(
        scale_embedding=True, activation_function="swish", **marian)), right
    yield "marian-two-tables", t.MarianMTModel, t.MarianConfig(**as_bart(
        vocab_size=77, decoder_vocab_size=71, share_encoder_decoder_embeddings=False, decoder_layers=1,
        **marian)), right
    # three tables of token embeddings, of which the shared one is not used
    own = as_bart(decoder_layers=1, encoder_layers=1, tie_word_embeddings=False)
    yield "untied/bart", t.BartForConditionalGeneration, t.BartConfig(**own), right
    yield "untied/marian", t.MarianMTModel, t.MarianConfig(**own | marian), right
    yield "bart", t.BartForConditionalGeneration, t.BartConfig(**as_bart(decoder_layers=3, encoder_layers=1)), right
    yield "mbart", t.MBartForConditionalGeneration, t.MBartConfig(**as_bart(scale_embedding=True)), right
    yield "t5", t.T5ForConditionalGeneration, t.T5Config(
        **as_t5, relative_attention_num_buckets=8, relative_attention_max_distance=16), {"size": 0.3}
    yield "flan-t5", t.T5ForConditionalGeneration, t.T5Config(
        **as_t5, num_decoder_layers=1, feed_forward_proj="gated-gelu", tie_word_embeddings=False), {
            "size": 0.3, "change": untie, "old": {"tie_word_embeddings": False, "scale_decoder_outputs": None}}
    # tied, and yet not scaled
    yield "t5-unscaled", t.T5ForConditionalGeneration, t.T5Config(**as_t5 | {"num_layers": 1}), {
        "size": 0.3, "change": unscale, "body": False}
    yield "mt5", t.MT5ForConditionalGeneration, t.MT5Config(
        **as_t5, relative_attention_num_buckets=8, relative_attention_max_distance=16), {"size": 0.2}
    for name, cls, config, more in (("bart", t.BartForCausalLM, t.BartConfig, {}),
                                    ("mbart", t.MBartForCausalLM, t.MBartConfig, {"scale_embedding": True}),
                                    ("marian", t.MarianForCausalLM, t.MarianConfig, {})):
        yield name + "-decoder", cls, config(**as_bart(
            decoder_ffn_dim=28, decoder_attention_heads=4, **more)), right | {
                # this file has the sinusoids, which 16 bits would round
                "dtype": torch.float32 if name == "marian" else torch.float16}
    head, two = {"body": False}, labels("no", "yes")
    small = dict(d_model=16, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=20, decoder_ffn_dim=20,
                 encoder_attention_heads=2, decoder_attention_heads=2, max_position_embeddings=30, vocab_size=41)
    yield "bart-labels", t.BartForSequenceClassification, t.BartConfig(**as_bart(**small, **two)), right | head
    yield "mbart-labels", t.MBartForSequenceClassification, t.MBartConfig(**as_bart(
        scale_embedding=True, **small, **two)), right | head
    t5 = dict(vocab_size=41, d_model=16, d_kv=6, d_ff=20, num_layers=1, num_heads=2, pad_token_id=0, eos_token_id=1,
              decoder_start_token_id=0)
    for name, config in ("t5", t.T5Config), ("mt5", t.MT5Config):
        yield name + "-labels", getattr(t, name.upper() + "ForSequenceClassification"), config(**t5, **two), right | head
        yield name + "-token-labels", getattr(t, name.upper() + "ForTokenClassification"), config(**t5, **two), \
            right | head
        yield name + "-encoder", getattr(t, name.upper() + "EncoderModel"), config(**t5), right
    yield "t5-questions", t.T5ForQuestionAnswering, t.T5Config(**t5), right


def main(out, names):
    for group in (decoders, encoders, encoder_decoders):
        for name, cls, config, more in group():
            if not names or name in names: family(out, name, cls, config, **more)


if __name__ == "__main__":
    if len(sys.argv) < 2: sys.exit(__doc__)
    torch.set_num_threads(1)
    main(sys.argv[1], sys.argv[2:])
