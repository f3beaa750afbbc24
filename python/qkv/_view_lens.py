# SPDX-License-Identifier: MIT
"""The output of a model of transformers after each layer (logit lens): its own norm and output head on the rows of every layer."""
import torch
from transformers.modeling_outputs import BaseModelOutput

from . import _layout as c
from ._errors import UnsupportedError
from ._tokenizer import Tokenizer
from ._view_output import TOP, add_labels, add_tokens, choose, name_of, positions_most, token_name
from ._view_streams import layer_name

LOGITS_MOST = 2**24  # logits that are in memory at the same time


class Replaced:
    """Replaces, inside `with`, the rows that the last of a stack of layers returns."""

    def __init__(self, model, names, rows):
        self._names, self._rows, self._calls = names, rows, 0
        modules = dict(model.named_modules())
        self._hooks = [modules[name].register_forward_hook(self._end) for name in dict.fromkeys(names)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for hook in self._hooks:
            hook.remove()

    def _end(self, _module, _args, out):
        self._calls += 1
        if self._calls != len(self._names):
            return None
        return self._rows if isinstance(out, torch.Tensor) else type(out)((self._rows, *out[1:]))


def short_of(inputs, ran):
    """Returns inputs of one token, and of an encoder-decoder the output of its encoder."""
    if "decoder_input_ids" not in inputs:
        return {name: x[:, :1] for name, x in inputs.items()}
    states = getattr(ran, "encoder_last_hidden_state", None)
    if states is None:
        raise UnsupportedError("the model does not return the output of its encoder")
    return {"decoder_input_ids": inputs["decoder_input_ids"][:, :1], "encoder_outputs": BaseModelOutput(last_hidden_state=states),
            **{name: x for name, x in inputs.items() if name == "attention_mask"}}


def run_end(model, names, short, rows):
    """Returns the logits [n][vocab] of rows [n][width] as if the last layer had returned them: what follows runs once per row."""
    with Replaced(model, names, rows[:, None]):  # the layers run on one token, since their result is replaced
        return model(**short).logits.reshape(len(rows), -1).float()


def add_output(made, model, tokenizer, inputs, ran, streams, attentions, ids, causal, token):
    """Adds the output of a model that ran on inputs inside Streams and returned `ran`.

    attentions   names of the self-attention of each layer;  ids: as lens.h has targets
    """
    two, kind = "decoder_input_ids" in inputs, type(model).__name__
    names = [layer_name(name) for name in attentions]
    if any(name is None for name in names):
        raise UnsupportedError(f"the layers of {kind} are not found")
    logits = getattr(ran, "logits", None)
    if not isinstance(logits, torch.Tensor):
        raise UnsupportedError(f"{kind} returns no logits; expected a model with an output head for tokens or labels")
    if model.get_output_embeddings() is None:
        return labels_of(made, model, logits)
    stack, rows, T, seen = len(made.stacks) - 1, len(names) + 1, logits.shape[1], streams.rows(names)
    if not seen or any(x is None or x.shape != seen[0].shape or x.shape[1] != T for x in seen):
        raise UnsupportedError(f"the layers of {kind} have no rows of one shape")
    mask = mask_of(tokenizer) if not causal and not two else -1
    masks = [at for at, i in enumerate(ids) if i == mask]
    vocab = logits.shape[2]
    top = min(TOP, vocab)
    at, n = choose(masks, T, causal and not two, positions_most(rows, top, seen[0].shape[2], vocab), token)
    target = [ids[p + (causal or two)] if p + (causal or two) < len(ids) else -1 for p in at]
    target = [-1 if i == mask else i for i in target]
    entries, values, probability, rank = [], [], [], []
    short, each = short_of(inputs, ran), max(1, LOGITS_MOST // (rows * vocab))
    for begin in range(0, len(at), each):
        part = at[begin:begin + each]
        # [positions of the part][rows]
        x = run_end(model, names, short, torch.stack([layer[0, part] for layer in seen], 1).flatten(0, 1))
        own = logits[0, part].float()
        if x.shape[1] != vocab or not torch.allclose(x[rows - 1::rows], own, rtol=0, atol=.02 * own.abs().max().item()):
            raise UnsupportedError(f"the output of {kind} is not computed from the rows of its last layer alone")
        p, best = x.softmax(1).topk(top)
        goal = torch.tensor(target[begin:begin + each]).repeat_interleave(rows)
        own = x.gather(1, goal.clamp(min=0)[:, None])
        known = goal >= 0
        entries += best.flatten().tolist()
        values += p.flatten().tolist()
        probability += torch.where(known, (own[:, 0] - x.logsumexp(1)).exp(), 0).tolist()
        rank += torch.where(known, (x > own).sum(1), 0).tolist()
    add_tokens(made, stack, c.VIEW_OUTPUT_WRITTEN if two else c.VIEW_OUTPUT_NEXT if causal else c.VIEW_OUTPUT_MASKED, at, n, rows, entries,
               values, (target, probability, rank), lambda i: named(tokenizer, i))


def labels_of(made, model, logits):
    """Adds the probabilities of the labels of a text or of its tokens, with the same functions as lens.h."""
    config, each = model.config, logits.dim() == 3
    if config.num_labels != logits.shape[-1] or each and logits.shape[1] != made.stacks[0][1]:
        raise UnsupportedError(f"{type(model).__name__} has no output head for tokens or labels")
    single = not each and (config.num_labels == 1 or config.problem_type == "multi_label_classification")
    x = logits.float().reshape(-1, logits.shape[-1])
    add_labels(made, (x.sigmoid() if single else x.softmax(1)).tolist(), [str(config.id2label[i]) for i in range(config.num_labels)], each)


def mask_of(tokenizer):
    """Returns the id of the mask token; -1: there is none."""
    if isinstance(tokenizer, Tokenizer):
        found = [tokenizer.token_to_id(name) for name in ("[MASK]", "<mask>")]
        return next((i for i in found if i is not None), -1)
    own = getattr(tokenizer, "mask_token_id", None)
    return -1 if own is None else own


def named(tokenizer, i):
    """Returns the name of a token."""
    if isinstance(tokenizer, Tokenizer):
        return name_of(tokenizer, i)
    raw = tokenizer.convert_ids_to_tokens([i])[0]
    return token_name(raw, i in tokenizer.all_special_ids, lambda: tokenizer.decode([i], clean_up_tokenization_spaces=False),
                      lambda: raw.startswith(("\u0120", "\u2581"))) or f"#{i}"
