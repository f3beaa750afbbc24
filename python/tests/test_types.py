# SPDX-License-Identifier: MIT
"""Type hints of the public functions: all have them, mypy finds no error in the package and every error of typed_use.py."""
import ast
import importlib.util
import inspect
import os
import subprocess
import sys
import tempfile
import unittest

import qkv

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def functions():
    """Returns (name, function) of the public functions and methods."""
    for name in qkv.__all__:
        value = getattr(qkv, name)
        if not inspect.isclass(value):
            yield name, value
        elif not issubclass(value, (Exception, tuple)):
            for method, function in inspect.getmembers(value, inspect.isfunction):
                if not method.startswith("_") or method in ("__init__", "__call__"):
                    yield f"{name}.{method}", function


class Hints(unittest.TestCase):
    def test_every_argument_and_result_has_a_hint(self):
        missing = []
        for name, function in functions():
            s = inspect.signature(function)
            missing += [f"{name}({p.name})" for p in s.parameters.values() if p.annotation is p.empty and p.name not in ("self", "options")]
            if s.return_annotation is s.empty and not name.endswith("__init__"):
                missing.append(name + " ->")
        self.assertEqual(missing, [])

    def test_a_type_checker_knows_every_name(self):
        """The names are imported at first use; the imports that only type checkers read have the same names."""
        with open(inspect.getsourcefile(qkv), encoding="utf-8") as f:
            tree = ast.parse(f.read())
        block = next(x for x in tree.body if isinstance(x, ast.If))
        found = {a.asname for x in block.body for a in x.names}
        self.assertEqual(found, set(qkv.__all__) | {"observe", "torch", "transformers", "util"})

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
    def test_mypy_finds_no_error(self):
        package = os.path.dirname(inspect.getsourcefile(qkv))
        with tempfile.TemporaryDirectory() as cache:
            found = subprocess.run(
                [sys.executable, "-m", "mypy", "--config-file", os.path.join(TOP, "pyproject.toml"), "--cache-dir", cache,
                 package, os.path.join(TOP, "python", "tests", "typed_use.py")],
                capture_output=True, text=True, env={**os.environ, "MYPYPATH": os.path.dirname(package)})
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)


if __name__ == "__main__":
    unittest.main()
