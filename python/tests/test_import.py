# SPDX-License-Identifier: MIT
"""What `import qkv` loads: libqkv and a few modules of the standard library; the other parts come at first use."""
import json
import os
import platform
import re
import shutil
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
    import qkv
    there = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(qkv.__file__))}  # -S knows no folder of packages
    found = subprocess.run([sys.executable, *options, "-c", COUNT.format(code)], capture_output=True, text=True, check=True, env=there)
    return set(json.loads(found.stdout))


class Library(unittest.TestCase):
    def test_the_library_needs_glibc_2_34_at_most(self):
        """The wheel of Debian 12 is for manylinux_2_34 (build_wheel.sh): newer functions, such as hypot, are not used."""
        import qkv
        if platform.libc_ver() != ("glibc", "2.36") or not shutil.which("objdump"):
            self.skipTest("not Debian 12, or no objdump")
        library = os.environ.get("QKV_LIBRARY") or os.path.join(os.path.dirname(qkv.__file__), "libqkv.so")
        said = subprocess.run(["objdump", "-pT", library], capture_output=True, text=True, check=True).stdout
        if "__asan" in said or "__tsan" in said:
            self.skipTest("a build with a sanitizer")
        self.assertEqual([line for line in said.splitlines() if re.search(r"GLIBC_2\.(3[5-9]|[4-9]\d).*\) ", line)], [])
        self.assertNotIn("ld-linux", said)


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

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_a_fork_waits_for_an_import_of_another_thread(self):
        code = ("import importlib.abc, os, signal, sys, threading, time, qkv\n"
                "class Slow(importlib.abc.MetaPathFinder):\n"
                "    def find_spec(self, name, path, target=None):\n"
                "        if name == 'qkv._attention': begun.set(); time.sleep(.5)\n"
                "begun = threading.Event()\n"
                "sys.meta_path.insert(0, Slow())\n"
                "thread = threading.Thread(target=lambda: qkv.attention)\n"
                "thread.start(); begun.wait()\n"
                "child = os.fork()\n"
                "if not child:\n"
                "    signal.alarm(60)  # a hang\n"
                "    os._exit(0 if callable(qkv.attention) else 1)\n"
                "sys.exit(os.waitpid(child, 0)[1])\n")
        self.assertEqual(subprocess.run([sys.executable, "-W", "ignore", "-c", code]).returncode, 0)

    def test_names_are_found_and_unknown_ones_are_not(self):
        import qkv
        self.assertTrue(set(qkv.__all__) <= set(dir(qkv)))
        with self.assertRaisesRegex(AttributeError, "nothing"):
            qkv.nothing
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(qkv.__file__), "py.typed")))


if __name__ == "__main__":
    unittest.main()
