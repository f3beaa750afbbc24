# SPDX-License-Identifier: MIT
"""golden.py: writes reference results of transformers, small enough to commit.

    golden.py minilm DIR OUT          30 texts through all-MiniLM-L6-v2 in DIR
    golden.py tiny OUT                small random models of every family, with their results
    golden.py full DIR OUT            as minilm, every number (hundreds of MB: not committed)
    golden.py reference DIR FILE [TEXT...]
                                      the results of any folder that transformers opens on texts (or 3 texts of random
                                      ids), in the format of `qkv check`: docs/formats.md

The reference computes in f64 and is rounded to f32: with an f32 reference a difference would be the sum of two errors
(its f32 has errors of up to 7e-6 in hidden states, 5e-6 in attention).

Needs torch, transformers 5, tokenizers, safetensors, numpy; the tests that read the result need none.

Stored for MiniLM: all ids, types, byte offsets and embeddings.  A matrix (hidden state of a layer, weights of a head)
of a text marked full is stored completely.  For the others, two arrays together detect any single wrong number:
  sums     for each row r: the sum of s(r, c) x[r][c], s = +-1 by a hash of r and c.  A number whose error exceeds the
           tolerance changes the sum of its row by as much; errors in several numbers cancel only if their signs match
           s; exchanged rows or columns and a transposed or shifted matrix also change the sums.  (Weights of a row
           sum to 1: an error in one comes with opposite errors in others, so these sums have twice the tolerance.)
  samples  numbers at hashed positions, compared one by one.
"""
import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np
import torch
from safetensors.numpy import save_file

HIDDEN_SAMPLES, WEIGHT_SAMPLES = 48, 12

LOREM = ("The heads of the first layer attend to neighbouring tokens, the heads of the last layer attend "
         "to the separator; in between they learn patterns that no programmer wrote down. ")
# (name, text, second text or None, store all numbers)
TEXTS = [
    ("animal", "The animal didn't cross the street because it was too tired", None, True),
    ("flies", "time flies like an arrow", "fruit flies like a banana", False),
    ("one", "hello", None, True),
    ("empty", "", None, True),
    ("spaces", " \t\n  ", None, False),
    ("sentence", "I love bears.", None, False),
    ("bear", "She bears the pain", None, False),
    ("won", "Bears won the game", "bear country", False),
    ("long_word", "Donaudampfschifffahrtselektrizit\u00e4tenhauptbetriebswerkbauunterbeamtengesellschaft", None, False),
    ("too_long_word", "a" * 120 + " end", None, False),
    ("case", "ALL CAPS, Title Case and cAmElCase", None, False),
    ("numbers", "In 1969, 3.14159 * 2 = 6.28318; +1 (555) 010-9999 costs $12,000.50 or 50%.", None, False),
    ("code", "for (int i = 0; i < n; ++i) { x[i] = y[i] ^ 0xFF; } // don't!", None, False),
    ("emoji", "I \u2764\ufe0f \U0001f43b\u200d\u2744\ufe0f and \U0001f468\u200d\U0001f469\u200d\U0001f467! \U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd", None, False),
    ("chinese", "\u6ce8\u610f\u529b\u673a\u5236\u5c31\u662f\u4f60\u6240\u9700\u8981\u7684\u4e00\u5207\u3002", None, False),
    ("japanese", "\u5439\u8f29\u306f\u732b\u3067\u3042\u308b\u3002\u540d\u524d\u306f\u307e\u3060\u7121\u3044\u3002\u30ab\u30bf\u30ab\u30ca", None, False),
    ("korean", "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4", None, False),
    ("accents", "Na\u00efve caf\u00e9 d\u00e9j\u00e0 vu: \u00dcbergr\u00f6\u00dfentr\u00e4ger, \u017b\u00f3\u0142\u0107, e\u0301 \u00f1 \u1e69\u0323", None, False),
    ("arabic", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 123", None, False),
    ("hebrew", "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd \u05e2\u05d5\u05dc\u05dd \u200f(test)\u200f", None, False),
    ("hindi", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e", None, False),
    ("greek", "\u039f\u03b4\u03c5\u03c3\u03c3\u03b5\u03cd\u03c2 \u03ba\u03b1\u03b9 \u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2", None, False),
    ("spelled", "a [MASK] between [CLS] and [SEP], [UNK] ##ing", None, False),
    ("controls", "a\u0000b\u0007c\u00add\u200be\ufefff\u2028g\r\nh", None, False),
    ("marks", "a" + "\u0301\u0302\u0303" * 8 + " \u0301alone", None, False),
    ("paragraph", LOREM, None, False),
    ("pair", "A pair of sentences: " + LOREM, "is the second one shorter?", False),
    ("over_256", LOREM * 10, None, False),
    ("pair_512", LOREM * 9, LOREM * 7, False),
    ("tokens_512", LOREM * 18, None, False),
]


def sign(rows, columns):
    """Returns s[rows][columns] = +-1: a hash of both indices in 32 bits (tests/model/family/golden.h has it in C)."""
    r = np.arange(rows, dtype=np.uint32)[:, None]
    c = np.arange(columns, dtype=np.uint32)[None, :]
    x = r * np.uint32(0x9E3779B1) ^ c * np.uint32(0x85EBCA77)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x2C1B3C6D)
    x ^= x >> np.uint32(12)
    x *= np.uint32(0x297A2D39)
    x ^= x >> np.uint32(15)
    return 1.0 - 2.0 * (x & np.uint32(1)).astype(np.float64)


def sums(x):
    """Returns the signed sums [matrices][rows] of x[matrices][rows][columns]; below 100, so that the rounding error
    of f32 is at most 4e-6."""
    return (x.astype(np.float64) * sign(*x.shape[1:])).sum(2).astype(np.float32)


def samples(x, n):
    """Returns the samples [matrices][n]: number i of matrix m is at hash(m, i) mod its size."""
    flat = x.reshape(x.shape[0], -1)
    m = np.arange(flat.shape[0], dtype=np.uint64)[:, None]
    i = np.arange(n, dtype=np.uint64)[None, :]
    at = (m * np.uint64(2654435761) + i * np.uint64(40503) * np.uint64(65599) + np.uint64(12345))
    return np.take_along_axis(flat, (at % np.uint64(flat.shape[1])).astype(np.int64), 1)


def byte_offsets(encoding, texts):
    """Returns the byte offsets of each token in its own text; 0, 0 for special tokens."""
    out = []
    for (b, e), which, special in zip(encoding.offsets, encoding.sequence_ids, encoding.special_tokens_mask):
        if special and which is None:
            out.append((0, 0))
            continue
        text = texts[which]
        out.append((len(text[:b].encode()), len(text[:e].encode())))
    return np.array(out, np.int32).reshape(-1, 2)


def run(model, ids, types=None, **more):
    """Returns hidden [L + 1][T][D] and attention [L][H][T][T] of one sequence."""
    x = torch.tensor(ids)[None]
    if types is not None:
        more["token_type_ids"] = torch.tensor(types)[None]
    with torch.no_grad():
        out = model(input_ids=x, attention_mask=torch.ones_like(x), output_hidden_states=True,
                    output_attentions=True, **more)
    hidden = np.stack([h[0].float().numpy() for h in out.hidden_states])
    return hidden, np.stack([a[0].float().numpy() for a in out.attentions])


def minilm(folder, out, full_numbers=False):
    from tokenizers import Tokenizer
    from transformers import AutoModel
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").double().eval()
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.no_padding()
    os.makedirs(out, exist_ok=True)
    kept, listed = {}, []
    for n, (name, a, b, full) in enumerate(TEXTS):
        tokenizer.enable_truncation(512)
        e = tokenizer.encode(a, b) if b is not None else tokenizer.encode(a)
        hidden, weights = run(model, e.ids, e.type_ids)
        L, H, T, _ = weights.shape
        weights = weights.reshape(L * H, T, T)
        listed.append({"name": name, "a": a, "full": full, "tokens": T} | ({"b": b} if b is not None else {}))
        kept[f"{name}.ids"] = np.array(e.ids, np.int32)
        kept[f"{name}.types"] = np.array(e.type_ids, np.uint8)
        kept[f"{name}.offsets"] = byte_offsets(e, (a, b))
        if b is None:
            tokenizer.enable_truncation(256)  # the limit of sentence_bert_config.json
            short = tokenizer.encode(a)
            last = run(model, short.ids, short.type_ids)[0][-1].astype(np.float64)
            mean = last.mean(0)
            kept[f"{name}.embedding"] = (mean / np.linalg.norm(mean)).astype(np.float32)
        if full or full_numbers:
            kept[f"{name}.hidden"] = hidden
            kept[f"{name}.attention"] = weights
        if not full:
            kept[f"{name}.hidden.sums"] = sums(hidden)
            kept[f"{name}.hidden.samples"] = samples(hidden, HIDDEN_SAMPLES)
            kept[f"{name}.attention.sums"] = sums(weights)
            kept[f"{name}.attention.samples"] = samples(weights, WEIGHT_SAMPLES)
        if name == "animal":
            words = e.tokens
            it, animal = words.index("it"), words.index("animal")
            print("it -> animal: L5.H11 %.4f, L3.H1 %.4f, %d tokens" %
                  (weights[5 * H + 11, it, animal], weights[3 * H + 1, it, animal], T))
    save_file({k: np.ascontiguousarray(v) for k, v in kept.items()}, os.path.join(out, "minilm.safetensors"))
    with open(os.path.join(out, "minilm.json"), "w") as f:
        json.dump({"texts": listed}, f, indent=0, ensure_ascii=True)
        f.write("\n")


# ---- small random models ---------------------------------------------------------------------------

def shake(model, seed):
    """Sets random weights large enough that attention is sharp and no bias is 0."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            noise = torch.randn(p.shape, generator=g)
            norm = "norm" in name.lower() and name.endswith("weight")
            p.copy_(1 + 0.2 * noise if norm else 0.35 * noise)
    return model.eval()


class Encoder(torch.nn.Module):
    """Computes the qkv-encoder of src/model/family/encoder.c, written from its description."""

    def __init__(self, c):
        super().__init__()
        self.c, nn = c, torch.nn
        D, M, bias = c["hidden_size"], c["intermediate_size"], c.get("bias", True)
        E = D // c["num_attention_heads"]
        KV = E * c.get("num_key_value_heads", c["num_attention_heads"])
        eps = c["layer_norm_eps"]
        norm = c.get("norm", "post")

        def norms():
            d = nn.ModuleDict()
            if norm != "post": d["norm_in"] = nn.LayerNorm(D, eps)
            if norm != "pre": d["norm_out"] = nn.LayerNorm(D, eps)
            return d

        def mlp():
            d = nn.ModuleDict() if self.bare else norms()
            d["up"], d["down"] = nn.Linear(D, M, bias), nn.Linear(M, D, bias)
            return d

        def attention():
            d = norms()
            d["query"], d["key"] = nn.Linear(D, D, bias), nn.Linear(D, KV, bias)
            d["value"], d["output"] = nn.Linear(D, KV, bias), nn.Linear(D, D, bias)
            return d

        place = c.get("feed_forward", "each")
        self.bare, self.once = place == "bare", place in ("once", "bare")
        self.embeddings = nn.ModuleDict({"word": nn.Embedding(c["vocab_size"], D)})
        if c.get("positions", "learned") == "learned":
            self.embeddings["position"] = nn.Embedding(c["max_position_embeddings"], D)
        if c.get("type_vocab_size"): self.embeddings["token_type"] = nn.Embedding(c["type_vocab_size"], D)
        if c.get("embedding_norm"): self.embeddings["norm"] = nn.LayerNorm(D, eps)
        layer = lambda: nn.ModuleDict({"attention": attention()} | ({} if self.once else {"feed_forward": mlp()}))
        self.layers = nn.ModuleList([layer() for _ in range(c["num_hidden_layers"])])
        if self.once: self.feed_forward = mlp()
        if c.get("final_norm", norm == "pre"): self.norm = nn.LayerNorm(D, eps)

    def part(self, d, x, f):
        y = x + f(d["norm_in"](x) if "norm_in" in d else x)
        return d["norm_out"](y) if "norm_out" in d else y

    def attend(self, d, x, seen):
        c, T = self.c, x.shape[0]
        H, G = c["num_attention_heads"], c.get("num_key_value_heads", c["num_attention_heads"])
        q, k, v = d["query"](x).view(T, H, -1), d["key"](x).view(T, G, -1), d["value"](x).view(T, G, -1)
        k, v = k.repeat_interleave(H // G, 1), v.repeat_interleave(H // G, 1)
        s = torch.einsum("the,she->hts", q, k) / q.shape[-1] ** 0.5
        p = torch.softmax(s, -1)
        seen.append(p)
        return d["output"](torch.einsum("hts,she->the", p, v).reshape(T, -1))

    def feed(self, d, x):
        F = torch.nn.functional
        act = {"gelu": F.gelu, "gelu_new": lambda z: F.gelu(z, approximate="tanh"), "relu": F.relu,
               "silu": F.silu, "tanh": torch.tanh}[self.c.get("hidden_act", "gelu")]
        return d["down"](act(d["up"](x)))

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, **_):
        ids, T, e = input_ids[0], input_ids.shape[1], self.embeddings
        x = e["word"](ids)
        if "token_type" in e: x = x + e["token_type"](token_type_ids[0])
        if "position" in e: x = x + e["position"](torch.arange(T))
        if self.c.get("positions") == "sinusoidal":
            D = x.shape[1]
            i = torch.arange(0, D, 2, dtype=torch.float64)
            angle = torch.arange(T, dtype=torch.float64)[:, None] / 10000 ** (i / D)
            x = x + torch.stack([angle.sin(), angle.cos()], -1).reshape(T, -1)[:, :D].float()
        if "norm" in e: x = e["norm"](x)
        hidden, seen = [x], []
        for l in self.layers:
            x = self.part(l["attention"], x, lambda y: self.attend(l["attention"], y, seen))
            if not self.once: x = self.part(l["feed_forward"], x, lambda y: self.feed(l["feed_forward"], y))
            hidden.append(x)
        if self.bare: x = self.feed(self.feed_forward, x)
        elif self.once: x = self.part(self.feed_forward, x, lambda y: self.feed(self.feed_forward, y))
        if hasattr(self, "norm"): x = self.norm(x)
        hidden[-1] = x
        return type("Out", (), {"hidden_states": [h[None] for h in hidden], "attentions": [p[None] for p in seen]})


def check_encoder():
    """Checks that the pre-norm Encoder equals torch's TransformerEncoderLayer."""
    c = dict(hidden_size=12, intermediate_size=20, num_hidden_layers=1, num_attention_heads=3, vocab_size=9,
             max_position_embeddings=8, layer_norm_eps=1e-5, norm="pre", final_norm=False, positions="none")
    m = shake(Encoder(c), 5)
    t = torch.nn.TransformerEncoderLayer(12, 3, 20, 0, "gelu", 1e-5, batch_first=True, norm_first=True).eval()
    a, f = m.layers[0]["attention"], m.layers[0]["feed_forward"]
    with torch.no_grad():
        t.self_attn.in_proj_weight.copy_(torch.cat([a[k].weight for k in ("query", "key", "value")]))
        t.self_attn.in_proj_bias.copy_(torch.cat([a[k].bias for k in ("query", "key", "value")]))
        for to, of in ((t.self_attn.out_proj, a["output"]), (t.norm1, a["norm_in"]), (t.norm2, f["norm_in"]),
                       (t.linear1, f["up"]), (t.linear2, f["down"])):
            to.load_state_dict(of.state_dict())
        ids = torch.tensor([[1, 2, 3, 4, 5]])
        assert (t(m.embeddings["word"](ids)) - m(ids).hidden_states[-1]).abs().max() < 1e-5


def keep_tiny(out, name, model, config, vocab, types, pad=None, dtype=torch.float32):
    from safetensors.torch import save_file as save_torch
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    state = {k: v.to(dtype).contiguous() for k, v in model.state_dict().items()}
    save_torch(state, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    model.load_state_dict({k: v.float() for k, v in state.items()})  # the weights as stored in the file
    model.double()
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=2)
        f.write("\n")
    r = np.random.default_rng(7)
    lengths = (7, 1, 13)
    offsets = np.cumsum((0,) + lengths)
    R, S = int(offsets[-1]), max(lengths)
    ids = r.integers(3, vocab, R).astype(np.int32)
    if pad is not None: ids[[2, 10]] = pad  # a padding token inside a text changes RoBERTa's positions
    kinds = (np.arange(R) % 3 == 1).astype(np.int32) if types > 1 else np.zeros(R, np.int32)
    hidden, weights = [], []
    for b, e in zip(offsets, offsets[1:]):
        h, w = run(model, ids[b:e].tolist(), kinds[b:e].tolist() if types else None)
        hidden.append(h)
        weights.append(np.pad(w, ((0, 0), (0, 0), (0, 0), (0, S - (e - b)))))
    save_file({"offsets": offsets.astype(np.int64), "ids": ids, "types": kinds,
               "hidden": np.concatenate(hidden, 1), "attention": np.concatenate(weights, 2)},
              os.path.join(folder, "golden.safetensors"))


def keep_tokenizer(folder):
    """Returns a WordPiece tokenizer of 40 tokens like BERT's: letters, and the first nine as parts of words."""
    from tokenizers import BertWordPieceTokenizer
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + c for c in letters[:9])]
    vocab = {w: i for i, w in enumerate(words)}
    BertWordPieceTokenizer(vocab).save(os.path.join(folder, "tokenizer.json"))


def tiny(out):
    from transformers import (BertConfig, BertModel, DistilBertConfig, DistilBertModel, RobertaConfig,
                              RobertaModel, XLMRobertaConfig, XLMRobertaModel)
    check_encoder()
    V = 40

    def family(name, C, M, sizes, types, pad=None, dtype=torch.float32, seed=1):
        c = C(vocab_size=V, **sizes)
        c._attn_implementation = "eager"
        keep_tiny(out, name, shake(M(c), seed), json.loads(c.to_json_string()), V, types, pad, dtype)

    as_bert = lambda D, M, H, **more: dict(hidden_size=D, intermediate_size=M, num_attention_heads=H,
                                           num_hidden_layers=2, **more)
    odd = as_bert(35, 53, 5, max_position_embeddings=13, type_vocab_size=2, hidden_act="gelu_new")
    family("bert", BertConfig, BertModel, odd, 2)
    keep_tokenizer(os.path.join(out, "bert"))
    family("bert-f16", BertConfig, BertModel, as_bert(16, 24, 2, max_position_embeddings=16), 2, dtype=torch.float16)
    family("bert-bf16", BertConfig, BertModel, as_bert(16, 24, 2, max_position_embeddings=16, hidden_act="relu"), 2,
           dtype=torch.bfloat16)
    family("roberta", RobertaConfig, RobertaModel,
           as_bert(24, 40, 3, max_position_embeddings=18, type_vocab_size=1, layer_norm_eps=1e-5), 1, pad=1)
    family("xlm-roberta", XLMRobertaConfig, XLMRobertaModel,
           as_bert(20, 36, 2, max_position_embeddings=15, type_vocab_size=1, layer_norm_eps=1e-5), 1, pad=1)
    family("distilbert", DistilBertConfig, DistilBertModel,
           dict(dim=24, hidden_dim=44, n_heads=4, n_layers=2, max_position_embeddings=16), 0)
    own = dict(model_type="qkv-encoder", vocab_size=V, max_position_embeddings=16, layer_norm_eps=1e-5)
    for name, c in (
        ("encoder-pre", as_bert(24, 36, 4, norm="pre", positions="sinusoidal", num_key_value_heads=2,
                                hidden_act="gelu_new")),
        ("encoder-both", as_bert(18, 30, 3, norm="both", feed_forward="once", embedding_norm=True,
                                 type_vocab_size=2, hidden_act="relu")),
        ("encoder-bare", as_bert(20, 28, 4, norm="both", feed_forward="bare", positions="sinusoidal", hidden_act="relu")),
        ("encoder-plain", as_bert(15, 22, 1, positions="none", bias=False, hidden_act="silu", final_norm=True)),
    ):
        c = own | c
        keep_tiny(out, name, shake(Encoder(c), 2), c, V, c.get("type_vocab_size", 0))


# ---- any folder ------------------------------------------------------------------------------------

def reference(folder, out, texts):
    """Returns ids, hidden states, attention, and logits or scores of labels in f64, of the class that config.json
    names."""
    import transformers
    from golden_families import Reference, doubles, seen
    named = [getattr(transformers, n, None)
             for n in transformers.AutoConfig.from_pretrained(folder).architectures or []]
    cls = next(filter(None, named), transformers.AutoModel)
    loaded = cls.from_pretrained(folder, dtype=torch.float32)
    config = loaded.config  # of T5's encoder alone it is changed, and it has the type of the numbers
    r, twofold = np.random.default_rng(7), config.is_encoder_decoder
    vocab = getattr(config.get_text_config(), "vocab_size")
    start = getattr(config, "decoder_start_token_id", None)
    if texts:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        ids = [tokenizer(t).input_ids for t in texts]
    else:
        ids = [r.integers(3, vocab, n).tolist() for n in (7, 1, 13)]
    sources = ids if twofold else None
    if twofold and "ForSequenceClassification" in cls.__name__:  # the decoder reads the text, which has an end
        sources = [t if t[-1] == config.eos_token_id else [*t, config.eos_token_id] for t in ids]
        ids = [[start, *t[:-1]] for t in sources]
    elif twofold:
        ids = [[start] + r.integers(3, vocab, n).tolist() for n in (6, 0, 12, *[9] * len(ids))[:len(ids)]]
    kept = []
    with doubles():  # made again, so that rotations and tables are doubles, too
        config._attn_implementation = "eager"
        model = type(loaded)(config).double().eval()
        model.load_state_dict({k: v.double() for k, v in loaded.state_dict().items()})
        ref = Reference(model, 0)
        for i, text in enumerate(ids):
            x, found = ref.one(text, source=sources and sources[i])
            last = ref.last(found, **x)
            one = {}
            if twofold:
                one["hidden"], one["attention"] = seen(found, "decoder_hidden_states", "decoder_attentions", last)
                one["source.hidden"], one["source.attention"] = seen(
                    found, "encoder_hidden_states", "encoder_attentions", found.encoder_last_hidden_state)
                one["cross"] = torch.stack([a[0] for a in found.cross_attentions]).numpy()
            else:
                one["hidden"], one["attention"] = seen(found, "hidden_states", "attentions", last)
            if hasattr(found, "logits"):
                name = "token_scores" if "ForTokenClassification" in cls.__name__ else "logits"
                one[name if found.logits.dim() == 3 else "scores"] = found.logits[0].numpy()
            kept.append(one)
    axis = {"hidden": 1, "attention": 2, "source.hidden": 1, "source.attention": 2, "cross": 2, "logits": 0, "token_scores": 0}
    result = {}
    for name in kept[0]:
        rows = [k[name] for k in kept]
        if rows[0].ndim == 4:  # attention: padded to the keys of the longest text
            most = max(a.shape[3] for a in rows)
            rows = [np.pad(a, ((0, 0), (0, 0), (0, 0), (0, most - a.shape[3]))) for a in rows]
        result[name] = (np.stack(rows) if name == "scores" else np.concatenate(rows, axis[name])).astype(np.float32)
    for before, lists in (("", ids), ("source.", sources or [])):
        if not lists: continue
        result[before + "offsets"] = np.cumsum([0, *map(len, lists)]).astype(np.int64)
        result[before + "ids"] = np.array(sum(lists, []), np.int32)
    save_file({k: np.ascontiguousarray(v) for k, v in result.items()}, out)
    print(f"{type(model).__name__}: {len(ids)} texts, {', '.join(result)}")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if len(arguments) == 3 and arguments[0] in ("minilm", "full"):
        minilm(arguments[1], arguments[2], arguments[0] == "full")
    elif len(arguments) >= 3 and arguments[0] == "reference":
        reference(arguments[1], arguments[2], arguments[3:])
    elif len(arguments) == 2 and arguments[0] == "tiny":
        tiny(arguments[1])
    else:
        sys.exit(__doc__)
