# SPDX-License-Identifier: MIT
"""A package is refused at import if a structure of its library is another one; the error names the structure."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import qkv
from qkv import _layout, _library

HERE = os.path.dirname(os.path.abspath(qkv.__file__))


def import_changed(change):
    """Imports a copy of the package whose _layout.py is change(text); returns the last line of its error."""
    with tempfile.TemporaryDirectory() as folder:
        package = os.path.join(folder, "qkv")
        shutil.copytree(HERE, package, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        path = os.path.join(package, "_layout.py")
        with open(path, encoding="utf-8") as f:
            text = f.read()
        changed = change(text)
        assert changed != text, "the layout has not changed"
        with open(path, "w", encoding="utf-8") as f:
            f.write(changed)
        found = subprocess.run([sys.executable, "-c", "import qkv"], env={**os.environ, "PYTHONPATH": folder},
                               capture_output=True, text=True)
        assert found.returncode == 1, found
        return found.stderr.strip().rsplit("\n", 1)[-1]


class Layouts(unittest.TestCase):
    def test_the_table_has_every_structure(self):
        self.assertGreater(len(_layout.LAYOUTS), 80)
        nested = [name for name in _layout.STRUCTURES if not any(_layout.class_of(c).__name__ == name for c in _layout.LAYOUTS)]
        self.assertEqual([n for n in nested if not n.startswith("Attention")], [])
        for name in _layout.LAYOUTS:
            self.assertEqual(_library.lib.struct_size(name.encode()), _layout.STRUCTURES[_layout.class_of(name).__name__][0])

    def test_a_structure_with_other_members(self):
        other = lambda text: re.sub(r'("qkv_probe_request": )\d+', r"\g<1>12345", text)
        self.assertRegex(import_changed(other), "LibraryError: .*libqkv.so: struct qkv_probe_request: expected other members")

    def test_a_structure_that_grew(self):
        def grown(text):
            text = re.sub(r'("qkv_progress": )\d+', r"\g<1>1", text)
            return text.replace('"Progress": (16, "step:p user:p", "0 8")', '"Progress": (24, "step:p user:p more:l", "0 8 16")')
        self.assertRegex(import_changed(grown), "LibraryError: .*: struct qkv_progress: expected 24 bytes, found 16: .*reinstall")

    def test_a_structure_that_the_library_does_not_have(self):
        def added(text):
            return text.replace('STRUCTURES = {', 'STRUCTURES = {\n    "News": (8, "a:l", "0"),') \
                .replace('LAYOUTS = {', 'LAYOUTS = {\n    "qkv_news": 7,')
        self.assertRegex(import_changed(added), "LibraryError: .*: struct qkv_news: expected 8 bytes, found 0")

    def test_another_version(self):
        self.assertRegex(import_changed(lambda text: re.sub('VERSION = ".*"', 'VERSION = "9.8.7"', text)),
                         r"LibraryError: .*: expected version 9\.8\.7, .* found \d")

    def test_a_library_that_is_none(self):
        for path, why in (("/no/such/libqkv.so", "cannot be loaded as libqkv: /no/such"), (_libc(), "cannot be loaded as libqkv: .*qkv_version")):
            found = subprocess.run([sys.executable, "-c", "import qkv"], env={**os.environ, "QKV_LIBRARY": path},
                                   capture_output=True, text=True)
            self.assertRegex(found.stderr.strip().rsplit("\n", 1)[-1], "LibraryError: .*" + why)


    def test_a_package_without_a_library(self):
        """The error says what is missing: of the sources, of a build that is not complete, and of a package without its library."""
        with tempfile.TemporaryDirectory() as folder:
            package = os.path.join(folder, "qkv")
            shutil.copytree(HERE, package, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
            for missing, said in (("libqkv.so", "LibraryError: .*/qkv/libqkv.so: cannot be loaded as libqkv: .*No such file"),
                                  ("_layout.py", "ImportError: .*/qkv: the package has no library: .*pip install")):
                os.remove(os.path.join(package, missing))
                run = subprocess.run([sys.executable, "-c", "import qkv"], env={**os.environ, "PYTHONPATH": folder, "LC_ALL": "C"},
                                     capture_output=True, text=True)
                self.assertEqual(run.returncode, 1)
                self.assertRegex(run.stderr.strip().rsplit("\n", 1)[-1], said)

    def test_tests_are_skipped_without_the_package(self):
        built = os.path.join(os.path.dirname(os.path.abspath(__file__)), "built.sh")
        run = lambda path, **more: subprocess.run([built], env={**os.environ, "PYTHONPATH": path, **more}, capture_output=True, text=True)
        self.assertEqual(run(os.path.dirname(HERE)).returncode, 0)
        with tempfile.TemporaryDirectory() as folder:
            found = run(folder)
            self.assertEqual(found.returncode, 77)
            self.assertRegex(found.stdout, "skipped: the target qkv_python is not built: .*_layout.py is missing")
            shutil.copytree(HERE, os.path.join(folder, "qkv"), symlinks=True)
            os.utime(os.path.join(folder, "qkv", "_layout.py"), (1, 1))
            found = run(folder)
            self.assertEqual(found.returncode, 77)
            self.assertRegex(found.stdout, "qkv_python is older than .*[.]h")
        found = run(os.path.dirname(HERE), QKV_LIBRARY="/no/such/libqkv.so")
        self.assertEqual((found.returncode, "/no/such" in found.stdout), (77, True))


def _libc():
    with open("/proc/self/maps", encoding="utf-8") as f:
        return re.search(r"/\S*/libc[.-]\S*", f.read())[0]


if __name__ == "__main__":
    unittest.main()
