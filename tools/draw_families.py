# SPDX-License-Identifier: MIT
"""draw_families.py: compares random models of every family of transformers with the library: other shapes, options and
seeds than tests/golden.

    draw_families.py ROUNDS SEED TEST [CLASS...]    TEST: build/release/tests/test_families

Each round draws a model of every class (all, or the named ones) and writes it with the results of transformers in f64,
as golden_families.py does; the test program then compares hidden states, attention, logits, scores of labels and greedy
texts, and decoding token by token. The tolerance is that of tests/golden, or four times the error of transformers in
f32 on the same model where that is more. Exit 1 if any differs; its folder is kept and named.
"""
import os
import random
import shutil
import subprocess
import sys
import tempfile

import golden_families as G
import numpy as np
import torch
import transformers as t
from safetensors.numpy import load_file, save_file
from transformers.utils import logging

logging.disable_progress_bar()
ACTS = ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "quick_gelu", "relu2", "mish"]


class Shape:
    """Sizes of one model."""

    def __init__(self, r, even=False):
        self.H = r.choice([1, 2, 3, 4, 5, 6, 7, 8])
        self.group = r.choice([g for g in range(1, self.H + 1) if self.H % g == 0])
        self.E = r.choice([4, 6, 8, 10, 12, 14, 18, 22])
        self.D = self.H * self.E
        if even and self.D % 2: self.D += 1
        self.inner = r.randint(5, 60)
        self.L = r.randint(1, 4)
        self.V = r.randint(37, 210)
        self.free = self.H * r.randint(2, 9) * 2  # a width that does not determine that of the heads
        self.eps = r.choice([1e-5, 1e-6, 1e-12, 1e-3])


def names(r):
    n = r.randint(1, 8)
    return G.labels(*(f"label {i}" for i in range(n)))


def rope(r, E, positions):
    theta = r.choice([10000.0, 500000.0, 100.0])
    kind = r.choice(["default", "default", "linear", "llama3", "yarn"])
    more = {}
    if kind != "default": more["factor"] = r.choice([1.0, 1.5, 2.0, 8.0])
    if kind == "llama3":
        more |= {"low_freq_factor": 1.0, "high_freq_factor": r.choice([2.0, 4.0]),
                 "original_max_position_embeddings": r.choice([16, 48])}
    if kind == "yarn":
        more["original_max_position_embeddings"] = r.randint(3, 60)
        if r.random() < .5: more |= {"beta_fast": r.choice([8.0, 32.0]), "beta_slow": r.choice([.5, 1.0, 2.0])}
        if r.random() < .3: more["attention_factor"] = r.choice([.7, 1.0, 1.3])
        elif r.random() < .5: more |= {"mscale": r.choice([.7, 1.0]), "mscale_all_dim": r.choice([.5, 1.0])}
        if r.random() < .5: more["truncate"] = r.random() < .5
    return {"rope_type": kind, "rope_theta": theta} | more


def llama(r, s, **more):
    return dict(vocab_size=s.V, hidden_size=s.free, intermediate_size=s.inner, num_hidden_layers=s.L,
                num_attention_heads=s.H, num_key_value_heads=s.group, head_dim=s.E, max_position_embeddings=120,
                rms_norm_eps=s.eps, hidden_act=r.choice(ACTS), tie_word_embeddings=r.random() < .5, pad_token_id=0,
                bos_token_id=1, eos_token_id=2, rope_parameters=rope(r, s.E, 120)) | more


def types(r, n):
    return [r.choice(["sliding_attention", "full_attention"]) for _ in range(n)]


def decoder(r, family):
    s, coin = Shape(r), lambda: r.random() < .5
    window = r.randint(2, 9)
    plain = {"rope_type": "default", "rope_theta": r.choice([10000.0, 300.0])}
    if family == "GPT2":
        return t.GPT2Config(vocab_size=s.V, n_embd=s.D, n_head=s.H, n_layer=s.L, n_positions=90,
                            n_inner=r.choice([None, s.inner]), bos_token_id=1, eos_token_id=2, pad_token_id=0,
                            activation_function=r.choice(ACTS), tie_word_embeddings=coin(),
                            layer_norm_epsilon=s.eps)
    if family == "OPT":
        return t.OPTConfig(vocab_size=s.V, hidden_size=s.D, ffn_dim=s.inner, num_hidden_layers=s.L,
                           num_attention_heads=s.H, max_position_embeddings=100, word_embed_proj_dim=s.D,
                           activation_function=r.choice(["relu", "gelu"]))
    config = getattr(t, family + "Config")
    a = llama(r, s)
    if family == "Llama": a |= {"attention_bias": coin(), "mlp_bias": coin()}
    if family in ("Mistral",): a |= {"sliding_window": r.choice([None, window])}
    if family == "Ministral": a |= {"sliding_window": window, "layer_types": types(r, s.L)}
    if family == "Ministral3":
        a |= {"sliding_window": r.choice([None, window]), "rope_parameters": {
            "rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0,
            # longer texts are refused: the reference scales their queries
            "original_max_position_embeddings": r.randint(60, 90), "beta_fast": 4.0, "beta_slow": 1.0,
            "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": r.choice([.1, .4])},
              "max_position_embeddings": 180}
    if family == "Qwen2":
        del a["head_dim"]
        a |= {"hidden_size": s.D, "use_sliding_window": coin(), "sliding_window": window,
              "max_window_layers": r.randint(0, s.L)}
    if family == "Qwen3":
        a |= {"attention_bias": coin(), "use_sliding_window": True, "sliding_window": window,
              "layer_types": types(r, s.L)} if coin() else {}
    if family == "Phi3":
        del a["head_dim"]
        part = r.choice([.5, 1.0])
        a |= {"hidden_size": s.D, "sliding_window": r.choice([None, window]),
              "rope_parameters": plain | {"partial_rotary_factor": 1.0}}
        if s.E % 4 == 0: a["rope_parameters"]["partial_rotary_factor"] = part
        if coin():
            n = int(s.E * a["rope_parameters"]["partial_rotary_factor"]) // 2
            a |= {"original_max_position_embeddings": 118, "rope_parameters": a["rope_parameters"] | {
                "rope_type": "longrope", "short_factor": [1 + r.random() for _ in range(n)],
                "long_factor": [1 + 9 * r.random() for _ in range(n)]}}
    if family == "SmolLM3":
        del a["head_dim"]
        a |= {"hidden_size": s.D, "no_rope_layers": [r.randint(0, 1) for _ in range(s.L)], "attention_bias": coin(),
              "mlp_bias": coin(), "use_sliding_window": coin(), "sliding_window": window}
    if family in ("Olmo2", "Granite"):
        del a["head_dim"]
        a |= {"hidden_size": s.D, "attention_bias": coin()}
    if family == "Granite":
        a |= {"embedding_multiplier": r.uniform(.5, 4), "attention_multiplier": r.uniform(.1, .7), "mlp_bias": coin(),
              "residual_multiplier": r.uniform(.2, 1), "logits_scaling": r.uniform(.5, 3)}
    if family.startswith("Gemma"):
        act = a.pop("hidden_act")
        a["hidden_activation"] = act
        a["attention_bias"] = coin()
    if family in ("Gemma2", "Gemma3Text"):
        a |= {"query_pre_attn_scalar": r.randint(3, 40), "sliding_window": window, "layer_types": types(r, s.L),
              "final_logit_softcapping": r.choice([None, 5.0, 20.0])}
    if family == "Gemma2": a["attn_logit_softcapping"] = r.choice([None, 3.0, 20.0])
    if family == "Gemma3Text":
        a["rope_parameters"] = {"full_attention": r.choice([plain, plain | {"rope_type": "linear", "factor": 4.0}]),
                                "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}
    if family == "EuroBert": a |= {"mask_token_id": 3, "attention_bias": coin()}
    return config(**a)


def encoder(r, family):
    s, coin = Shape(r), lambda: r.random() < .5
    bert = dict(vocab_size=s.V, hidden_size=s.D, intermediate_size=s.inner, num_hidden_layers=s.L,
                num_attention_heads=s.H, max_position_embeddings=40, layer_norm_eps=s.eps, hidden_act=r.choice(ACTS),
                tie_word_embeddings=coin(), type_vocab_size=r.choice([1, 2, 2, 3]))
    if family == "DistilBert":
        return t.DistilBertConfig(vocab_size=s.V, dim=s.D, hidden_dim=s.inner, n_heads=s.H, n_layers=s.L,
                                  max_position_embeddings=40, activation=r.choice(["gelu", "relu"]),
                                  sinusoidal_pos_embds=False)
    if family == "ModernBert":
        return t.ModernBertConfig(**G.as_modern(
            vocab_size=s.V, hidden_size=s.D, intermediate_size=s.inner, num_hidden_layers=s.L, num_attention_heads=s.H,
            local_attention=2 * r.randint(1, 5), norm_bias=coin(), attention_bias=coin(), mlp_bias=coin(),
            classifier_bias=coin(), classifier_pooling=r.choice(["mean", "cls"]),
            layer_types=types(r, s.L), hidden_activation=r.choice(ACTS), norm_eps=s.eps))
    if family == "Electra": bert["embedding_size"] = r.choice([s.D, r.randint(3, 40)])
    if family == "Albert":
        bert |= {"embedding_size": r.randint(3, 40), "num_hidden_groups": r.randint(1, s.L),
                 "inner_group_num": r.choice([1, 1, 2]), "bos_token_id": 1, "eos_token_id": 2}
    if family == "MPNet": bert |= {"relative_attention_num_buckets": 32}
    if family in ("MPNet",): del bert["type_vocab_size"]
    if family == "NomicBert":
        bert |= {"head_dim": s.E, "rope_parameters": {"rope_type": "default", "rope_theta": r.choice([1e3, 1e4])}}
    return getattr(t, family + "Config")(**bert)


def encoder_decoder(r, family):
    s, coin = Shape(r, even=True), lambda: r.random() < .5
    if "T5" in family:
        kind = r.choice(["relu", "gated-gelu", "gated-silu"])
        return getattr(t, family + "Config")(
            vocab_size=s.V, d_model=s.free, d_kv=s.E, d_ff=s.inner, num_layers=s.L,
            num_decoder_layers=r.randint(1, s.L), num_heads=s.H, pad_token_id=0, eos_token_id=1,
            decoder_start_token_id=0, feed_forward_proj=kind,
            relative_attention_num_buckets=r.choice([8, 16, 32]), relative_attention_max_distance=r.choice([20, 128]),
            layer_norm_epsilon=s.eps)
    heads = r.choice([h for h in range(1, 9) if s.D % h == 0])
    a = G.as_bart(vocab_size=s.V, d_model=s.D, encoder_layers=s.L, decoder_layers=r.randint(1, s.L),
                  encoder_ffn_dim=s.inner, decoder_ffn_dim=s.inner, encoder_attention_heads=heads,
                  decoder_attention_heads=heads, max_position_embeddings=100, scale_embedding=coin(),
                  activation_function=r.choice(ACTS))
    if family == "Marian": a |= dict(pad_token_id=s.V - 1, decoder_start_token_id=s.V - 1, eos_token_id=0,
                                     bos_token_id=None)
    return getattr(t, family + "Config")(**a)


LABELS, TOKENS, QUESTIONS = "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"
GROUPS = [
    (decoder, {
        **{f: ["ForCausalLM", LABELS, TOKENS, QUESTIONS, "Model"] for f in
           ("Llama", "Mistral", "Ministral", "Ministral3", "Qwen2", "Qwen3", "SmolLM3")},
        **{f: ["ForCausalLM", LABELS, TOKENS, "Model"] for f in ("Phi3", "Gemma", "Gemma2")},
        "GPT2": ["LMHeadModel", LABELS, TOKENS, QUESTIONS, "Model"], "Olmo2": ["ForCausalLM", LABELS, "Model"],
        "Granite": ["ForCausalLM", "Model"], "OPT": ["ForCausalLM", LABELS, QUESTIONS, "Model"],
        "Gemma3Text": ["ForCausalLM", LABELS, "Model"], "EuroBert": ["ForMaskedLM", LABELS, TOKENS, "Model"]}),
    (encoder, {**{f: ["ForMaskedLM", LABELS, TOKENS, QUESTIONS, "Model"] for f in
                  ("Bert", "Roberta", "XLMRoberta", "Camembert", "DistilBert", "Electra", "Albert", "MPNet",
                   "ModernBert")},
               "NomicBert": ["ForMaskedLM", LABELS, TOKENS, "Model"]}),
    (encoder_decoder, {"Bart": ["ForConditionalGeneration", "ForCausalLM", LABELS, QUESTIONS],
                       "MBart": ["ForConditionalGeneration", "ForCausalLM", LABELS, QUESTIONS],
                       "Marian": ["MTModel", "ForCausalLM"],
                       "T5": ["ForConditionalGeneration", "EncoderModel", LABELS, TOKENS, QUESTIONS],
                       "MT5": ["ForConditionalGeneration", "EncoderModel", LABELS, TOKENS, QUESTIONS]})]


def models():
    for draw, families in GROUPS:
        for family, classes in families.items():
            for ending in classes:
                cls = family + ending
                yield draw, family, "Gemma3ForCausalLM" if cls == "Gemma3TextForCausalLM" else cls


def one(folder, draw, family, cls, r):
    """Writes a model with its results."""
    config = draw(r, family)
    if LABELS in cls or TOKENS in cls:
        for key, value in names(r).items(): setattr(config, key, value)
    # as in embedding models; a model that generates is causal
    if draw is decoder and not cls.endswith(("ForCausalLM", "LMHeadModel")) and r.random() < .3: config.is_causal = False
    G.LENGTHS = tuple(r.randint(2, 19) for _ in range(3))
    G.SOURCES = tuple(r.randint(1, 19) for _ in range(3))
    width = max(getattr(config, "hidden_size", 0) or 0, getattr(config, "d_model", 0) or 0, 12)
    more = {"types": getattr(config, "type_vocab_size", 0), "size": r.choice([.8, 1.2, 1.7]) / width**.5,
            "dtype": r.choice([torch.float32, torch.float16, torch.bfloat16]),
            "lefts": (False,) if family == "GPT2" or draw is not decoder else (False, True)}
    if cls == "MarianForCausalLM": more["dtype"] = torch.float32  # 16 bits would round its sinusoids
    begin = r.randrange(1 << 20)
    G.family(folder, cls, getattr(t, cls), config, seeds=range(begin, begin + 40), **more)


def own_errors(folder, cls):
    """Adds "own", the errors of transformers in f32: [hidden states and logits, attention]."""
    path = os.path.join(folder, "golden.safetensors")
    golden, worst = load_file(path), np.zeros(2)
    model = cls.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    ref = G.Reference(model, 0)
    for i in range(3):
        part = lambda key, offsets: golden[key][golden[offsets][i]:golden[offsets][i + 1]].tolist()
        source = part("source.ids", "source.offsets") if "source.ids" in golden else None
        types = part("types", "offsets") if golden["types"].any() else None
        x, out = ref.one(part("ids", "offsets"), types, source)
        if source: pairs = G.seen(out, "decoder_hidden_states", "decoder_attentions", ref.last(out, **x))
        else: pairs = G.seen(out, "hidden_states", "attentions", ref.last(out, **x))
        states = {"hidden": pairs[0], "attention": pairs[1]}
        if source:
            states["source.hidden"], states["source.attention"] = G.seen(
                out, "encoder_hidden_states", "encoder_attentions", out.encoder_last_hidden_state)
            states["cross"] = torch.stack([a[0] for a in out.cross_attentions]).numpy()
        for key, x in states.items():
            k = "hidden" not in key
            at = golden["source.offsets" if "source" in key else "offsets"][i]
            want = golden[key].take(range(at, at + x.shape[1 + k]), 1 + k)
            worst[int(k)] = max(worst[int(k)], np.abs(x - (want[..., :x.shape[-1]] if k else want)).max())
    save_file(golden | {"own": worst.astype(np.float32)}, path)


def main(rounds, seed, test, wanted):
    G.GREEDY = 24
    done, failed = 0, []
    for i in range(rounds):
        for draw, family, cls in models():
            if wanted and cls not in wanted: continue
            r = random.Random(f"{seed}/{i}/{cls}")
            folder = tempfile.mkdtemp(prefix=f"family-{seed}-{i}-{cls}-")
            try:
                one(folder, draw, family, cls, r)
                own_errors(f"{folder}/{cls}", getattr(t, cls))
            except (SystemExit, Exception) as e:
                print(f"{cls} {i}: reference: {e}")  # it refuses the options, or does not agree with itself
                sys.stdout.flush()
                shutil.rmtree(folder)
                continue
            run = subprocess.run([test], env=os.environ | {"QKV_GOLDEN": folder + "/"}, capture_output=True, text=True)
            done += 1
            if run.returncode:
                failed.append(folder)
                lines = [x for x in (run.stdout + run.stderr).splitlines() if "ERROR" in x or "]" not in x]
                print(f"{cls} {i}: {folder}\n  " + "\n  ".join(lines[:12]))
            else:
                errors = [x.split(None, 1)[1] for x in run.stdout.splitlines() if "at most" in x]
                print(f"{cls} {i}: " + "; ".join(errors))
                shutil.rmtree(folder)
            sys.stdout.flush()
    print(f"{done} models compared, {len(failed)} differ")
    return bool(failed) or not done


if __name__ == "__main__":
    if len(sys.argv) < 4: sys.exit(__doc__)
    torch.set_num_threads(1)
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]))
