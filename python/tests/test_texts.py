# SPDX-License-Identifier: MIT
"""Vectors, scores and tokens of texts: their meaning without other packages, and parity with sentence-transformers."""
import errno
import importlib.util
import os
import pickle
import sys
import tempfile
import threading
import types
import unittest

import qkv

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
        for wrong in ({"prompt_name": "query"}, {"batch_size": 0}, {"precision": "int4"}, {"truncate_dim": 0}, {"device": "cuda"}, {"device": 3}):
            with self.assertRaises(qkv.UsageError, msg=str(wrong)):
                self.m.encode("a", **wrong)
        with self.assertRaisesRegex(qkv.UsageError, r"sentences\[1\]"):
            self.m.encode(["a", 3])
        with self.assertRaises(qkv.UsageError):
            self.m.encode(3)
        with self.assertRaises(qkv.UnsupportedError):
            qkv.CrossEncoder(MINILM)

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

    def test_cross_encoder(self):
        import shutil
        import torch
        import transformers
        import sentence_transformers
        if not os.path.exists(os.path.join(MINILM, "tokenizer.json")):
            self.skipTest("models/all-MiniLM-L6-v2 is missing")
        pairs = list(zip(some_lines(20), some_lines(21)[1:]))
        for labels in (1, 3):
            torch.manual_seed(labels)
            config = transformers.BertConfig(vocab_size=30522, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                             intermediate_size=64, max_position_embeddings=128, num_labels=labels,
                                             initializer_range=.3)
            with tempfile.TemporaryDirectory() as folder:
                transformers.BertForSequenceClassification(config).save_pretrained(folder)
                for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
                    shutil.copy(os.path.join(MINILM, name), folder)
                rival = sentence_transformers.CrossEncoder(folder, device="cpu", max_length=64)
                ours = qkv.CrossEncoder(folder, max_length=64)
                for options in ({}, {"apply_softmax": True}, {"activation_fn": torch.nn.Identity()}):
                    a, b = rival.predict(pairs, **options), ours.predict(pairs, **options)
                    self.assertEqual(a.shape, b.shape)
                    self.assertLess(abs(a - b).max(), 1e-4)
                if labels == 1:
                    a, b = (m.rank(pairs[0][0], [p[1] for p in pairs], top_k=5, return_documents=True) for m in (rival, ours))
                    self.assertEqual([(x["corpus_id"], x["text"]) for x in a], [(x["corpus_id"], x["text"]) for x in b])
                self.assertEqual(ours.predict(list(pairs[0])).shape, () if labels == 1 else (3,))

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
