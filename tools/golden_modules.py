# SPDX-License-Identifier: MIT
"""golden_modules.py: writes the names that transformers has for q, k and v of small models, and their values.

    golden_modules.py GOLDEN OUT.safetensors    GOLDEN: the folders that golden_families.py wrote

One folder per model_type is read by AutoModel and run on the first text of its golden.safetensors; an encoder-decoder
also reads the first source.  The file has one tensor per array, FOLDER:NAME, with its first three rows in f32.  NAME
is the name of the module whose output is the array, to 1e-12, in every layer of the stack.  (If the reference scales
queries after the module, as OPT does, the array is not scaled.)  If no module has this output, because one matrix
computes q, k and v, or because a norm or a rotation follows, NAME is the name of the module that computes the
attention, followed by .query_states, .key_states or .value_states, which are transformers' names of the variables.
If several layers call one module, since they share weights (ALBERT), .call.N follows, N = 0, 1, ...
Nothing here is a table of names: they are found by comparing the factors of the two products of each attention with
the outputs of all modules.
"""
import json
import os
import re
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from golden_families import doubles
from safetensors.numpy import load_file
from safetensors.torch import save_file
from torch.overrides import TorchFunctionMode
from transformers import AutoConfig, AutoModel
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()
ROWS = 3


class Products(TorchFunctionMode):
    """Collects the factors of every product of heads, with the module that computes it."""

    def __init__(self, model):
        super().__init__()
        self.running, self.outputs, self.factors = [], {}, {}
        for name, module in model.named_modules():
            module.register_forward_pre_hook(lambda _, __, name=name: self.running.append(name))
            module.register_forward_hook(lambda _, __, out, name=name: self.done(name, out))

    def done(self, name, out):
        self.running.pop()
        if torch.is_tensor(out): self.outputs.setdefault(name, []).append(out)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in (torch.matmul, torch.Tensor.matmul) and args[0].dim() == args[1].dim() == 4:
            self.factors.setdefault(self.running[-1], []).append(args[:2])
        return func(*args, **(kwargs or {}))


def flat(x):
    """Returns [B][H][T][E] as [B][T][H E]."""
    return x.transpose(1, 2).flatten(2)


def arrays(products, groups):
    """Yields (attention module, number of the call, 0 1 2 of q k v, array); the products repeat keys and values for each
    query head."""
    for where, pairs in products.factors.items():
        for call in range(len(pairs) // 2):
            (q, k), (_, v) = pairs[2 * call:2 * call + 2]
            for which, x in enumerate((q, k.transpose(2, 3)[:, ::groups], v[:, ::groups])):
                yield where, call, which, flat(x)


def model_of(folder):
    """Returns the model of a folder in f64, with tables that its constructor computes in f64."""
    stored = AutoModel.from_pretrained(folder)
    with doubles():
        model = AutoModel.from_config(stored.config, attn_implementation="eager", dtype=torch.float64).double().eval()
    fixed = {name for name, p in model.named_parameters() if not p.requires_grad}  # sinusoids
    with torch.no_grad():
        for name, x in stored.state_dict().items():
            if name not in fixed: model.state_dict()[name].copy_(x)
    return model


def pattern(name):
    """Returns the name of a module with # for each number of its layer."""
    return re.sub(r"\d+", "#", name)


def numbered(name, like):
    for number in re.findall(r"\d+", like): name = name.replace("#", number, 1)
    return name


def computed(products, where, call, x, config):
    """Yields the modules of the attention `where` whose output is x, or x before queries are scaled."""
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    for name, outputs in products.outputs.items():
        if name.startswith(where + ".") and len(outputs) > call and outputs[call].shape == x.shape and \
                any(torch.allclose(x, outputs[call] * c, 0, 1e-12) for c in (1, width**-0.5)): yield pattern(name)


def stored(folder):
    model = model_of(folder)
    config = model.config
    golden = load_file(folder / "golden.safetensors")

    def first(prefix):
        return torch.tensor(golden[prefix + "ids"][:golden[prefix + "offsets"][1]], dtype=torch.long)[None]
    inputs = {"input_ids": first("")}
    if config.is_encoder_decoder: inputs = {"input_ids": first("source."), "decoder_input_ids": first("")}
    elif "types" in golden and getattr(config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = torch.tensor(golden["types"][:inputs["input_ids"].shape[1]], dtype=torch.long)[None]
    products = Products(model)
    with torch.no_grad(), doubles(), products: model(**inputs)
    groups = config.num_attention_heads // (getattr(config, "num_key_value_heads", None) or config.num_attention_heads)
    each, whole = list(arrays(products, groups)), {}
    for where, call, which, x in each:
        key = pattern(where), which
        found = set(computed(products, where, call, x, config))
        whole[key] = whole.get(key, found) & found
    for where, call, which, x in each:
        found = sorted(whole[pattern(where), which])
        assert len(found) < 2, found
        if found: x = products.outputs[numbered(found[0], where)][call]
        name = found[0] if found else pattern(where) + (".query_states", ".key_states", ".value_states")[which]
        shared = f".call.{call}" if len(products.factors[where]) > 2 else ""
        yield numbered(name, where) + shared, x[0, :ROWS].float().contiguous()


def main(golden, out):
    tensors, seen = {}, set()
    for folder in sorted(Path(golden).iterdir()):
        path = folder / "config.json"
        kind = path.is_file() and (folder / "golden.safetensors").is_file() and \
            json.loads(path.read_text()).get("model_type", "qkv-")
        if not kind or kind.startswith("qkv-") or kind in seen: continue
        seen.add(kind)
        for name, x in stored(folder): tensors[f"{folder.name}:{name}"] = x
    save_file(tensors, out)
    print(len(seen), "model types,", len(tensors), "arrays")


if __name__ == "__main__":
    if len(sys.argv) != 3: sys.exit(__doc__)
    torch.set_num_threads(1)
    main(*sys.argv[1:])
