# SPDX-License-Identifier: MIT
"""Vectors, scores and tokens of texts: their meaning without other packages, and parity with sentence-transformers."""
import errno
import importlib.util
import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
import types
import unittest

import qkv

os.environ["HF_HUB_OFFLINE"] = "1"  # a name that is missing is not looked for in the network
os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads of torch poll for each other, which takes minutes on a busy machine
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MINILM = os.path.join(TOP, "models", "all-MiniLM-L6-v2")
has = lambda name: importlib.util.find_spec(name) is not None
needs_minilm = unittest.skipUnless(os.path.exists(os.path.join(MINILM, "model.safetensors")), "models/all-MiniLM-L6-v2 is missing")
needs_numpy = unittest.skipUnless(has("numpy"), "numpy is not installed")
needs_rival = unittest.skipUnless(has("sentence_transformers") and has("torch"), "sentence-transformers is not installed")


def some_lines(n):
    """Returns n different lines of the documentation, of very different lengths; each 50th is a page, which is truncated."""
    found = {}
    for name in ("README.md", *(f"docs/{x}.md" for x in ("design", "numerics", "formats", "training", "view", "python", "testing"))):
        with open(os.path.join(TOP, name), encoding="utf-8") as f:
            lines = [line for line in f.read().splitlines() if line.strip()]
        found.update(dict.fromkeys(lines))
        found.update((" ".join(lines[i:i + 40]), None) for i in range(0, len(lines), 50))
    found = list(found)
    assert len(found) >= n
    return [found[i * len(found) // n] for i in range(n)]


class Tokens(unittest.TestCase):
    def setUp(self):
        self.t = qkv.Tokenizer(os.path.join(TOP, "models", "verse"))

    def test_encode_and_decode(self):
        text = "In the beginning — “été” 你好\0."
        e = self.t.encode(text)
        self.assertEqual(self.t.decode(e.ids), text)
        self.assertEqual("".join(self.t.decode_stream(e.ids)), text)
        for (b, s), (i, j) in zip(e.byte_offsets, e.offsets):
            if s > b:
                self.assertLessEqual(j - i, s - b)
                self.assertLessEqual(j, len(text))
        self.assertEqual(len(e.ids), len(e.tokens))
        self.assertEqual(self.t.token_to_id(e.tokens[0]), e.ids[0])

    def test_offsets_are_characters(self):
        e = self.t.encode("é the é")
        self.assertIn("the", ["é the é"[b:s].strip() for b, s in e.offsets])

    def test_truncation_and_errors(self):
        self.assertEqual(len(self.t.encode("one two three four five six", max_length=3, truncation=True).ids), 3)
        with self.assertRaises(qkv.UsageError):
            self.t.encode("one two three four five six", max_length=3)
        with self.assertRaises(qkv.UsageError):
            self.t.encode(b"bytes")
        with self.assertRaisesRegex(qkv.UsageError, "surrogate"):
            self.t.encode("\ud800")
        with self.assertRaises(qkv.UsageError):
            self.t.decode([2**40])
        class Scalar:  # as an array without axes
            def __iter__(self):
                raise TypeError
        with self.assertRaises(qkv.UsageError):
            list(self.t.decode_stream(Scalar()))
        self.assertIsNone(self.t.token_to_id("no such token\0"))
        self.assertIsNone(self.t.id_to_token(-5))
        self.t.close()
        with self.assertRaisesRegex(qkv.UsageError, "closed"):
            self.t.encode("a")

    def test_padding_has_a_limit(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tokenizer.json")
            with open(path, "w") as f:
                f.write('{"added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": {"type": "WordPiece",'
                        ' "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,'
                        ' "vocab": {"[PAD]": 0, "[UNK]": 1, "a": 2}}}')
            t = qkv.Tokenizer(path)
            self.assertEqual(t.encode("a", max_length=3, padding=True).tokens, ["a", "[PAD]", "[PAD]"])
            for length in (2**24 + 2, 2**31, 2**62):
                with self.assertRaisesRegex(qkv.LimitError, f"at most {2**24} tokens of padding, found {length - 1}"):
                    t.encode("a", max_length=length, padding=True)
            self.assertEqual(t.encode("a", max_length=2**62, truncation=True).ids, [2])

    def test_close_during_a_stream(self):
        ids = self.t.encode("In the beginning").ids
        stream, first = self.t.decode_stream(ids), []
        first.append(next(stream))
        self.t.close()
        self.assertEqual("".join(first + list(stream)), "In the beginning")
        self.assertEqual((self.t._uses, self.t._closed), (0, []))

    def test_a_broken_file_names_its_place(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tokenizer.json")
            with open(path, "w") as f:
                f.write('{"model": {"type": "BPE", "vocab": 3}}')
            with self.assertRaises(qkv.FormatError) as found:
                qkv.Tokenizer(folder)
            self.assertEqual((found.exception.status, found.exception.path), ("format", "$.model.vocab"))
            self.assertTrue(found.exception.file.startswith(folder))

    def test_a_missing_folder(self):
        with self.assertRaises(qkv.FileError):
            qkv.Tokenizer("no/such/folder")


class fake_tqdm:
    """Replaces tqdm inside `with` by a bar that records its positions, ends and numbers; on_update(n) may raise."""

    def __init__(self, on_update=lambda n: None):
        self.bars, record, self.old = [], self, {}

        class tqdm:
            def __init__(self, total, unit, initial=0):
                self.total, self.unit, self.begin, self.n, self.seen, self.shown, self.closed = total, unit, initial, initial, [], [], 0
                record.bars.append(self)

            def set_postfix(self, shown, refresh):
                self.shown.append(shown)

            def update(self, n):
                on_update(n)
                self.n += n
                self.seen.append(self.n)

            def close(self):
                self.closed += 1
        self.made = types.SimpleNamespace(tqdm=tqdm)

    def __enter__(self):
        self.old = {name: sys.modules.get(name) for name in ("tqdm", "tqdm.auto")}
        sys.modules.update({"tqdm": types.SimpleNamespace(auto=self.made), "tqdm.auto": self.made})
        return self

    def __exit__(self, *_):
        for name, module in self.old.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module


@needs_minilm
@needs_numpy
class Vectors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.m = qkv.SentenceTransformer(MINILM)

    def test_meaning(self):
        import numpy as np
        a, b, c = self.m.encode(["a happy dog", "a joyful puppy", "tax law"])
        s = self.m.similarity([a], [b, c])
        self.assertEqual(s.shape, (1, 2))
        self.assertAlmostEqual(float(s[0, 0]), .772, delta=.0006)
        self.assertAlmostEqual(float(s[0, 1]), .019, delta=.0006)
        self.assertTrue((self.m.encode("a happy dog") == a).all())
        self.assertEqual(self.m.encode([]).shape, (0, 384))
        self.assertAlmostEqual(float(np.linalg.norm(a)), 1, delta=1e-5)

    def test_options(self):
        short = self.m.encode("a happy dog", truncate_dim=64, normalize_embeddings=True)
        self.assertEqual(short.shape, (64,))
        self.assertAlmostEqual(float((short ** 2).sum()), 1, delta=1e-5)
        self.assertEqual(self.m.encode(["a", "b"], precision="ubinary").shape, (2, 48))
        self.assertEqual(self.m.encode([], precision="binary").shape, (0, 48))
        self.assertTrue((self.m.encode("dog", prompt="a happy ") == self.m.encode("a happy dog")).all())
        self.assertEqual((self.m.max_seq_length, self.m.get_embedding_dimension()), (256, 384))

    def test_errors(self):
        for wrong in ({"prompt_name": "nothing"}, {"pool": 3}, {"chunk_size": 0}, {"x": 1}, {"device": ["cpu", "cuda"]}, {"batch_size": 0}, {"precision": "int4"}, {"truncate_dim": 0}, {"device": "cuda"}, {"device": 3}):
            with self.assertRaises(qkv.UsageError, msg=str(wrong)):
                self.m.encode("a", **wrong)
        with self.assertRaisesRegex(qkv.UsageError, r"sentences\[1\]"):
            self.m.encode(["a", 3])
        self.assertRaises(qkv.UsageError, self.m.encode, 3)
        for wrong in ({"output_value": "other"}, {"processing_kwargs": {"text": {"max_length": 3}}}, {"output_value": None, "precision": "int8"},
                      {"output_value": "token_embeddings", "precision": "int8"}):
            with self.assertRaises(qkv.UnsupportedError, msg=str(wrong)):
                self.m.encode("a", **wrong)
        with self.assertRaisesRegex(qkv.UsageError, "several vectors"):
            self.m.encode("a", precision="int8")
        self.assertRaises(qkv.UnsupportedError, qkv.CrossEncoder, MINILM)

    def test_arguments_of_the_constructor(self):
        for error, wrong in ((qkv.UnsupportedError, {"backend": "onnx"}), (qkv.UnsupportedError, {"backend": "openvino"}),
                             (qkv.UsageError, {"backend": "tensorflow"}), (qkv.UnsupportedError, {"modules": []}),
                             (qkv.UnsupportedError, {"model_kwargs": {"file_name": "x"}}), (qkv.UsageError, {"model_kwargs": {"dtype": "float64"}}),
                             (qkv.DeviceError, {"model_kwargs": {"device_map": "cuda"}}), (qkv.UnsupportedError, {"config_kwargs": {"a": 1}}),
                             (qkv.UnsupportedError, {"processor_kwargs": {"do_lower_case": False}}), (qkv.UsageError, {"model_kwargs": 3}),
                             (qkv.UsageError, {"token": "a", "use_auth_token": "b"}), (qkv.UsageError, {"prompts": {"query": 3}}),
                             (qkv.UsageError, {"default_prompt_name": "nothing"}), (qkv.UsageError, {"similarity_fn_name": "maxsim"})):
            with self.assertRaises(error, msg=str(wrong)):
                qkv.SentenceTransformer(MINILM, **wrong)
        with self.assertRaisesRegex(qkv.UnsupportedError, "model_kwargs: .*'file_name'"):
            qkv.SentenceTransformer(MINILM, model_kwargs={"file_name": "x"})
        for dtype, precision in (("bfloat16", "bf16"), ("float32", "f32"), ("auto", "f32")):
            with qkv.SentenceTransformer(MINILM, model_kwargs={"dtype": dtype, "attn_implementation": "sdpa"}) as a, \
                    qkv.SentenceTransformer(MINILM, precision=precision, trust_remote_code=True, tokenizer_kwargs={"padding_side": "left"}) as b:
                self.assertTrue((a.encode("a happy dog") == b.encode("a happy dog")).all(), dtype)
                self.assertEqual((self.m.encode("a happy dog") == a.encode("a happy dog")).all(), precision == "f32")

    def test_a_pool_and_lists_of_devices_change_nothing(self):
        lines = some_lines(5)
        pool = self.m.start_multi_process_pool(["cpu", "cpu"])
        wanted = self.m.encode(lines)
        for found in (self.m.encode(lines, pool=pool), self.m.encode(lines, device=["cpu", "cpu:0"], chunk_size=2), self.m.encode_multi_process(lines, pool),
                      self.m.to("cpu").eval().cpu().encode(sentences=lines)):
            self.assertTrue((found == wanted).all())
        self.m.stop_multi_process_pool(pool)
        with self.assertRaises(qkv.DeviceError):
            self.m.start_multi_process_pool(["cuda:0"])

    def test_what_is_absent_names_what_to_use(self):
        with self.assertRaisesRegex(AttributeError, "'SentenceTransformer'.*'fit'; qkv.train"):
            self.m.fit
        self.assertFalse(hasattr(self.m, "half"))

    def test_prompts(self):
        with qkv.SentenceTransformer(MINILM, prompts={"query": "a happy ", "x": "the "}, default_prompt_name="x") as m:
            self.assertEqual(m.prompts, {"query": "a happy ", "document": "", "x": "the "})
            for found, text in ((m.encode_query("dog"), "a happy dog"), (m.encode_document("dog"), "dog"), (m.encode("dog"), "the dog"),
                                (m.encode_query("dog", prompt=""), "dog"), (m.encode("dog", "query"), "a happy dog")):
                self.assertTrue((found == self.m.encode(text)).all(), text)

    def test_a_search(self):
        import numpy as np
        from qkv import util
        self.assertIs(util, qkv.util)
        texts = some_lines(40)
        x = self.m.encode(texts)
        whole = util.semantic_search(x[:3], x, top_k=5)
        self.assertEqual([hits[0]["corpus_id"] for hits in whole], [0, 1, 2])
        self.assertEqual([[h["corpus_id"] for h in hits] for hits in util.semantic_search(x[:3], x, 2, 7, 5)],
                         [[h["corpus_id"] for h in hits] for hits in whole])
        self.assertEqual(len(util.semantic_search(x[0], x, top_k=99)[0]), 40)
        best = util.paraphrase_mining(self.m, texts, max_pairs=3)
        scores = np.triu(util.cos_sim(x, x), 1)
        self.assertEqual(len(best), 3)
        self.assertAlmostEqual(best[0][0], scores.max(), delta=1e-6)
        for error in (lambda: util.cos_sim(x, x[:, :5]), lambda: util.cos_sim("a", x), lambda: util.semantic_search(x, x, score_function=3),
                      lambda: util.quantize_embeddings(x, "int8", ranges=x[:1]), lambda: util.quantize_embeddings(x, "int4"),
                      lambda: util.quantize_embeddings(x, "int8", ranges=3), lambda: util.quantize_embeddings(x, "int8", ranges=iter([1])),
                      lambda: util.truncate_embeddings(3, 2), lambda: util.paraphrase_mining(3, ["a"])):
            self.assertRaises(qkv.UsageError, error)

    def test_threads_of_python_share_a_model(self):
        lines, got = some_lines(24), {}
        wanted = self.m.encode(lines)

        def work(part):
            got[part] = self.m.encode(lines[part::3])
        threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        for part in range(3):
            self.assertTrue((got[part] == wanted[part::3]).all())

    def test_the_limit_of_tokens_may_change(self):
        text = "one two three four five six seven eight"
        with qkv.SentenceTransformer(MINILM) as m:
            tokenizer, whole = m.tokenizer, m.encode(text)
            for length in (4, 512):
                m.max_seq_length = length
                self.assertEqual((m.max_seq_length, (m.encode(text) == whole).all()), (length, length > 4))
                self.assertEqual(tokenizer.encode(text).ids, m.tokenizer.encode(text).ids)
            self.assertTrue((m.encode("one two") == self.m.encode("one two")).all())
            m.max_seq_length = 10**6
            self.assertEqual(m.max_seq_length, 512)  # the positions of the model
            for wrong in (0, -1, 2.5, None):
                with self.assertRaises(qkv.UsageError):
                    m.max_seq_length = wrong
            stop, errors = threading.Event(), []

            def encode():
                while not stop.is_set():
                    if not (m.encode("one two") == self.m.encode("one two")).all():
                        errors.append("another vector")
            thread = threading.Thread(target=encode)
            thread.start()
            for length in (8, 16, 32):
                m.max_seq_length = length
            stop.set()
            thread.join()
            self.assertEqual(errors, [])
            self.assertEqual((m._uses, m._closed), (0, []))
        with self.assertRaisesRegex(qkv.UsageError, "closed"):
            m.max_seq_length = 8

    def test_interrupt(self):
        """An exception in the progress callback, as Ctrl-C raises it, ends the call and arrives here."""
        def stop(_):
            raise KeyboardInterrupt
        with fake_tqdm(stop), self.assertRaises(KeyboardInterrupt):
            self.m.encode(["a"] * 3, show_progress_bar=True)
        self.assertEqual(self.m.encode(["a"]).shape, (1, 384))

    def test_ctrl_c(self):
        """A real SIGINT after the first batch of many: the call ends there, not after the last text."""
        texts, before = ["one two three " * 80] * 600, signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with fake_tqdm(lambda n: os.kill(os.getpid(), signal.SIGINT)) as fake, self.assertRaises(KeyboardInterrupt):
                self.m.encode(texts, show_progress_bar=True)
            self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        finally:
            signal.signal(signal.SIGINT, before)
        self.assertEqual((len(fake.bars[0].seen), fake.bars[0].closed), (1, 1))
        self.assertEqual(self.m.encode(["a"]).shape, (1, 384))

    def test_a_progress_bar(self):
        """As sentence-transformers: True shows a bar, None shows it if logging is at INFO or DEBUG."""
        import logging
        lines = some_lines(70)
        for show, level, bars in ((True, 0, 1), (False, logging.INFO, 0), (None, logging.INFO, 1), (None, logging.WARNING, 0)):
            with fake_tqdm() as fake:
                logging.getLogger("qkv").setLevel(level)
                try:
                    self.m.encode(lines, show_progress_bar=show)
                finally:
                    logging.getLogger("qkv").setLevel(0)
            self.assertEqual(len(fake.bars), bars)
            for bar in fake.bars:
                self.assertEqual((bar.total, bar.n, bar.unit, bar.closed), (70, 70, "texts", 1))
                self.assertEqual(bar.seen, sorted(bar.seen))
        old = {name: sys.modules.get(name) for name in ("tqdm", "tqdm.auto")}
        sys.modules.update(dict.fromkeys(old))  # None: the import fails
        try:
            self.assertEqual(self.m.encode(["a"], show_progress_bar=True).shape, (1, 384))
        finally:
            for name, module in old.items():
                sys.modules.pop(name) if module is None else sys.modules.update({name: module})

    def test_a_name_in_the_folder_of_models(self):
        old = os.environ.get("QKV_MODELS")
        os.environ["QKV_MODELS"] = os.path.join(TOP, "models")
        try:
            with qkv.SentenceTransformer("sentence-transformers/all-MiniLM-L6-v2") as m:
                self.assertEqual(m.tokenizer.kind, "WordPiece")
            with self.assertRaisesRegex(qkv.UsageError, "closed"):
                m.tokenizer.encode("a")
        finally:
            os.environ.pop("QKV_MODELS") if old is None else os.environ.update(QKV_MODELS=old)


@needs_rival
class Parity(unittest.TestCase):
    @needs_minilm
    def test_encode(self):
        """The same text through float kernels of other orders: cosine of 1 up to float rounding; .99999 is the goal."""
        import sentence_transformers
        lines = some_lines(int(os.environ.get("QKV_LINES", 120))) + ["", " ", "naïve café — 你好 \U0001f600", "a" * 3000]
        rival, ours = sentence_transformers.SentenceTransformer(MINILM, device="cpu"), qkv.SentenceTransformer(MINILM)
        a, b = rival.encode(lines), ours.encode(lines)
        self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
        self.assertGreater((a.astype("f8") * b).sum(1).min(), .99999)
        self.assertLess(abs(rival.similarity(a[:9], a).numpy() - ours.similarity(b[:9], b)).max(), 1e-5)
        for precision in ("binary", "ubinary"):
            x, y = (m.encode(lines[:20], precision=precision) for m in (rival, ours))
            self.assertEqual((x.dtype, x.shape), (y.dtype, y.shape))
            self.assertGreater((x == y).mean(), .99)  # the sign of a number near 0 may differ
        x, y = (m.encode(lines[:20], precision="int8").astype(int) for m in (rival, ours))
        self.assertLessEqual(abs(x - y).max(), 1)
        self.assertEqual(tuple(ours.encode(lines[:2], convert_to_tensor=True).shape), (2, 384))

    @needs_minilm
    def test_a_program_with_another_import_line(self):
        """A program for sentence-transformers, each name and value of which is compared after only its import line has changed."""
        program = """
from sentence_transformers import SentenceTransformer
model = SentenceTransformer("sentence-transformers/all-MiniLM-L6-v2")
sentences = ["Rain is expected all day.", "Take an umbrella with you.", "The train leaves at nine."]
embeddings = model.encode(sentences)
shape = embeddings.shape
similarities = model.similarity(embeddings, embeddings)
query = model.encode_query("When does the train leave?")
documents = model.encode_document(sentences, normalize_embeddings=True)
best = int(model.similarity(query, documents)[0].argmax())
tensors = model.encode(sentences, convert_to_tensor=True)
scores, indices = torch.topk(model.similarity(tensors, tensors)[0], k=2)
pairs = model.similarity_pairwise(tensors, tensors.flip(0))
rows = model.encode(sentences, convert_to_numpy=False)
rows_type = type(rows), type(rows[0])
rows_similar = model.similarity(rows[0], rows[1])
tensor_types = type(tensors), type(pairs), type(rows_similar)
model.max_seq_length = 5
cut = model.encode("The train leaves at nine and arrives at ten.")
sizes_cut = model.max_seq_length, model.get_max_seq_length()
model.max_seq_length = 256
single = model.encode("a", batch_size=8, show_progress_bar=False).shape
sizes = model.max_seq_length, model.get_embedding_dimension(), model.similarity_fn_name, str(model.device)
"""
        import torch
        found = []
        for package, name in (("sentence_transformers", MINILM), ("qkv", MINILM)):
            names = {"torch": torch}
            exec(program.replace("from sentence_transformers", "from " + package).replace("sentence-transformers/all-MiniLM-L6-v2", name), names)
            found.append(names)
        rival, ours = found
        for name in ("shape", "best", "rows_type", "tensor_types", "single", "sizes", "sizes_cut"):
            self.assertEqual(rival[name], ours[name], name)
        self.assertEqual(rival["indices"].tolist(), ours["indices"].tolist())
        for name in ("embeddings", "similarities", "query", "documents", "tensors", "scores", "pairs", "rows_similar", "cut"):
            a, b = (torch.as_tensor(x[name]) for x in found)
            self.assertEqual(a.shape, b.shape, name)
            self.assertLess((a - b).abs().max().item(), 1e-5, name)

    @needs_minilm
    def test_names_and_arguments_are_those_of_sentence_transformers(self):
        """Each public name of both classes is here or its error says what to use; arguments have the same names, order and defaults."""
        import inspect
        import sentence_transformers
        import torch
        from qkv._text_model import ABSENT
        # names of models of torch, of other inputs than texts, of adapters, and of transformers' objects
        other = {*dir(torch.nn.Sequential), *dir(sentence_transformers.base.peft_mixin.PeftAdapterMixin), "trust_remote_code", "dtype", "cuda",
                 "processor", "get_sentence_features", "model", "default_activation_function", "set_keep_in_fp32_modules", "model_card_data_class",
                 "default_huggingface_organization", "model_type", "SUPPORTED_SIMILARITY_FN_NAMES", "clear_placement_cache", "smart_batching_collate",
                 "smart_batching_collate_text_only"}
        for name in ("SentenceTransformer", "CrossEncoder"):
            theirs, ours = getattr(sentence_transformers, name), getattr(qkv, name)
            names = {n for n in dir(theirs) if not n.startswith("_")} - other - set(ABSENT)
            have = {*dir(ours), "prompts", "default_prompt_name", "tokenizer", "backend", "activation_fn", "num_labels"}
            self.assertEqual(sorted(names - have), [], name)
            for method in ("__init__", "encode", "encode_query", "encode_document", "similarity", "similarity_pairwise", "predict", "rank",
                           "start_multi_process_pool", "stop_multi_process_pool", "truncate_embeddings", "evaluate", "supports"):
                if not hasattr(theirs, method):
                    continue
                a, b = (inspect.signature(getattr(cls, method)).parameters for cls in (theirs, ours))
                rest = any(p.kind == p.VAR_KEYWORD for p in b.values())
                for at, (n, p) in enumerate(a.items()):
                    if p.kind == p.VAR_KEYWORD or rest and n not in b:
                        continue
                    self.assertIn(n, b, f"{name}.{method}")
                    self.assertEqual((p.kind, p.default), (b[n].kind, b[n].default) if n != "model_name_or_path" else (p.kind, p.default),
                                     f"{name}.{method}({n})")
                    if p.kind == p.POSITIONAL_OR_KEYWORD:
                        self.assertEqual(list(b)[at], n, f"{name}.{method}")

    @needs_minilm
    def test_what_encode_returns_for_each_output(self):
        import sentence_transformers
        import torch
        lines = ["a", "a happy dog plays", "", "w " * 600]
        rival, ours = sentence_transformers.SentenceTransformer(MINILM, device="cpu"), qkv.SentenceTransformer(MINILM)
        for given in (lines, lines[1]):
            a, b = (m.encode(given, output_value="token_embeddings") for m in (rival, ours))
            self.assertEqual(type(a), type(b))
            for x, y in zip(a, b) if isinstance(a, list) else [(a, b)]:
                self.assertEqual(x.shape, y.shape)
                self.assertLess((x - y).abs().max().item(), 1e-4)  # hidden states of size 1, of 6 layers in float32
        a, b = (m.encode(lines[1], output_value=None, truncate_dim=7) for m in (rival, ours))
        for name in ("input_ids", "attention_mask", "token_embeddings", "sentence_embedding"):
            self.assertEqual(a[name].shape, b[name].shape, name)
            self.assertLess((a[name].float() - b[name].float()).abs().max().item(), 1e-4, name)
        a, b = (m.preprocess(lines) for m in (rival, ours))
        for name in ("input_ids", "attention_mask", "token_type_ids"):
            self.assertEqual(a[name].tolist(), b[name].tolist(), name)
        self.assertEqual(ours.tokenize(lines)["input_ids"].tolist(), a["input_ids"].tolist())
        for m in (rival, ours):
            with m.truncate_embeddings(5):
                self.assertEqual((m.encode("a").shape, m.get_embedding_dimension()), ((5,), 5))
            self.assertEqual(m.encode("a").shape, (384,))
            self.assertEqual((m.supports("text"), m.supports("image"), m.modalities, m.get_backend(), m.get_model_kwargs()),
                             (True, False, ["text"], "torch", []))
        self.assertEqual(rival.prompts, ours.prompts)
        self.assertIsInstance(torch.as_tensor(ours.encode(lines)), torch.Tensor)

    @needs_minilm
    def test_functions_of_util(self):
        import numpy as np
        import sentence_transformers.util as theirs
        from qkv import util
        draw = np.random.default_rng(1)
        x, y = draw.standard_normal((2, 30, 16)).astype("f4")
        for name in ("cos_sim", "dot_score", "euclidean_sim", "manhattan_sim", "pytorch_cos_sim", "pairwise_cos_sim", "pairwise_dot_score",
                     "pairwise_euclidean_sim", "pairwise_manhattan_sim"):
            a, b = getattr(theirs, name)(x, y).numpy(), getattr(util, name)(x, y)
            self.assertEqual(a.shape, b.shape, name)
            self.assertLess(abs(a - b).max(), 1e-4, name)  # sums of 16 products of size 1; cdist of torch squares and subtracts
        for precision in ("int8", "uint8", "binary", "ubinary", "float32"):
            for more in ({}, {"calibration_embeddings": y}, {"ranges": np.stack([y.min(0), y.max(0)])}):
                a, b = (u.quantize_embeddings(x, precision, **more) for u in (theirs, util))
                self.assertEqual((a.dtype, a.tolist()), (b.dtype, b.tolist()), precision)
        for function in (util.cos_sim, theirs.cos_sim, util.dot_score):
            a = theirs.semantic_search(x, y, top_k=3, score_function=theirs.dot_score if function is util.dot_score else theirs.cos_sim)
            b = util.semantic_search(x, y, top_k=3, score_function=function, query_chunk_size=7, corpus_chunk_size=11)
            self.assertEqual([[h["corpus_id"] for h in row] for row in a], [[h["corpus_id"] for h in row] for row in b])
        a, b = (u.paraphrase_mining_embeddings(z, top_k=2) for u, z in ((theirs, __import__("torch").tensor(x)), (util, x)))
        self.assertEqual([row[1:] for row in a], [row[1:] for row in b])
        self.assertLess(abs(theirs.normalize_embeddings(__import__("torch").tensor(x)).numpy() - util.normalize_embeddings(x)).max(), 1e-6)
        self.assertEqual(util.truncate_embeddings(x, 3).shape, (30, 3))
        for f in theirs.SimilarityFunction:
            if f.value in util.SimilarityFunction.possible_values():
                self.assertEqual(util.SimilarityFunction(f.value).name, f.name)
                with qkv.SentenceTransformer(MINILM, similarity_fn_name=f) as m:
                    self.assertEqual(m.similarity_fn_name, f.value)

    @needs_minilm
    def test_an_evaluator_of_sentence_transformers(self):
        import sentence_transformers
        from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
        lines = some_lines(20)
        scores = [i / 10 for i in range(10)]
        found = []
        for m in (sentence_transformers.SentenceTransformer(MINILM, device="cpu"), qkv.SentenceTransformer(MINILM)):
            found.append(m.evaluate(EmbeddingSimilarityEvaluator(lines[:10], lines[10:], scores, write_csv=False)))
        self.assertEqual(set(found[0]), set(found[1]))
        for name, value in found[0].items():
            self.assertAlmostEqual(value, found[1][name], delta=1e-4)

    def test_cross_encoder(self):
        import torch
        import transformers
        import sentence_transformers
        if not os.path.exists(os.path.join(MINILM, "tokenizer.json")):
            self.skipTest("models/all-MiniLM-L6-v2 is missing")
        pairs = list(zip(some_lines(20), some_lines(21)[1:]))
        for labels in (1, 3):
            torch.manual_seed(labels)
            config = transformers.BertConfig(vocab_size=30522, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                             intermediate_size=64, max_position_embeddings=128, num_labels=labels, initializer_range=.3)
            with tempfile.TemporaryDirectory() as folder:
                transformers.BertForSequenceClassification(config).save_pretrained(folder)
                for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
                    shutil.copy(os.path.join(MINILM, name), folder)
                rival = sentence_transformers.CrossEncoder(folder, device="cpu", max_length=64)
                ours = qkv.CrossEncoder(folder, max_length=64)
                for options in ({}, {"apply_softmax": True}, {"activation_fn": torch.nn.Identity()}, {"prompt": "query: "}, {"activation_fn": torch.sigmoid},
                                {"activation_fn": lambda x: x.sigmoid()}, {"activation_fn": torch.nn.Linear(labels, labels)}):
                    a, b = rival.predict(pairs, **options), ours.predict(pairs, **options)
                    self.assertEqual(a.shape, b.shape)
                    self.assertLess(abs(a - b).max(), 1e-4)
                for wrong in (3, lambda x: None, lambda x: "a", lambda x: x[:3]):
                    self.assertRaises(qkv.UsageError, ours.predict, pairs, activation_fn=wrong)
                if labels == 1:
                    self.assertRaisesRegex(qkv.UsageError, r"sentences\[1\]: expected two texts", ours.rank, "a", ["b", None])
                    a, b = (m.rank(pairs[0][0], [p[1] for p in pairs], top_k=5, return_documents=True) for m in (rival, ours))
                    self.assertEqual([(x["corpus_id"], x["text"]) for x in a], [(x["corpus_id"], x["text"]) for x in b])
                self.assertEqual(ours.predict(list(pairs[0])).shape, () if labels == 1 else (3,))
                for m in (rival, ours):
                    self.assertEqual((m.num_labels, m.max_seq_length), (labels, 64))
                    m.max_seq_length = 12
                self.assertLess(abs(rival.predict(pairs) - ours.predict(pairs)).max(), 1e-4)
                a, b = (m.preprocess(pairs) for m in (rival, ours))
                self.assertEqual(a["input_ids"].tolist(), b["input_ids"].tolist())
                with self.assertRaisesRegex(qkv.UnsupportedError, "num_labels"):
                    qkv.CrossEncoder(folder, num_labels=labels + 1)

    def test_offsets_of_tokens(self):
        import transformers
        path = os.path.join(MINILM, "tokenizer.json")
        if not os.path.exists(path):
            self.skipTest("models/all-MiniLM-L6-v2 is missing")
        rival, ours = transformers.PreTrainedTokenizerFast(tokenizer_file=path), qkv.Tokenizer(path)
        rival.backend_tokenizer.no_truncation()
        rival.backend_tokenizer.no_padding()
        for line in some_lines(40) + ["naïve café — 你好 ﬁ"]:
            a, b = rival(line, return_offsets_mapping=True), ours.encode(line)
            self.assertEqual(a["input_ids"], b.ids)
            self.assertEqual([tuple(x) for x in a["offset_mapping"]], b.offsets)


class Missing(unittest.TestCase):
    def test_a_name_that_does_not_exist_is_in_the_error(self):
        """Each entry point raises FileNotFoundError, also a qkv.FileError, whose message and filename are the path."""
        calls = {"SentenceTransformer": qkv.SentenceTransformer, "CrossEncoder": qkv.CrossEncoder, "Tokenizer": qkv.Tokenizer,
                 "Generator": qkv.Generator, "Translator": qkv.Translator, "view": lambda p: qkv.view("a", model=p),
                 "generate": lambda p: qkv.generate("a", p), "translate": lambda p: qkv.translate("a", p),
                 "ablate": lambda p: qkv.ablate("a", model=p)}
        with tempfile.TemporaryDirectory() as empty:
            for path, file in (("no/such/folder", "no/such/folder"), ("no-such-model", "no-such-model"), (empty, empty + "/config.json")):
                for name, function in calls.items():
                    file = file.replace("config", "tokenizer") if name == "Tokenizer" else file.replace("tokenizer", "config")
                    with self.assertRaises(FileNotFoundError, msg=(name, path)) as found:
                        function(path)
                    error = pickle.loads(pickle.dumps(found.exception))
                    self.assertIsInstance(error, qkv.FileError)
                    self.assertEqual((error.filename, error.file, error.errno, error.status), (file, file, errno.ENOENT, "io"))
                    self.assertTrue(str(error).startswith(file + ": "), error)
            with self.assertRaisesRegex(qkv.MissingFileError, "^no/such/book.txt: "):
                qkv.train(os.path.join(empty, "run"), "no/such/book.txt")
            with self.assertRaises(qkv.FileError) as found:  # a file where a folder is expected is not missing
                qkv.SentenceTransformer(os.path.abspath(__file__))
            self.assertNotIsInstance(found.exception, FileNotFoundError)
            self.assertIn("test_texts.py/config.json", found.exception.filename)


if __name__ == "__main__":
    unittest.main()
