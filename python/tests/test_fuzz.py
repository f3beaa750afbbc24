# SPDX-License-Identifier: MIT
"""Random wrong calls of the public functions: each returns or raises, and none ends the process.

test_fuzz.py [CALLS [SEED]].  A call may raise an error of qkv; any other exception is a fault, and so is a crash, of which
faulthandler prints the place and this program the seed of the call.  From 5,000 calls on, calls of torch and transformers are
among them.  In a build with AddressSanitizer the library runs in Python with libasan preloaded (python/CMakeLists.txt).
"""
import array
import contextlib
import faulthandler
import os
import random
import shutil
import sys
import tempfile
import unittest

import reference as ref

import qkv

os.environ["HF_HUB_OFFLINE"] = "1"  # a name that is missing is not looked for in the network
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VERSE, DATES = (os.path.join(TOP, "models", name) for name in ("verse", "dates"))
GOLDEN = os.path.join(TOP, "tests", "golden")
CALLS, SEED = int(os.environ.get("QKV_FUZZ_CALLS", 500)), 1
try:
    import numpy as np
except ImportError:
    np = None

ODD = [None, True, False, 0, 1, -1, 2**31, 2**63, -2**63, 2**70, .5, -0.0, float("nan"), float("inf"), 1e300, "", "a", "\0", "\ud800",
       "é" * 50, b"x", b"\0", [], [1], [-1], [[]], [None], (1, 2), (1, 2, 3), {}, {"top_k": 2}, set(), object(), print, int, range(3), 1j,
       iter([1]), memoryview(b"abc"), bytearray(b"abcd"), array.array("d", [1]), array.array("f", []), array.array("i", [1, 2])]


class Odd:
    """An object whose methods raise or lie."""

    def __init__(self, draw):
        self.draw = draw

    def __repr__(self):
        raise RuntimeError("no repr")

    def __dlpack_device__(self):
        return self.draw.choice([(1, 0), (2, 0), None, ("a",)])

    def __dlpack__(self, **_):
        return self.draw.choice([None, 3, "dltensor"])


def floats(draw, *shape):
    return ref.uniform(draw.randrange(1000), *shape)


def some_array(draw, shape, kind="f4"):
    """Returns an array that mostly fits, of several libraries and types."""
    shape = [draw.randrange(1, 5) if draw.random() < .01 else n for n in shape]
    shape = shape[draw.choice([0] * 60 + [1, 2]):] or [1]
    if np is not None and draw.random() < .7:
        x = np.asarray(floats(draw, *shape)).astype(kind if draw.random() < .98 else draw.choice(["f2", "f8", "i4", ">f4", "?"]))
        change = draw.randrange(100)
        x = x[..., ::-1] if change == 0 else x[::-1] if change == 1 else np.broadcast_to(x, (2, *x.shape)) if change == 2 else \
            x[:0] if change == 3 else x.swapaxes(0, -1) if change == 4 else np.asfortranarray(x) if change == 5 else x
        if change == 6 and x.dtype == np.float32:
            x = np.frombuffer(b"\1" + x.tobytes(), "u1")[1:].view("f4").reshape(x.shape)  # not aligned, read-only
        if change == 7:
            x = np.where(x > .5, np.nan, x).astype(x.dtype)
        return x
    return floats(draw, *shape)  # a memoryview


def random_attention(draw, odd):
    T, S, H, E = draw.randrange(1, 7), draw.randrange(1, 7), draw.choice([1, 2, 4]), draw.choice([1, 4, 8])
    G = draw.choice([H, 1])
    kind, batch, rank = draw.choice(["f4"] * 8 + ["f2"]), draw.choice([1, 1, 2]), draw.choice([4] * 4 + [3, 2])
    arrays = [some_array(draw, (n, E) if rank == 2 else (batch, n, h, E)[4 - rank:], kind)
              for n, h in ((T, H), (S, G), (S, G))]
    if draw.random() < .05:
        arrays[draw.randrange(3)] = odd()
    fitting = dict(layout=["BTHE", "BHTE"], causal=[True], diagonal=["bottom-right"], window=[(1, 2), 3, (0, None)],
                   lengths=[[S], [S, 1], [0], [S + 1]], q_offsets=[[0, T], [0, 1, T], [T, 0], [0]], k_offsets=[[0, S]],
                   bias=[floats(draw, S), floats(draw, T, S), floats(draw, H, T, S)], mask=[memoryview(bytes(S))],
                   relative=[floats(draw, H, 3), floats(draw, H, 4)], alibi=[floats(draw, H)], sinks=[floats(draw, H)],
                   dropout=[.5], seed=[2**64 - 1], scale=[2.0], softcap=[1.0, -1.0], softmax=[False],
                   precision=["bf16", "int8", "f16", "f32-strict"], native=[True], lse=[True], weights=[True], plan=[True],
                   probe=[1, qkv.Probe(entropy=True, received=True), dict(top_k=1), dict(rows=[0, T - 1], side=2, reach=3), dict(rows=[T]),
                          dict(reach=2**40)],
                   out=[floats(draw, 1, T, H, E), arrays[0], bytes(4)])
    options = {}
    for name in draw.sample(sorted(fitting), draw.randrange(5)):
        options[name] = odd() if draw.random() < .12 else draw.choice(fitting[name])
    result = qkv.attention(*arrays, **options)
    if isinstance(result, qkv.AttentionResult) and draw.random() < .7:
        dout = odd() if draw.random() < .2 else draw.choice([result.out, arrays[0], floats(draw, T, E)])
        result.backward(dout, draw.choice([(), ["bias"], ["sinks", "alibi", "relative"], odd()]))
    if draw.random() < .1:
        made = [result.out, result.lse] if isinstance(result, qkv.AttentionResult) else [result, odd()]
        qkv.attention_backward(arrays[0], *arrays, *made, **({"x": 1} if draw.random() < .1 else {}))


def kept(cache={}):
    if not cache:
        cache.update(tokenizer=qkv.Tokenizer(VERSE), generator=qkv.Generator(VERSE), translator=qkv.Translator(DATES))
        cache.update(folder=tempfile.TemporaryDirectory(), embedder=qkv.SentenceTransformer(os.path.join(GOLDEN, "sentences", "model")))
        scorer = os.path.join(cache["folder"].name, "scorer")
        shutil.copytree(os.path.join(GOLDEN, "sentences", "model"), scorer)
        for name in ("config.json", "model.safetensors"):
            shutil.copyfile(os.path.join(GOLDEN, "bert-labels", name), os.path.join(scorer, name))
        cache["scorer"] = qkv.CrossEncoder(scorer)
    return cache


def random_tokens(draw, odd):
    t = kept()["tokenizer"]
    text = "".join(draw.choice(["a", " ", "é", "\0", "你", "\ud800", "the "]) for _ in range(draw.randrange(12)))
    pick = lambda *fit: odd() if draw.random() < .12 else draw.choice(fit)
    draw.choice([
        lambda: t.encode(pick(text), pick(None, text), max_length=pick(None, 3, 1), truncation=pick(False, True, "only_first"),
                         padding=pick(False, True), strict=pick(False, True)),
        lambda: t.decode(pick([1, 2, 3], [2**31 - 1, -1])), lambda: list(t.decode_stream(pick([1, 2], [300]))),
        lambda: t.id_to_token(pick(1, -1)), lambda: t.token_bytes(pick(1, -1, 10**9)),
        lambda: t.token_to_id(pick(text)), lambda: t.is_special(pick(0, 10**9)),
        lambda: qkv.Tokenizer(odd())])()


CONSTRUCTOR = ["device", "prompts", "default_prompt_name", "cache_folder", "revision", "local_files_only", "token", "model_kwargs",
               "processor_kwargs", "config_kwargs", "backend", "precision"]


def random_texts(draw, odd):
    """Vectors and scores, of a small model whose tokenizer may have more tokens than the model."""
    if np is None:
        return
    m, scorer = kept()["embedder"], kept()["scorer"]
    pick = lambda *fit: odd() if draw.random() < .08 else draw.choice(fit)
    text = "".join(draw.choice(["a", " ", "é", "\0", "你", "the "]) for _ in range(draw.randrange(40)))
    texts = pick(text, [text], [text, "a", ""], [], [text] * 40)
    options = {name: odd() for name in draw.sample(["prompt_name", "prompt", "batch_size", "output_value", "device", "convert_to_tensor",
               "convert_to_numpy", "x"], draw.randrange(3))}
    x = np.asarray(floats(draw, 3, 4))
    if "x" in options:  # an unknown argument is Python's own TypeError
        options.clear()
    draw.choice([
        lambda: m.encode(texts, truncate_dim=pick(None, 3, 99), normalize_embeddings=pick(True, False), show_progress_bar=False,
                         precision=pick("float32", "int8", "ubinary"), **options),
        lambda: m.encode_query(texts, show_progress_bar=False, **options), lambda: m.encode_document(texts, show_progress_bar=False),
        lambda: (m.get_embedding_dimension(), m.get_sentence_embedding_dimension(), m.get_max_seq_length(), m.max_seq_length),
        lambda: m.similarity(pick(x, x[0], [[1.0, 2.0]]), pick(x, x[:, :2])), lambda: m.similarity_pairwise(pick(x), pick(x)),
        lambda: draw.choice([m, scorer]).preprocess(pick(texts, [("a", text)]), prompt=pick(None, "a")), lambda: m.tokenize(texts),
        lambda: m.encode_multi_process(texts, pick(m.start_multi_process_pool())), lambda: m.stop_multi_process_pool(odd()),
        lambda: m.truncate_embeddings(pick(None, 3)).__enter__(), lambda: m.truncate_sentence_embeddings(pick(2)).__enter__(),
        lambda: (m.set_pooling_include_prompt(pick(True)), m.is_singular_input(odd()), scorer.is_singular_input(odd()), m.supports(odd())),
        lambda: qkv.SentenceTransformer.load(odd() or "x"), lambda: scorer.get_default_activation_fn(),
        lambda: type(draw.choice([m, scorer]))(draw.choice([m, scorer])._folder, **{draw.choice(CONSTRUCTOR): odd()}),
        lambda: scorer.predict(pick([("a", text)], ["a", text], [], [["a"]]), show_progress_bar=False, apply_softmax=pick(True, False),
                               activation_fn=draw.choice([None, None, lambda z: z * 2, lambda z: odd(), 3])),
        lambda: scorer.rank(pick("a", text), pick([text], []), top_k=pick(None, 1), show_progress_bar=False)])()


def random_util(draw, odd):
    """qkv.util and the names of it in qkv."""
    u, x = qkv.util, floats(draw, 3, 4)
    x = x.tolist() if np is None else np.asarray(x)
    pick = lambda *fit: odd() if draw.random() < .08 else draw.choice(fit)
    draw.choice([
        lambda: qkv.quantize_embeddings(pick(x, x[0]), pick(*u.PRECISIONS), pick(None, x[:2]), pick(None, x)),
        lambda: u.semantic_search(pick(x, x[0]), pick(x), pick(1, 100), pick(1, 2), pick(1, 5),
                                  draw.choice([u.cos_sim, u.dot_score, lambda a, b: a, None])),
        lambda: u.paraphrase_mining_embeddings(pick(x), max_pairs=pick(2), top_k=pick(1, 9)), lambda: u.normalize_embeddings(pick(x, x[0])),
        lambda: getattr(u, draw.choice(["euclidean_sim", "manhattan_sim", "pairwise_cos_sim", "pairwise_manhattan_sim"]))(pick(x), pick(x, x[:1])),
        lambda: qkv.SimilarityFunction.to_similarity_fn(pick("dot"))(x, x), lambda: qkv.SimilarityFunction.possible_values(),
        lambda: qkv.SimilarityFunction.to_similarity_pairwise_fn(pick("cosine"))(pick(x), x)])()


def random_task(draw, odd):
    have = kept()
    pick = lambda *fit: odd() if draw.random() < .12 else draw.choice(fit)
    folder = have["folder"].name
    options = {name: odd() for name in draw.sample(["temperature", "top_k", "top_p", "min_p", "seed", "stop", "num_beams", "prefix", "x",
               "num_return_sequences", "length_penalty", "repetition_penalty", "min_tokens", "logprobs"], draw.randrange(3))}
    if options.get("num_beams") in (2**31, True) or options.get("num_return_sequences") in (2**31, True):
        options.clear()
    texts = lambda: pick("In", ["In", "And"], [])
    draw.choice([
        lambda: have["generator"](texts(), max_tokens=2, **options),
        lambda: have["translator"](pick("1 May 1999", [""]), max_tokens=4, **options),
        lambda: qkv.ablate(pick("In the", ""), odd() if draw.random() < .2 else None, model=VERSE, kind=pick("zero", "mean"), changes=pick(1, 3)),
        lambda: qkv.ablate(pick("1 May"), pick("1999", None), model=DATES, changes=pick(1)),
        lambda: qkv.attribute(pick("the cat", ""), pick("a"), model=have["embedder"] if draw.random() < .8 else odd() or VERSE),
        lambda: qkv.train(os.path.join(folder, "no", "run"), odd(), **{draw.choice(["arch", "steps", "rate", "lowercase", "x"]): odd()}),
        lambda: qkv.Generator(odd(), precision=pick("f32", "int8")), lambda: qkv.CrossEncoder(pick(VERSE, DATES)),
        lambda: qkv.generate(texts(), model=pick(VERSE, have["generator"]), max_tokens=pick(1), stop=pick((), "a")),
        lambda: list(qkv.generate(pick("In"), have["generator"], stream=True, max_tokens=pick(1))),
        lambda: qkv.translate(pick("1 May 1999"), have["translator"], max_tokens=pick(1)), lambda: qkv.Translator(pick(VERSE)),
        lambda: qkv.SentenceTransformer(odd() or "x"), lambda: qkv.set_threads(draw.choice([-1, "a", 257, None])),
        lambda: qkv.set_isa(draw.choice(["", "none", 3, "\0"])), lambda: (qkv.threads(), qkv.isa(), qkv.version())])()


def random_view(draw, odd):
    pick = lambda *fit: odd() if draw.random() < .08 else draw.choice(fit)
    n, h = draw.randrange(1, 6), draw.randrange(1, 4)
    x = [floats(draw, 1, h, n, n) for _ in range(draw.randrange(3))]
    look = dict(layer=pick(None, 0, 9), heads=pick(None, [0], [9]), token=pick(None, 0, 99), theme=pick("auto", "dark"),
                view=pick(None, "heads", "matrix", "model", "steps", "no"), budget=pick(10**6, 10))
    if draw.random() < .2:
        y = [floats(draw, 1, h, n, n + 1)]
        v = qkv.view(encoder_attentions=pick(x, None), decoder_attentions=pick(x, None), cross_attentions=pick(y, x, None),
                     encoder_tokens=pick(["a"] * n, ["a"] * (n + 1)), decoder_tokens=pick(["b"] * n), stack=pick(0, 1, 2), **look)
    elif draw.random() < .7:
        v = qkv.view(attentions=pick(x), tokens=pick(["a"] * n, ["[CLS]", *"abcdef"][:n]), sentence_b_start=pick(None, 1, 99),
                     key_tokens=pick(None, ["b"] * n), **look)
    else:
        v = qkv.view(pick("In the beginning"), pick(None, None, "x"), model=VERSE, **look)
    assert isinstance(v, qkv.View)
    draw.choice([lambda: v.terminal(pick(0, 1, 80)), lambda: v._repr_mimebundle_(), lambda: v.head(pick(0, 9), pick(0, -1)),
                 lambda: v.weights(pick(0, 9), pick(0, -1), pick(0, 1)), lambda: v.html(pick(0, 10, 10**6)),
                 lambda: v.save(os.path.join(kept()["folder"].name, "v" + draw.choice([".svg", ".html", ".x"])), force=True),
                 lambda: v.save(odd() if draw.random() < .1 else "/no/such/folder/x.svg"), v.close])()


def random_torch(draw, odd):
    """qkv.torch and qkv.observe: an error of torch about shapes is fine too."""
    import torch
    import qkv.torch
    import qkv.transformers
    T, S, H, E = draw.randrange(1, 7), draw.randrange(1, 7), draw.choice([1, 2, 4]), draw.choice([1, 4, 8])
    kind = draw.choice([torch.float32] * 6 + [torch.bfloat16, torch.float16, torch.float64, torch.int32])
    make = lambda *shape: (torch.rand(*(n if draw.random() < .98 else n - 1 for n in shape)) * 2 - 1).to(
        kind if draw.random() < .97 else torch.float32)
    q, k, v = make(1, H, T, E), make(1, H, S, E), make(1, H, S, E)
    change = draw.randrange(20)
    q = q.transpose(2, 3) if change == 0 else q[..., ::2] if change == 1 else q.expand(2, *q.shape[1:]) if change == 2 and len(q) == 1 else \
        q.to("meta") if change == 3 else q.to_sparse() if change == 4 else q.flatten(0, 1) if change == 5 else odd() if change == 6 else q
    masks = [None, make(T, S), make(H, 1, S), torch.rand(T, S) > .5, torch.ones(S, dtype=torch.int32), torch.rand(2, 9)]
    if isinstance(q, torch.Tensor) and kind.is_floating_point and draw.random() < .5:
        q = q.detach().requires_grad_()
    try:
        if draw.random() < .7:
            out = qkv.torch.scaled_dot_product_attention(q, k, v, draw.choice(masks), draw.choice([0.0] * 4 + [.5, 1.5]), draw.choice([True, False]),
                                                         scale=draw.choice([None, 2.0, float("nan")]))
        else:
            out, _ = qkv.torch.attention(q, k, v, draw.choice(masks), window=draw.choice([None, (1, 2), (-1, 0), (-5, 2)]),
                                         softcap=draw.choice([0.0, 1.0, -1.0]), sinks=draw.choice([None, make(H), make(H + 1)]))
        if out.requires_grad:
            out.sum().backward()
        if draw.random() < .1:
            qkv.observe(odd())
    except (TypeError, RuntimeError, AttributeError, ValueError, IndexError, NotImplementedError) as error:
        # torch checks the types of an operator's arguments itself.
        if isinstance(error, qkv.Error):
            raise
        raise qkv.UsageError("of torch: " + type(error).__name__) from error


KINDS = [random_attention] * 12 + [random_tokens] * 5 + [random_texts] * 3 + [random_util] * 3 + [random_task] * 2 + [random_view] * 2
DRAWN: dict = {}  # the calls of each kind


def one(seed):
    """Makes one call; returns the name of its error, or None."""
    draw = random.Random(seed)
    odd = lambda: Odd(draw) if draw.random() < .05 else draw.choice(ODD)
    try:
        kind = draw.choice(KINDS)
        DRAWN[kind.__name__] = DRAWN.get(kind.__name__, 0) + 1
        kind(draw, odd)
    except qkv.Error as error:
        assert str(error) and not isinstance(error, qkv.InternalError), error
        return type(error).__name__
    return None


class Fuzz(unittest.TestCase):
    def test_every_wrong_call_raises_an_error_of_qkv(self):
        found = {}
        for seed in range(SEED, SEED + CALLS):
            try:
                name = one(seed)
            except Exception as error:
                raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
            found[name] = found.get(name, 0) + 1
        print(f"{CALLS} calls from seed {SEED}: {found}; {DRAWN}")
        self.assertEqual(len(DRAWN), len(set(KINDS)))
        self.assertGreater(found.get(None, 0), CALLS // 5)
        self.assertGreater(found.get("UsageError", 0), CALLS // 5)

    def test_every_public_name_is_called(self):
        with open(os.path.abspath(__file__), encoding="utf-8") as f:
            text = f.read()
        for name in qkv.__all__:
            value = getattr(qkv, name)
            if isinstance(value, type) and issubclass(value, Exception):
                continue
            if isinstance(value, type) and issubclass(value, tuple):
                continue  # what calls return
            self.assertTrue(name in text, name)
            for method in vars(value) if isinstance(value, type) else ():
                if not method.startswith("_") and callable(getattr(value, method)):
                    self.assertTrue("." + method in text, f"{name}.{method}")


if __name__ == "__main__":
    faulthandler.enable()
    CALLS, SEED = ([*map(int, sys.argv[1:])] + [CALLS, SEED][len(sys.argv) - 1:])[:2]
    with contextlib.suppress(ImportError):
        if CALLS >= 5000:
            import transformers  # noqa: F401
            KINDS += [random_torch] * 2
        else:
            sys.modules.setdefault("torch", None)  # None: convert_to_tensor does not import it
    unittest.main(argv=sys.argv[:1])
