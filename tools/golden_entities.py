# SPDX-License-Identifier: MIT
"""golden_entities.py: writes small models with labels of tokens and the entities that transformers finds with them.

    golden_entities.py OUT

Each folder of OUT has config.json, model.safetensors, tokenizer.json and entities.json: for each text the results of the
token-classification pipeline with every aggregation strategy, without ignored labels.  The tokenizers mark the tokens
that continue a word in different ways: a prefix (wordpiece), the space before a token (bpe: byte-level; unigram:
Metaspace).  Every probability that decides a label is 1e-3 from the next.
"""
import json
import os
import shutil
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np
import tokenizers as k
import torch
import transformers as t
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers.utils import logging

logging.set_verbosity_error()
LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "MISC", "X-Y-Z"]
CORPUS = ["Emily Dickinson lived in Amherst, Massachusetts.", "Zoë wrote to Thomas Higginson in Worcester!",
          "the train from New York to Boston passes New Haven", "Higginson's letters; Dickinson's poems (1862)",
          "in the morning the river Connecticut rises"] * 3
TEXTS = CORPUS[:5] + ["", " ", "New  York", "Zoë — naïve ☃ Æther in 日本", "Amherst", "O B-PER I-LOC",
                      "Emily,Emily Thomas-Higginson"]
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]


def wordpiece():
    x = k.Tokenizer(models.WordPiece(unk_token="<unk>"))
    x.normalizer = normalizers.BertNormalizer(lowercase=True)
    x.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    x.decoder = decoders.WordPiece()
    return x, trainers.WordPieceTrainer(vocab_size=90, special_tokens=SPECIAL)


def bpe():
    x = k.Tokenizer(models.BPE())
    x.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    x.decoder = decoders.ByteLevel()
    return x, trainers.BpeTrainer(vocab_size=300, special_tokens=SPECIAL,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def unigram():
    x = k.Tokenizer(models.Unigram())
    x.pre_tokenizer = pre_tokenizers.Metaspace()
    x.decoder = decoders.Metaspace()
    return x, trainers.UnigramTrainer(vocab_size=90, special_tokens=SPECIAL, unk_token="<unk>")


def sure(model, tokenizer, text):
    """Returns whether no label of a token is close to another."""
    ids = tokenizer(text, return_tensors="pt")
    with torch.no_grad(): p = model(**ids).logits[0].softmax(-1)
    top = p.topk(2).values
    return bool((top[:, 0] - top[:, 1] > 1e-3).all())


def folder(out, make, cls, config):
    x, trainer = make()
    x.train_from_iterator(CORPUS, trainer)
    pair = [("<s>", 1), ("</s>", 2)]
    x.post_processor = processors.RobertaProcessing(pair[1], pair[0], trim_offsets=True, add_prefix_space=False) \
        if make is bpe else processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> $B </s>", pair)
    tokenizer = t.PreTrainedTokenizerFast(tokenizer_object=x, pad_token="<pad>", bos_token="<s>", eos_token="</s>",
                                          unk_token="<unk>", model_max_length=60)
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    for seed in range(1, 60):
        torch.manual_seed(seed)
        model = cls(config(x.get_vocab_size())).eval()
        with torch.no_grad():
            for p in model.parameters():
                if p.dim() > 1: p.normal_(0, 0.6)
                p.copy_(p.half().float())
        if all(sure(model, tokenizer, text) for text in TEXTS if text.strip()): break
    else:
        raise SystemExit(f"{out}: no seed whose labels are all clear")
    shutil.rmtree(out, ignore_errors=True)
    pipe = t.pipeline("token-classification", model=model, tokenizer=tokenizer, device="cpu")
    result = [{"text": text} | {how: [{a: float(b) if a == "score" else int(b) if a in ("index", "start", "end") else b
                                       for a, b in e.items()}
                                      for e in pipe(text, aggregation_strategy=how, ignore_labels=[])]
                                for how in ("none", "simple", "first", "average", "max")} for text in TEXTS]
    model.half().save_pretrained(out)
    for extra in os.listdir(out):
        if extra not in ("config.json", "model.safetensors"): os.remove(os.path.join(out, extra))
    x.save(os.path.join(out, "tokenizer.json"), pretty=False)
    with open(os.path.join(out, "entities.json"), "w") as f:
        json.dump(result, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")
    print(out, "seed", seed, sum(os.path.getsize(os.path.join(out, f)) for f in os.listdir(out)), "bytes",
          sum(len(r["average"]) for r in result), "entities")


def main(out):
    names = dict(num_labels=len(LABELS), id2label=dict(enumerate(LABELS)), label2id={n: i for i, n in enumerate(LABELS)})
    small = dict(hidden_size=12, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
                 max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2) | names
    folder(os.path.join(out, "wordpiece"), wordpiece, t.BertForTokenClassification,
           lambda n: t.BertConfig(vocab_size=n, **small))
    folder(os.path.join(out, "bpe"), bpe, t.RobertaForTokenClassification,
           lambda n: t.RobertaConfig(vocab_size=n, type_vocab_size=1, **small))
    folder(os.path.join(out, "unigram"), unigram, t.XLMRobertaForTokenClassification,
           lambda n: t.XLMRobertaConfig(vocab_size=n, type_vocab_size=1, **small))


if __name__ == "__main__":
    if len(sys.argv) != 2: sys.exit(__doc__)
    torch.set_num_threads(1)
    main(sys.argv[1])
