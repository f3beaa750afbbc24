# SPDX-License-Identifier: MIT
"""decoders.py gpt2|llama [N], or decoders.py llama2c: measures whole decoders with random weights, per token and for
prompts.

gpt2: the shape of GPT-2 124M; llama: the shape of Llama 3.2 1B.  qkv runs in bf16 and int8 (8 bits at load),
transformers in bf16, llama.cpp (llama-cpp-python) with weights in bf16 and Q8_0 in GGUF files, all from one set of
weights that is made here.  N: only a prompt of N tokens.  Weights and keys read per second: the bytes of the matrices
that a token is multiplied with, in qkv's precision, with the output projection, and of the keys and values of the cache
(16 bits), divided by the time of a token; compared with a plain read of as many bytes.

llama2c: checkpoints of the shapes of stories260K and stories15M; QKV_LLAMA2C names the `run` program of llama2.c,
built as its README describes (-Ofast -march=native -fopenmp).  Both programs are whole processes that time
themselves.
"""
import ctypes as c
import os
import re
import subprocess
import sys

from common import QUICK, THREADS, WORK, memory, note, row, same, turns

PROMPT, STEPS = 512, 8
HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.path.dirname(os.environ.get("QKV_LIBRARY", ""))


# ---- one set of weights in every form ----------------------------------------------------------------
def config(which):
    from transformers import GPT2Config, LlamaConfig
    if which == "gpt2":
        return GPT2Config(n_positions=4224)
    return LlamaConfig(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
                       num_key_value_heads=8, vocab_size=128256, max_position_embeddings=8192, rope_theta=500000.0,
                       tie_word_embeddings=True, rms_norm_eps=1e-5)


def make_folder(which, folder):
    """Writes model.safetensors in bf16, as transformers saves it."""
    import torch
    from transformers import AutoModelForCausalLM
    if os.path.exists(os.path.join(folder, "model.safetensors")):
        return
    note(f"  making {which} with random weights")
    torch.manual_seed(1)
    kept = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    AutoModelForCausalLM.from_config(config(which)).save_pretrained(folder, max_shard_size="100GB")
    torch.set_default_dtype(kept)


def gguf_names(which):
    """Returns {name in transformers: (name in GGUF, transformation of the tensor)}."""
    if which == "gpt2":
        return {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "ln_1": "attn_norm",
                "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up",
                "mlp.c_proj": "ffn_down"}
    return {"embed_tokens": "token_embd", "norm": "output_norm", "input_layernorm": "attn_norm",
            "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
            "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
            "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def make_gguf(which, folder, kind):
    """Writes the same weights as GGUF; kind: BF16 or Q8_0."""
    import gguf
    import torch
    from safetensors.torch import load_file
    path = os.path.join(folder, f"{kind}.gguf")
    if os.path.exists(path):
        return path
    note(f"  making {which} as GGUF {kind}")
    f = config(which)
    gpt2 = which == "gpt2"
    w = gguf.GGUFWriter(path + ".tmp", which)
    width, heads = (f.n_embd, f.n_head) if gpt2 else (f.hidden_size, f.num_attention_heads)
    w.add_context_length(f.n_positions if gpt2 else f.max_position_embeddings)
    w.add_embedding_length(width)
    w.add_block_count(f.n_layer if gpt2 else f.num_hidden_layers)
    w.add_feed_forward_length(4 * width if gpt2 else f.intermediate_size)
    w.add_head_count(heads)
    w.add_vocab_size(f.vocab_size)
    w.add_tokenizer_model("no_vocab")
    if gpt2:
        w.add_layer_norm_eps(f.layer_norm_epsilon)
    else:
        w.add_head_count_kv(f.num_key_value_heads)
        w.add_layer_norm_rms_eps(f.rms_norm_eps)
        w.add_rope_dimension_count(width // heads)
        w.add_rope_freq_base(500000.0)
    type_of = gguf.GGMLQuantizationType
    names = gguf_names(which)
    for name, x in load_file(os.path.join(folder, "model.safetensors")).items():
        if name.startswith("lm_head"):
            continue
        plain = re.sub(r"^(model|transformer)\.", "", name)
        layer = re.match(r"(?:layers|h)\.(\d+)\.(.*)\.(weight|bias)$", plain)
        stem, end = (layer[2], layer[3]) if layer else plain.rsplit(".", 1)
        if stem not in names:
            continue
        x = x.float()
        if gpt2 and end == "weight" and re.search(r"c_(attn|proj|fc)$", stem):
            x = x.t()
        if stem in ("self_attn.q_proj", "self_attn.k_proj"):  # llama.cpp rotates neighbouring elements of a head
            n = heads if stem.endswith("q_proj") else f.num_key_value_heads
            x = x.reshape(n, 2, -1, width).transpose(1, 2).reshape(-1, width)
        to = f"{'blk.%s.' % layer[1] if layer else ''}{names[stem]}.{end}"
        if x.dim() == 1 or names[stem] == "position_embd":
            w.add_tensor(to, x.contiguous().numpy())
        else:
            t = type_of.BF16 if kind == "BF16" else type_of.Q8_0
            w.add_tensor(to, gguf.quants.quantize(x.contiguous().numpy(), t), raw_dtype=t)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    os.rename(path + ".tmp", path)
    return path


# ---- who takes part ------------------------------------------------------------------------------------
class Qkv:
    def __init__(self, folder, precision, capacity):
        """The KV cache has 16 bits, as llama.cpp's, in an int8 model too."""
        import numpy as np
        import qkv_ctypes as q
        self.q, self.np, self.error = q, np, q.Error()
        lib = q.lib
        self.model, self.decoder = c.c_void_p(), c.c_void_p()
        for name in ("qkv_decoder_cut", "qkv_decoder_feed", "qkv_decoder_free", "qkv_model_close"):
            getattr(lib, name).argtypes = None
        how = q.ModelOptions(precision=q.PRECISIONS.index(precision))
        self.error.check(lib.qkv_model_open(c.byref(self.model), folder.encode(), c.byref(how), c.byref(self.error)))
        o = q.DecoderOptions(items=1, capacity=capacity, cache=q.PRECISIONS.index("bf16"))
        self.error.check(lib.qkv_decoder_new(c.byref(self.decoder), self.model, c.byref(o), c.byref(self.error)))

    def room(self, vocab):
        self.logits = self.np.zeros(vocab, self.np.float32)

    def feed(self, ids):
        ids = self.np.asarray(ids, self.np.int32)
        at = self.np.array([0, len(ids)], self.np.int64)
        t = self.q.DecoderTokens(n=1, offsets=at.ctypes.data, ids=ids.ctypes.data)
        self.error.check(self.q.lib.qkv_decoder_feed(self.decoder, c.c_void_p(self.logits.ctypes.data), c.byref(t),
                                                     c.byref(self.error)))
        return self.logits

    def cut(self, n):
        self.q.lib.qkv_decoder_cut(self.decoder, c.c_int64(0), c.c_int64(n))


class Torch:
    def __init__(self, folder):
        import torch
        from transformers import AutoModelForCausalLM
        torch.set_num_threads(THREADS)
        torch.set_grad_enabled(False)
        self.torch = torch
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
        self.kept, self.tokens = None, 0

    def feed(self, ids):
        out = self.model(self.torch.tensor(ids)[None], past_key_values=self.kept, use_cache=True, logits_to_keep=1)
        self.kept = out.past_key_values
        self.tokens += len(ids)
        return out.logits[0, -1].float().numpy()

    def cut(self, n):
        if n == 0:
            self.kept = None
        elif n < self.tokens:
            self.kept.crop(n - self.tokens)  # below 0: fewer by that number
        self.tokens = n


class LlamaCpp:
    def __init__(self, path, capacity):
        import llama_cpp as l
        import numpy as np
        self.l, self.np = l, np
        self.quiet = l.llama_log_callback(lambda level, text, user: None)
        l.llama_log_set(self.quiet, None)
        m = l.llama_model_default_params()
        m.n_gpu_layers = 0
        self.model = l.llama_model_load_from_file(path.encode(), m)
        if not self.model:
            raise RuntimeError(f"llama.cpp does not open {path}")
        x = l.llama_context_default_params()
        x.n_ctx, x.n_batch, x.n_ubatch = capacity, PROMPT, PROMPT
        x.n_threads = x.n_threads_batch = THREADS
        x.no_perf = True
        self.context = l.llama_init_from_model(self.model, x)
        self.vocab = l.llama_vocab_n_tokens(l.llama_model_get_vocab(self.model))

    def feed(self, ids):
        for at in range(0, len(ids), PROMPT):
            part = ids[at:at + PROMPT]
            tokens = (self.l.llama_token * len(part))(*part)
            if self.l.llama_decode(self.context, self.l.llama_batch_get_one(tokens, len(part))):
                raise RuntimeError("llama.cpp: llama_decode failed")
        return self.np.ctypeslib.as_array(self.l.llama_get_logits_ith(self.context, -1), (self.vocab,))

    def cut(self, n):
        self.l.llama_memory_seq_rm(self.l.llama_get_memory(self.context), 0, n, -1)


# ---- figures -------------------------------------------------------------------------------------------
def weights_met(folder):
    """Returns (elements, rows with a scale) of the matrices that a token is multiplied with; a tied table counts
    once, as the output projection."""
    from safetensors import safe_open
    numbers = rows = 0
    with safe_open(os.path.join(folder, "model.safetensors"), "pt") as f:
        for name in f.keys():
            shape = f.get_slice(name).get_shape()
            if len(shape) == 2 and not name.endswith("wpe.weight"):
                numbers += shape[0] * shape[1]
                rows += max(shape)
    return numbers, rows


def cache_met(c):
    """Returns the bytes of keys and values, of 16 bits, that a token after PROMPT tokens attends to, on average."""
    kept = getattr(c, "num_key_value_heads", c.num_attention_heads) * c.hidden_size // c.num_attention_heads
    return 2 * 2 * c.num_hidden_layers * kept * (PROMPT + (STEPS + 1) // 2)


def whole(which, lengths):
    import numpy as np
    import torch
    import qkv_ctypes as qkv
    from transformers import AutoModelForCausalLM
    qkv.threads(THREADS)
    folder = os.path.join(WORK, "decoders", which)
    make_folder(which, folder)
    vocab = config(which).vocab_size
    r = np.random.default_rng(3)
    ids = r.integers(0, vocab, max(lengths) + STEPS + 1).tolist()
    capacity = max(lengths) + 64
    exact = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)(
        torch.tensor(ids[:32])[None]).logits[0, -1].detach().numpy()
    who = {"qkv": Qkv(folder, "bf16", capacity), "qkv int8": Qkv(folder, "int8", capacity)}
    for x in who.values():
        x.room(vocab)
    who["PyTorch bf16"] = Torch(folder)
    for kind in ("BF16", "Q8_0"):
        try:
            who[f"llama.cpp {kind}"] = LlamaCpp(make_gguf(which, folder, kind), capacity)
        except (ImportError, RuntimeError, OSError) as e:
            note(f"  llama.cpp is not measured: {e}")
    errors = {}
    for name, x in who.items():
        x.feed(ids[:31])
        errors[name] = float(np.abs(x.feed(ids[31:32]) - exact).max() / np.abs(exact).max())
        x.cut(0)
    kept = same(which, dict(who), errors, 0.2)
    for name in list(who):
        if name not in kept:
            del who[name]
    title = {"gpt2": "GPT-2 124M", "llama": "Llama 1B"}[which]
    if lengths == [PROMPT]:
        decode(title, which, folder, who, ids, kept, qkv)
    for n in lengths:
        prefill(title, who, ids[:n], kept, 1 if n > PROMPT else 2 if QUICK else 5, prompt_flops(folder, config(which), n), qkv)


def pick(seconds, errors, bits):
    """Returns (seconds, errors) of one precision of qkv and of the other programs."""
    ours = {"bf16": "qkv", "int8": "qkv int8"}[bits]
    theirs = {"bf16": "llama.cpp BF16", "int8": "llama.cpp Q8_0"}[bits]
    names = {ours: "qkv", "PyTorch bf16": "PyTorch bf16", theirs: theirs}
    find = lambda kept: {new: kept[old] for old, new in names.items() if old in kept}
    return find(seconds), find(errors)


def decode(title, which, folder, who, ids, errors, qkv):
    (numbers, rows), cache = weights_met(folder), cache_met(config(which))
    size = {"bf16": 2 * numbers + cache, "int8": numbers + 4 * rows + cache}
    buffers = {bits: memory(n) for bits, n in size.items()}
    prompt, more = ids[:PROMPT], ids[PROMPT:PROMPT + STEPS]

    def steps(x):
        x.cut(PROMPT)
        for i in more:
            x.feed([i])
    for x in who.values():
        x.feed(prompt)
    calls = {name: lambda x=x: steps(x) for name, x in who.items()}
    calls |= {f"read {bits}": lambda bits=bits: qkv.read(buffers[bits], size[bits]) for bits in size}
    seconds = turns(calls, 3 if QUICK else 9)
    for bits in ("bf16", "int8"):
        mine, error = pick(seconds, errors, bits)
        row(f"decoding, {title}, {bits}", f"a token after {PROMPT}", "tokens/s", STEPS, mine, error=error, core=seconds.core)
        row(f"decoding, {title}, {bits}", f"weights and keys read, {size[bits] / 1e9:.2f} GB a token", "GB/s", STEPS * size[bits] / 1e9,
            {"qkv": mine["qkv"], "plain read": [STEPS * s for s in seconds[f"read {bits}"]]},
            limit="plain read", core=seconds.core)
    for x in who.values():
        x.cut(0)


def prompt_flops(folder, c, n):
    """Returns the operations of a prompt: the products of n tokens, causal attention, the last token's logits."""
    last = c.vocab_size * c.hidden_size
    return 2 * (weights_met(folder)[0] - last) * n + 2 * c.num_hidden_layers * c.hidden_size * n * n + 2 * last


def prefill(title, who, ids, errors, rounds, flops, qkv):
    def run(x):
        x.cut(0)
        x.feed(ids)
    kernels = {bits: qkv.Linear(1, 384, 384, bits) for bits in ("bf16", "int8")}
    seconds = turns({name: lambda x=x: run(x) for name, x in who.items()}, rounds, warm=False,
                    probe=lambda: {bits: qkv.peak(k.arithmetic) * len(ids) / flops for bits, k in kernels.items()})
    for bits, kernel in kernels.items():
        mine, error = pick(seconds, errors, bits)
        mine[""] = [rates[bits] for rates in seconds[""]]
        row(f"prompts, {title}, {bits}", f"{len(ids)} tokens", "tokens/s", len(ids), mine, error=error,
            peak=kernel.arithmetic, isa=kernel.isa, core=seconds.core)


# ---- llama2.c ------------------------------------------------------------------------------------------
def llama2c():
    peer = os.environ.get("QKV_LLAMA2C")
    if not peer:
        note("  llama2.c is not measured (QKV_LLAMA2C names no program)")
    folder = os.path.join(WORK, "decoders")
    os.makedirs(folder, exist_ok=True)
    tool = os.path.join(HERE, "../../tools/llama2c.py")
    for shape, vocab, steps in (("stories260K", 512, 512), ("stories15M", 32000, 256)):
        path, words = os.path.join(folder, f"{shape}.bin"), os.path.join(folder, f"{shape}-tokenizer.bin")
        subprocess.run([sys.executable, tool, "make", path, shape], check=True)
        subprocess.run([sys.executable, tool, "tokenizer", words, str(vocab)], check=True)
        who = {"qkv": [os.path.join(BIN, "bench", "bench_generate"), path, "f32", str(steps), str(THREADS)]}
        if peer:
            who["llama2.c"] = [peer, path, "-z", words, "-t", "0", "-n", str(steps)]
        rates = {name: [] for name in who}
        for _ in range(5 if QUICK else 15):
            for name, command in who.items():
                done = subprocess.run(command, check=True, capture_output=True)
                said = done.stdout.decode() if name == "qkv" else done.stderr.decode().rsplit("tok/s:", 1)[1]
                rates[name].append(float(said.split()[0]))
        row("llama2.c's checkpoints, f32", f"{shape}, {steps} tokens from the first", "tokens/s", 1,
            {name: [1 / x for x in r] for name, r in rates.items()})


if __name__ == "__main__":
    if sys.argv[1] == "llama2c":
        llama2c()
    else:
        whole(sys.argv[1], [int(sys.argv[2]) if len(sys.argv) > 2 else PROMPT])
