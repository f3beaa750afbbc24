# SPDX-License-Identifier: MIT
"""Models by name in the folders of models, and the files of their folders that set prompts and limits."""
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import unittest

import qkv
from qkv import _hub

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
class Prompts(unittest.TestCase):
    def setUp(self):
        """A model that does not pool its prompt, as its folder that modules.json names says."""
        golden = os.path.join(TOP, "tests", "golden", "sentences")
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.folder = os.path.join(temp.name, "model")
        for part in ("model", "prompt"):
            shutil.copytree(os.path.join(golden, part), self.folder, dirs_exist_ok=True)
        os.rename(os.path.join(self.folder, "1_Pooling"), os.path.join(self.folder, "pool"))
        modules = os.path.join(self.folder, "modules.json")
        with open(modules, encoding="utf-8") as f:
            text = f.read()
        with open(modules, "w", encoding="utf-8") as f:
            f.write(text.replace("1_Pooling", "pool"))
        with open(os.path.join(golden, "prompt", "vectors.json"), encoding="utf-8") as f:
            self.wanted = json.load(f)

    def test_members_of_other_types_are_errors_of_the_file(self):
        for name, text, open_model in (
                ("config_sentence_transformers.json", {"default_prompt_name": ["a"]}, qkv.SentenceTransformer),
                ("config_sentence_transformers.json", {"prompts": {"a": 3}}, qkv.SentenceTransformer),
                ("config_sentence_transformers.json", {"similarity_fn_name": {}}, qkv.SentenceTransformer),
                ("model.safetensors.index.json", {"weight_map": {"a": []}}, _hub.is_complete),
                ("model.safetensors.index.json", {"weight_map": 3}, _hub.is_complete)):
            file = os.path.join(self.folder, name)
            with open(file, "w", encoding="utf-8") as f:
                json.dump(text, f)
            with self.assertRaises(qkv.FormatError, msg=str(text)) as found:
                open_model(self.folder)
            self.assertEqual(found.exception.file, file)
            self.assertIn(": expected ", str(found.exception))
            os.remove(file)
        golden = os.path.join(TOP, "tests", "golden", "bert-labels")
        for name in ("config.json", "model.safetensors"):
            shutil.copyfile(os.path.join(golden, name), os.path.join(self.folder, name))
        file = os.path.join(self.folder, "config.json")
        with open(file, encoding="utf-8") as f:
            config = {**json.load(f), "sentence_transformers": "x"}
        with open(file, "w", encoding="utf-8") as f:
            json.dump(config, f)
        with self.assertRaisesRegex(qkv.FormatError, "sentence_transformers: expected an object") as found:
            qkv.CrossEncoder(self.folder)
        self.assertEqual(found.exception.file, file)

    def test_the_text_of_a_closed_tokenizer(self):
        m = qkv.SentenceTransformer(self.folder)
        self.assertRegex(repr(m.tokenizer), r"Tokenizer\(\w+, \d+ tokens\)")
        m.close()
        self.assertEqual(repr(m.tokenizer), "Tokenizer(closed)")

    def test_the_pooling_that_modules_json_names(self):
        import numpy as np
        with qkv.SentenceTransformer(self.folder) as m:
            for options in ({}, {"prompt_name": "query"}):
                found = m.encode(self.wanted["texts"], **options)
                # vectors of sentence-transformers in double; numbers below 3 of a model of few layers in float32
                self.assertLess(abs(found - np.array(self.wanted["vectors"])).max(), 1e-5)
            self.assertGreater(abs(m.encode("cat", prompt="") - m.encode("cat")).max(), .01)
            with self.assertRaisesRegex(qkv.UnsupportedError, "does not pool the prompt"):
                m.encode("a", prompt="search for this: ")
        with qkv.SentenceTransformer(self.folder, prompts={"query": "another text: ", "more": "a: "}) as m:
            for name in ("query", "more"):  # not the prompt of the folder
                with self.assertRaisesRegex(qkv.UnsupportedError, "does not pool the prompt"):
                    m.encode("a", prompt_name=name)

    def test_a_limit_that_cannot_be_set_is_not_kept(self):
        text = "the cat sat on the mat"
        with qkv.SentenceTransformer(self.folder) as m, qkv.SentenceTransformer(self.folder) as other:
            wanted, limit = other.encode(text), m.max_seq_length
            os.rename(self.folder, self.folder + "-away")
            with self.assertRaises(qkv.MissingFileError):
                m.max_seq_length = 5
            os.rename(self.folder + "-away", self.folder)
            self.assertEqual(m.max_seq_length, limit)
            self.assertTrue((m.encode(text) == wanted).all())  # opens the embedder of the prompt


class Names(unittest.TestCase):
    NAMES = ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "QKV_MODELS", "QKV_MODEL")

    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.folder = temp.name
        old, before = {name: os.environ.pop(name, None) for name in self.NAMES}, os.getcwd()
        self.addCleanup(lambda: [os.environ.pop(n, None) if x is None else os.environ.update({n: x}) for n, x in old.items()])
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder)

    def put(self, *names):
        """Makes a folder of this path with the files of a model; returns its path."""
        path = os.path.join(self.folder, *names)
        shutil.copytree(os.path.join(TOP, "tests", "golden", "sentences", "model"), path)
        return path

    def found(self, name):
        with qkv.SentenceTransformer(name, local_files_only=True) as m:
            return m._folder

    def test_the_folders_of_models_are_those_of_the_library(self):
        os.environ.update(XDG_DATA_HOME=os.path.join(self.folder, "data"), HF_HUB_CACHE=os.path.join(self.folder, "cache"))
        own = self.put("data", "qkv", "models", "small")  # where `qkv pull --from-pypi` puts a model
        self.assertEqual(self.found("small"), own)
        self.assertEqual(self.found("org/small"), own)
        os.environ["QKV_MODELS"] = os.path.join(self.folder, "a:b")  # one folder
        self.assertEqual(self.found("small"), own)
        own = self.put("a:b", "small")
        self.assertEqual(self.found("small"), own)
        cached = self.put("cache", "models--sentence-transformers--other", "snapshots", "1" * 40)
        os.makedirs(os.path.join(self.folder, "cache", "models--sentence-transformers--other", "refs"))
        reference = os.path.join(self.folder, "cache", "models--sentence-transformers--other", "refs", "main")
        with open(reference, "w") as f:
            f.write("1" * 40)
        self.assertEqual(self.found("other"), cached)
        self.assertEqual(self.found("sentence-transformers/other@main"), cached)
        for missing in ("small@main", "", "cache/small/small"):
            with self.assertRaises(qkv.MissingFileError):
                self.found(missing)

    def test_without_a_home(self):
        """The cache has no place then; folders of models have."""
        os.environ["QKV_MODELS"] = os.path.join(self.folder, "models")
        self.assertEqual(self.found("small") if self.put("models", "small") else None, os.path.join(self.folder, "models", "small"))
        with self.assertRaises(qkv.MissingFileError):
            self.found("other")

    @unittest.skipIf(sys.platform == "darwin", "names of files are UTF-8")
    def test_a_folder_whose_name_is_not_utf8(self):
        models = os.path.join(os.fsencode(self.folder), b"\xff")
        shutil.copytree(os.fsencode(os.path.join(TOP, "models", "verse")), os.path.join(models, b"verse"))
        os.environ["QKV_MODELS"] = os.fsdecode(models)
        with qkv.Generator() as g:
            self.assertTrue(g("In the", max_tokens=1))
        self.assertEqual(len(qkv.Tokenizer("verse")), len(qkv.Tokenizer(os.path.join(TOP, "models", "verse"))))


@unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
class Doubles(unittest.TestCase):
    def test_similarities_of_float64_are_computed_in_it(self):
        """As sentence-transformers; sums of float32 differ from these by 1e-8 at least, sums of float64 by 1e-14 at most."""
        import numpy as np
        from qkv import util
        x, y = np.random.default_rng(5).standard_normal((2, 5, 64))
        length = lambda v: np.sqrt((v * v).sum(-1, keepdims=True))
        wanted = {"dot_score": x @ y.T, "cos_sim": (x / length(x)) @ (y / length(y)).T,
                  "euclidean_sim": -length(x[:, None] - y)[..., 0], "manhattan_sim": -abs(x[:, None] - y).sum(2)}
        for name, exact in wanted.items():
            for a, b in ((x, y), (list(x), y)):
                found = getattr(util, name)(a, b)
                self.assertEqual(found.dtype, np.float64)
                self.assertLess(abs(found - exact).max(), 1e-12)
                found = getattr(util, "pairwise_" + name)(a, b)
                self.assertEqual(found.dtype, np.float64)
                self.assertLess(abs(found - exact.diagonal()).max(), 1e-12)
            for other in (np.float32, np.float16):
                self.assertEqual(getattr(util, name)(x.astype(other), y.astype(other)).dtype, np.float32)
        self.assertEqual(util.normalize_embeddings(x).dtype, np.float64)
        self.assertLess(abs(util.semantic_search(x, y, top_k=1)[0][0]["score"] - wanted["cos_sim"][0].max()), 1e-12)
        self.assertEqual(util.quantize_embeddings(x, "float32").dtype, np.float32)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
    def test_tensors_of_float64(self):
        import torch
        from qkv import util
        x = torch.randn(3, 8, dtype=torch.float64)
        found = util.dot_score(x, x)
        self.assertEqual(found.dtype, torch.float64)
        self.assertLess((found - x @ x.T).abs().max().item(), 1e-12)
        self.assertEqual(util.dot_score(x.bfloat16(), x.bfloat16()).dtype, torch.float32)


if __name__ == "__main__":
    unittest.main()
