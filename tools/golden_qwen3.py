# SPDX-License-Identifier: MIT
"""golden_qwen3.py: writes the forms in which Qwen3 embeds and ranks texts, as small random models with reference values.

    golden_qwen3.py OUT

OUT/embedding is Qwen3-Embedding: the last token, which the tokenizer appends, of a causal model; prompts by name.
OUT/reranker is Qwen3-Reranker: a decoder whose next token is "yes" or "no".  OUT/labels is the same model as
Qwen3ForSequenceClassification, with one label.  values.json has texts with their vectors, or prompts with the probability of
"yes", computed in double by sentence-transformers and transformers, in batches with padding on the left.
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
from sentence_transformers import SentenceTransformer
from tokenizers import decoders, models, pre_tokenizers, processors, trainers
from transformers.utils import logging

logging.set_verbosity_error()
END = "<|endoftext|>"
SPECIAL = [END, "<|im_start|>", "<|im_end|>"]
TASK = "Given a web search query, retrieve relevant passages that answer the query"
PROMPTS = {"query": f"Instruct: {TASK}\nQuery:", "document": ""}
QUERIES = ["What is the capital of China?", "Explain gravity", ""]
DOCUMENTS = ["The capital of China is Beijing.", "Gravity is a force that attracts two bodies towards each other."]
PREFIX = ("<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. "
          "Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n")
SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


def tokenizer(appends):
    x = k.Tokenizer(models.BPE())
    x.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    x.decoder = decoders.ByteLevel()
    x.train_from_iterator([PREFIX, SUFFIX, "yes", "no"] * 3 + QUERIES + DOCUMENTS + list(PROMPTS.values()),
                          trainers.BpeTrainer(vocab_size=420, special_tokens=SPECIAL, show_progress=False,
                                              initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    if appends:
        x.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
            single=f"$A {END}", pair=f"$A $B:1 {END}:1", special_tokens=[(END, 0)])])
    return t.PreTrainedTokenizerFast(tokenizer_object=x, pad_token=END, eos_token=END, padding_side="left",
                                     model_max_length=200)


def config(vocab):
    return t.Qwen3Config(vocab_size=vocab, hidden_size=16, num_attention_heads=2, num_key_value_heads=1, head_dim=8,
                         num_hidden_layers=2, intermediate_size=24, max_position_embeddings=256, initializer_range=.3,
                         pad_token_id=0, eos_token_id=0, bos_token_id=None, tie_word_embeddings=True)


def write(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f: json.dump(value, f, ensure_ascii=False, indent=1)


def embedding(out):
    own = tokenizer(True)
    t.Qwen3Model(config(len(own))).bfloat16().save_pretrained(out)
    own.save_pretrained(out)
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    write(f"{out}/modules.json", [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
                                  for i, (path, kind) in enumerate(kinds)])
    write(f"{out}/1_Pooling/config.json", {"word_embedding_dimension": 16, "pooling_mode_cls_token": False,
                                           "pooling_mode_mean_tokens": False, "pooling_mode_lasttoken": True,
                                           "include_prompt": True})
    write(f"{out}/config_sentence_transformers.json", {"prompts": PROMPTS, "default_prompt_name": None,
                                                       "similarity_fn_name": "cosine"})
    x = SentenceTransformer(out, device="cpu").double().eval()
    write(f"{out}/values.json", {"texts": QUERIES + DOCUMENTS, **{
        name: x.encode(QUERIES + DOCUMENTS, prompt_name=name).astype(np.float64).tolist() for name in PROMPTS}})


def rerankers(out, labels):
    own = tokenizer(False)
    t.Qwen3ForCausalLM(config(len(own))).bfloat16().save_pretrained(out)
    model = t.Qwen3ForCausalLM.from_pretrained(out, dtype=torch.float64).eval()
    own.save_pretrained(out)
    prompts = [f"{PREFIX}<Instruct>: {TASK}\n<Query>: {q}\n<Document>: {d}{SUFFIX}" for q in QUERIES for d in DOCUMENTS]
    yes, no = own.convert_tokens_to_ids("yes"), own.convert_tokens_to_ids("no")
    assert own.encode("yes") == [yes] and own.encode("no") == [no]
    with torch.no_grad():
        logits = model(**own(prompts, padding=True, return_tensors="pt")).logits[:, -1]
        values = {"prompts": prompts, "yes": logits[:, [no, yes]].softmax(-1)[:, 1].tolist()}
        write(f"{out}/values.json", values)
        with_label = t.Qwen3ForSequenceClassification(t.Qwen3Config(**{**model.config.to_dict(), "num_labels": 1})).double()
        with_label.model.load_state_dict(model.model.state_dict())
        with_label.score.weight.data = (model.lm_head.weight[yes] - model.lm_head.weight[no])[None]
        score = with_label.eval()(**own(prompts, padding=True, return_tensors="pt")).logits[:, 0]
    assert np.abs(score.sigmoid().numpy() - values["yes"]).max() < 1e-12
    with_label.float().save_pretrained(labels)
    own.save_pretrained(labels)


def main(out):
    torch.manual_seed(11)
    shutil.rmtree(out, ignore_errors=True)
    embedding(f"{out}/embedding")
    rerankers(f"{out}/reranker", f"{out}/labels")


if __name__ == "__main__":
    main(sys.argv[1])
