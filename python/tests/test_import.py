# SPDX-License-Identifier: MIT
"""What `import qkv` loads: libqkv and a few modules of the standard library; the other parts come at first use."""
import json
import os
import subprocess
import sys
import unittest

# Modules that are slow to import, or are packages that a caller may not want.
HEAVY = {"numpy", "torch", "transformers", "tqdm", "typing", "dataclasses", "inspect", "re", "json", "tempfile", "logging", "pathlib",
         "asyncio", "socket", "subprocess", "unittest", "random", "datetime"}
COUNT = """
import sys
before = set(sys.modules)
import qkv
{}
found = sorted(set(sys.modules) - before)
import json
print(json.dumps(found))
"""


def loaded(code="", *options):
    """Returns the modules that a new Python loads for `import qkv` and then code."""
    found = subprocess.run([sys.executable, *options, "-c", COUNT.format(code)], capture_output=True, text=True, check=True)
    return set(json.loads(found.stdout))


class Import(unittest.TestCase):
    def test_import_loads_few_modules(self):
        # -S: a Python without the files .pth of its packages, which import others.
        found = loaded("", "-S")
        self.assertEqual({m for m in found if m.startswith("qkv.")}, {"qkv._errors", "qkv._layout", "qkv._library"})
        self.assertEqual(found & HEAVY, set())
        self.assertLessEqual(len(found), 45)

    def test_no_package_is_imported_unasked(self):
        for code in ("dir(qkv); qkv.threads()", "qkv.Error", "qkv.View, qkv.Tokenizer, qkv.generate, qkv.SentenceTransformer",
                     "x = memoryview(bytearray(64)).cast('f', [4, 4]); qkv.attention(x, x, x, lse=True)"):
            found = {m.split(".")[0] for m in loaded(code)}
            self.assertEqual(found & {"numpy", "torch", "transformers", "tqdm"}, set(), code)

    def test_names_are_found_and_unknown_ones_are_not(self):
        import qkv
        self.assertTrue(set(qkv.__all__) <= set(dir(qkv)))
        with self.assertRaisesRegex(AttributeError, "nothing"):
            qkv.nothing
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(qkv.__file__), "py.typed")))


if __name__ == "__main__":
    unittest.main()
