# SPDX-License-Identifier: MIT
"""golden_sentences.py: writes and compares folders of sentence-transformers with small random models.

    golden_sentences.py OUT                    writes the folders of tests/golden/sentences
    golden_sentences.py --random N SEED QKV    compares N random folders with the command QKV

Each folder of OUT has modules.json, the modules after the Transformer, and vectors.json: texts and their vectors,
computed in double.  The files of the Transformer are in OUT/model: a BERT with a cased WordPiece tokenizer.
With --random the Transformer is BERT, XLM-R, the encoder of T5, a causal Qwen3, or a bidirectional Gemma 3.
"""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np
import tokenizers as k
import torch
import transformers as t
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as m
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers
from transformers.utils import logging

logging.set_verbosity_error()
CORPUS = ["Which planet is known as the Red Planet?", "the cat sat on the mat", "A DOG barked at the Postman",
          "search for this: query and document", "Zoë ate crème brûlée in İstanbul", "numbers 1 2 3 and (signs), too!"] * 3
TEXTS = CORPUS[:6] + ["", " ", "[SEP] spelled [MASK]", "ÀÉÎ", "日本 語", "a", "the " * 30]
SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
WIDTH = 16
ACTIVATIONS = ["Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid", "ELU", "Mish", "LeakyReLU", "Softplus", "SELU",
               "ReLU6", "Softsign"]
POOLS = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]


def tokenizer(ends=True, cased=True):
    x = k.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    x.normalizer = normalizers.BertNormalizer(lowercase=not cased, strip_accents=False)
    x.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    x.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=150, special_tokens=SPECIAL, show_progress=False))
    if ends:
        x.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return t.PreTrainedTokenizerFast(tokenizer_object=x, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
                                     unk_token="[UNK]", mask_token="[MASK]", model_max_length=24)


def transformer(kind, vocab):
    size = dict(vocab_size=vocab, hidden_size=WIDTH, num_attention_heads=2, num_hidden_layers=2, intermediate_size=24,
                max_position_embeddings=40, pad_token_id=0, initializer_range=.3)
    rotary = dict(size, num_key_value_heads=1, head_dim=8)
    if kind == "bert": return t.BertModel(t.BertConfig(**size))
    if kind == "xlm-roberta": return t.XLMRobertaModel(t.XLMRobertaConfig(**size))
    if kind == "qwen3": return t.Qwen3Model(t.Qwen3Config(**rotary))
    if kind == "gemma3_text":
        return t.Gemma3TextModel(t.Gemma3TextConfig(**rotary, use_bidirectional_attention=True, sliding_window=8,
                                                    query_pre_attn_scalar=8))
    return t.T5EncoderModel(t.T5Config(vocab_size=vocab, d_model=WIDTH, num_heads=2, d_kv=8, d_ff=24, num_layers=2,
                                       pad_token_id=0, initializer_factor=1.5))


def write_model(folder, kind="bert", ends=True):
    own = tokenizer(ends)
    model = transformer(kind, len(own))
    for name, x in model.named_parameters():  # biases and norms that are not 0 and 1
        if x.dim() == 1: x.data += .2 * torch.randn_like(x)
    model.save_pretrained(folder)
    own.save_pretrained(folder)


def write(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f: json.dump(value, f, ensure_ascii=False, indent=1)


def dense(width, out, activation="Identity", bias=True, residual=False):
    x = m.Dense(width, out, bias=bias, activation_function=getattr(torch.nn, activation)(), use_residual=residual)
    torch.nn.init.normal_(x.linear.weight, std=1.5 / width ** .5)
    return x


def layer_norm(width):
    x = m.LayerNorm(width)
    torch.nn.init.normal_(x.norm.weight, 1, .3)
    torch.nn.init.normal_(x.norm.bias, 0, .3)
    return x


def write_modules(folder, pooling, steps, bert=None, prompts=None):
    """Writes modules.json and the modules; pooling is the contents of its config.json."""
    pooled = dict(pooling, word_embedding_dimension=WIDTH)
    entries = [("", "Transformer"), ("1_Pooling", "Pooling")]
    write(f"{folder}/1_Pooling/config.json", pooled)
    for i, step in enumerate(steps, 2):
        name = type(step).__name__
        entries.append((f"{i}_{name}", name))
        os.makedirs(f"{folder}/{i}_{name}", exist_ok=True)
        step.save(f"{folder}/{i}_{name}")
    write(f"{folder}/modules.json", [{"idx": i, "name": str(i), "path": path,
                                      "type": f"sentence_transformers.models.{name}"}
                                     for i, (path, name) in enumerate(entries)])
    if bert: write(f"{folder}/sentence_bert_config.json", bert)
    if prompts: write(f"{folder}/config_sentence_transformers.json", prompts)


def vectors(folder):
    x = SentenceTransformer(folder, device="cpu").double().eval()
    return np.array([x.encode(text, convert_to_numpy=True) for text in TEXTS], dtype=np.float64)


# Name, pooling, modules after it, sentence_bert_config.json, config_sentence_transformers.json.  The first three are the
# forms of LaBSE, of sentence-t5 and gtr, and of EmbeddingGemma.
def cases():
    old = lambda *on: {"pooling_mode_cls_token": "cls" in on, "pooling_mode_mean_tokens": "mean" in on,
                       "pooling_mode_max_tokens": "max" in on, "pooling_mode_mean_sqrt_len_tokens": "sqrt" in on}
    w = WIDTH
    yield "labse", old("cls"), [dense(w, w, "Tanh"), m.Normalize()], {"max_seq_length": 24, "do_lower_case": False}, None
    yield "sentence-t5", old("mean"), [dense(w, 12, bias=False), m.Normalize()], {"max_seq_length": 24}, None
    yield ("embeddinggemma", {"pooling_mode": "mean"},
           [dense(w, 48, bias=False), dense(48, w, bias=False), m.Normalize()], None,
           {"prompts": {"query": "search for this: ", "document": ""}, "default_prompt_name": "query", "truncate_dim": 9})
    yield ("several", {"pooling_mode": ["weightedmean", "lasttoken", "cls", "weightedmean"]},
           [layer_norm(4 * w), dense(4 * w, w, "GELU", residual=True), m.Dropout(.5), dense(w, w, "Tanh", residual=True)],
           None, None)
    yield "flags", old("sqrt", "max", "mean"), [m.Normalize()], {"max_seq_length": 12, "do_lower_case": True}, None
    yield ("prompt", {"pooling_mode": ["weightedmean", "max", "cls", "lasttoken", "mean_sqrt_len_tokens", "mean"],
                      "include_prompt": False}, [], None,
           {"prompts": {"query": "search for this: "}, "default_prompt_name": "query"})
    yield "weighted", {"pooling_mode": "weightedmean", "include_prompt": False}, [dense(w, w, bias=False, residual=True)], \
        None, {"prompts": {"query": "search for this: "}, "default_prompt_name": "query"}
    yield "activations", {"pooling_mode": "mean"}, [dense(w, w, a) for a in ACTIVATIONS], None, None


def main(out):
    torch.manual_seed(7)
    shutil.rmtree(out, ignore_errors=True)
    write_model(f"{out}/model")
    for name, pooling, steps, bert, prompts in cases():
        with tempfile.TemporaryDirectory() as whole:
            shutil.copytree(f"{out}/model", whole, dirs_exist_ok=True)
            write_modules(whole, pooling, steps, bert, prompts)
            write(f"{whole}/vectors.json", {"texts": TEXTS, "vectors": vectors(whole).tolist()})
            shutil.copytree(whole, f"{out}/{name}", ignore=lambda d, names: [
                n for n in names if d == whole and os.path.exists(f"{out}/model/{n}")])
        print(name, len(json.load(open(f"{out}/{name}/vectors.json"))["vectors"][0]))


def draw(r, folder):
    """Writes a random folder; returns its description."""
    kind = r.choice(["bert", "xlm-roberta", "t5", "qwen3", "gemma3_text"])
    ends = r.random() < .7
    write_model(folder, kind, ends)
    pools = [r.choice(POOLS) for _ in range(r.choice([1, 1, 1, 2, 3]))]
    pooling = {"pooling_mode": pools if len(pools) > 1 or r.random() < .3 else pools[0], "include_prompt": r.random() < .6}
    steps, width = [], WIDTH * len(pools)
    for _ in range(r.randint(0, 4)):
        step = r.choice(["dense", "dense", "norm", "unit", "drop"])
        if step == "dense":
            out = r.choice([width, r.randint(1, 40)])
            steps.append(dense(width, out, r.choice(ACTIVATIONS), r.random() < .6, r.random() < .3))
            width = out
        else:
            steps.append({"norm": lambda: layer_norm(width), "unit": m.Normalize, "drop": m.Dropout}[step]())
    bert = {"max_seq_length": r.randint(6, 38), "do_lower_case": r.random() < .5} if r.random() < .6 else None
    prompts = {"prompts": {"query": r.choice(["search for this: ", "the Cat", ""])}, "default_prompt_name": "query",
               "truncate_dim": r.choice([None, r.randint(1, 20)])} if r.random() < .6 else None
    write_modules(folder, pooling, steps, bert, prompts)
    return f"{kind} {'ends' if ends else 'no ends'} {pooling} {[type(s).__name__ for s in steps]} {bert} {prompts}"


def compare(count, seed, qkv):
    worst = 0
    for i in range(count):
        r = random.Random(f"{seed}/{i}")
        torch.manual_seed(r.randrange(1 << 30))
        with tempfile.TemporaryDirectory() as folder:
            what = draw(r, folder)
            texts = TEXTS if ' no ends ' not in what else [x for x in TEXTS if x.strip()]  # the reference needs a token
            x = SentenceTransformer(folder, device="cpu").double().eval()
            want = np.array([x.encode(text, convert_to_numpy=True) for text in texts])
            with open(f"{folder}/texts", "w", encoding="utf-8") as f: f.write("".join(t + "\n" for t in texts))
            run = subprocess.run([qkv, "embed", "-m", folder, "-f", f"{folder}/texts", "--truncate"],
                                 capture_output=True, text=True)
            if run.returncode:
                print(f"{i}: {what}\n  exit {run.returncode}: {run.stderr}")
                worst = float("inf")
                continue
            got = np.array([[float(n) for n in line.split()] for line in run.stdout.splitlines()])
            off = np.abs(got - want).max() / max(1, np.abs(want).max()) if got.shape == want.shape else float("inf")
            worst = max(worst, off)
            if not off < 1e-5:
                print(f"{i}: {what}\n  {got.shape} {want.shape} off {off:.3g}, text {np.abs(got - want).max(1).argmax()}")
    print(f"{count} folders, largest error {worst:.3g} (of the largest number, at least 1)")
    return not worst < 1e-5


if __name__ == "__main__":
    if sys.argv[1] == "--random": sys.exit(compare(int(sys.argv[2]), sys.argv[3], sys.argv[4]))
    main(sys.argv[1])
